"""Compilation of each kernel by one test process only.

Compiled kernels are kept beside their source. In a fresh clone, all test processes would compile
the same kernels at the same time; with a lock for each kernel, the others wait and then load it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

try:
    import fcntl

    from numba.core.dispatcher import Dispatcher
except ImportError:  # Windows has no such locks; without the extra `publish` there are no kernels
    pass
else:
    _compile = Dispatcher.compile

    def _compile_alone(self: Any, sig: Any) -> Any:
        kept = self.stats.cache_path
        if not kept:
            return _compile(self, sig)
        path = Path(kept) / f"{self.py_func.__qualname__}.lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            return _compile(self, sig)

    Dispatcher.compile = _compile_alone
