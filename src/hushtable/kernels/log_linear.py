"""Loops over the particles of a log-linear model: counting, fitting, Gibbs sweeps, row selection.

A log-linear model (`hushtable.methods.quilt.model`) is represented by particles: rows of small
codes, each with a weight. The loops do four things to all of them, many times:

- `add_weights` counts: it sums the weights over the cells of tables;
- `sweep` fits: table by table, it multiplies the weights of the rows in a cell by the
  factor that brings the cell to its noisy count, with regularization toward the previous model;
- `gibbs` resamples the codes of each row from the model, one column at a time or two strongly
  dependent ones, given the rest of the row;
- `swap_rows` replaces rows of a sample wherever this brings the counts of all pairs of columns
  closer to their targets.

Tables of different shapes are concatenated in flat arrays with offsets and strides, so that loops
need no Python objects. A Gibbs sweep uses a `Layout`. Its numbers are unsigned: a check for
negative indexes before each access takes more than half of the time of a sweep.

Reading rows from memory takes longer than computing with them, so the order of loops minimizes
reads: `add_weights` processes all tables for a part of the rows that fits in the cache,
`move_and_weigh` updates the weights for one table while it counts the next, and `gibbs` processes
all columns of a row before the next row.

All of this is post-processing of published numbers. Its random numbers need no secrecy and come
from a small generator (SplitMix64, Steele, Lea and Flood 2014), whose state is an array of one
word; the caller seeds it and the loops advance it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import Codes16, Floats, Integers
from hushtable.extras import needing

with needing("publish"):
    from numba import njit

Index = NDArray[np.uint16]
Indexes = NDArray[np.uint16]  # one row per table
RngState = NDArray[np.uint64]
Places = NDArray[np.uint64]

THETA_LIMIT = 8.0
"""Bound of the absolute value of log-factors."""

STEP_LIMIT = 4.0
"""Largest change of a log-factor in one step."""

_NEWTON_STEPS = 12
_IN_CACHE = 2048  # rows that are processed for all tables before the next rows
_RESCALE = 1e100  # larger products of factors are rescaled, long before they overflow
_RESCALE_EVERY = 16  # factors; each is at most e**THETA_LIMIT
_BLOCK = 32  # consecutive rows whose random numbers are evenly spaced; a power of two
_ZERO, _ONE = np.uint64(0), np.uint64(1)


class Layout(NamedTuple):
    """Positions of the factors of each column.

    The factors of column i are ``first[i]`` to ``first[i + 1]``; the first is that of the column
    alone. Factor f is a table that begins at ``starts[f]`` of `factors`, with the column's own
    values adjacent; its other columns and their strides are ``near[f]`` to ``near[f + 1]`` of
    `near_columns` and `near_strides`.
    """

    sizes: Places
    first: Places
    starts: Places
    near: Places
    near_columns: Places
    near_strides: Places
    factors: Floats


# --- random numbers -------------------------------------------------------------------------------


@njit(cache=True)  # type: ignore[untyped-decorator]
def uniform(state: RngState) -> float:
    """Return a random number in [0, 1) and advance the state."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return float(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(cache=True)  # type: ignore[untyped-decorator]
def shuffle(values: Integers, state: RngState) -> None:
    """Shuffle values in place."""
    for last in range(len(values) - 1, 0, -1):
        other = int(uniform(state) * (last + 1))
        values[last], values[other] = values[other], values[last]


@njit(cache=True)  # type: ignore[untyped-decorator]
def take_evenly(cumulated: Floats, places: Integers, state: RngState) -> None:
    """Select positions by systematic sampling, at equal distances of cumulative weight."""
    start = uniform(state)
    step = cumulated[-1] / len(places)
    place, last = 0, len(cumulated) - 1
    for n_taken in range(len(places)):
        at = (n_taken + start) * step
        while place < last and cumulated[place] <= at:
            place += 1
        places[n_taken] = place


# --- counting -------------------------------------------------------------------------------------


@njit(cache=True)  # type: ignore[untyped-decorator]
def index_cells(  # noqa: PLR0917 - kernels take arrays by position
    rows: Codes16,
    tables: Integers,
    columns: Integers,
    starts: Integers,
    places: Integers,
    out: Index,
) -> None:
    """Compute the cell of each row in several tables; `out` has the shape (table, row).

    Table t has the columns ``columns[tables[t]:tables[t + 1]]``. A code c of the column at position
    p of `columns` adds ``places[starts[p] + c]`` to the number of the cell.
    """
    for table in range(len(tables) - 1):
        for row in range(len(rows)):
            cell = 0
            for position in range(tables[table], tables[table + 1]):
                cell += places[starts[position] + rows[row, columns[position]]]
            out[table, row] = cell


