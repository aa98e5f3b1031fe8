"""Budget of a quilt run, and the only code that opens its counts; proofs are in ``quilt.md``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np

from hushtable.arrays import Floats, Integers
from hushtable.engine.sealed_table import SealedTable
from hushtable.errors import Refused
from hushtable.methods.quilt.particles import Group
from hushtable.privacy.accounting.sealed import SealedCounts
from hushtable.privacy.accounting.sensitivity import Sensitivity
from hushtable.privacy.composition import concentrated_share
from hushtable.privacy.gaussian_dp import CHOICE_FACTOR, gaussian_share
from hushtable.privacy.mechanisms.mechanism import Gaussian, Laplace, RoundedGaussian
from hushtable.privacy.mechanisms.private_choice import SealedScores, TopChoices, distance_scores
from hushtable.privacy.noise.noise import Noise
from hushtable.schema.recoding import Recoding

STEPS = (16, 8, 4)
"""Number of cells of a column at its coarser resolutions, without special or missing values."""


_GRID = 2**32  # shares are multiples of 1 / _GRID

Accounting = Literal["pure", "concentrated", "gaussian"]
"""Quantity that composes: epsilon, rho of zCDP, or mu**2/2 of Gaussian differential privacy."""


def budget_of(epsilon: Fraction, delta: Fraction, accounting: Accounting) -> Fraction:
    """Return the largest budget that implies (epsilon, delta), in the units of `accounting`.

    Examples
    --------
    >>> one, millionth = Fraction(1), Fraction(1, 10**6)
    >>> round(float(budget_of(one, millionth, "concentrated")), 4)
    0.0244
    >>> round(float(budget_of(one, millionth, "gaussian")), 4)
    0.028
    """
    if accounting == "pure":
        return epsilon
    if accounting == "concentrated":
        return concentrated_share(epsilon, delta)
    return gaussian_share(epsilon, delta) ** 2 / 2


def as_share(value: float) -> Fraction:
    """Round a float down to a fraction with denominator 2**32."""
    return Fraction(math.floor(value * _GRID), _GRID)


@dataclass(frozen=True)
class TableNoise:
    """Noise of the cells of one table.

    Laplace noise is discrete ("pure"), Gaussian noise discrete ("concentrated") or rounded
    ("gaussian").
    """

    accounting: Accounting
    parameter: Fraction  # variance of the Gaussian, or scale of the Laplace distribution

    @property
    def pure(self) -> bool:
        """True if it is Laplace noise."""
        return self.accounting == "pure"

    @cached_property
    def std(self) -> float:
        """Standard deviation of one count, practically exact for variances of at least 1."""
        return self.law.std

    @cached_property
    def law(self) -> Laplace | Gaussian | RoundedGaussian:
        """The noise distribution."""
        if self.accounting == "concentrated":
            return Gaussian(self.parameter)
        return Laplace(self.parameter) if self.pure else RoundedGaussian(self.parameter)


@dataclass
class BudgetShares:
    """Shares of a run's budget, and the noise that a share pays for.

    Shares are planned: each step gets one, and what is left determines the shares of later steps.
    The cost of a step is at most its share, because noise is rounded up. Only the account of the
    run (`RunAccount`) records costs and refuses queries beyond the promise.

    Examples
    --------
    >>> budget = BudgetShares(total=Fraction(1, 50), accounting="concentrated", rows_per_unit=1)
    >>> budget.count_noise(Fraction(1, 4)).parameter  # 1 / (2 * 1/50 * 1/4)
    Fraction(100, 1)
    >>> budget.spend("one-way tables", Fraction(3, 4))
    >>> budget.left
    Fraction(1, 4)
    """

    total: Fraction  # see `budget_of`
    accounting: Accounting
    rows_per_unit: int  # every sensitivity is a multiple of it
    spent: dict[str, Fraction] = field(default_factory=dict)  # share of each step

    @property
    def pure(self) -> bool:
        """True if epsilon itself composes."""
        return self.accounting == "pure"

    @property
    def left(self) -> Fraction:
        """Share of the budget that is not spent."""
        return 1 - sum(self.spent.values(), Fraction(0))

    def spend(self, step: str, share: Fraction) -> None:
        """Record that a step spends a share; raise `Refused` if the share is not positive."""
        if share <= 0:
            raise Refused(f"{step}: the budget is too small; publish fewer columns.")
        self.spent[step] = self.spent.get(step, Fraction(0)) + share

    def count_noise(self, share: Fraction, moved: Sensitivity | None = None) -> TableNoise:
        """Return the noise of a table, or sums, paid with a share; rounded up to a simple fraction.

        `moved` is their sensitivity, by default that of a table.
        """
        spend, moved = share * self.total, moved or Sensitivity(rows=self.rows_per_unit)
        exact = moved.l1 / spend if self.pure else moved.l2_squared / (2 * spend)
        # Sampling is faster for simple fractions, and rounding up only adds privacy.
        grid = 1 if exact > 1000 else 64
        return TableNoise(self.accounting, Fraction(math.ceil(exact * grid), grid))

    def choice_epsilon(self, share: Fraction) -> Fraction:
        """Return the epsilon of one exponential mechanism paid with a share, rounded down.

        In pure mode, it is the share times the budget. Otherwise it is the largest e with e**2 / 8
        at most the share's rho, or with pi/16 e**2 at most its mu**2 / 2.
        """
        spend = share * self.total
        if self.pure:
            return spend
        of_one = Fraction(1, 8) if self.accounting == "concentrated" else CHOICE_FACTOR / 2
        return Fraction(math.isqrt(math.floor(spend / of_one * _GRID**2)), _GRID)


@dataclass(frozen=True)
class NoisyTable:
    """A noisy table that was paid for; public."""

    group: Group
    counts: Integers
    noise: TableNoise


class PrivateMeasurer:
    """Sealed counts that are opened only as noisy tables and private selections.

    Shares of the budget determine the noise. Before `noise` opens sealed counts, it records the
    cost in the account of the run, computed from the noise and the sensitivity of the counts.
    """

    def __init__(self, source: SealedTable, noise: Noise, budget: BudgetShares) -> None:
        self.budget = budget
        self._source, self._noise = source, noise
        self._names = list(source.schema.attributes)
        self._sealed: dict[tuple[Group, bool], SealedCounts] = {}
        self._scored: tuple[Sequence[ScoredTable], Any] = (), None  # candidates and their scores

    def read(
        self, groups: Sequence[Group], recode: Mapping[str, Recoding], *, coarse: bool = False
    ) -> None:
        """Count groups of columns; the counts stay sealed.

        A group may be counted twice, at two resolutions; `coarse` distinguishes the two.
        """
        if not groups:
            return
        named = [[self._names[column] for column in group] for group in groups]
        tables = self._source.marginals(named, recode=recode)
        for group, table in zip(groups, tables, strict=True):
            self._sealed[group, coarse] = table.ravel()

    def row_count(self, share: Fraction) -> NoisyTable:
        """Measure the number of rows."""
        rows = next(iter(self._sealed.values())).sum().reshape(1)
        return self._paid("number of rows", (), rows, share)

    def measure(
        self,
        step: str,
        group: Group,
        share: Fraction,
        cells: Integers | None = None,
        *,
        coarse: bool = False,
    ) -> NoisyTable:
        """Measure a noisy table at a public resolution; one row changes one of its cells by 1."""
        return self._paid(step, group, self._counts(group, cells, coarse=coarse), share)

    def sums(
        self,
        step: str,
        group: Group,
        functions: Sequence[Mapping[str, Floats]],
        scale: int,
        share: Fraction,
    ) -> NoisyTable:
        """Measure sums of functions of a row; see `SealedCells.sums`."""
        cells = self._source.counts([self._names[column] for column in group])
        return self._paid(step, group, cells.sums(functions, scale), share)

    def _paid(self, step: str, group: Group, counts: SealedCounts, share: Fraction) -> NoisyTable:
        self.budget.spend(step, share)
        count_noise = self.budget.count_noise(share, counts.sensitivity)
        return NoisyTable(group, self._noise.open(counts, count_noise.law, step), count_noise)

    def _counts(self, group: Group, cells: Integers | None, *, coarse: bool) -> SealedCounts:
        """Return sealed counts, merged to cells; a row still counts in exactly one cell."""
        sealed = self._sealed[group, coarse]
        return sealed if cells is None else sealed.merged(cells, int(cells.max()) + 1)

    def choose(
        self,
        step: str,
        candidates: Sequence[ScoredTable],
        *,
        k: int,
        share: Fraction,
        offered: Sequence[int] | Integers | None = None,
        stop: int | None = None,
    ) -> list[int]:
        """Select k candidates with high scores, one after the other, each for `share`.

        The score of a candidate is weight * (sum over cells of abs(exact - expected) - penalty).
        With `offered`, only the candidates at these positions can be selected. With `stop`,
        stopping is an option with this score, and the result may be empty. When a candidate is
        selected, all candidates with the same columns are removed. Scores are kept sealed for
        further selections from the same candidates.
        """
        self.budget.spend(step, k * share)
        places = np.arange(len(candidates)) if offered is None else np.asarray(offered)
        if self._scored[0] is not candidates:
            self._scored = candidates, self._scores(candidates)
        scores = self._scored[1].only(places, [] if stop is None else [stop])
        # Permute-and-flip has smaller error for the same epsilon, but the other accountings bound
        # the range of the exponential mechanism's privacy loss, and that of permute-and-flip is
        # wider.
        groups = [candidates[place].group for place in places.tolist()] if k > 1 else None
        choice = TopChoices(
            self.budget.choice_epsilon(share), k,
            "permute-and-flip" if self.budget.pure else "exponential",
            exclusive_groups=range(len(places)) if groups is None else groups,
        )  # fmt: skip
        return [int(places[chosen]) for chosen in self._noise.open(scores, choice, step)]

    def _scores(self, candidates: Sequence[ScoredTable]) -> SealedScores:
        return distance_scores(
            [self._counts(c.group, c.cells, coarse=c.coarse) for c in candidates],
            [candidate.expected for candidate in candidates],
            weights=[candidate.weight for candidate in candidates],
            penalties=[candidate.penalty for candidate in candidates],
        )


@dataclass(frozen=True)
class ScoredTable:
    """A table that may be measured next; all fields are functions of public values."""

    group: Group
    expected: Integers  # the model's counts, rounded
    penalty: int  # cost of its noise, in rows
    weight: int  # factor of its score, in tenths
    cells: Integers | None = None  # cell of each combination of values, if the table is coarser
    coarse: bool = False  # see `PrivateMeasurer.read`

    def __post_init__(self) -> None:
        if self.expected.dtype != np.int64:
            raise TypeError(f"expected counts are {self.expected.dtype}; they must be int64")


def score_sensitivity(candidates: Sequence[ScoredTable], rows_per_unit: int) -> int:
    """Return a bound on the change of any score by one unit: its rows times the largest weight."""
    return rows_per_unit * max(candidate.weight for candidate in candidates)


# Schedule of quilt's budget, from public quantities and the noisy number of rows alone.
#
# ``quilt.md`` states the data on which the constants were tuned.

ROWS_SHARE = Fraction(1, 100)
"""Share of the budget for the number of rows, if that is not public."""

LEAST_ROWS = 50.0
"""Minimum number of rows that the schedule assumes."""

MAX_PICKS = 8
"""Maximum number of tables selected per round if there are few columns; see `_most_picks`."""

LEAST_SIGNAL = 2.0
"""Minimum signal to prefer a target and, in pure mode, to run adaptive rounds.

