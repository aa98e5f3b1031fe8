"""A ledger's file: SQLite, one transaction at a time, durable, and believed only when intact."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from hushtable.errors import LedgerError
from hushtable.privacy.ledger_records import (
    FORMAT,
    FORMATS,
    NOTHING_BEFORE,
    canonical,
    digest_of,
)

APPLICATION_ID = 0x48555348  # "HUSH" in the file's header: tells a ledger from any other database

_TABLES = (
    "CREATE TABLE records (seq INTEGER PRIMARY KEY, body TEXT NOT NULL, digest TEXT NOT NULL)",
    # The head repeats what the last record says, so that a cut-off tail is noticed.
    "CREATE TABLE head (id INTEGER PRIMARY KEY, seq INTEGER NOT NULL, digest TEXT NOT NULL)",
)

# SQLite's bookkeeping of locks does not survive a fork in the middle of a transaction of another
# thread, so forks wait until none is under way, and threads take turns.
_NO_FORK = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_NO_FORK.acquire,
        after_in_parent=_NO_FORK.release,
        after_in_child=_NO_FORK.release,
    )


@contextmanager
def connection_to(path: Path, timeout: float) -> Iterator[sqlite3.Connection]:
    """Open the file for one transaction; whatever goes wrong becomes a clear `LedgerError`."""
    try:
        with _NO_FORK, closing(_connect(path, timeout)) as connection:
            # EXTRA also syncs the folder after the journal is gone: without it a power cut right
            # after COMMIT could bring the journal back and roll an acknowledged charge back.
            # (In a new ledger the same sync makes the file's own name durable.)
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
    # mode=rw: never create a file that is not there.
    uri = f"{path.as_uri()}?mode=rw"
    return sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None)


def _sqlite_problem(path: Path, timeout: float, error: sqlite3.Error) -> str:
    # Extended codes carry the primary one in their low byte.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code == sqlite3.SQLITE_CANTOPEN:
        if not path.exists():
            return f"{path} does not exist; start a ledger with `hushtable ledger init`."
        if path.is_dir():
            return f"{path} is a folder; name the ledger's file."
    explained = {
        sqlite3.SQLITE_BUSY: f"is in use by another process and was not free within {timeout:g} "
        "seconds; try again",
        sqlite3.SQLITE_READONLY: "is read-only, so nothing can be charged; make the file and its "
        "folder writable",
        sqlite3.SQLITE_FULL: "cannot grow: the disk is full; make room and try again",
        sqlite3.SQLITE_CANTOPEN: "cannot be opened; make the file and its folder readable and "
        "writable for you",
        sqlite3.SQLITE_PERM: "may not be opened; make the file readable and writable for you",
        sqlite3.SQLITE_IOERR: "cannot be read or written; check the disk",
        sqlite3.SQLITE_NOTADB: "is not a ledger; name the file that `hushtable ledger init` made",
        sqlite3.SQLITE_CORRUPT: _DAMAGED,
    }
    return f"{path} {explained.get(code, 'cannot be used')} ({error})."


def check_format(connection: sqlite3.Connection, path: Path) -> int:
    """Give a ledger's format; refuse a file that is no ledger, or one of another version."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION_ID:
        raise LedgerError(
            f"{path} is not a ledger, or one whose start was interrupted; name the file that "
            "`hushtable ledger init` made."
        )
    if version not in FORMATS:
        raise LedgerError(
            f"{path} has ledger format {version}, this version reads up to {FORMAT}; use the "
            "version of hushtable that wrote it, or a newer one."
        )
    return version


def start(connection: sqlite3.Connection, record: dict[str, Any], digest: str) -> None:
    """Make a new file a ledger that holds its first record."""
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    note_format(connection)
    for table in _TABLES:
        connection.execute(table)
    connection.execute("INSERT INTO head VALUES (1, -1, ?)", (NOTHING_BEFORE,))
    append(connection, record, digest)
    connection.execute("COMMIT")


def note_format(connection: sqlite3.Connection) -> None:
    """Write today's format into the file's header, in the caller's transaction."""
    connection.execute(f"PRAGMA user_version = {FORMAT}")


def append(connection: sqlite3.Connection, record: dict[str, Any], digest: str) -> None:
    """Write a record and move the head to it; both in the caller's transaction."""
    seq = record["seq"]
    connection.execute("INSERT INTO records VALUES (?, ?, ?)", (seq, canonical(record), digest))
    connection.execute("UPDATE head SET seq = ?, digest = ? WHERE id = 1", (seq, digest))


def chain_problems(rows: list[tuple[Any, Any, Any]], head: list[tuple[Any, Any, Any]]) -> list[str]:
    """Say where digests and numbers do not follow from each other."""
    problems = []
    previous = NOTHING_BEFORE
    for position, (seq, body, digest) in enumerate(rows):
        if seq != position:
            problems.append(f"record {position} is missing; record {seq} stands in its place.")
            break
        if not isinstance(body, str) or digest_of(previous, body) != digest:
            problems.append(f"record {seq} was edited, exchanged or moved.")
        previous = digest
    if not problems and head != [(1, len(rows) - 1, previous)]:
        problems.append(f"the last records are missing, or the head was edited: {len(rows)} left.")
    return problems