@njit(cache=True)  # type: ignore[untyped-decorator]
def add_cells(
    rows: Codes16, columns: Integers, strides: Integers, cells: Floats, out: Floats
) -> None:
    """Add to each row the value of its cell in the table of some columns."""
    for row in range(len(rows)):
        cell = 0
        for position in range(len(columns)):
            cell += rows[row, columns[position]] * strides[position]
        out[row] += cells[cell]


@njit(cache=True, fastmath=True)  # type: ignore[untyped-decorator]
def add_weights(  # noqa: PLR0917 - kernels take arrays by position
    rows: Codes16,
    weights: Floats,
    starts: Integers,
    columns: Integers,
    strides: Integers,
    offsets: Integers,
    out: Floats,
) -> None:
    """Sum the weights of rows over the tables of many groups of columns.

    Group g has the columns ``columns[starts[g]:starts[g + 1]]``, and its cells begin at
    ``offsets[g]`` of `out`. Rows are processed in parts that fit in the cache.
    """
    for begin in range(0, len(rows), _IN_CACHE):
        end = min(begin + _IN_CACHE, len(rows))
        for group in range(len(starts) - 1):
            first, last = starts[group], starts[group + 1]
            offset = offsets[group]
            if last - first == 2:
                a, b, stride = columns[first], columns[first + 1], strides[first]
                for row in range(begin, end):
                    out[offset + rows[row, a] * stride + rows[row, b]] += weights[row]
            else:
                for row in range(begin, end):
                    cell = offset
                    for position in range(first, last):
                        cell += rows[row, columns[position]] * strides[position]
                    out[cell] += weights[row]


# --- fitting --------------------------------------------------------------------------------------


@njit(cache=True, fastmath=True)  # type: ignore[untyped-decorator]
def solve_cell(expected: float, theta: float, count: float, pull: float) -> float:
    """Solve expected e^x + pull (theta + x) = count for the step x, within the limits.

    The left side increases in x, so a damped Newton method converges.
    """
    x = 0.0
    for _ in range(_NEWTON_STEPS):
        scaled = expected * np.exp(x)
        step = (scaled + pull * (theta + x) - count) / (scaled + pull)
        step = min(max(step, -1.5), 1.5)
        x -= step
        if abs(step) < 1e-3:  # far below the noise
            break
    x = min(max(theta + x, -THETA_LIMIT), THETA_LIMIT) - theta
    return min(max(x, -STEP_LIMIT), STEP_LIMIT)


@njit(cache=True, fastmath=True)  # type: ignore[untyped-decorator]
def move_and_weigh(
    before: Index, factors: Floats, mine: Index, weights: Floats, n_cells: int
) -> Floats:
    """Multiply the weights by the factors of the previous table, and sum them over a table.

    Two sums run side by side, so that rows in the same cell need not wait for each other. Applying
    a table's factors while the next table is summed reads and writes each weight once per table.
    """
    even, odd = np.zeros(n_cells), np.zeros(n_cells)
    pairs = len(weights) - len(weights) % 2
    for row in range(0, pairs, 2):
        one = weights[row] * factors[before[row]]
        two = weights[row + 1] * factors[before[row + 1]]
        weights[row] = one
        weights[row + 1] = two
        even[mine[row]] += one
        odd[mine[row + 1]] += two
    if pairs < len(weights):
        weights[pairs] *= factors[before[pairs]]
        even[mine[pairs]] += weights[pairs]
    return even + odd


@njit(cache=True, fastmath=True)  # type: ignore[untyped-decorator]
def move(before: Index, factors: Floats, weights: Floats) -> None:
    """Multiply the weights by the factors of a table."""
    for row in range(len(weights)):
        weights[row] *= factors[before[row]]


