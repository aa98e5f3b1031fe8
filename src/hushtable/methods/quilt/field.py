"""A log-linear field fitted to noisy tables, held as weighted rows (particles).

The field is the distribution over rows of bucket codes with density proportional to

    prod_j p_j(x_j) * exp(sum_c theta_c[x_c])

where p_j are the marginals it was started from and c runs over the tables that were added to it.
Fitting maximizes the concave dual of

    min_p  KL(p || p_0) + sum_c |M_c p - y_c|^2 / (2 shrinkage std_c)

(unnormalized KL, in counts; M_c p are the expected counts of table c, y_c the noisy ones). At the
optimum y_c - M_c p = shrinkage * std_c * theta_c: noise is shrunk towards the maximum-entropy
distribution, and as the shrinkage goes to zero the field is that distribution.

Each step fits one table in closed form per cell by moving the weights of the particles (iterative
proportional fitting). When the weights have become uneven, particles are resampled and moved by
Gibbs sweeps under the current field (sequential Monte Carlo). Nothing here sees private data:
everything is post-processing of noisy counts, which is also why its coins need not be secret.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from hushtable.kernels import field as kernels
from hushtable.kernels.field import Floats, Integers, Rows

Group = tuple[int, ...]

SHRINKAGE = 1.25
"""How strongly noise is shrunk, see the module's text; tuned, see quilt.md."""

MAX_TABLE_CELLS = 1 << 16
"""A table's cells are numbered by 16 bits."""

LEAST_EFFECTIVE = 0.5
"""Particles are resampled when their effective number falls below this share."""

JOINT_CORRELATION = 0.8
"""Two columns are drawn jointly if the maximal correlation of their measured table is above."""

SAME = 2e-4
"""Fitting ends when no table moves more than this share of the weight."""

ROOM = 60_000
"""Particles beside the rows that are drawn from them, up to two for each row."""

LEAST_GROWN = 0.6
"""Grown particles are moved once more if their effective share is less."""

LOST = 0.1
"""Share of the weight, beyond noise, by which a single column may be off; else all starts anew."""

N_LAST_SWEEPS = 30
"""Sweeps of the last fit, at most."""

N_SETTLING = 4
"""Sweeps over the tables after particles were added."""

STARVED = 2e-3
"""Particles are refreshed if cells without any lack more than this share of the weight."""

FLOOR = 0.25
"""A cell without particles counts as this part of one, so that its factor stays finite."""

_LEAST_PROBABILITY = 1e-4
_MAX_PAIRS_BALANCED = 500
_TRIES_PER_ROW = 8
_MAX_TRIES = 2_000_000


class Coins:
    """Toss the coins of post-processing: fast, repeatable, and not for protecting anybody.

    Parameters
    ----------
    seed : int
        Below 2**64. A method draws it from its `Noise`, so that a release is repeatable exactly
        when its noise is.

    Examples
    --------
    >>> Coins(1).places(np.array([3.0, 0.0, 1.0]), 4).tolist()
    [0, 0, 0, 2]
    """

    def __init__(self, seed: int) -> None:
        self.state = np.array([seed], np.uint64)

    def shuffle(self, values: Integers) -> Integers:
        """Bring values into random order, in place."""
        kernels.shuffle(values, self.state)
        return values

    def places(self, weights: Floats, n: int) -> Integers:
        """Draw n places by weight, evenly spaced: place i floor or ceil (n share of i) times."""
        cumulated = np.cumsum(weights)
        if n == 0 or not len(cumulated) or not cumulated[-1] > 0:
            return np.zeros(n, np.int64)
        steps = (np.arange(n) + kernels.uniform(self.state)) * (cumulated[-1] / n)
        found: Integers = np.searchsorted(cumulated, steps, side="right")
        return np.minimum(found, len(weights) - 1)

    def spread(self, weights: Floats, n: int) -> Integers:
        """Draw n places by weight, evenly spaced, in random order."""
        return self.shuffle(self.places(weights, n))


