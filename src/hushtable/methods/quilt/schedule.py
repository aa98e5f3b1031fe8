"""How quilt divides its budget: from public quantities and the noisy number of rows alone.

What the constants were tuned on is in ``quilt.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from hushtable.methods.quilt.resolutions import STEPS

ROWS_SHARE = Fraction(1, 100)
"""Share of the budget for the number of rows, where that is not public."""

LEAST_ROWS = 50.0
"""The schedule takes no smaller number of rows."""

MAX_PICKS = 8
"""Tables chosen in one round, for up to `_TYPICAL_COLUMNS` columns where pairs are not many."""

ENOUGH = 2.0
"""Signal from which on a target is preferred, and in pure mode rounds are made."""

_MAX_ROUNDS = 8
_MEASURED = 0.8  # tables in rounds, as a part of all there are: more would be the same ones again
_MANY_PICKS = 4 * MAX_PICKS  # a fit takes as long as its tables are many
_STAND_IN = 5  # unless so many times all pairs are worth their noise, triples stand in for pairs
_TYPICAL_COLUMNS = 25
_TYPICAL_VALUES = 6.0
_LEAST_EDGES = 0.4  # a short forest leaves budget to the rounds


@dataclass(frozen=True)
class Schedule:
    """Say what each stage gets.

    Parameters
    ----------
    one_ways, forest, choices : float
        Shares of the budget for the tables of one column, for the forest of pairs, and for all
        choices. What is left is for the tables of the rounds.
    n_edges : int
        Pairs of the forest, at most.
    n_rounds, n_picks : int
        Rounds, and tables chosen in each.
    every_pair : bool
        Whether all pairs could be measured as well: in a series they are, without choosing.
    prefers_target : bool
        Whether a target's tables count more, and its triples are offered: that only costs with
        little budget, and where most pairs are measured anyhow.
    """

    one_ways: float
    forest: float
    choices: float
    n_edges: int
    n_rounds: int
    n_picks: int
    every_pair: bool
    prefers_target: bool

    @property
    def choice(self) -> float:
        """Share for one choice: the same everywhere."""
        return self.choices / (self.n_edges + self.n_rounds * self.n_picks)

    def edge(self, n_edges: int) -> float:
        """Share for the table of one of so many edges, on average."""
        least = _LEAST_EDGES * self.n_edges if self.n_rounds else 1
        return self.forest / max(n_edges, least)


def schedule(
    *,
    n_rows: float,
    sizes: Sequence[int],
    total: float,
    pure: bool,
    reach: int,
    has_target: bool = False,
) -> Schedule:
    """Divide the budget.

    What matters is how many times its noise the table's size is, if the budget were spent on one
    count per column. Columns of few values make tables of few cells, which bear more noise: with
    half as many values, four times the signal is felt.

    Parameters
    ----------
    n_rows : float
        Rows, or a noisy number of them.
    sizes : sequence of int
        Values of each column.
    total : float
        The budget.
    pure : bool
        Whether the budget is an epsilon; else it is a rho.
    reach : int
        Rows that one person may have.
    has_target : bool
        Whether there is a target that may be preferred.

    Examples
    --------
    >>> schedule(n_rows=30_000, sizes=[8] * 13, total=0.012, pure=False, reach=1).n_rounds
    8
    """
    n_columns = len(sizes)
    if n_columns == 1:
        return Schedule(1.0, 0.0, 0.0, 0, 0, 0, every_pair=False, prefers_target=False)
    typical = (sum(map(math.sqrt, sizes)) / n_columns) ** 2
    fewer = max(1.0, _TYPICAL_VALUES / typical)
    felt = max(n_rows, LEAST_ROWS) / reach * fewer**2
    n_patches = _n_patches(sizes)
    if pure:
        signal = felt * total / (math.sqrt(2) * n_columns)
        return _pure(signal, n_columns, n_patches, has_target=has_target)
    signal = felt * math.sqrt(2 * total / n_columns)
    return _concentrated(signal, n_columns, n_patches, fewer, has_target=has_target)


def _n_patches(sizes: Sequence[int]) -> int:
    """Count pairs of columns at all their resolutions."""
    levels = sorted(1 + sum(size > step for step in STEPS) for size in sizes)
    # A pair goes down the longer of two ladders: each is the longer one for those before it.
    return sum(place * level for place, level in enumerate(levels))


def _concentrated(
    signal: float, n_columns: int, n_patches: int, fewer: float, *, has_target: bool
) -> Schedule:
    g = signal / 125
    # Where little is told apart from noise, more tables would only be noisier ones.
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
    # Triples with a target are about as many as pairs.
    return max(2.0, _MEASURED * (1 + with_triples) * n_patches)


def _most_picks(n_columns: int) -> int:
    of_pairs = _between(_MEASURED * math.comb(n_columns, 2) / _MAX_ROUNDS, MAX_PICKS, _MANY_PICKS)
    return max(of_pairs, round(MAX_PICKS * n_columns / _TYPICAL_COLUMNS))


def _between(value: float, low: int, high: int) -> int:
    return min(max(round(value), low), high)