@njit(cache=True, fastmath=True)  # type: ignore[untyped-decorator]
def take_steps(
    expected: Floats, theta: Floats, counts: Floats, pulls: Floats, floor: float
) -> tuple[Floats, float, float]:
    """Take one regularized fitting step in each cell of a table; `theta` is updated.

    The step x solves m e^x + pull (theta + x) = count, where m is the weight of the particles in
    the cell, at least `floor`.

    Returns
    -------
    array
        The steps.
    float
        The share of the weight that is moved.
    float
        The share of the weight that is missing in cells with less weight than `floor`.
    """
    moved, asked, total = 0.0, 0.0, 0.0
    steps = np.empty(len(theta))
    for cell in range(len(theta)):
        mine = expected[cell]
        step = solve_cell(max(mine, floor), theta[cell], counts[cell], pulls[cell])
        theta[cell] += step
        steps[cell] = step
        moved += abs(step) * mine
        total += mine
        if mine < floor:
            asked += max(counts[cell] - pulls[cell] * theta[cell] - floor, 0.0)
    return steps, moved / max(total, 1e-300), asked / max(total, 1e-300)


class SweepTables(NamedTuple):
    """The tables of a model, packed for `sweep`; cells are in C order.

    Table t has the cells ``starts[t]`` to ``starts[t + 1]`` of the flat arrays. If its log-factors
    are interpolated, ``bent[t]`` is its row of `codes` (else -1), and the axes ``axes[t]`` to
    ``axes[t + 1]`` have a matrix (code, cell) each, at ``line_starts`` of `lines`.
    """

    cells: Indexes  # (table, particle): the cell of each particle
    codes: Indexes  # (interpolated table, particle): its combination of codes
    starts: Integers
    theta: Floats  # log-factors, updated in place
    counts: Floats  # counts to fit
    pulls: Floats  # strength of the regularizer
    bent: Integers
    axes: Integers
    shapes: Integers  # (axis, 2): numbers of codes and of cells
    line_starts: Integers
    lines: Floats


def interpolate(cells: Floats, lines: Sequence[Floats]) -> Floats:
    """Interpolate values of cells to combinations of codes; one matrix (code, cell) per column."""
    table = cells.reshape([line.shape[1] for line in lines])
    for axis, line in enumerate(lines):
        table = np.moveaxis(np.tensordot(line, table, axes=(1, axis)), 0, axis)
    return table


@njit(cache=True, fastmath=True)  # type: ignore[untyped-decorator]
def _interpolated(values: Floats, table: int, tables: SweepTables) -> Floats:
    """Do the same as `interpolate` for a packed table, flat; zeros of the matrices are skipped."""
    first, last = tables.axes[table], tables.axes[table + 1]
    before, after = 1, len(values)
    for axis in range(first, last):
        n_codes, n_cells = tables.shapes[axis, 0], tables.shapes[axis, 1]
        after //= n_cells
        out = np.zeros(before * n_codes * after)
        line = tables.line_starts[axis]
        for code in range(n_codes):
            for cell in range(n_cells):
                part = tables.lines[line + code * n_cells + cell]
                if part == 0.0:
                    continue
                for outer in range(before):
                    into, of = (outer * n_codes + code) * after, (outer * n_cells + cell) * after
                    for inner in range(after):
                        out[into + inner] += part * values[of + inner]
        before *= n_codes
        values = out
    return values


@njit(cache=True, fastmath=True)  # type: ignore[untyped-decorator]
def sweep(
    tables: SweepTables, weights: Floats, total: float, floor: float, state: RngState
) -> tuple[float, float]:
    """Fit each table once, in random order; update the weights, which sum to `total` afterward.

    Returns
    -------
    float
        The largest share of weight that one table moved.
    float
        The largest share of weight missing in those cells of one table that have less weight than
        `floor`, which weights cannot correct.
    """
    order = np.arange(len(tables.cells))
    shuffle(order, state)
    starts = tables.starts
    before = tables.cells[order[0]]
    factors = np.ones(starts[order[0] + 1] - starts[order[0]])
    most = starved = 0.0
    for table in order:
        first, last = starts[table], starts[table + 1]
        cells = tables.cells[table]
        expected = move_and_weigh(before, factors, cells, weights, last - first)
        steps, moved, asked = take_steps(
            expected, tables.theta[first:last], tables.counts[first:last],
            tables.pulls[first:last], floor,
        )  # fmt: skip
        if tables.bent[table] < 0:
            before, factors = cells, np.exp(steps)
        else:
            before = tables.codes[tables.bent[table]]
            factors = np.exp(_interpolated(steps, table, tables))
        most, starved = max(most, moved), max(starved, asked)
    move(before, factors, weights)
    scale = total / weights.sum()
    for row in range(len(weights)):
        weights[row] *= scale
    return most, starved


