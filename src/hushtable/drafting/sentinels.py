"""Detection of sentinel codes among numbers, such as 999 for "never" or -1 for "not asked"."""

from __future__ import annotations

from collections.abc import Mapping

NEGATIVE = (*range(-9, 0), -66, -77, -88, -98, -99, -666, -777, -888, -998, -999, -9999)
HIGH = (
    88, 96, 97, 98, 99, 777, 888, 996, 997, 998, 999,
    7777, 8888, 9996, 9997, 9998, 9999, 88888, 99999, 999999,
)  # fmt: skip

_FEW_ROWS = 50
"""Minimum number of rows for detection."""

_FAR = 2
"""Minimum distance of a high code from the other values, in multiples of their range."""


def sentinels(counts: Mapping[int, int]) -> list[int]:
    """Return likely codes among integers, given the count of each.

    Negative values are codes if all of them are usual codes. A high value is one if it is a usual
    code and lies far above all other values.

    Examples
    --------
    >>> sentinels({0: 5, 3: 20, 27: 1, 999: 400}), sentinels({-1: 9, -8: 2, 1: 50, 2: 40})
    ([999], [-8, -1])
    >>> sentinels({-50: 10, -4: 30, 7: 20}), sentinels({97: 10, 98: 20, 99: 30})
    ([], [])
    """
    if sum(counts.values()) < _FEW_ROWS:
        return []
    values = sorted(counts)
    plain = [value for value in values if value >= 0]
    below = [value for value in values if value < 0]
    found = []
    if len(plain) > 1 and below and all(value in NEGATIVE for value in below):
        # Many negative values next to a small positive range may be ordinary numbers.
        coded = len(below) <= 3 or max(plain) > 10
        found += below if coded else []
    rest = plain
    while len(rest) > 2 and rest[-1] in HIGH:
        span = max(rest[-2] - rest[0], 1)
        if rest[-1] - rest[-2] < _FAR * span:
            break
        found.append(rest[-1])
        rest = rest[:-1]
    return sorted(found)
