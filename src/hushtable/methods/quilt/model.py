"""A log-linear model fitted to noisy tables, represented by weighted rows (particles).

The model is the distribution over rows of bucket codes with density proportional to

    prod_j p_j(x_j) * exp(sum_c theta_c[x_c])

where p_j are the one-way marginals it was started from and c runs over the tables added to it. A
table may be coarser than the codes: its cells are unions, and theta_c[x_c] is that of the cell or
interpolated linearly between cells (`hushtable.methods.quilt.smoothing`). Fitting maximizes the
concave dual of

    min_p  KL(p || p_0) + sum_c |M_c p - y_c|^2 / (2 shrinkage std_c)

(unnormalized KL, in counts; p_0 is the product of the p_j, M_c p are the expected counts of table
c, y_c the noisy ones). At the optimum y_c - M_c p = shrinkage * std_c * theta_c: noise is shrunk
toward p_0. As the shrinkage tends to zero, the model tends to the distribution closest to p_0 that
reproduces the noisy tables, if there is one. The shrinkage of a table is multiplied by its relative
strength (`FactorTable.strength`).

Each step fits one table, cell by cell, by changing the weights of the particles (iterative
proportional fitting). When the weights have become uneven, particles are resampled and moved by
Gibbs sweeps under the current model (sequential Monte Carlo). Nothing here sees private data:
everything is post-processing of noisy counts, so its random numbers need not be secret.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import Bools, Codes16, Floats, Integers
from hushtable.kernels import log_linear as kernels
from hushtable.kernels.log_linear import Index, Indexes, SweepTables
from hushtable.methods.quilt import particles
from hushtable.methods.quilt.particles import Group, PostprocessingRng, SampledParticles, strides_of
from hushtable.methods.quilt.smoothing import (
    STRAIGHT,
    TREND,
    BucketLine,
    Stiffness,
    estimate_similarity,
    interpolation_matrix,
    smoothed,
)

# Tables of the log-linear model: noisy counts and the log-factors fitted to them.

FINE_LIMIT = 16.0
"""Bound on the absolute log-factor of a group of columns, summed over its tables."""


@dataclass
class FactorTable:
    """A noisy table and its log-factors; cells are in C order."""

    group: Group  # its columns
    counts: Floats  # noisy counts, or those of a prior
    std: Floats  # standard deviation of each count
    theta: Floats  # log-factors
    maps: tuple[Integers, ...]  # the cell of each code, by column
    lines: tuple[Floats, ...] | None = None  # interpolation matrix (code, cell), by column
    strength: float = 1.0  # relative strength of its regularizer
    goal: Floats | None = None  # what is fitted instead of the counts, if they were smoothed
    from_prior: bool = False  # whether it is a prior's table, with `std` from its prior variance
    is_left_out: bool = False  # whether the model ignores it, because a fit to all tables failed
    # The cell of each particle.
    cells: Index = field(default_factory=lambda: np.empty(0, np.uint16))
    codes: Index | None = None  # with `lines`: the combination of codes of each particle

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells along each axis."""
        return tuple(int(places.max()) + 1 for places in self.maps)

    def pulls(self, shrinkage: float) -> Floats:
        """Return the strength of the regularizer in each cell."""
        pulls: Floats = shrinkage * self.strength * self.std
        return pulls

    def expected(self, weights: Floats) -> Floats:
        """Return the expected counts of the cells, given the weights of the particles."""
        return np.bincount(self.cells, weights, len(self.theta)).astype(np.float64)

    @property
    def fitted(self) -> Floats:
        """The counts to fit."""
        return self.counts if self.goal is None else self.goal

    def is_of(self, group: Group, maps: Sequence[Integers]) -> bool:
        """Return whether this is a noisy table of these columns at these resolutions."""
        return (
            not self.from_prior
            and self.group == group
            and all(
                np.array_equal(mine, other) for mine, other in zip(self.maps, maps, strict=True)
            )
        )

    def fine(self, values: Floats) -> Floats:
        """Expand log-factors of cells to combinations of codes, one axis per column."""
        if self.lines is None:
            return values.reshape(self.shape)[np.ix_(*self.maps)]
        return kernels.interpolate(values, self.lines)

    def add(self, counts: Floats, std: Floats) -> None:
        """Average with another noisy table of the same cells by precision."""
        old, new = self.std**-2.0, std**-2.0
        self.counts = (old * self.counts + new * counts) / (old + new)
        self.std = (old + new) ** -0.5


