"""Schedule of quilt's budget, from public quantities and the noisy number of rows alone.

``quilt.md`` states the data on which the constants were tuned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from hushtable.methods.quilt.budget import STEPS

ROWS_SHARE = Fraction(1, 100)
"""Share of the budget for the number of rows, if that is not public."""

LEAST_ROWS = 50.0
"""Minimum number of rows that the schedule assumes."""

MAX_PICKS = 8
"""Tables selected per round, for up to `_TYPICAL_COLUMNS` columns and few pairs."""

ENOUGH = 2.0
"""Minimum signal to prefer a target and, in pure mode, to run adaptive rounds."""

_MAX_ROUNDS = 8
_MEASURED = 0.8  # share of all tables measured in rounds: more would repeat them
_MANY_PICKS = 4 * MAX_PICKS  # the time of a fit grows with the number of tables
_STAND_IN = 5  # if fewer than this multiple of all pairs pay off, triples would displace pairs
_TYPICAL_COLUMNS = 25
_TYPICAL_VALUES = 6.0
_LEAST_EDGES = 0.4  # a small forest leaves budget to the rounds


@dataclass(frozen=True)
class Schedule:
    """Shares of the budget by stage, and the sizes of the stages."""

    one_ways: float  # share for one-way tables
    forest: float  # share for the spanning forest
    choices: float  # share for all selections; the rest is for tables of the rounds
    n_edges: int  # pairs in the spanning forest, at most
    n_rounds: int
    n_picks: int  # tables selected per round
    every_pair: bool  # whether all pairs could be measured: in a series, they are
    # Whether tables with the target get more weight and its triples are candidates. With a small
    # budget, or if most pairs are measured anyway, this only costs.
    prefers_target: bool

    @property
    def choice(self) -> float:
        """Share for one selection, the same in all stages."""
        return self.choices / (self.n_edges + self.n_rounds * self.n_picks)

    def edge(self, n_edges: int) -> float:
        """Return the mean share for the table of an edge if this number of edges is measured."""
        least = _LEAST_EDGES * self.n_edges if self.n_rounds else 1
        return self.forest / max(n_edges, least)


def schedule(
    *,
    n_rows: float,
    sizes: Sequence[int],
    total: float,
    pure: bool,
    rows_per_unit: int,
    has_target: bool = False,
) -> Schedule:
    """Return how to divide the budget.

    The main quantity is the signal-to-noise ratio of the number of rows if the budget were spent on
    one count per column. Columns with few values make tables with few cells, which tolerate more
    noise: half as many values count as four times the signal.

    Parameters
    ----------
    n_rows : float
        Rows, or a noisy number of them.
    sizes : sequence of int
        Values of each column.
    total : float
        The budget.
    pure : bool
        Whether the budget is an epsilon; else it is a rho or mu**2/2.
    rows_per_unit : int
        Rows per unit.
    has_target : bool
        Whether there is a target that may be preferred.

    Examples
    --------
    >>> schedule(n_rows=30_000, sizes=[8] * 13, total=0.012, pure=False, rows_per_unit=1).n_rounds
    8
    """
    n_columns = len(sizes)
    if n_columns == 1:
        return Schedule(1.0, 0.0, 0.0, 0, 0, 0, every_pair=False, prefers_target=False)
    typical = (sum(map(math.sqrt, sizes)) / n_columns) ** 2
    fewer = max(1.0, _TYPICAL_VALUES / typical)
    felt = max(n_rows, LEAST_ROWS) / rows_per_unit * fewer**2
    n_patches = _n_patches(sizes)
    if pure:
        signal = felt * total / (math.sqrt(2) * n_columns)
        return _pure(signal, n_columns, n_patches, has_target=has_target)
    signal = felt * math.sqrt(2 * total / n_columns)
    return _concentrated(signal, n_columns, n_patches, fewer, has_target=has_target)


def _n_patches(sizes: Sequence[int]) -> int:
    """Count pairs of columns at all their resolutions."""
    levels = sorted(1 + sum(size > step for step in STEPS) for size in sizes)
    # A pair has as many resolutions as its column with more levels; sorted, that is the later one.
    return sum(place * level for place, level in enumerate(levels))


def _concentrated(
    signal: float, n_columns: int, n_patches: int, fewer: float, *, has_target: bool
) -> Schedule:
    g = signal / 125
    # If little stands out from the noise, more tables would only be noisier.
    worth = max(2.0, 0.9 * n_columns * min(math.sqrt(fewer) * g**0.75, g**1.25))
    most_picks = _most_picks(n_columns)
    all_pairs = math.comb(n_columns, 2)
    n_measured = min(worth, _MEASURED * n_patches, _MAX_ROUNDS * most_picks)
    stand_in = n_measured >= n_patches / 2 and worth < _STAND_IN * all_pairs
    prefers_target = has_target and g >= ENOUGH and not stand_in
    n_tables = min(worth, _most_tables(n_patches, prefers_target))
    n_rounds = _between(n_tables / 6.5, 2, _MAX_ROUNDS)
    return Schedule(
        one_ways=min(max(0.46 * g**-0.5, 0.06), 0.5),
        forest=min(max(0.3 * g**-0.17, 0.12), 0.35),
        choices=0.08,
        n_edges=n_columns - 1,
        n_rounds=n_rounds,
        n_picks=_between(n_tables / n_rounds, 1, most_picks),
        every_pair=all_pairs <= min(worth, _MAX_ROUNDS * MAX_PICKS),
        prefers_target=prefers_target,
    )


def _pure(signal: float, n_columns: int, n_patches: int, *, has_target: bool) -> Schedule:
    g = signal / 100
    prefers_target = has_target and g >= ENOUGH
    worth = 0.0 if g < ENOUGH else 0.3 * n_columns * g**0.45
    n_tables = min(worth, _most_tables(n_patches, prefers_target))
    n_rounds = _between(n_tables / 3, 1, 6) if n_tables else 0
    n_picks = _between(n_tables / max(n_rounds, 1), 1, _most_picks(n_columns))
    return Schedule(
        one_ways=min(max(0.5 * g**-0.3, 0.12), 0.6),
        forest=0.3,
        choices=0.15,
        n_edges=min(_between(0.45 * n_columns * g**0.35, 3, n_columns), n_columns - 1),
        n_rounds=n_rounds,
        n_picks=n_picks if n_rounds else 0,
        every_pair=math.comb(n_columns, 2) <= min(worth, _MAX_ROUNDS * MAX_PICKS),
        prefers_target=prefers_target,
    )


def _most_tables(n_patches: int, with_triples: bool) -> float:
    # The target has about as many triples as there are pairs.
    return max(2.0, _MEASURED * (1 + with_triples) * n_patches)


def _most_picks(n_columns: int) -> int:
    of_pairs = _between(_MEASURED * math.comb(n_columns, 2) / _MAX_ROUNDS, MAX_PICKS, _MANY_PICKS)
    return max(of_pairs, round(MAX_PICKS * n_columns / _TYPICAL_COLUMNS))


def _between(value: float, low: int, high: int) -> int:
    return min(max(round(value), low), high)