# --- Gibbs sweeps ---------------------------------------------------------------------------------


@njit(cache=True, fastmath=True)  # type: ignore[untyped-decorator]
def _rescale(values: Floats, size: np.uint64) -> None:
    """Divide values by the largest if it is extremely large or small."""
    largest = 0.0
    for v in range(_ZERO, size):
        largest = max(largest, values[v])
    if largest > _RESCALE or 0.0 < largest < 1.0 / _RESCALE:
        for v in range(_ZERO, size):
            values[v] /= largest


@njit(cache=True, fastmath=True)  # type: ignore[untyped-decorator]
def _multiply(  # noqa: PLR0917 - kernels take arrays by position
    values: Floats, rows: Codes16, row: int, column: np.uint64, without: np.uint64, layout: Layout
) -> None:
    """Set values[v] to the product of a column's factors, except those shared with `without`."""
    size, own = layout.sizes[column], layout.first[column]
    for v in range(_ZERO, size):
        values[v] = layout.factors[layout.starts[own] + v]
    n_done = 1
    for factor in range(own + _ONE, layout.first[column + _ONE]):
        base = layout.starts[factor]
        shared = False
        for neighbor in range(layout.near[factor], layout.near[factor + _ONE]):
            other = layout.near_columns[neighbor]
            if other == without:
                shared = True
            base += np.uint64(rows[row, other]) * layout.near_strides[neighbor]
        if shared:
            continue
        for v in range(_ZERO, size):
            values[v] *= layout.factors[base + v]
        n_done += 1
        if n_done % _RESCALE_EVERY == 0:
            _rescale(values, size)


@njit(cache=True, fastmath=True)  # type: ignore[untyped-decorator]
def _find_shared(  # noqa: PLR0917 - kernels take arrays by position
    bases: Places,
    strides: Places,
    rows: Codes16,
    row: int,
    i: np.uint64,
    j: np.uint64,
    layout: Layout,
) -> int:
    """Find the factors shared by columns i and j: their start, and the stride of j.

    Returns the number of shared factors.
    """
    n_shared = 0
    for factor in range(layout.first[i] + _ONE, layout.first[i + _ONE]):
        base, stride, shared = layout.starts[factor], _ZERO, False
        for neighbor in range(layout.near[factor], layout.near[factor + _ONE]):
            other = layout.near_columns[neighbor]
            if other == j:
                stride, shared = layout.near_strides[neighbor], True
            else:
                base += np.uint64(rows[row, other]) * layout.near_strides[neighbor]
        if shared:
            bases[n_shared], strides[n_shared] = base, stride
            n_shared += 1
    return n_shared


@njit(cache=True, fastmath=True)  # type: ignore[untyped-decorator]
def _sum_out(  # noqa: PLR0917 - kernels take arrays by position
    joint: Floats,
    n_joint: np.uint64,
    mine: Floats,
    size: np.uint64,
    bases: Places,
    strides: Places,
    factors: Floats,
) -> None:
    """Multiply joint[u] by the sum over v of `mine` times the factors shared with u."""
    for u in range(_ZERO, n_joint):
        total = 0.0
        for v in range(_ZERO, size):
            value = mine[v]
            for s in range(len(bases)):
                value *= factors[bases[s] + u * strides[s] + v]
            total += value
        joint[u] *= total


@njit(cache=True, fastmath=True)  # type: ignore[untyped-decorator]
def _draw(values: Floats, size: np.uint64, coin: float) -> np.uint64:
    """Draw a position with probability proportional to its value; `size` if all are zero."""
    total = 0.0
    for v in range(_ZERO, size):
        total += values[v]
    if not total > 0.0:
        return size
    left = coin * total
    for v in range(_ZERO, size - _ONE):
        left -= values[v]
        if left < 0.0:
            return np.uint64(v)
    return size - _ONE


