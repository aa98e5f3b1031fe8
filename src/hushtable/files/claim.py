"""Exclusive claims on output names, taken before anything is charged for them."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from hushtable.errors import Refused

try:
    import fcntl
except ImportError:  # Windows: see `_take`
    fcntl = None  # type: ignore[assignment]

# Not inherited by other programs, never through a link, and never waiting for a named pipe.
_FLAGS = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK")
)


class Claim:
    """Exclusive right of one run to create a file or folder, until `close`.

    A claim is an empty hidden file beside the target, held by a lock of the operating system. The
    lock ends with its process, however it ends: the claim of a killed run can be taken over, that
    of a running one cannot.

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
        if fcntl is None:  # an open file cannot be removed there
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
                continue  # its owner ended in between
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(held), path.lstat()):
                return held
        except FileNotFoundError:
            pass  # its owner ended in between and removed what is locked here
        except BlockingIOError:
            os.close(held)
            raise
        except OSError as error:  # a disk without locks
            if is_new:
                return held
            os.close(held)
            raise FileExistsError(error.errno, error.strerror) from None
        os.close(held)
