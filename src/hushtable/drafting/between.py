"""Functional dependencies between columns: derived columns, and ages derived from birthdays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from hushtable.drafting.profile import Profile
from hushtable.drafting.readings import as_number, day_format, days_of

_MOST_VALUES = 2000  # distinct values; columns with more are skipped
_MOST_PAIRS = 1 << 21  # cells of a pair of columns; larger pairs are skipped
_REPEATS = 3  # minimum mean rows per value; with fewer, dependencies may occur by chance


def between_columns(profiles: Sequence[Profile]) -> Iterator[tuple[str, str]]:
    """Yield column names with remarks on columns that they depend on."""
    told = [p for p in profiles if p.codes is not None and 2 <= len(p.values) <= _MOST_VALUES]
    for follower in told:
        sources = [p for p in told if p is not follower and _determines(p, follower)]
        same = [p for p in sources if len(p.values) == len(follower.values)]
        finer = [p for p in sources if len(p.values) > len(follower.values)]
        if same and told.index(same[0]) < told.index(follower):
            yield follower.name, f"equivalent to {same[0].name!r} in every row."
        elif finer:  # the coarsest source is the most specific
            source = min(finer, key=lambda one: len(one.values))
            yield follower.name, f"determined by {source.name!r} in every row. Is it derived?"
    yield from _ages(profiles)


def _determines(source: Profile, follower: Profile) -> bool:
    """Return whether `source` determines `follower`, with enough rows per value."""
    assert source.codes is not None  # noqa: S101 - asked for by the caller
    assert follower.codes is not None  # noqa: S101
    n_source, n_follower = len(source.values), len(follower.values)
    if n_source < n_follower or source.n_values < _REPEATS * n_source:
        return False
    if n_source * n_follower > _MOST_PAIRS:
        return False
    # Missing values are treated as one more value.
    pairs = (source.codes + 1) * (n_follower + 1) + follower.codes + 1
    seen = np.bincount(pairs, minlength=(n_source + 1) * (n_follower + 1)) > 0
    return bool((seen.reshape(n_source + 1, n_follower + 1).sum(axis=1) <= 1).all())


def _ages(profiles: Sequence[Profile]) -> Iterator[tuple[str, str]]:
    """Yield remarks on ages that a column of days determines."""
    days: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
    for profile in profiles:
        spelling = day_format(profile.values)
        if profile.codes is not None and spelling is not None and len(profile.values) > 10:
            days[profile.name] = (
                np.array([day.year for day in days_of(profile.values, spelling)]), profile.codes
            )  # fmt: skip
    for profile in profiles if days else ():
        read = [as_number(value) for value in profile.values]
        if (
            profile.codes is None
            or len(read) < 10
            or any(r is None or r.whole is None for r in read)
        ):
            continue
        years = np.array([number.whole for number in read if number is not None], np.float64)
        for name, (births, codes) in days.items():
            both = (profile.codes >= 0) & (codes >= 0)
            sums = years[profile.codes[both]] + births[codes[both]]
            # Birth year plus age is the year of the survey, or the one before.
            if len(sums) > 10 and np.ptp(sums) <= 3 and 1900 < sums.mean() < 2100:
                yield (
                    profile.name,
                    f"determined by the date {name!r}. Is it an age? Publish one of them.",
                )
