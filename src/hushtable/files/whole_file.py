"""Atomic writes: files appear complete or not at all, and survive a power failure."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from hushtable.errors import ParameterError


def require_new(path: str | Path) -> Path:
    """Return the path; raise `ParameterError` if it exists or its folder does not."""
    path = Path(path)
    if path.exists():
        raise ParameterError(f"{str(path)!r} exists; choose another name or remove it.")
    if not path.parent.is_dir():
        raise ParameterError(f"{str(path)!r}: the folder {str(path.parent)!r} does not exist.")
    return path


def write_whole(path: str | Path, text: str) -> None:
    """Write a new text file that only its owner can read; an interrupt leaves no file.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(f"{folder}/report.txt", "all of it")
    ...     Path(folder, "report.txt").read_text()
    'all of it'
    """
    path = require_new(path)
    try:
        handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-part-")
        _put(handle, Path(part), path, text)
    except OSError as error:
        raise ParameterError(f"cannot write {str(path)!r}: {error.strerror}.") from None


def replace_whole(path: Path, text: str) -> None:
    """Replace a text file that everyone can read; the caller must exclude concurrent writers."""
    part = path.with_name(f".{path.name}.new")
    part.unlink(missing_ok=True)  # left by a killed run
    _put(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644), part, path, text)


def replace_own(path: Path, text: str, *, lasting: bool = True) -> None:
    """Replace a text file that only its owner can read; the last writer wins.

    With `lasting`, wait until the file would survive a power failure; skip this for files written
    many times a minute.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for text in ("one", "two"):
    ...         replace_own(Path(folder, "note.txt"), text)
    ...     Path(folder, "note.txt").read_text()
    'two'
    """
    handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-part-")
    _put(handle, Path(part), path, text, lasting=lasting)


def _put(handle: int, part: Path, path: Path, text: str, *, lasting: bool = True) -> None:
    """Write text to a temporary file in the same folder, then rename it."""
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        if lasting:
            sync(part)
        part.replace(path)
        if lasting:
            sync(path.parent)
    finally:
        part.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file or folder is on disk, so that a power failure leaves no partial file."""
    if os.name != "posix" and path.is_dir():
        return  # Windows cannot open folders
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 digest of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