In multiples of the reference signal (`g` in `_concentrated` and `_pure`).
"""

_MAX_ROUNDS = 8
_MEASURED = 0.8  # maximum share of all candidate tables measured in rounds; more would repeat some
_MANY_PICKS = 4 * MAX_PICKS  # the time of a fit grows with the number of tables
# If fewer tables than this multiple of all pairs pay off, triples displace pairs.
_PAIRS_PAY_OFF = 5
_TYPICAL_COLUMNS = 25
_TYPICAL_VALUES = 6.0
_LEAST_EDGES = 0.4  # with fewer edges than this share of `n_edges`, budget is left to the rounds


@dataclass(frozen=True)
class Schedule:
    """Shares of the budget by stage, and the sizes of the stages."""

    one_ways: float  # share for one-way tables
    forest: float  # share for the spanning forest
    choices: float  # share for all selections; the rest is for tables of the rounds
    n_edges: int  # pairs in the spanning forest, at most
    n_rounds: int
    n_picks: int  # tables selected per round
    every_pair: bool  # whether the budget suffices for all pairs; a series then measures them
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
    noise: below 6 values per column, half as many values count as four times the signal.

    Parameters
    ----------
    n_rows : float
        Number of rows, exact or noisy.
    sizes : sequence of int
        Number of values of each column.
    total : float
        The budget.
    pure : bool
        Whether the budget is an epsilon; else it is a rho or mu**2/2.
    rows_per_unit : int
        Maximum number of rows of one unit.
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
    triples_displace = n_measured >= n_patches / 2 and worth < _PAIRS_PAY_OFF * all_pairs
    prefers_target = has_target and g >= LEAST_SIGNAL and not triples_displace
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
    prefers_target = has_target and g >= LEAST_SIGNAL
    worth = 0.0 if g < LEAST_SIGNAL else 0.3 * n_columns * g**0.45
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