@njit(cache=True, fastmath=True)  # type: ignore[untyped-decorator]
def gibbs(rows: Codes16, sites: Places, layout: Layout, state: RngState) -> None:
    """Resample each row from the model, site by site, given the rest of the row.

    A site is a column (the second entry is then the number of columns), or two columns that are
    drawn jointly: the second by its weight summed over the first, then the first given the second.

    The random numbers of `_BLOCK` consecutive rows at a site are evenly spaced, with random start
    and order, so each is uniform. Rows are sorted, so that similar rows share the possible values
    evenly instead of drawing them independently, which reduces the sampling error (array randomized
    quasi-Monte Carlo, L'Ecuyer, Lecot and Tuffin 2008). Start and order are drawn for each block:
    over more rows, two sites with similar spacing would depend on each other.
    """
    sizes, factors = layout.sizes, layout.factors
    alone = np.uint64(len(sizes))
    largest, n_factors = 0, len(layout.starts)
    for column in range(len(sizes)):  # sizes.max() takes half a second to compile
        largest = max(largest, int(np.int64(sizes[column])))
    mine, other = np.empty(largest), np.empty(largest)
    bases, strides = np.empty(n_factors, np.uint64), np.empty(n_factors, np.uint64)
    coins = np.empty((len(sites), 4))
    for row in range(len(rows)):
        if row % _BLOCK == 0:
            for site in range(len(sites)):
                for k in range(0, 4, 2):
                    coins[site, k] = uniform(state)
                    coins[site, k + 1] = (1 + 2 * np.floor(_BLOCK / 2 * uniform(state))) / _BLOCK
        for site in range(len(sites)):
            i, j = sites[site, 0], sites[site, 1]
            coin = coins[site, 0] + row * coins[site, 1]
            _multiply(mine, rows, row, i, j, layout)
            if j == alone:
                drawn = _draw(mine, sizes[i], coin - np.floor(coin))
                if drawn < sizes[i]:
                    rows[row, i] = drawn
                continue
            _multiply(other, rows, row, j, i, layout)
            n_shared = _find_shared(bases, strides, rows, row, i, j, layout)
            _sum_out(other, sizes[j], mine, sizes[i], bases[:n_shared], strides[:n_shared], factors)
            coin_of_second = coins[site, 2] + row * coins[site, 3]
            u = _draw(other, sizes[j], coin_of_second - np.floor(coin_of_second))
            if u == sizes[j]:
                continue
            for s in range(n_shared):
                base = bases[s] + u * strides[s]
                for v in range(_ZERO, sizes[i]):
                    mine[v] *= factors[base + v]
            drawn = _draw(mine, sizes[i], coin - np.floor(coin))
            if drawn < sizes[i]:
                rows[row, i] = drawn
                rows[row, j] = u


# --- selection of rows ----------------------------------------------------------------------------


@njit(cache=True)  # type: ignore[untyped-decorator]
def swap_rows(  # noqa: PLR0917 - kernels take arrays by position
    pool: Codes16,
    chosen: Integers,
    left: Integers,
    right: Integers,
    strides: Integers,
    offsets: Integers,
    excess: Floats,
    offered: Integers,
    state: RngState,
) -> int:
    """Replace random chosen rows by offered ones if this brings the pair counts closer to target.

    `chosen` and `offered` are positions in the pool; `excess` is the count of each cell minus its
    target. Replacing row a by b moves a count of 1 from one cell to another in each pair table in
    which the two differ; each adds 2 (excess[to] - excess[from]) + 2 to the sum of squares.

    Returns the number of replacements.
    """
    n_swapped = 0
    n_times = np.zeros(len(pool), np.int32)
    for a in chosen:
        n_times[a] += 1
    for b in offered:
        if n_times[b]:  # each row of the pool at most once
            continue
        place = int(uniform(state) * len(chosen))
        a = chosen[place]
        change = 0.0
        for pair in range(len(left)):
            i, j = left[pair], right[pair]
            out = offsets[pair] + pool[a, i] * strides[pair] + pool[a, j]
            into = offsets[pair] + pool[b, i] * strides[pair] + pool[b, j]
            if out != into:
                change += excess[into] - excess[out] + 1.0
        if change < 0.0:
            for pair in range(len(left)):
                i, j = left[pair], right[pair]
                excess[offsets[pair] + pool[a, i] * strides[pair] + pool[a, j]] -= 1.0
                excess[offsets[pair] + pool[b, i] * strides[pair] + pool[b, j]] += 1.0
            chosen[place] = b
            n_times[a] -= 1
            n_times[b] += 1
            n_swapped += 1
    return n_swapped
