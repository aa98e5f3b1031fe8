"""Compilation of each kernel by one test process only.

Compiled kernels are kept beside their source. In a fresh clone, all test processes would compile
the same kernels at the same time. With one lock for all kernels, the others wait and then load
what was compiled. (Kernels call each other, so one lock for each could block two processes.)
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

WAIT = 120
"""Seconds to wait for another process at most; then this one compiles the kernel as well."""

try:
    import fcntl

    from numba.core.dispatcher import Dispatcher
except ImportError:  # Windows has no such locks; without the extra `publish` there are no kernels
    pass
else:
    # Pytest imports this module twice: as a plugin, and to collect its doctests.
    _compile = getattr(Dispatcher.compile, "wrapped", Dispatcher.compile)
    _depth = 0  # of kernels that this process is compiling; each may call others

    def _compile_alone(self: Any, sig: Any) -> Any:
        global _depth  # noqa: PLW0603
        if not self.stats.cache_path or _depth:
            return _compile(self, sig)
        folder = Path(self.stats.cache_path)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "compile.lock").open("ab") as file:
            end = time.monotonic() + WAIT
            while time.monotonic() < end:
                with suppress(BlockingIOError):
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                time.sleep(0.05)
            _depth += 1
            try:
                return _compile(self, sig)
            finally:
                _depth -= 1

    _compile_alone.wrapped = _compile  # type: ignore[attr-defined]
    Dispatcher.compile = _compile_alone
