"""Files that appear complete or not at all, claims on their names, and scratch folders.

Scratch folders are accessible by their owner only and removed after use.

Each folder is locked; the operating system releases the lock when the process ends for any reason.
The next run can therefore distinguish folders that a killed process left behind from those in use,
and removes the former. (Cleaners of temporary folders respect the same lock.)

For private rows the next run is too late. On POSIX systems, a small process watches their folder
and removes it when the process that created it ends, even if it was killed.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hushtable.errors import HushtableError, ParameterError, Refused

try:
    import fcntl
except ImportError:  # Windows: leftover folders are not removed; claims use other means (`_take`)
    fcntl = None  # type: ignore[assignment]

_SPILL_PREFIX = "hushtable-spill-"
_WATCH = 'read -r _; rm -rf -- "$1"'  # the read ends when the other end of the pipe closes


class Scratch:
    """New folder, accessible by its owner only, that exists until `close`.

    Creating one removes folders with the same prefix whose process was killed.

    Parameters
    ----------
    parent : Path
        Folder in which to create it.
    prefix : str
        Beginning of its name, one per kind of use.

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
                continue  # another process's sweep found it before the lock, and removes it
            except OSError:
                pass  # a file system without locks; leftover folders are not removed there
            break
        self._process = os.getpid()

    def close(self) -> None:
        """Remove the folder and its content."""
        if os.getpid() != self._process:
            return  # a forked child; the folder belongs to its parent
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._held is not None:
            os.close(self._held)
            self._held = None


def _hold(folder: Path) -> int | None:
    """Lock a folder for as long as the descriptor is open; raise `OSError` if it is locked."""
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
    """Remove this user's folders with this prefix that no living process has locked."""
    if fcntl is None:
        return
    found: list[Path] = []
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        found = [Path(entry.path) for entry in entries if entry.name.startswith(prefix)]
    for folder in found:
        with contextlib.suppress(OSError):  # in use, or another process removed it first
            status = folder.lstat()
            # Scratch folders are owner-only; a published folder never is, whatever its name.
            if status.st_uid == os.getuid() and status.st_mode == stat.S_IFDIR | stat.S_IRWXU:
                held = _hold(folder)
                shutil.rmtree(folder, ignore_errors=True)
                if held is not None:
                    os.close(held)


# --- folder for private rows that exceed memory ----------------------------------------------

_spill_lock = threading.Lock()
_spill: dict[int, Scratch] = {}  # by process id: a forked child creates its own


def spill_folder() -> str:
    """Create a folder for private rows that exceed memory; raise `ParameterError` if impossible.

    It is inside one folder per process, which is removed when the process ends; on POSIX systems,
    even by SIGKILL.
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
            f"cannot create a folder for temporary files ({why_not_written(error)}); set TMPDIR to "
            "a folder on a local disk that you may write to."
        ) from None


def is_spilled(path: Path) -> bool:
    """Return whether a file is in a folder for private rows, which is removed with its process."""
    return any(parent.name.startswith(_SPILL_PREFIX) for parent in path.parents)


def held_on_to(path: Path) -> Path:
    """Hard-link a spilled file into this process's own folder and return the new path.

    The file then stays readable if the process that wrote it ends, and is removed with this one.
    If the file cannot be linked, return the old path.
    """
    own = Path(spill_folder()) / path.name
    try:
        own.hardlink_to(path)
    except OSError:  # gone, or a file system without hard links
        return path
    return own


def _watch(scratch: Scratch) -> None:
    """Start a process that removes the folder when this process ends."""
    atexit.register(scratch.close)
    if os.name != "posix":
        return
    with contextlib.suppress(OSError):  # without a shell, the next run removes the folder
        watcher = subprocess.Popen(  # noqa: S603 - fixed program, the folder as its argument
            ["/bin/sh", "-c", _WATCH, "sh", os.fspath(scratch.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": "/usr/bin:/bin"},
            start_new_session=True,  # signals to this process's group do not reach it
        )
        # Runs before `scratch.close`, which then finds the folder gone.
        atexit.register(_dismiss, watcher, os.getpid())


def _dismiss(watcher: subprocess.Popen[bytes], process: int) -> None:
    if os.getpid() == process and watcher.stdin is not None:
        watcher.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            watcher.wait(timeout=60)


def why_not_written(error: OSError) -> str:
    """Explain why a file could not be written, and what to do.

    Examples
    --------
    >>> why_not_written(OSError(errno.ENOSPC, "No space left on device"))
    'the disk is full; free some space and run again'
    """
    if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        return "the disk is full; free some space and run again"
    if error.errno == errno.EROFS:
        return "the disk is read-only; choose another folder"
    if error.errno in {errno.EACCES, errno.EPERM}:
        return "you have no permission to write there; choose another folder"
    return error.strerror or "it cannot be written"


@contextmanager
def write_failures_as(kind: type[HushtableError], failed: str) -> Iterator[None]:
    """Raise an error of this kind, with the reason, if a file inside cannot be written.

    Examples
    --------
    >>> with write_failures_as(ParameterError, "cannot write notes.txt"):
    ...     raise OSError(errno.EROFS, "Read-only file system")
    Traceback (most recent call last):
    ...
    hushtable.errors.ParameterError: cannot write notes.txt: the disk is read-only; choose \
