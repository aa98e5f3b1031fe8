"""Memory of this machine, and memory limits."""

from __future__ import annotations

import os
import re

from hushtable.errors import ParameterError, TooLarge

_ASSUMED = 8 * 2**30  # if the system does not report it


def physical_memory() -> int:
    """Return the physical memory in bytes.

    Examples
    --------
    >>> physical_memory() > 2**20
    True
    """
    if not hasattr(os, "sysconf"):
        return _ASSUMED
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def require_memory(n_bytes: int, what: str) -> None:
    """Raise `TooLarge` if something needs more memory than this machine has."""
    if n_bytes > (there := physical_memory()):
        raise TooLarge(
            f"{what} needs at least {n_bytes / 2**30:,.1f} GB of memory; this machine has "
            f"{there / 2**30:,.1f} GB."
        )


_LIMIT = re.compile(r"\s*([0-9]{1,6}(?:\.[0-9]{1,6})?)\s*([kmgt])i?b?\s*", re.IGNORECASE)
_THOUSANDS = {"k": 1, "m": 2, "g": 3, "t": 4}


def parse_memory_limit(text: str) -> tuple[str, str]:
    """Parse a limit to its number and the letter of its unit; raise `ParameterError` if invalid.

    Examples
    --------
    >>> parse_memory_limit("500 MB")
    ('500', 'm')
    >>> parse_memory_limit("a lot")
    Traceback (most recent call last):
    ...
    hushtable.errors.ParameterError: memory_limit is 'a lot'; write it as '500MB' or '4GB', at \
least 1MB.
    """
    found = _LIMIT.fullmatch(text) if isinstance(text, str) else None
    if found is None or float(found[1]) * 1000.0 ** _THOUSANDS[found[2].lower()] < 1e6:
        raise ParameterError(
            f"memory_limit is {text!r}; write it as '500MB' or '4GB', at least 1MB."
        )
    return found[1], found[2].lower()
