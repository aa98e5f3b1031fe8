"""What codebooks say about one column, as the part of a schema that it becomes."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

Content = dict[str, Any]


def listed(values: Sequence[Any], *, ordered: bool = False, has_missing: bool = False) -> Content:
    """Describe a list of values."""
    content: Content = {"type": "categorical", "values": list(dict.fromkeys(map(str, values)))}
    if ordered:
        content["ordered"] = True
    return content | ({"missing": "category"} if has_missing else {})


def between(low: Any, high: Any, step: Any = None, *, has_missing: bool = False) -> Content | None:
    """Describe numbers between bounds; None if they are none.

    Without a step, whole bounds mean whole numbers, and others a grid of the finer bound's digits.

    Examples
    --------
    >>> between("0", "99"), between("0", "2.5")
    ({'type': 'integer', 'low': 0, 'high': 99}, {'type': 'number', 'low': 0.0, 'high': 2.5, \
'step': 0.1})
    """
    try:
        first, last = Decimal(str(low)), Decimal(str(high))
        given = None if step in (None, "") else Decimal(str(step))
    except InvalidOperation:
        return None
    if not (first.is_finite() and last.is_finite()) or first > last:
        return None
    more = {"missing": "category"} if has_missing else {}
    if first == int(first) and last == int(last) and given in (None, Decimal(1)):
        return {"type": "integer", "low": int(first), "high": int(last), **more}
    if given is None:
        digits = max(-int(d.normalize().as_tuple().exponent) for d in (first, last))
        given = Decimal(1).scaleb(-max(digits, 1))
    return {
        "type": "number", "low": float(first), "high": float(last), "step": float(given), **more
    }  # fmt: skip
