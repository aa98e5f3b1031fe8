"""Files that appear whole or not at all."""

from __future__ import annotations

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
    """Write a new text file beside its place and rename it, so that an interrupt leaves nothing.

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
    except OSError as error:
        raise ParameterError(f"cannot write {str(path)!r}: {error.strerror}.") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(part).rename(path)
    except OSError as error:
        raise ParameterError(f"cannot write {str(path)!r}: {error.strerror}.") from None
    finally:
        Path(part).unlink(missing_ok=True)
