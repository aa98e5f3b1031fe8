"""Compilation of each kernel by one test process only.

Compiled kernels are kept beside their source. In a fresh clone, all test processes would compile
the same kernels at the same time; with a lock for each kernel, the others wait and then load it.
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
    _compile = Dispatcher.compile
    _held: set[Path] = set()

    def _compile_alone(self: Any, sig: Any) -> Any:
        kept = self.stats.cache_path
        path = Path(kept or "") / f"{self.py_func.__module__}.{self.py_func.__qualname__}.lock"
        if not kept or path in _held:
            return _compile(self, sig)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            end = time.monotonic() + WAIT
            while time.monotonic() < end:
                with suppress(BlockingIOError):
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                time.sleep(0.05)
            _held.add(path)
            try:
                return _compile(self, sig)
            finally:
                _held.discard(path)

    Dispatcher.compile = _compile_alone