another folder.
    """
    try:
        yield
    except OSError as error:
        raise kind(f"{failed}: {why_not_written(error)}.") from error


# Atomic writes: files appear complete or not at all, and survive a power failure.


def require_new(path: str | Path, *suffixes: str) -> Path:
    """Return the path; raise `ParameterError` with all reasons why it cannot be written."""
    path, problems = Path(path), []
    if suffixes and path.suffix not in suffixes:
        problems.append(f"must end in {' or '.join(suffixes)}")
    if path.exists():
        problems.append("exists; choose another name or remove it")
    elif not path.parent.is_dir():
        problems.append(f"is in the folder {str(path.parent)!r}, which does not exist")
    if problems:
        raise ParameterError(f"{str(path)!r} {', and '.join(problems)}.")
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
    with write_failures_as(ParameterError, f"cannot write {str(path)!r}"):
        handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-part-")
        _put(handle, Path(part), path, text)


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
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
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
    # Windows flushes only what is open for writing.
    descriptor = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- claims on output names, taken before anything is charged for them ----------------------------

# Not inherited by other programs, never through a link, and never waiting for a named pipe.
_FLAGS = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK")
)


class Claim:
    """Exclusive right of one run to create a file or folder, until `close`.

    A claim is an empty hidden file beside the target, with a lock of the operating system. The lock
    ends with its process, however that ends, so a new run can take over the claim of a killed run,
    but not that of a running one. On a disk without locks, it can take over neither.

    Parameters
    ----------
    target : Path
        The file or folder to create.

    Raises
    ------
    Refused
        If another run has claimed the target.
    OSError
        If nothing can be written beside the target.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     claim = Claim(Path(folder) / "release")
    ...     held = claim.path.exists()
    ...     claim.close()
    ...     print(held, claim.path.exists())
    True False
    """

    def __init__(self, target: Path) -> None:
        self.path = target.with_name(f".{target.name}-claim")
        self._process = os.getpid()
        try:
            self._held: int | None = _take(self.path)
        except (BlockingIOError, FileExistsError) as error:
            locked = isinstance(error, BlockingIOError)
            raise Refused(
                f"another run is writing {str(target)!r}; wait until it ends, or choose another "
                "name. Nothing was charged."
                + ("" if locked else f" If no run is active, remove {str(self.path)!r}.")
            ) from None

    def close(self) -> None:
        """Release the name; a forked child leaves this to its parent."""
        if self._held is None or os.getpid() != self._process:
            return
        if fcntl is None:  # Windows cannot remove an open file
            os.close(self._held)
        with contextlib.suppress(OSError):
            self.path.unlink()
        if fcntl is not None:
            os.close(self._held)
        self._held = None


def _take(path: Path) -> int:
    """Return an open and locked descriptor of a claim.

    Raises `BlockingIOError` if a running process holds it, and `FileExistsError` if the disk has
    no locks, so that the owner is unknown.
    """
    while True:
        if fcntl is None:
            try:
                path.unlink(missing_ok=True)
            except PermissionError:  # Windows removes no file that a process has open
                raise BlockingIOError from None
            return os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o644)
        is_new = True
        try:
            held = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            is_new = False
            try:
                held = os.open(path, _FLAGS)
            except FileNotFoundError:
                continue  # the previous owner exited meanwhile; try again
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(held), path.lstat()):
                return held
        except FileNotFoundError:
            pass  # the previous owner exited meanwhile and removed the locked file; try again
        except BlockingIOError:
            os.close(held)
            raise
        except OSError as error:  # a disk without locks
            if is_new:
                return held
            os.close(held)
            raise FileExistsError(error.errno, error.strerror) from None
        os.close(held)


# --- signals that end a run: delayed while a charge or a release is recorded ----------------------

ENDING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def signals_held() -> Iterator[None]:
    """Delay Ctrl-C and SIGTERM until the block ends, so that they cannot interrupt a record.

    Only handlers written in Python are delayed. They run in the main thread; in other threads, this
    does nothing.

    Examples
    --------
    >>> before = signal.signal(signal.SIGINT, signal.default_int_handler)
    >>> try:
    ...     with signals_held():
    ...         signal.raise_signal(signal.SIGINT)
    ...         print("recorded")
    ... except KeyboardInterrupt:
    ...     print("interrupted")
    recorded
    interrupted
    >>> handler = signal.signal(signal.SIGINT, before)
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    handlers = {number: signal.getsignal(number) for number in ENDING}
    held = {number: handler for number, handler in handlers.items() if callable(handler)}
    try:
        for number in held:
            signal.signal(number, lambda received_number, _: received.append(received_number))
        yield
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
        if received:
            signal.raise_signal(received[0])
