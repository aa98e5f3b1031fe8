"""The last receipt of a ledger, in a small file beside the releases that it paid for.

A ledger that was restored from an old copy looks intact: its chain is one that was written. What
tells is a receipt from later on, kept elsewhere. The file holds that and nothing else: a digest of
records with random numbers in them, from which nobody can read or guess anything about them. It may
be published with the releases, or not.
"""

from __future__ import annotations

import re
from pathlib import Path

from hushtable.errors import LedgerError
from hushtable.files.scratch import why_not_written
from hushtable.files.whole_file import replace_whole

_RECEIPT = re.compile(rb"([0-9a-f]{64})\n?")


def path_of(folder: Path, ledger: str) -> Path:
    """Name the file that holds the last receipt of a ledger."""
    return folder / f"ledger-{ledger}.receipt"


def read(path: Path) -> str | None:
    """Give the receipt on file, if there is one."""
    try:
        with path.open("rb") as file:
            found = _RECEIPT.fullmatch(file.read(100))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LedgerError(
            f"{path} cannot be read ({error.strerror}), so nobody can tell whether the ledger is "
            "an old copy. Make the file readable for you."
        ) from error
    if found is None:
        raise LedgerError(
            f"{path} holds no receipt, so nobody can tell whether the ledger is an old copy. Put "
            "the receipt of the last release beside it there, from its statement.json."
        )
    return found[1].decode()


def write(path: Path, receipt: str) -> None:
    """Replace the receipt on file, durably, whole or not at all; writers must take turns."""
    try:
        replace_whole(path, f"{receipt}\n")
    except OSError as error:
        raise LedgerError(
            f"the receipt cannot be kept in {path}: {why_not_written(error)}."
        ) from error
