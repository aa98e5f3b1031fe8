"""Last receipt of a ledger, stored in a small file beside the releases that it paid for.

A ledger restored from an old copy looks intact, because its chain of records is valid. A later
receipt, stored elsewhere, reveals the rollback. The file contains nothing else: the receipt is a
digest of records with random salts, from which nothing about them can be read or guessed. It may
be published with the releases.
"""

from __future__ import annotations

import re
from pathlib import Path

from hushtable.errors import LedgerError
from hushtable.files.whole_file import replace_whole
from hushtable.files.writing import why_not_written

_RECEIPT = re.compile(rb"([0-9a-f]{64})\n?")


def path_of(folder: Path, ledger: str) -> Path:
    """Return the path of the file with the last receipt of a ledger."""
    return folder / f"ledger-{ledger}.receipt"


def read(path: Path) -> str | None:
    """Return the stored receipt, or None."""
    try:
        with path.open("rb") as file:
            found = _RECEIPT.fullmatch(file.read(100))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LedgerError(
            f"{path} cannot be read ({error.strerror}), so it is unknown whether the ledger is an "
            "old copy. Make the file readable for you."
        ) from error
    if found is None:
        raise LedgerError(
            f"{path} does not contain a receipt, so it is unknown whether the ledger is an old "
            "copy. Write the receipt of the last release into it, from its statement.json."
        )
    return found[1].decode()


def write(path: Path, receipt: str) -> None:
    """Replace the stored receipt atomically; the caller must exclude concurrent writers."""
    try:
        replace_whole(path, f"{receipt}\n")
    except OSError as error:
        raise LedgerError(
            f"the receipt cannot be written to {path}: {why_not_written(error)}."
        ) from error
