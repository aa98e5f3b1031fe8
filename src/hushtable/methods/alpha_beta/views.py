"""Private record of earlier views of a table.

A later view of the same table must not sample an unchanged tuple again. So the tuples seen so far
and the views published so far are stored in a file that only its owner can read.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from hushtable.errors import DataError, ParameterError, Refused
from hushtable.privacy.mechanisms.tuple_set import ViewHistory


class ViewMemory:
    """File with the history of a table's views, beside the ledger.

    Parameters
    ----------
    path : path
        The file; created readable for its owner only.
    terms : mapping of str to plain data
        What must be the same for all views: parameters and domain.
    max_views : int
        Maximum number of views.
    n_limbs : int
        Number of columns of a packed key.
    """

    def __init__(
        self, path: str | Path, *, terms: Mapping[str, Any], max_views: int, n_limbs: int
    ) -> None:
        self.path = Path(path)
        self._terms = json.dumps(terms, sort_keys=True)
        self._max_views, self._n_limbs = max_views, n_limbs

    def require_view_allowed(self) -> None:
        """Refuse if all views are published; checked before charging and again when sampling."""
        if self.path.exists():
            with self.opened():
                pass

    @contextmanager
    def opened(self) -> Iterator[ViewHistory]:
        """Yield the history under an exclusive lock; save additions unless an error occurs."""
        # Created here first, because SQLite would let others read it; its journal inherits the
        # mode.
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        if stat.S_IMODE(self.path.stat().st_mode) & 0o077:
            raise ParameterError(
                f"coins: {str(self.path)!r} can be read by other users, but it contains "
                "private tuples. Make it private (chmod 600) and find out who read it."
            )
        connection = sqlite3.connect(self.path, isolation_level=None, timeout=60)
        try:
            connection.execute("BEGIN EXCLUSIVE")
            past = self._load(connection)
            if len(past.views) >= self._max_views:
                raise Refused(
                    f"{len(past.views)} views of this table are published and views is "
                    f"{self._max_views}: one more would break the guarantee. Plan for more views "
                    "from the start, with a new file."
                )
            yield past
            self._save(connection, past)
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise DataError(
                f"coins: {str(self.path)!r} is not a record of earlier views, or is damaged or in "
                "use. Without it another view would break the guarantee; restore a backup."
            ) from error
        finally:
            connection.close()

    def _load(self, connection: sqlite3.Connection) -> ViewHistory:
        connection.execute("CREATE TABLE IF NOT EXISTS terms (text TEXT NOT NULL)")
        connection.execute("CREATE TABLE IF NOT EXISTS tuples (view INTEGER UNIQUE, keys BLOB)")
        terms = connection.execute("SELECT text FROM terms").fetchone()
        if terms is not None and terms[0] != self._terms:
            raise ParameterError(
                f"coins: {str(self.path)!r} records views with other parameters or another schema. "
                "All views of a table must use the same; use those, or a new file for a new "
                "table."
            )
        rows = connection.execute("SELECT keys FROM tuples ORDER BY view")
        parts = [np.frombuffer(keys, "<i8").reshape(-1, self._n_limbs) for (keys,) in rows]
        if not parts:
            return ViewHistory(np.empty((0, self._n_limbs), np.int64))
        return ViewHistory(parts[0].astype(np.int64), [part.astype(np.int64) for part in parts[1:]])

    def _save(self, connection: sqlite3.Connection, past: ViewHistory) -> None:
        """Rewrite the file: the tuples of the table as number 0, the views from 1 on."""
        if not past.views:
            return
        connection.execute("DELETE FROM terms")
        connection.execute("INSERT INTO terms VALUES (?)", [self._terms])
        connection.execute("DELETE FROM tuples")
        for number, keys in enumerate([past.seen, *past.views]):
            connection.execute(
                "INSERT INTO tuples VALUES (?, ?)", [number, keys.astype("<i8").tobytes()]
            )
