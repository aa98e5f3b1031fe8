"""How much weaker columns hang together in published rows than they did, in words and figures."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtable.recoding import Recoding
from hushtable.schema import Integer, Number, Schema

Kept = Mapping[tuple[str, str], float]
"""For pairs of columns the share of their dependence that rows kept."""

KEPT = "associations_kept"
_SAME = 0.98  # what is not worth a sentence


def as_plain(kept: Kept) -> list[dict[str, Any]]:
    """Write as plain data, the weakest first."""
    return [
        {"columns": list(pair), "kept": round(share, 3)}
        for pair, share in sorted(kept.items(), key=lambda item: item[1])
    ]


def in_words(kept: Kept) -> str | None:
    """Say in one sentence how much weaker associations are; None where they are not.

    Examples
    --------
    >>> print(in_words({("age", "pay"): 0.5, ("age", "sex"): 0.9}))
    Columns hang together less in the rows than they did: as far as noise and shrinkage tell it, \
between 50 % (age and pay) and 90 % of it is left, and half of the 2 pairs that are told keep at \
least 70 %. The answers of `mean`, `regression` and others allow for it; what is computed from \
rows does not.
    """
    if not kept or min(kept.values()) >= _SAME:
        return None
    (one, two), least = min(kept.items(), key=lambda item: item[1])
    most, middle = max(kept.values()), median(kept.values())
    left = f"about {_percent(least)} of it is left"
    if most - least > 1 - _SAME:
        left = (
            f"between {_percent(least)} ({one} and {two}) and {_percent(most)} of it is left, and "
            f"half of the {len(kept)} pairs that are told keep at least {_percent(middle)}"
        )
    return (
        "Columns hang together less in the rows than they did: as far as noise and shrinkage tell "
        f"it, {left}. The answers of `mean`, `regression` and others allow for it; what is "
        "computed from rows does not."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def all_alike(schema: Schema, share: float) -> dict[tuple[str, str], float]:
    """Give all pairs of columns the same share."""
    return dict.fromkeys(combinations(schema.attributes, 2), share)


def after_cuts(
    schema: Schema,
    recode: Mapping[str, Recoding],
    codes: Mapping[str, NDArray[np.int64]],
    counts: NDArray[np.float64],
) -> dict[tuple[str, str], float]:
    """Give what is left where values are drawn evenly from inside generalized numbers.

    A number keeps the share of its variance that lies between its parts, and a pair the product of
    both, if they hang together along a line.
    """
    left: dict[str, float] = {}
    weights = np.maximum(counts, 0.0)
    for name, column in schema.attributes.items():
        if name not in recode:
            left[name] = 1.0
        elif isinstance(column, Integer | Number):
            new = recode[name].apply(np.arange(column.n_values))
            n = np.maximum(np.bincount(new, minlength=recode[name].size), 1)
            middle = np.bincount(new, np.arange(column.n_values), recode[name].size) / n
            inside = (np.bincount(new, minlength=recode[name].size) ** 2 - 1) / 12
            rows = np.bincount(codes[name], weights, recode[name].size)
            rows[recode[name].apply(np.arange(column.n_values, column.size))] = 0.0
            total = max(float(rows.sum()), 1.0)
            mean = float(rows @ middle) / total
            between = float(rows @ (middle - mean) ** 2) / total
            left[name] = between / max(between + float(rows @ np.maximum(inside, 0)) / total, 1e-12)
    return {
        (one, two): left[one] * left[two]
        for one, two in combinations(left, 2)
        if one in recode or two in recode
    }
