"""Files that appear whole or not at all, and are still there after a power cut."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from hushtable.errors import ParameterError


def require_new(path: str | Path) -> Path:
    """Refuse a file that exists or whose folder does not."""
    path = Path(path)
    if path.exists():
        raise ParameterError(f"{str(path)!r} exists; choose another name or remove it.")
    if not path.parent.is_dir():
        raise ParameterError(f"{str(path)!r}: there is no folder {str(path.parent)!r}.")
    return path


def write_whole(path: str | Path, text: str) -> None:
    """Write a new text file for its owner alone; an interrupt leaves nothing.

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
    """Write a text file for everybody in the place of an older one; writers must take turns."""
    part = path.with_name(f".{path.name}.new")
    part.unlink(missing_ok=True)  # of a run that was killed here
    _put(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644), part, path, text)


def replace_own(path: Path, text: str, *, lasting: bool = True) -> None:
    """Write a text file for its owner alone in the place of an older one; the last writer wins.

    Parameters
    ----------
    path : Path
        The file.
    text : str
        What is to stand in it.
    lasting : bool
        Whether it must outlive a power cut; what is written many times a minute need not.

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
    """Bring a text to the disk beside its place, then rename the file."""
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
    """Wait until a file or folder is on the disk: a power cut must not leave half of it."""
    if os.name != "posix" and path.is_dir():
        return  # folders cannot be opened there
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(path: Path) -> str:
    """Give the digest of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
