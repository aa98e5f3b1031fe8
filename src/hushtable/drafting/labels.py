"""Proposals for columns whose values have labels in a Stata or SPSS file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hushtable.drafting.columns import propose
from hushtable.drafting.profile import Profile
from hushtable.drafting.proposal import Proposal
from hushtable.drafting.sentinels import HIGH, NEGATIVE
from hushtable.engine.sources.value_labels import Labels

_MOST_SHOWN = 6  # labels in a remark
_MOST_LABELS = 1000  # a longer list is not proposed as categories


def propose_labeled(profile: Profile, labels: Labels) -> Proposal:
    """Return the proposal for a column of which some or all values have labels.

    If all values have one, the labels become its categories. Otherwise codes such as -9 for
    "refused" become special values named by their labels, and the rest is drafted as usual.
    """
    if profile.n_values and _are_names(labels) and all(value in labels for value in profile.values):
        has_missing = profile.n_missing > 0
        content = {
            "type": "categorical",
            "values": list(labels.values()),
            "missing": "category" if has_missing else "other",
            "outside": "missing" if has_missing else "other",
        }
        return Proposal(
            content,
            [f"values replaced by their labels in the file: {_shown(labels)}."],
            by_label=True,
        )
    apart = _codes(profile, labels)
    plain = np.array([value not in apart for value in profile.values], np.bool_)
    found = propose(
        replace(
            profile,
            n_rows=profile.n_rows - int(profile.counts[~plain].sum()),
            values=[value for value, here in zip(profile.values, plain, strict=True) if here],
            counts=profile.counts[plain],
        )
    )
    if found.content.get("type") in ("integer", "number"):
        if special := found.content.get("special", {}) | apart:
            found.content["special"] = dict(sorted(special.items()))
        found.remarks.append(f"labels in the file: {_shown(labels)}.")
    return found


def _are_names(labels: Labels) -> bool:
    """Return whether labels can replace values: distinct, non-empty and not too many."""
    names = set(labels.values())
    return len(names) == len(labels) <= _MOST_LABELS and "" not in names


def _codes(profile: Profile, labels: Labels) -> dict[int, str]:
    """Return labeled values that are usual codes and lie outside the range of unlabeled values.

    A scale from 0 to 10 with labels at both ends has no such codes.
    """
    numbers = [v for v in profile.values if v not in labels and isinstance(v, int | float)]
    if not numbers or not _are_names(labels):
        return {}
    low, high = min(numbers), max(numbers)
    return {
        int(value): name
        for value, name in labels.items()
        if (value in NEGATIVE and low >= 0) or (value in HIGH and float(value) > high + 1)
    }


def _shown(labels: Labels) -> str:
    """Format the first labels.

    Examples
    --------
    >>> _shown({1.0: "male", 2.0: "female"})
    '1 = male, 2 = female'
    """
    first = [
        f"{value if isinstance(value, str) else format(value, 'g')} = {name}"
        for value, name in list(labels.items())[:_MOST_SHOWN]
    ]
    return ", ".join([*first, "..."] if len(labels) > _MOST_SHOWN else first)