@dataclass
class Table:
    """Hold a noisy table and its log-factors; the cells are in C order.

    Parameters
    ----------
    group : tuple of int
        Its columns.
    counts : array
        The noisy counts.
    std : array
        Standard deviation of each count.
    theta : array
        The log-factors.
    """

    group: Group
    counts: Floats
    std: Floats
    theta: Floats


class Field:
    """Fit noisy tables by weighted rows.

    Parameters
    ----------
    marginals : sequence of arrays
        A probability for each value of each column: where the field starts.
    total : float
        The number of rows that it stands for; the weights sum to it.
    n_particles : int
        How many rows to hold.
    seed : int
        For its coins, below 2**64.
    shrinkage : float
        How strongly noise is shrunk.

    Attributes
    ----------
    rows : array (particle, column) of int16
        The particles.
    weights : array
        Their weights; `answers` sums them.
    tables : list of Table
        What was added.

    Examples
    --------
    >>> field = Field([np.array([0.5, 0.5])] * 2, total=100.0, n_particles=1000, seed=7)
    >>> field.add((0, 1), np.array([40, 10, 10, 40]), std=1.0)
    >>> field.fit()
    >>> np.abs(field.answers([(0, 1)])[0].ravel() - [40, 10, 10, 40]).max() < 3
    np.True_
    """

    def __init__(
        self,
        marginals: Sequence[NDArray[np.float64]],
        *,
        total: float,
        n_particles: int,
        seed: int,
        shrinkage: float = SHRINKAGE,
    ) -> None:
        self.sizes: Group = tuple(len(marginal) for marginal in marginals)
        self.total, self.shrinkage = float(total), shrinkage
        self.tables: list[Table] = []
        self.n_gibbs = self.n_sweeps = 0
        self.coins = Coins(seed)
        self._base = [_positive(marginal) for marginal in marginals]
        self.rows: Rows = self._independent(n_particles)
        self.weights: Floats = np.full(n_particles, self.total / max(n_particles, 1))
        self._index = np.empty((0, n_particles), np.uint16)

    @classmethod
    def restore(
        cls,
        marginals: Sequence[NDArray[np.float64]],
        tables: Iterable[Table],
        rows: Rows,
        *,
        total: float,
        seed: int,
        shrinkage: float = SHRINKAGE,
    ) -> Field:
        """Make a field again from where it started and its factors.

        `rows` become particles of one weight; `refresh` moves them to where the field is.
        """
        field = cls(marginals, total=total, n_particles=0, seed=seed, shrinkage=shrinkage)
        field.rows = np.ascontiguousarray(rows, np.int16)
        field.weights = np.full(len(rows), field.total / max(len(rows), 1))
        field._index = np.empty((0, len(rows)), np.uint16)
        for table in tables:
            field.add(table.group, table.counts, table.std)
            field.tables[-1].theta = np.array(table.theta, np.float64)
        return field

    def copy(self, seed: int) -> Field:
        """Copy the field, to refit it with other counts or other coins."""
        twin = object.__new__(Field)
        twin.__dict__.update(self.__dict__)
        twin.tables = [replace(table, theta=table.theta.copy()) for table in self.tables]
        twin.rows, twin.weights = self.rows.copy(), self.weights.copy()
        twin._index = self._index.copy()
        twin.coins = Coins(seed)
        return twin

    # --- fitting ----------------------------------------------------------------------------------

    def add(self, group: Group, counts: NDArray[np.generic], std: float | Floats) -> None:
        """Add a noisy table; one that is there already becomes the weighted mean of both.

        The standard deviation is one number, or one for each cell.
        """
        y = np.asarray(counts, np.float64).ravel()
        std = np.broadcast_to(np.asarray(std, np.float64), y.shape).copy()
        n_cells = math.prod(self.sizes[column] for column in group)
        if len(y) != n_cells or n_cells > MAX_TABLE_CELLS:
            raise ValueError(f"{len(y)} counts for {n_cells} cells; at most {MAX_TABLE_CELLS}")
        for table in self.tables:
            if table.group == group:
                old, new = table.std**-2.0, std**-2.0
                table.counts = (old * table.counts + new * y) / (old + new)
                table.std = (old + new) ** -0.5
                return
        self.tables.append(Table(group, y, std, np.zeros(n_cells)))
        self._index = np.concatenate([self._index, self._cells_of(group)[None]])

    def fit(self, max_sweeps: int = 12) -> None:
        """Sweep over the tables until nothing moves; refresh the particles where it is needed."""
        for number in range(1, max_sweeps + 1):
            moved, starved = self.sweep()
            # Where particles are missing altogether, weights fight in vain: wait a few sweeps for
            # the factors, then let Gibbs bring particles there.
            if self.effective_share < LEAST_EFFECTIVE or (starved > STARVED and number % 4 == 0):
                self.refresh()
            elif moved < SAME:
                break

    @property
    def is_lost(self) -> bool:
        """Whether the particles are not where single columns are: a fit that went wrong, rarely."""
        single = [table for table in self.tables if len(table.group) == 1]
        answers = self.answers([table.group for table in single])
        return any(
            not np.abs(table.counts - answer).sum() <= LOST * self.total + 2 * table.std.sum()
            for table, answer in zip(single, answers, strict=True)
        )

    def restart(self) -> None:
        """Forget all factors and fit again from independent columns; the tables stay."""
        for table in self.tables:
            table.theta = np.zeros_like(table.theta)
        self.rows = self._independent(len(self.rows))
        self._place(len(self.rows))
        self.fit(2 * N_LAST_SWEEPS)

    def _independent(self, n_particles: int) -> Rows:
        columns = [self.coins.spread(marginal, n_particles) for marginal in self._base]
        return np.stack(columns, axis=1).astype(np.int16)

    def sweep(self) -> tuple[float, float]:
        """Fit each table once, in random order.

        Returns
        -------
        float
            The largest share of weight that one table moved.
        float
            The largest share of weight that is missing in cells of one table that have no
            particles, where weights cannot help.
        """
        if not self.tables:
            return 0.0, 0.0
        self.n_sweeps += 1
        order = np.arange(len(self.tables))
        self.coins.shuffle(order)
        theta = np.concatenate([table.theta for table in self.tables])
        offsets = np.cumsum([0, *(len(table.theta) for table in self.tables)])
        moved, starved = kernels.sweep(
            self._index,
            self.weights,
            order,
            offsets,
            np.concatenate([table.counts for table in self.tables]),
            self.shrinkage * np.concatenate([table.std for table in self.tables]),
            theta,
            FLOOR * self.total / len(self.rows),
        )
        for table, start in zip(self.tables, offsets, strict=False):
            table.theta = theta[start : start + len(table.theta)]
        self.weights *= self.total / self.weights.sum()
        return float(moved), float(starved)

    def refresh(self, n_sweeps: int = 1) -> None:
        """Resample the particles by weight and move them by Gibbs sweeps."""
        self._move(self._systematic(len(self.rows)), n_sweeps)

    def _move(self, places: Integers, n_sweeps: int) -> None:
        """Take the particles of these places, of one weight each, and move them."""
        self.rows = self.rows[places]
        self._gibbs(self.rows, n_sweeps)
        self._place(len(places))

    def _place(self, n_particles: int) -> None:
        """Give all particles one weight, and note in which cells they are."""
        self.weights = np.full(n_particles, self.total / n_particles)
        self._index = np.empty((len(self.tables), n_particles), np.uint16)
        for position, table in enumerate(self.tables):
            self._index[position] = self._cells_of(table.group)

    def grow(self, n_particles: int) -> None:
        """Take more particles: resample, one Gibbs sweep, a few sweeps over the tables."""
        for _ in range(2):
            if len(self.rows) >= n_particles and self.effective_share > LEAST_GROWN:
                break
            self._move(self._systematic(max(n_particles, len(self.rows))), 1)
            for _ in range(N_SETTLING):
                self.sweep()

    @property
    def effective_share(self) -> float:
        """How many particles of one weight would be as good, as a share of all."""
        # Not numpy.dot: it wakes threads that then burn more than they save.
        squares = float(np.einsum("i,i->", self.weights, self.weights))
        return float(self.weights.sum()) ** 2 / squares / len(self.weights) if squares else 0.0

    def misfit(self) -> Floats:
        """Say for each table how far the fit is from its optimum, in noise standard deviations.

        That is the root mean square over cells of (y - m) / std - shrinkage * theta, which is
        zero at the optimum; cells at the limit of their factor are left out.
        """
        answers = self.answers([table.group for table in self.tables])
        found = []
        for table, answer in zip(self.tables, answers, strict=True):
            gap = (table.counts - answer.ravel()) / table.std - self.shrinkage * table.theta
            free = np.abs(table.theta) < kernels.THETA_LIMIT
            found.append(math.sqrt(float(np.mean(np.square(gap[free])))) if free.any() else 0.0)
        return np.array(found)

    def residuals(self) -> Floats:
        """Give the root mean square of (y - m) / std for each table: noise, shrinkage, misfit."""
        answers = self.answers([table.group for table in self.tables])
        return np.array(
            [
                math.sqrt(float(np.mean(np.square((table.counts - answer.ravel()) / table.std))))
                for table, answer in zip(self.tables, answers, strict=True)
            ]
        )

    # --- answers ----------------------------------------------------------------------------------

    def answers(self, groups: Sequence[Group]) -> list[Floats]:
        """Give the expected counts of groups of columns, one array for each."""
        return _tables_of(self.rows, self.weights, self.sizes, groups)

    def draw(self, n_rows: int) -> Rows:
        """Draw rows for publication: balanced, so that their pair counts are the field's.

        They are chosen from the particles. These are grown first, to three for each row where that
        is not too many, so that no row is repeated because there were too few, and the last fit
        is more precise than those before.
        """
        if n_rows <= 0:
            return np.empty((0, len(self.sizes)), np.int16)
        self.grow(n_rows + max(n_rows // 4, min(2 * n_rows, ROOM)))
        if self.is_lost:
            self.restart()
        wanted = self._balanced_pairs()
        answers, pool, weights = self.answers(wanted), self.rows, self.weights
        chosen = self._systematic(n_rows)
        if wanted:
            left, right = (np.array(side, np.int64) for side in zip(*wanted, strict=True))
            strides = np.array(self.sizes, np.int64)[right]
            offsets = np.cumsum([0, *(answer.size for answer in answers)])[:-1]
            excess = np.concatenate([answer.ravel() for answer in answers])
            excess *= -n_rows / max(float(self.weights.sum()), 1e-300)
            found = _tables_of(pool[chosen], np.ones(n_rows), self.sizes, wanted)
            excess += np.concatenate([table.ravel() for table in found])
            offered = self.coins.spread(weights, min(_TRIES_PER_ROW * n_rows, _MAX_TRIES))
            kernels.swap_rows(
                pool, chosen, left, right, strides, offsets, excess, offered, self.coins.state
            )
        self.coins.shuffle(chosen)
        return pool[chosen]

    def _balanced_pairs(self) -> list[Group]:
        """All pairs of columns, or the measured ones where there are too many."""
        pairs: list[Group] = list(combinations(range(len(self.sizes)), 2))
        if len(pairs) <= _MAX_PAIRS_BALANCED:
            return pairs
        return [table.group for table in self.tables if len(table.group) == 2]

    # --- particles --------------------------------------------------------------------------------

    def _systematic(self, n: int) -> Integers:
        """Draw places of particles by weight, systematically along the sorted rows."""
        order = np.lexsort(tuple(np.ascontiguousarray(column) for column in self.rows.T[::-1]))
        return order[self.coins.places(self.weights[order], n)]

    def _cells_of(self, group: Group) -> NDArray[np.uint16]:
        out = np.empty(len(self.rows), np.uint16)
        strides = _strides([self.sizes[column] for column in group])
        kernels.index_cells(self.rows, np.array(group, np.int64), strides, out)
        return out

    def _gibbs(self, rows: Rows, n_sweeps: int) -> None:
        first, tables, near = [0], [], [0]
        near_columns: list[int] = []
        near_strides: list[int] = []
        parts: list[Floats] = []
        size = 0
        for column in range(len(self.sizes)):
            tables.append(size)
            parts.append(self._base[column])
            size += self.sizes[column]
            near.append(len(near_columns))
            for table in self.tables:
                if column not in table.group:
                    continue
                shape = [self.sizes[c] for c in table.group]
                axis = table.group.index(column)
                # The column's own values come last, next to each other.
                turned = np.moveaxis(table.theta.reshape(shape), axis, -1)
                others = [c for c in table.group if c != column]
                strides = _strides(turned.shape)
                tables.append(size)
                parts.append(np.exp(turned).ravel())
                size += turned.size
                near_columns += others
                near_strides += strides[:-1].tolist()
                near.append(len(near_columns))
            first.append(len(tables))
        plan = (
            np.array(self.sizes, np.int64),
            *(
                np.array(list_, np.int64)
                for list_ in (first, tables, near, near_columns, near_strides)
            ),
            np.concatenate(parts),
        )
        sites = self._sites()
        for _ in range(n_sweeps):
            order = np.arange(len(sites))
            self.coins.shuffle(order)
            kernels.gibbs(rows, sites[order], *plan, self.coins.state)
            self.n_gibbs += 1

    def _sites(self) -> Integers:
        """List what a Gibbs sweep draws: each column, and strongly coupled columns jointly.

        One column at a time hardly moves where two determine each other. The maximal correlation
        of their table (its second singular value, Rényi) is how slow that would be. Pairs cost more
        than columns, so only the strongest are drawn jointly, half as many as there are columns.
        """
        coupled = []
        for table in self.tables:
            if len(table.group) != 2:
                continue
            i, j = table.group
            joint = np.exp(table.theta).reshape(self.sizes[i], self.sizes[j])
            joint = joint * np.outer(self._base[i], self._base[j])
            correlation = _maximal_correlation(joint)
            if correlation > JOINT_CORRELATION:
                coupled.append((correlation, i, j))
        strongest = sorted(coupled, reverse=True)[: max(1, len(self.sizes) // 2)]
        sites = [(column, -1) for column in range(len(self.sizes))]
        return np.array([*sites, *((i, j) for _, i, j in strongest)], np.int64)


def _positive(marginal: NDArray[np.float64]) -> Floats:
    """Keep every value possible."""
    share = np.maximum(marginal / max(float(marginal.sum()), 1e-300), _LEAST_PROBABILITY)
    scaled: Floats = share / share.sum()
    return scaled


def _tables_of(rows: Rows, weights: Floats, sizes: Group, groups: Sequence[Group]) -> list[Floats]:
    """Sum weights of rows over groups of columns, one array for each."""
    shapes = [tuple(sizes[column] for column in group) for group in groups]
    offsets = np.cumsum([0, *(math.prod(shape) for shape in shapes)])
    flat = np.zeros(int(offsets[-1]))
    if groups:
        starts = np.cumsum([0, *(len(group) for group in groups)])
        columns = np.array([column for group in groups for column in group], np.int64)
        strides = np.concatenate([_strides(shape) for shape in shapes])
        kernels.add_weights(rows, weights, starts, columns, strides, offsets, flat)
    bounds = zip(offsets[:-1], offsets[1:], shapes, strict=True)
    return [flat[start:stop].reshape(shape) for start, stop, shape in bounds]


def _strides(shape: Sequence[int]) -> Integers:
    return np.array([math.prod(shape[axis + 1 :]) for axis in range(len(shape))], np.int64)


def _maximal_correlation(joint: Floats) -> float:
    if min(joint.shape) < 2:
        return 0.0
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    scaled = joint / np.sqrt(np.outer(rows, columns))
    return float(np.linalg.svd(scaled, compute_uv=False)[1])