def log_factors(tables: Sequence[FactorTable]) -> dict[Group, Floats]:
    """Sum the log-factors of all resolutions of each group of columns."""
    found: dict[Group, Floats] = {}
    for table in tables:
        mine = table.fine(table.theta)
        found[table.group] = found[table.group] + mine if table.group in found else mine
    return {group: np.clip(both, -FINE_LIMIT, FINE_LIMIT) for group, both in found.items()}


def dispersion(counts: Floats, expected: Floats, std: float) -> float:
    """Return c such that errors of variance std^2 + c * expected explain the differences.

    The mean absolute difference between `counts` and `expected` is then that of normal errors with
    these variances. The result is limited to between a fifth and five times `std`.

    Examples
    --------
    >>> round(dispersion(np.array([100.0, 100.0]), np.array([100.0, 100.0]), 10.0), 1)
    2.0
    """
    model = np.maximum(expected, 0.0)
    seen = float(np.abs(counts - expected).sum()) / math.sqrt(2 / math.pi)
    low, high = math.log(std / 5), math.log(5 * std)
    for _ in range(30):
        middle = (low + high) / 2
        if float(np.sqrt(std**2 + math.exp(middle) * model).sum()) < seen:
            low = middle
        else:
            high = middle
    return math.exp(low)


SHRINKAGE = 1.25
"""Shrinkage of noise, see the module docstring; tuned, see quilt.md."""

MAX_TABLE_CELLS = 1 << 16
"""Maximum number of cells of a table; their indices have 16 bits."""

LEAST_EFFECTIVE = 0.5
"""Particles are resampled when their effective number falls below this share."""

JOINT_CORRELATION = 0.8
"""Maximal correlation of a measured pair above which its columns are drawn jointly."""

CONVERGED = 2e-4
"""Fitting stops when no table moves more than this share of the weight."""

EXTRA_PARTICLES = 60_000
"""Maximum number of particles beyond the number of drawn rows; there are at most two per row."""

MAX_PARTICLES = 200_000
"""Maximum number of particles when rows are drawn."""

LEAST_GROWN = 0.6
"""Effective share below which new particles are moved once more."""

MAX_MARGINAL_ERROR = 0.1
"""Tolerated sum of absolute errors of a one-way marginal, as a share of the weight.

Two standard deviations of noise per cell are tolerated in addition.
"""

MAX_SERIES_ERROR, MAX_SERIES_STDS = 0.002, 3.0
"""The same if `sweep_factor` is above 1: share of the weight, and standard deviations per cell."""

N_LAST_SWEEPS = 30
"""Maximum number of sweeps of the last fit, to be multiplied by `sweep_factor`."""

N_SETTLING = 4
"""Number of sweeps over the tables after particles were added, multiplied by `sweep_factor`."""

N_FINISHING = 10
"""Maximum number of times that these sweeps are repeated while a fit has not converged."""

MAX_FIT_ERROR = 1.0
"""Fit error (root mean square, in noise standard deviations) above which a table is reported."""

LEAST_REPORTED = 0.001
"""Such a table is reported only if its fit error per cell also exceeds this share of all rows."""

MAX_LACKING = 2e-3
"""Particles are refreshed if nearly empty cells of a table lack more than this share of weight."""

FLOOR = 0.25
"""Weight of a cell without particles, in particles, so that its factor stays finite."""

N_TILTS = 30
"""Number of times that the marginals of possible particles are fitted before there are tables."""

_LEAST_PROBABILITY = 1e-4
_IMPOSSIBLE = -40.0  # log-factor of impossible combinations in Gibbs sweeps
_MAX_PAIRS_BALANCED = 500


