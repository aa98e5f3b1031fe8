"""Side effects of a run: files, environment variables and communication.

The interpreter's audit hook (`sys.addaudithook`) reports everything that leaves the process. Events
of a run are recorded while it is traced; of files, those that still exist when it ends.
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
    "socket.connect": "the network was used",
    "socket.sendto": "the network was used",
    "subprocess.Popen": "another program was started",
    "os.system": "another program was started",
    "os.exec": "another program was started",
    "os.posix_spawn": "another program was started",
}
_CACHES = ("__pycache__", "numba_cache")
"""Folders of compiled code, which contains no data."""

_followed: dict[int, tuple[list[str], list[str]]] = {}
"""By thread ID: events, and files opened for writing."""

_hook: list[bool] = []


def _captured(event: str, given: tuple[Any, ...]) -> None:
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
    """List the side effects of this thread, except files in `places`; complete at the end.

    Examples
    --------
    >>> with traced() as left:
    ...     os.environ["SOMETHING"] = "12 rows"
    >>> del os.environ["SOMETHING"]
    >>> left
    ['the environment was changed']
    """
    if not _hook:  # an audit hook cannot be removed
        sys.addaudithook(_captured)
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
