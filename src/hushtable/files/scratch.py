"""Folders for work under way: the owner's alone, and gone when the work is over.

Each folder is held by a lock that the operating system drops when the process ends, however it
ends. So the next run can tell what a killed one left behind from what is in use, and removes it.
(Cleaners of temporary folders respect the same lock.)

For private rows the next run is too late. They lie in a folder that a small process watches: when
the process that made the folder is gone, even killed, the watcher removes it.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import shutil
import stat
import subprocess
import tempfile
import threading
from pathlib import Path

from hushtable.errors import ParameterError

try:
    import fcntl
except ImportError:  # Windows has no such locks: there, nothing is removed for others
    fcntl = None  # type: ignore[assignment]

_SPILL_PREFIX = "hushtable-spill-"
_WATCH = 'read -r _; rm -rf -- "$1"'  # reading ends when the other end of the pipe is gone


class Scratch:
    """Own a new folder, readable by its owner only, until `close`.

    Making one removes those of the same kind whose process was killed.

    Parameters
    ----------
    parent : Path
        Where to make it.
    prefix : str
        What kind it is: the beginning of its name.

    Examples
    --------
    >>> scratch = Scratch(Path(tempfile.gettempdir()), "hushtable-doc-")
    >>> _ = (scratch.folder / "work").write_text("half done")
    >>> scratch.close()
    >>> scratch.folder.exists()
    False
    """

    def __init__(self, parent: Path, prefix: str) -> None:
        _sweep(parent, prefix)
        self._held: int | None = None
        while True:
            self.folder = Path(tempfile.mkdtemp(dir=parent, prefix=prefix))
            try:
                self._held = _hold(self.folder)
            except (BlockingIOError, FileNotFoundError):
                continue  # a sweep came between making and holding it, and removes it
            except OSError:
                pass  # a disk without locks: nothing is swept there either
            break
        self._process = os.getpid()

    def close(self) -> None:
        """Remove the folder and all that is left in it."""
        if os.getpid() != self._process:
            return  # a forked child: the folder is its parent's
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._held is not None:
            os.close(self._held)
            self._held = None


def _hold(folder: Path) -> int | None:
    """Lock a folder for as long as the descriptor is open, or raise `OSError`."""
    if fcntl is None:
        return None
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(descriptor), folder.lstat()):
            raise FileNotFoundError(errno.ENOENT, "gone", str(folder))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _sweep(parent: Path, prefix: str) -> None:
    """Remove the folders of this kind that belong to us and to no living process."""
    if fcntl is None:
        return
    found: list[Path] = []
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        found = [Path(entry.path) for entry in entries if entry.name.startswith(prefix)]
    for folder in found:
        with contextlib.suppress(OSError):  # in use, or somebody else was quicker
            status = folder.lstat()
            # Ours are owner-only; a published folder never is, whatever its name.
            if status.st_uid == os.getuid() and status.st_mode == stat.S_IFDIR | stat.S_IRWXU:
                held = _hold(folder)
                shutil.rmtree(folder, ignore_errors=True)
                if held is not None:
                    os.close(held)


# --- the folder for private rows that do not fit memory --------------------------------------

_spill_lock = threading.Lock()
_spill: dict[int, Scratch] = {}  # by process: a forked child makes its own


def spill_folder() -> str:
    """Make a folder for private rows that do not fit memory.

    It lies in one folder per process, which is removed when the process ends, even by SIGKILL.

    Raises
    ------
    ParameterError
        If there is no place to write.
    """
    try:
        with _spill_lock:
            root = _spill.get(os.getpid())
            if root is None or not root.folder.is_dir():
                root = Scratch(Path(tempfile.gettempdir()), _SPILL_PREFIX)
                _watch(root)
                _spill.clear()
                _spill[os.getpid()] = root
        return tempfile.mkdtemp(dir=root.folder)
    except OSError as error:
        raise ParameterError(
            f"no folder for temporary files can be made ({why_not_written(error)}); set TMPDIR to "
            "a folder on a local disk that you may write to."
        ) from None


def is_spilled(path: Path) -> bool:
    """Tell whether a file lies in a folder for private rows, which goes with its process."""
    return any(parent.name.startswith(_SPILL_PREFIX) for parent in path.parents)


def held_on_to(path: Path) -> Path:
    """Give a spilled file a second name in this process's own folder.

    So it can be read to the end, whatever becomes of the process that wrote it, and goes with this
    one. Nothing is copied.
    """
    own = Path(spill_folder()) / path.name
    try:
        own.hardlink_to(path)
    except OSError:  # gone, or a disk without links: read it where it is
        return path
    return own


def _watch(scratch: Scratch) -> None:
    """Have a folder removed when this process is gone."""
    atexit.register(scratch.close)
    if os.name != "posix":
        return
    with contextlib.suppress(OSError):  # without a shell, the next run removes it
        watcher = subprocess.Popen(  # noqa: S603 - fixed program, the folder as its argument
            ["/bin/sh", "-c", _WATCH, "sh", os.fspath(scratch.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": "/usr/bin:/bin"},
            start_new_session=True,  # what is sent to this process's group does not reach it
        )
        # Runs before `scratch.close`, which finds nothing left to do.
        atexit.register(_dismiss, watcher, os.getpid())


def _dismiss(watcher: subprocess.Popen[bytes], process: int) -> None:
    if os.getpid() == process and watcher.stdin is not None:
        watcher.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            watcher.wait(timeout=60)


def why_not_written(error: OSError) -> str:
    """Say why a file could not be written, and what to do.

    Examples
    --------
    >>> why_not_written(OSError(errno.ENOSPC, "No space left on device"))
    'the disk is full; make room and run again'
    """
    if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        return "the disk is full; make room and run again"
    if error.errno == errno.EROFS:
        return "the disk is read-only; choose another place"
    if error.errno in {errno.EACCES, errno.EPERM}:
        return "you may not write there; choose another place"
    return error.strerror or "it cannot be written"