class LogLinearModel:
    """A log-linear model of rows, fitted to noisy tables.

    Parameters
    ----------
    marginals : sequence of arrays
        For each column, the probability of each code. The model starts from their product.
    total : float
        Number of rows that the model represents; the weights sum to it.
    n_particles : int
        Number of weighted rows.
    seed : int
        Seed of its random numbers, below 2**64.
    shrinkage : float
        Strength of the regularizer.
    lines : sequence of BucketLine or None
        For each column, the positions of its codes if it is ordered, else None. By default, no
        column is ordered.
    sweep_factor : int
        Multiple of the usual number of sweeps in the last fits. Above 1, `is_lost` is stricter.

    Attributes
    ----------
    rows : array (particle, column) of int16
        The particles.
    weights : array
        Their weights; `answers` sums them.
    tables : list of FactorTable
        The added tables; those of a prior come last.

    Examples
    --------
    >>> field = LogLinearModel([np.array([0.5, 0.5])] * 2, total=100.0, n_particles=1000, seed=7)
    >>> table = field.add((0, 1), np.array([40, 10, 10, 40]), std=1.0)
    >>> field.fit()
    >>> np.abs(field.answers([(0, 1)])[0].ravel() - [40, 10, 10, 40]).max() < 3
    np.True_
    """

    def __init__(
        self,
        marginals: Sequence[Floats],
        *,
        total: float,
        n_particles: int,
        seed: int,
        shrinkage: float = SHRINKAGE,
        lines: Sequence[BucketLine | None] = (),
        sweep_factor: int = 1,
    ) -> None:
        self.sizes: Group = tuple(len(marginal) for marginal in marginals)
        self.total, self.shrinkage, self.sweep_factor = float(total), shrinkage, sweep_factor
        self.tables: list[FactorTable] = []
        self.lines = list(lines) if lines else [None] * len(self.sizes)
        self.similarity = [1.0] * len(self.sizes)
        self.rng = PostprocessingRng(seed)
        self._indexes: tuple[Indexes, Indexes] | None = None  # of the tables, once they are packed
        self.possible: list[tuple[Group, Bools]] = []  # see `exclude`
        self._base = [_positive(marginal) for marginal in marginals]
        self._tilt = [np.ones(len(marginal)) for marginal in marginals]  # see `exclude`
        self.rows: Codes16
        self.weights: Floats
        self.rows, self.weights = self._possible(n_particles)

    # --- fitting ----------------------------------------------------------------------------------

    def add(
        self,
        group: Group,
        counts: NDArray[np.generic],
        std: float | Floats,
        maps: Sequence[Integers] = (),
    ) -> FactorTable:
        """Add a noisy table; average it by precision with one of the same cells, if there is one.

        `std` is one number, or one per cell. If the table is coarser than the codes, `maps` gives
        the cell of each code for each column.
        """
        y = np.array(counts, np.float64).ravel()
        std = np.broadcast_to(np.asarray(std, np.float64), y.shape).copy()
        maps = tuple(maps) or tuple(np.arange(self.sizes[column]) for column in group)
        n_cells = math.prod(int(places.max()) + 1 for places in maps)
        if len(y) != n_cells or n_cells > MAX_TABLE_CELLS:
            raise ValueError(f"{len(y)} counts for {n_cells} cells; at most {MAX_TABLE_CELLS}")
        if self.possible:
            y[~self._may_have_rows(group, maps)] = 0.0  # else noise there would ask for particles
        for table in self.tables:
            if table.is_of(group, maps):
                table.add(y, std)
                return table
        table = FactorTable(group, y, std, np.zeros(n_cells), maps)
        self._straighten(table)
        self._index([table])
        at = sum(not table.from_prior for table in self.tables)  # tables of a prior stay last
        self.tables.insert(at, table)
        return table

    def exclude(self, possible: Sequence[tuple[Group, Bools]]) -> None:
        """Exclude impossible combinations of codes: structural zeros of the model.

        Each entry has columns, and for each combination of their codes whether it is possible.
        """
        self.possible = list(possible)
        if self.possible:
            self.rows, self.weights = self._possible(len(self.rows))
            for _ in range(N_TILTS):
                for column, base in enumerate(self._base):
                    codes = self.rows[:, column]
                    found = np.bincount(codes, self.weights, len(base)) / self.weights.sum()
                    change = np.where(found > 0, base / np.maximum(found, 1e-9), 1.0)
                    self._tilt[column] *= change
                    self.weights *= change[codes]
            self.refresh()
            self.fit()

    def _may_have_rows(self, group: Group, maps: Sequence[Integers]) -> Bools:
        """Return which cells of a table the rules allow."""
        found = np.ones([self.sizes[column] for column in group], bool)
        for of_rule, possible in self.possible:
            if {*of_rule} <= {*group}:
                found &= possible.reshape([self.sizes[c] if c in of_rule else 1 for c in group])
        sizes = [int(places.max()) + 1 for places in maps]
        cells = np.zeros(sizes, bool)
        cells[tuple(m[at] for m, at in zip(maps, np.nonzero(found), strict=True))] = True
        return cells.ravel()

    def add_prior(self, group: Group, counts: Floats, std: Floats) -> None:
        """Add a prior's table over all codes, or update its standard deviations."""
        for table in self.tables:
            if table.from_prior and table.group == group:
                table.std = std
                return
        maps = tuple(np.arange(self.sizes[column]) for column in group)
        table = FactorTable(group, counts, std, np.zeros(len(counts)), maps, from_prior=True)
        self._index([table])
        self.tables.append(table)

    def drop_prior(self) -> None:
        """Remove a prior's tables and fit the others from the start."""
        self.tables = [table for table in self.tables if not table.from_prior]
        self._indexes = None
        self.restart()

    def fit(self, max_sweeps: int = 12) -> None:
        """Sweep over the tables until convergence; refresh the particles if necessary."""
        for number in range(1, max_sweeps + 1):
            moved, lacking = self.sweep()
            # Weights cannot fill a cell without particles: wait a few sweeps for its factor to
            # grow, then let Gibbs sampling move particles there.
            has_empty_cells = lacking > MAX_LACKING and number % 4 == 0
            if self.effective_share < LEAST_EFFECTIVE or has_empty_cells:
                self.refresh()
            elif moved < CONVERGED:
                break

    @property
    def is_lost(self) -> bool:
        """True if the particles miss a one-way marginal (rare fit failure)."""
        return bool(self.lost_columns())

    def lost_columns(self) -> dict[int, float]:
        """Return the columns whose marginal the particles miss, each with its misplaced share.

        A column is missed if the particles are far from its noisy counts, and from its estimated
        shares as well: noise may be larger than the table.
        """
        single = [table for table in self.tables if len(table.group) == 1]
        answers = self.answers([table.group for table in single])
        share, stds = MAX_MARGINAL_ERROR, 2.0
        if self.sweep_factor > 1:
            share, stds = MAX_SERIES_ERROR, MAX_SERIES_STDS
        found = {}
        for table, answer in zip(single, answers, strict=True):
            estimated = self.total * self._base[table.group[0]]
            off = min(float(np.abs(known - answer).sum()) for known in (table.counts, estimated))
            if not off <= share * self.total + stds * float(table.std.sum()):
                # A misplaced row counts twice in `off`: where it is, and where it is missing. If
                # weights are NaN, so is `off`, and the share is 1.
                found[table.group[0]] = min(1.0, off / (2 * self.total)) if off < math.inf else 1.0
        return found

    def restart(self) -> None:
        """Reset all factors and fit the same tables again, starting from independent columns."""
        for table in self.tables:
            table.theta = np.zeros_like(table.theta)
        self._indexes = None
        self.rows, self.weights = self._possible(len(self.rows))
        self._index(self.tables)
        self.fit(2 * N_LAST_SWEEPS)

    def recover(self) -> None:
        """Repeat a failed fit: with all tables, then with fewer, until no column is missed.

        The tables left in are those of a spanning forest of the measured pairs, the first measured
        first, and then none: rows of independent columns, with their estimated shares, always fit.
        """
        if not self.is_lost:
            return
        self.restart()
        for kept in (self._forest(), []):
            if not self.is_lost:
                return
            for table in self.tables:
                table.is_left_out = not any(table is other for other in kept)
            if not kept:
                self.possible, self._tilt = [], [np.ones(size) for size in self.sizes]
            self.restart()

    def _forest(self) -> list[FactorTable]:
        """Return the one-way tables, and pairs that connect all columns without a cycle."""
        tree_of = np.arange(len(self.sizes))
        kept = [table for table in self.tables if len(table.group) == 1]
        for table in self.tables:
            if len(table.group) == 2 and not table.from_prior:
                left, right = tree_of[list(table.group)]
                if left != right:
                    kept.append(table)
                    tree_of[tree_of == left] = right
        return kept

    def _possible(self, n_particles: int) -> tuple[Codes16, Floats]:
        """Draw particles of the distribution without tables, and return them with their weights.

        Columns are drawn one after the other, those in most rules first, from the codes that are
        possible given the columns drawn before. A weight is the product of the probabilities of
        these codes, times the tilts.
        """
        rows = np.zeros((n_particles, len(self.sizes)), np.int16)
        weights = np.full(n_particles, 1.0)
        n_rules = [sum(c in group for group, _ in self.possible) for c in range(len(self.sizes))]
        drawn: list[int] = []
        for column in np.argsort(np.negative(n_rules), kind="stable").tolist():
            base = self._base[column]
            known = [
                (group, np.moveaxis(possible, group.index(column), -1))
                for group, possible in self.possible
                if column in group and {*group} <= {*drawn, column}
            ]
            before = sorted({c for group, _ in known for c in group} - {column})
            cases, case = np.unique(rows[:, before], axis=0, return_inverse=True)
            for number, values in enumerate(cases):
                mine = np.flatnonzero(case.ravel() == number)
                at = dict(zip(before, values.tolist(), strict=True))
                masses = base.copy()
                for group, possible in known:
                    masses *= possible[tuple(at[c] for c in group if c != column)]
                weights[mine] *= masses.sum()
                rows[mine, column] = self.rng.systematic_sample(masses, len(mine))
            weights *= self._tilt[column][rows[:, column]]
            drawn.append(column)
        return rows, weights * (self.total / max(float(weights.sum()), 1e-300))

    def sweep(self) -> tuple[float, float]:
        """Fit each table once; return the largest shares of moved and of missing weight.

        See `hushtable.kernels.log_linear.sweep`.
        """
        tables = [table for table in self.tables if not table.is_left_out]
        if not tables:
            return 0.0, 0.0
        packed = self._packed(tables)
        found = kernels.sweep(packed, self.weights, self.total, self._floor, self.rng.state)
        for table, start in zip(tables, packed.starts, strict=False):
            table.theta = packed.theta[start : start + len(table.theta)]
        return float(found[0]), float(found[1])

    def _packed(self, tables: Sequence[FactorTable]) -> SweepTables:
        """Return the tables as the kernels use them."""
        bent = [table for table in tables if table.codes is not None]
        if self._indexes is None:
            # The tables keep views, so that each index is in memory once.
            cells, codes = _stacked([t.cells for t in tables]), _stacked([t.codes for t in bent])
            for table, of_table in zip(tables, cells, strict=True):
                table.cells = of_table
            for table, of_table in zip(bent, codes, strict=True):
                table.codes = of_table
            self._indexes = cells, codes
        each = [table.lines or () for table in tables]
        lines = [line for of_table in each for line in of_table]
        return SweepTables(
            cells=self._indexes[0],
            codes=self._indexes[1],
            starts=np.cumsum([0, *(len(table.theta) for table in tables)]),
            theta=np.concatenate([table.theta for table in tables]),
            counts=np.concatenate([table.fitted for table in tables]),
            pulls=np.concatenate([table.pulls(self.shrinkage) for table in tables]),
            bent=np.cumsum([bool(of_table) for of_table in each]) * [bool(t) for t in each] - 1,
            axes=np.cumsum([0, *map(len, each)]),
            shapes=np.array([line.shape for line in lines], np.int64).reshape(-1, 2),
            line_starts=np.cumsum([0, *(line.size for line in lines)]),
            lines=np.concatenate([np.zeros(0), *(line.ravel() for line in lines)]),
        )

    @property
    def _floor(self) -> float:
        """Weight of a cell without particles."""
        return FLOOR * self.total / len(self.rows)

    # --- ordered columns --------------------------------------------------------------------------

    def learn_order(self) -> None:
        """Estimate from the pairs how similar neighbors are, and set the interpolation of factors.

        The weights of the particles do not match the changed factors: refresh them afterward.
        """
        shares = [
            answer / self.total for answer in self.answers([(c,) for c in range(len(self.sizes))])
        ]
        pairs = [table for table in self.tables if len(table.group) == 2 and not table.from_prior]
        for column, line in enumerate(self.lines):
            mine = [table for table in pairs if column in table.group]
            if line is not None and mine:
                self.similarity[column] = estimate_similarity(
                    [self._gaps(table, column, shares) for table in mine]
                )
        for table in self.tables:
            self._straighten(table)
        self._index(self.tables)

    def _gaps(
        self, table: FactorTable, column: int, shares: Sequence[Floats]
    ) -> tuple[Floats, Floats, float, float]:
        """Return the input of `estimate_similarity` for a pair, with the column's axis first."""
        parts = [np.bincount(m, shares[c]) for c, m in zip(table.group, table.maps, strict=True)]
        expected = self.total * np.multiply.outer(*parts)
        gaps = table.counts.reshape(table.shape) - expected
        axis = table.group.index(column)
        width = self.sizes[column] / table.shape[axis]
        std = float(table.std.mean())
        return np.moveaxis(gaps, axis, 0), np.moveaxis(expected, axis, 0), std, width

    def _straighten(self, table: FactorTable) -> None:
        """Set the interpolation of a coarse table's log-factors along ordered columns."""
        fine = math.prod(self.sizes[column] for column in table.group)
        if len(table.group) < 2 or len(table.theta) == fine or fine > MAX_TABLE_CELLS:
            return
        lines, bent = [], False
        for column, cells in zip(table.group, table.maps, strict=True):
            line = self.lines[column] or BucketLine(
                np.arange(float(len(cells))), np.ones(len(cells), bool)
            )
            lines.append(
                interpolation_matrix(line, cells, self._base[column], self.similarity[column])
            )
            bent |= self.lines[column] is not None and lines[-1].shape[1] < len(cells)
        table.lines = tuple(lines) if bent else None

    def smooth(self) -> None:
        """Set fitting goals of multi-way tables: log-factors become smooth along ordered columns.

        The log-factors are those of the table alone, given the rest of the current model. The goal
        is the count for which fitting cell by cell yields them.
        """
        for table in self.tables:
            if len(table.group) < 2 or table.from_prior:
                continue
            lines = [self.lines[column] for column in table.group]
            trend = 0.0 if None in lines else TREND  # only if all columns are ordered
            axes = [
                Stiffness.of(cells, line, self.similarity[column], trend)
                for column, cells, line in zip(table.group, table.maps, lines, strict=True)
            ]
            if all(axis.is_plain for axis in axes):
                continue
            expected = np.maximum(table.expected(self.weights), self._floor)
            rest = expected * np.exp(-table.theta)
            pulls = table.pulls(self.shrinkage)
            theta = smoothed(table.counts, rest, table.theta, float(pulls.mean()), axes)
            table.goal = rest * np.exp(theta) + pulls * theta

    # --- particles --------------------------------------------------------------------------------

    def refresh(self, n_sweeps: int = 1) -> None:
        """Resample the particles by weight and move them by Gibbs sweeps."""
        self._move(len(self.rows), n_sweeps)

    def _move(self, n_particles: int, n_sweeps: int) -> None:
        """Resample particles to equal weights and move them by Gibbs sweeps."""
        self.rows = self.rows[particles.by_weight(self.rows, self.weights, n_particles, self.rng)]
        self._gibbs(n_sweeps)
        self._place()

    def _place(self) -> None:
        """Set equal weights for all possible particles, and compute the cells of all."""
        found = np.ones(len(self.rows), bool)
        for group, possible in self.possible:
            found &= possible[tuple(self.rows[:, column] for column in group)]
        weights = found.astype(np.float64) if found.any() else np.ones(len(self.rows))
        self.weights = weights * (self.total / max(float(weights.sum()), 1.0))
        self._index(self.tables)

    def _index(self, tables: Sequence[FactorTable]) -> None:
        """Compute each particle's cell in tables, and its codes where factors are interpolated."""
        bent = [table for table in tables if table.lines is not None]
        own = [tuple(np.arange(self.sizes[column]) for column in table.group) for table in bent]
        both = [*tables, *bent]
        found = particles.cells_of(
            self.rows, [t.group for t in both], [*(t.maps for t in tables), *own]
        )
        for table, cells in zip(tables, found[: len(tables)], strict=True):
            table.cells, table.codes = cells, None
        for table, codes in zip(bent, found[len(tables) :], strict=True):
            table.codes = codes
        self._indexes = None

    def grow(self, n_particles: int) -> None:
        """Add particles: resample, one Gibbs sweep, and a few sweeps over the tables."""
        for _ in range(2):
            if len(self.rows) >= n_particles and self.effective_share > LEAST_GROWN:
                break
            self._move(max(n_particles, len(self.rows)), 1)
            for _ in range(self.sweep_factor * N_SETTLING):
                self.sweep()

    @property
    def effective_share(self) -> float:
        """Effective number of particles (Kish), as a share of all."""
        # numpy.dot would start threads that cost more than they save.
        squares = float(np.einsum("i,i->", self.weights, self.weights))
        return float(self.weights.sum()) ** 2 / squares / len(self.weights) if squares else 0.0

    def fit_error(self) -> Floats:
        """Return the distance of each table's fit from its optimum, in noise standard deviations.

        It is the root mean square over cells of (y - m) / std - shrinkage * strength * theta, which
        is 0 at the optimum (y is the fitting goal, m the fitted count, strength that of the table).
        Cells at the limit of their factor are left out.
        """
        found = []
        for table in self.tables:
            pulls = table.pulls(self.shrinkage)
            gap = table.fitted - table.expected(self.weights) - pulls * table.theta
            free = np.abs(table.theta) < kernels.THETA_LIMIT
            scaled = gap[free] / table.std[free]
            found.append(math.sqrt(float(np.mean(np.square(scaled)))) if free.any() else 0.0)
        return np.array(found)

    def unconverged(self) -> list[FactorTable]:
        """Return the tables whose fit is visibly far from its optimum."""
        return [
            table
            for table, off in zip(self.tables, self.fit_error(), strict=True)
            if not table.is_left_out
            and off > MAX_FIT_ERROR
            and off * float(np.mean(table.std)) > LEAST_REPORTED * self.total
        ]

    def residuals(self) -> Floats:
        """Return the root mean square of (y - m) / std over the cells of each table.

        y is the noisy count, m the fitted one; they differ by noise, shrinkage and misfit.
        """
        return np.array(
            [
                math.sqrt(float(np.mean(np.square((t.counts - t.expected(self.weights)) / t.std))))
                for t in self.tables
            ]
        )

    # --- answers ----------------------------------------------------------------------------------

    def answers(self, groups: Sequence[Group]) -> list[Floats]:
        """Return the expected counts of groups of columns, one array per group."""
        return particles.tables_of(self.rows, self.weights, self.sizes, groups)

    def draw(self, n_rows: int) -> SampledParticles:
        """Draw rows for publication, balanced so that their pair counts match the model's.

        Rows are chosen from the particles. The particles are grown first, to up to three per row,
        so that no row repeats for lack of particles and the last fit is more precise. If there are
        very many rows, particles repeat in proportion to their weights; pair counts then match
        already.
        """
        if n_rows <= 0:
            return SampledParticles(self.rows, np.empty(0, np.int64))
        self.grow(min(n_rows + max(n_rows // 4, min(2 * n_rows, EXTRA_PARTICLES)), MAX_PARTICLES))
        self.recover()
        for _ in range(N_FINISHING):
            if not self.unconverged():
                break
            for _ in range(N_SETTLING):
                self.sweep()
        chosen = particles.by_weight(self.rows, self.weights, n_rows, self.rng)
        pairs = self._balanced_pairs()
        if pairs and n_rows < len(self.rows):
            particles.balance(chosen, self.rows, self.weights, self.sizes, pairs, self.rng)
        self.rng.shuffle(chosen)
        return SampledParticles(self.rows, chosen)

    def draw_given(self, rows: Codes16, columns: Sequence[int], n_sweeps: int) -> None:
        """Redraw some columns of rows by Gibbs sweeps, in place, given the other columns."""
        layout, sites = self._layout(), self._sites()
        alone = len(self.sizes)  # marks a site of a single column
        free = np.flatnonzero(np.isin(sites, [*columns, alone]).all(axis=1))
        for _ in range(n_sweeps):
            self.rng.shuffle(free)
            kernels.gibbs(rows, sites[free], layout, self.rng.state)

    def tilts(self, rows: Codes16, column: int) -> Floats:
        """Return each row's slope of the log-density along an ordered column, given the others.

        The slope is per unit of the codes' positions, and 0 for codes that are not on the line. It
        is reduced if neighbors are hardly similar.
        """
        found = np.zeros(len(rows))
        line = self.lines[column]
        if line is None or np.count_nonzero(~line.off_line) < 2:
            return found
        places = np.flatnonzero(~line.off_line)
        for group, theta in log_factors(self.tables).items():
            if column not in group or len(group) < 2:
                continue
            axis = group.index(column)
            slopes = np.zeros_like(theta)
            along = [slice(None)] * len(group)
            along[axis] = places  # type: ignore[call-overload]
            slopes[tuple(along)] = np.gradient(theta.take(places, axis), line.at[places], axis=axis)
            columns, strides = np.array(group, np.int64), strides_of(theta.shape)
            kernels.add_cells(rows, columns, strides, slopes.ravel(), found)
        straight: Floats = min(1.0, self.similarity[column] / STRAIGHT) * found
        return straight

    def _balanced_pairs(self) -> list[Group]:
        """Return all pairs of columns, or the measured ones if there are too many."""
        pairs: list[Group] = list(combinations(range(len(self.sizes)), 2))
        if len(pairs) <= _MAX_PAIRS_BALANCED:
            return pairs
        return [table.group for table in self.tables if len(table.group) == 2]

    # --- Gibbs sweeps -----------------------------------------------------------------------------

    def _gibbs(self, n_sweeps: int) -> None:
        """Move the particles by Gibbs sweeps, given the factors."""
        layout, sites = self._layout(), self._sites()
        for _ in range(n_sweeps):
            order = np.arange(len(sites))
            self.rng.shuffle(order)
            kernels.gibbs(self.rows, sites[order], layout, self.rng.state)

    def _log_factors(self) -> dict[Group, Floats]:
        """Return the log-factors of each group of columns, with those of `exclude`."""
        found = log_factors(self.tables)
        for group, possible in self.possible:
            found[group] = found.get(group, 0.0) + np.where(possible, 0.0, _IMPOSSIBLE)
        return found

    def _layout(self) -> kernels.Layout:
        """Return the base distribution and the factors of each column, packed for the kernels."""
        first, starts, near = [0], [0], [0]
        near_columns: list[int] = []
        near_strides: list[int] = []
        factors: list[Floats] = []
        fitted = self._log_factors()
        for column, base in enumerate(self._base):
            alone, start = fitted.get((column,)), base * self._tilt[column]
            own: list[tuple[Group, Floats]] = [
                ((column,), start if alone is None else start * np.exp(alone))
            ]
            for group, theta in fitted.items():
                if column in group and len(group) > 1:
                    # The column's own axis comes last, so that its values are contiguous.
                    turned = np.moveaxis(theta, group.index(column), -1)
                    own.append((group, np.exp(turned)))
            for group, factor in own:
                starts.append(starts[-1] + factor.size)
                factors.append(factor.ravel())
                near_columns += [c for c in group if c != column]
                near_strides += strides_of(factor.shape)[:-1].tolist()
                near.append(len(near_columns))
            first.append(len(factors))
        return kernels.Layout(
            sizes=np.array(self.sizes, np.uint64),
            first=np.array(first, np.uint64),
            starts=np.array(starts[:-1], np.uint64),
            near=np.array(near, np.uint64),
            near_columns=np.array(near_columns, np.uint64),
            near_strides=np.array(near_strides, np.uint64),
            factors=np.concatenate(factors),
        )

    def _sites(self) -> kernels.Places:
        """List the updates of a Gibbs sweep: each column, and strongly coupled pairs jointly.

        If two columns determine each other, updates of one of them hardly change it. The maximal
        correlation of their table (its second singular value, Rényi) measures how slow this is.
        Pairs cost more than columns, so each column is in at most one, the strongest first.
        """
        coupled = []
        for group, theta in self._log_factors().items():
            if len(group) != 2:
                continue
            i, j = group
            joint = np.exp(theta) * np.outer(self._base[i], self._base[j])
            correlation = _maximal_correlation(joint)
            if correlation > JOINT_CORRELATION:
                coupled.append((correlation, i, j))
        alone = len(self.sizes)
        sites, taken = [(column, alone) for column in range(alone)], set[int]()
        for _, i, j in sorted(coupled, reverse=True):
            if not taken & {i, j}:
                sites.append((i, j))
                taken |= {i, j}
        return np.array(sites, np.uint64)


def _positive(marginal: Floats) -> Floats:
    """Return probabilities with a small minimum, so that every value stays possible."""
    share = np.maximum(marginal / max(float(marginal.sum()), 1e-300), _LEAST_PROBABILITY)
    scaled: Floats = share / share.sum()
    return scaled


def _stacked(indexes: Sequence[Index | None]) -> Indexes:
    """Return indexes as the rows of one array."""
    return np.stack(indexes) if indexes else np.empty((0, 0), np.uint16)  # type: ignore[arg-type]


def _maximal_correlation(joint: Floats) -> float:
    if min(joint.shape) < 2:
        return 0.0
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    scaled = joint / np.sqrt(np.outer(rows, columns))
    return float(np.linalg.svd(scaled, compute_uv=False)[1])
