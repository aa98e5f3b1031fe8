"""What a run leaves behind beside what it publishes: files, the environment, words to others.

The interpreter tells of all that goes out of a process (`sys.addaudithook`), whoever does it. What
a run did is kept while it is listened to; of files, those that are still there when it is over.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_OUT = {
    "os.putenv": "the environment was changed",
    "os.unsetenv": "the environment was changed",
    "socket.connect": "another machine was called",
    "socket.sendto": "another machine was called",
    "subprocess.Popen": "another program was started",
    "os.system": "another program was started",
    "os.exec": "another program was started",
    "os.posix_spawn": "another program was started",
}
_CACHES = ("__pycache__", "numba_cache")
"""Folders of compiled code, which is not about anybody."""

_followed: dict[int, tuple[list[str], list[str]]] = {}
"""By the number of a thread: what it did, and the files that it wrote to."""

_hook: list[bool] = []


def _heard(event: str, given: tuple[Any, ...]) -> None:
    if not _followed:
        return
    mine = _followed.get(threading.get_ident())
    if mine is None:
        return
    did, files = mine
    if event == "open":
        path, mode, flags = given
        writes = (flags or 0) & _WRITES if isinstance(flags, int) else False
        if isinstance(path, str | bytes | os.PathLike) and (
            writes or (isinstance(mode, str) and set(mode) & set("wax+"))
        ):
            files.append(str(Path(os.fsdecode(path)).absolute()))
    elif event in {"os.mkdir", "os.symlink", "os.link", "os.rename"}:
        new = given[0] if event == "os.mkdir" else given[1]
        files.append(str(Path(os.fsdecode(new)).absolute()))
    elif event in _OUT:
        did.append(_OUT[event])


@contextlib.contextmanager
def traced(*places: Path) -> Iterator[list[str]]:
    """List what this thread leaves behind, but for files in some places; complete at the end.

    Examples
    --------
    >>> with traced() as left:
    ...     os.environ["SOMETHING"] = "12 rows"
    >>> del os.environ["SOMETHING"]
    >>> left
    ['the environment was changed']
    """
    if not _hook:  # there is no way to take one away again
        sys.addaudithook(_heard)
        _hook.append(True)
    left: list[str] = []
    did: list[str] = []
    files: list[str] = []
    mine = threading.get_ident()
    before, _followed[mine] = _followed.get(mine), (did, files)
    try:
        yield left
    finally:
        if before is None:
            del _followed[mine]
        else:
            _followed[mine] = before
        allowed = tuple(str(place.resolve()) for place in places)
        left += did
        left += [
            f"{file} was written"
            for file in dict.fromkeys(files)
            if os.path.lexists(file)
            and not file.startswith(("/dev/null", "/proc/", *allowed))
            and not any(cache in file for cache in _CACHES)
        ]
