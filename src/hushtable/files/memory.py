"""What this machine can hold."""

from __future__ import annotations

import os

_ASSUMED = 8 * 2**30  # where the system does not tell


def physical_memory() -> int:
    """Give the bytes of memory that are built in.

    Examples
    --------
    >>> physical_memory() > 2**20
    True
    """
    if not hasattr(os, "sysconf"):
        return _ASSUMED
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
