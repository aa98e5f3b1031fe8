"""Schema content of one column, from its description in a codebook.

Few codebooks state correctly whether values may be missing. So empty cells and unlisted values are
recorded as missing, not as the first value of the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

Content = dict[str, Any]


MISSING = {"missing": "category"}


def listed(values: Sequence[Any], *, ordered: bool = False) -> Content:
    """Return the schema content for a list of values."""
    content: Content = {"type": "categorical", "values": list(dict.fromkeys(map(str, values)))}
    if ordered:
        content["ordered"] = True
    return content | MISSING


def between(low: Any, high: Any, step: Any = None) -> Content | None:
    """Return the schema content for numbers between bounds; None if the bounds are invalid.

    Without a step, integer bounds give integers, and others a grid with the finer bound's decimals.

    Examples
    --------
    >>> between("0", "99")
    {'type': 'integer', 'low': 0, 'high': 99, 'missing': 'category'}
    >>> between("0", "2.5")
    {'type': 'number', 'low': 0.0, 'high': 2.5, 'step': 0.1, 'missing': 'category'}
    """
    try:
        first, last = Decimal(str(low)), Decimal(str(high))
        given = None if step in (None, "") else Decimal(str(step))
    except InvalidOperation:
        return None
    if not (first.is_finite() and last.is_finite()) or first > last:
        return None
    if first == int(first) and last == int(last) and given in (None, Decimal(1)):
        return {"type": "integer", "low": int(first), "high": int(last), **MISSING}
    if given is None:
        digits = max(-int(d.normalize().as_tuple().exponent) for d in (first, last))
        given = Decimal(1).scaleb(-max(digits, 1))
    return {
        "type": "number", "low": float(first), "high": float(last), "step": float(given), **MISSING
    }  # fmt: skip
