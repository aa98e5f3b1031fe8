"""Which noise level each record publishes, so that everyone has cover among those at that level.

*What.* Records that carry different values, or publish noise of different size or shape, are told
apart by anybody, so each set of them must cover itself. Few sets with little noise are wanted: the
records are divided into levels of which each is checked by itself (`CoverCheck`).

*How.* Levels stand on a ladder of sizes, `PER_DOUBLING` rungs for each doubling. For each group of
records that are told apart anyway:

1. `_by_shape`: where noise is shaped like neighborhoods, frequent shapes get levels of their own.
   Records of rare shapes, and of shapes without cover, have noise of no shape together.
2. `_climb`: the lowest rung at which all have cover is one level for all. From low rungs upwards, a
   level of their own is tried for those who have cover with less noise (`_settled`: who has none is
   evicted, which may leave others without, until nobody is). It is kept if those who remain still
   have cover together, and noise is smaller on average.
3. `_certified`: every level is checked on fresh draws. Those that fail rise by a rung and are
   checked again, more strictly.

*Why so.* Steps 1 and 2 may be wrong or wasteful, since they only propose: their draws are few, and
a sample of the records is asked where there are many. Step 3 alone carries the promise, and it
looks at every record.

The statements that the code below relies on are proved in ``uncertain.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count

import numpy as np

from hushtable.kernels.space import Points, Vector
from hushtable.methods.uncertain.cover import PER_DOUBLING, CoverCheck, Level
from hushtable.methods.uncertain.ruler import Integers

LOWEST = -8 * PER_DOUBLING
HIGHEST = {"uniform": 14 * PER_DOUBLING, "gaussian": 5 * PER_DOUBLING}
"""The ladder of levels: from 2**-8 to 2**14 (cube side) or 2**5 (sigma) public scales."""

SMALLEST_CLASS = Fraction(1, 20)
"""A level of its own is worth it for this share of the records, and more than 4 k of them."""

_MAX_EVICTIONS = 8  # a set that is still crumbling then is not worth a level
_TRIALS = 16  # at so many rungs at most a level of its own is tried
_ASKED = 4000  # so many records tell about where all have cover; only then all are asked


class NoCover(Exception):  # noqa: N818 - an outcome that the method turns into its own words
    """Some records have no cover at any level."""

    def __init__(self, rows: Integers) -> None:
        super().__init__()
        self.rows = rows


@dataclass(frozen=True)
class LevelFinder:
    """Divide records into levels so that every one has cover within its own.

    Parameters
    ----------
    check : CoverCheck
        Knows the records and tells who has cover.
    """

    check: CoverCheck

    @property
    def _top(self) -> int:
        return HIGHEST[self.check.ruler.model]

    def find(self, groups: Sequence[Integers], shapes: Points) -> list[Level]:
        """Find levels for groups of records that are told apart anyway.

        Parameters
        ----------
        groups : sequence of arrays
            Rows by what is published beside the noisy columns; cover never crosses groups.
        shapes : array (n, d)
            Factor per record and column; all ones unless noise is scaled locally.

        Raises
        ------
        NoCover
            If some records have no cover at any level.
        """
        proposed: list[Level] = []
        hopeless: list[Integers] = []
        for rows in groups:
            try:
                proposed += self._by_shape(rows, shapes)
            except NoCover as failure:
                hopeless.append(failure.rows)
        if hopeless:
            raise NoCover(np.concatenate(hopeless))
        return self._certified(proposed)

    # --- 1: shapes --------------------------------------------------------------------------------

    def _by_shape(self, rows: Integers, shapes: Points) -> list[Level]:
        """Propose levels for one group: one set per frequent shape, the rest without shape."""
        levels: list[Level] = []
        kinds, kind_of = np.unique(shapes[rows], axis=0, return_inverse=True)
        kind_of = kind_of.reshape(-1)
        left = np.zeros(len(rows), np.bool_)
        for number, shape in enumerate(kinds):
            members = kind_of == number
            if np.all(shape == 1) or members.sum() < self._smallest(rows):
                left |= members
                continue
            try:
                levels += self._climb(rows[members], shape)
            except NoCover:
                left |= members
        unshaped = np.ones(shapes.shape[1])
        if levels and 0 < left.sum() < self._smallest(rows):
            return self._climb(rows, unshaped)  # too few to be left to themselves
        try:
            return levels + self._climb(rows[left], unshaped)
        except NoCover:
            if not levels:
                raise
            return self._climb(rows, unshaped)

    def _smallest(self, rows: Integers) -> int:
        """Say for how many of some records a level of their own is worth it."""
        return max(int(SMALLEST_CLASS * len(rows)), 4 * int(self.check.k[rows].max()) + 1)

    # --- 2: levels of their own -------------------------------------------------------------------

    def _climb(self, rows: Integers, shape: Vector) -> list[Level]:
        """Give low levels to those with cover there, and the lowest possible one to the rest."""
        if not len(rows):
            return []
        rest = self._lowest(Level(rows, self._top, shape), LOWEST - 1)
        best = [rest]
        smallest, first = self._smallest(rows), self._first_rung(rest)
        for rung in range(first, rest.rung, max(2, (rest.rung - first) // _TRIALS)):
            divided = self._divided(rest, rung, smallest)
            if not divided:
                continue
            candidate = [*best[:-1], *divided]
            if _mean_size(candidate) < _mean_size(best):
                best, rest = candidate, candidate[-1]
                if len(divided) == 1:
                    break
        return best

    def _divided(self, rest: Level, rung: int, smallest: int) -> list[Level]:
        """Divide records into those with cover at a rung and those above it; [] if they cannot."""
        low = self._settled(replace(rest, rung=rung), at_least=smallest)
        remaining = np.setdiff1d(rest.rows, low.rows)
        if not len(low.rows) or 0 < len(remaining) < smallest:
            return []
        if not len(remaining):
            return [low]
        try:
            return [low, self._lowest(replace(rest, rows=remaining, rung=self._top), rung)]
        except NoCover:
            return []  # they would be left without cover: keep them together

    def _settled(self, level: Level, *, at_least: int) -> Level:
        """Evict who has no cover, until all who stay have it; nobody, if that takes too long."""
        draws = self.check.search_draws(level)
        for _ in range(_MAX_EVICTIONS):
            if len(level.rows) < at_least:
                break
            bad = self.check.lacking(level, draws)
            if not bad.any():
                return level
            level = replace(level, rows=level.rows[~bad])
        return replace(level, rows=level.rows[:0])

    def _lowest(self, level: Level, below: int) -> Level:
        """Find the lowest level above `below` at which all these records have cover.

        Some of the records are asked first; at the level that suffices for them all are asked, and
        from there on only those that had no cover. What that overlooks the final check finds.
        """
        asked = _spread(level)
        rung = self._lowest_rung(level, asked, below)
        if len(asked) < len(level.rows):
            bad = np.flatnonzero(self.check.lacking(replace(level, rung=rung)))
            if len(bad):
                rung = self._lowest_rung(level, bad, rung)
        return replace(level, rung=rung)

    def _lowest_rung(self, level: Level, asked: Integers, below: int) -> int:
        """Find the lowest rung above `below` at which those at some positions have cover."""
        check = self.check
        if check.lacking(level, asked=asked).any():
            # So few draws may be wrong, and this is the last resort: as many as in the final check.
            bad = check.lacking(level) if check.eta is None else check.fails(level, turn=1)
            if bad.any():
                raise NoCover(level.rows[bad])
            return level.rung
        return _bisect(
            below,
            level.rung,
            lambda rung: not check.lacking(replace(level, rung=rung), asked=asked).any(),
        )

    def _first_rung(self, level: Level) -> int:
        """Find the lowest rung at which enough records have cover for a level of their own."""
        asked = _spread(level)
        enough = self._smallest(level.rows) / len(level.rows) * len(asked)
        return _bisect(
            LOWEST - 1,
            level.rung,
            lambda rung: bool(
                (~self.check.lacking(replace(level, rung=rung), asked=asked)).sum() >= enough
            ),
        )

    # --- 3: the promise ---------------------------------------------------------------------------

    def _certified(self, levels: list[Level]) -> list[Level]:
        """Check every level on fresh draws; lift those that fail, and check them again."""
        if self.check.eta is None:
            return levels
        certain: list[Level] = []
        for turn in count(1):
            failing: list[Level] = []
            for level in levels:
                bad = self.check.fails(level, turn)
                if not bad.any():
                    certain.append(level)
                elif level.rung < self._top:
                    failing.append(replace(level, rung=level.rung + 1))
                else:
                    raise NoCover(level.rows[bad])
            if not failing:
                break
            levels = failing
        return certain


def _bisect(low: int, high: int, suffices: Callable[[int], bool]) -> int:
    """Find the lowest rung above `low` that suffices; `high` is known to.

    Examples
    --------
    >>> _bisect(-1, 100, lambda rung: rung >= 37)
    37
    """
    while high - low > 1:
        middle = (low + high) // 2
        if suffices(middle):
            high = middle
        else:
            low = middle
    return high


def _spread(level: Level) -> Integers:
    """Give positions of records spread evenly over a level, all of them if they are few."""
    n = len(level.rows)
    return np.arange(n) if n <= _ASKED else np.linspace(0, n - 1, _ASKED).astype(np.int64)


def _mean_size(levels: Sequence[Level]) -> float:
    counts = [len(level.rows) for level in levels]
    return float(np.average([level.size for level in levels], weights=counts))
