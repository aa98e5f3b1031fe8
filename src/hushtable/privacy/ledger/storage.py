"""Ledger file: SQLite with durable transactions and a check of integrity."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from hushtable.errors import LedgerError
from hushtable.privacy.ledger.records import FORMAT, NOTHING_BEFORE, canonical, digest_of

APPLICATION_ID = 0x48555348  # "HUSH" in the file's header identifies a ledger

_TABLES = (
    "CREATE TABLE records (seq INTEGER PRIMARY KEY, body TEXT NOT NULL, digest TEXT NOT NULL)",
    # The head repeats number and digest of the last record, so that truncation is detected.
    "CREATE TABLE head (id INTEGER PRIMARY KEY, seq INTEGER NOT NULL, digest TEXT NOT NULL)",
)

# SQLite's locks do not survive a fork during a transaction of another thread. Therefore forks wait
# until no transaction is open, and threads take turns.
_NO_FORK = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_NO_FORK.acquire,
        after_in_parent=_NO_FORK.release,
        after_in_child=_NO_FORK.release,
    )


@contextmanager
def connection_to(path: Path, timeout: float) -> Iterator[sqlite3.Connection]:
    """Open the file for one transaction; every failure becomes a `LedgerError`."""
    try:
        with _NO_FORK, closing(_connect(path, timeout)) as connection:
            # EXTRA also syncs the folder after the journal is deleted: otherwise a power failure
            # right after COMMIT could restore the journal and undo an acknowledged charge.
            # (In a new ledger the same sync makes the file's name durable.)
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA fullfsync = ON")  # macOS: through the drive's cache
            yield connection  # closing without COMMIT rolls back
    except sqlite3.Error as error:
        raise LedgerError(_sqlite_problem(path, timeout, error)) from error
    except UnicodeDecodeError:  # SQLite quotes damaged bytes in its message
        raise LedgerError(f"{path} {_DAMAGED}.") from None


_DAMAGED = (
    "is damaged; restore it from a copy and verify that against the receipts in the releases' "
    "statements"
)


def _connect(path: Path, timeout: float) -> sqlite3.Connection:
    # mode=rw: never create a missing file.
    uri = f"{path.as_uri()}?mode=rw"
    return sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None)


def _sqlite_problem(path: Path, timeout: float, error: sqlite3.Error) -> str:
    # Extended codes carry the primary one in their low byte.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code == sqlite3.SQLITE_CANTOPEN:
        if not path.exists():
            return f"{path} does not exist; start a ledger with `hushtable ledger init`."
        if path.is_dir():
            return f"{path} is a folder; pass the path of the ledger's file."
    explained = {
        sqlite3.SQLITE_BUSY: f"is in use by another process and was not free within {timeout:g} "
        "seconds; try again",
        sqlite3.SQLITE_READONLY: "is read-only, so nothing can be charged; make the file and its "
        "folder writable",
        sqlite3.SQLITE_FULL: "cannot grow: the disk is full; free some space and try again",
        sqlite3.SQLITE_CANTOPEN: "cannot be opened; make the file and its folder readable and "
        "writable for you",
        sqlite3.SQLITE_PERM: "cannot be opened; make the file readable and writable for you",
        sqlite3.SQLITE_IOERR: "cannot be read or written; check the disk",
        sqlite3.SQLITE_NOTADB: "is not a ledger; use a file created by `hushtable ledger init`",
        sqlite3.SQLITE_CORRUPT: _DAMAGED,
    }
    return f"{path} {explained.get(code, 'cannot be used')} ({error})."


def check_format(connection: sqlite3.Connection, path: Path) -> None:
    """Raise `LedgerError` if the file is not a ledger, or one of another format."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise LedgerError(
            f"{path} is not a ledger, or its creation was interrupted; use a file created by "
            "`hushtable ledger init`."
        )
    if version != FORMAT:
        raise LedgerError(
            f"{path} has ledger format {version}; this version of hushtable reads only format "
            f"{FORMAT}. Use the version that wrote the file."
        )


def start(connection: sqlite3.Connection, record: dict[str, Any], digest: str) -> None:
    """Initialize a new ledger file with its first record."""
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    for table in _TABLES:
        connection.execute(table)
    connection.execute("INSERT INTO head VALUES (1, -1, ?)", (NOTHING_BEFORE,))
    append(connection, record, digest)
    connection.execute("COMMIT")


def append(connection: sqlite3.Connection, record: dict[str, Any], digest: str) -> None:
    """Write a record and update the head, in the caller's transaction."""
    seq = record["seq"]
    connection.execute("INSERT INTO records VALUES (?, ?, ?)", (seq, canonical(record), digest))
    connection.execute("UPDATE head SET seq = ?, digest = ? WHERE id = 1", (seq, digest))


def chain_problems(rows: list[tuple[Any, Any, Any]], head: list[tuple[Any, Any, Any]]) -> list[str]:
    """Return a sentence for each record whose number or digest does not match."""
    problems = []
    previous = NOTHING_BEFORE
    for position, (seq, body, digest) in enumerate(rows):
        if seq != position:
            problems.append(f"record {position} is missing; record {seq} is in its place.")
            break
        if not isinstance(body, str) or digest_of(previous, body) != digest:
            problems.append(f"record {seq} was edited, replaced or moved.")
        previous = digest
    if not problems and head != [(1, len(rows) - 1, previous)]:
        problems.append(f"the last records are missing, or the head was edited: {len(rows)} left.")
    return problems
