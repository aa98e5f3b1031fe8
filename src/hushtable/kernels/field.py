"""Loops over the particles of a field: counting, fitting, Gibbs sweeps, choice of rows.

Everything here is post-processing of published numbers. Its coins need no secrecy, so they come
from a small generator (SplitMix64, Steele, Lea and Flood 2014) whose state is an array of one word
that the caller seeds and the loops move on.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Rows = NDArray[np.int16]
Index = NDArray[np.uint16]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
State = NDArray[np.uint64]

THETA_LIMIT = 8.0
"""Log-factors stay between minus and plus this."""

STEP_LIMIT = 4.0
"""A log-factor moves by at most this in one step."""

_NEWTON_STEPS = 12
_RESCALE = 1e100


@njit(cache=True)  # type: ignore[untyped-decorator]
def uniform(state: State) -> float:
    """Draw a number in [0, 1) and move the state on."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return float(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(cache=True)  # type: ignore[untyped-decorator]
def shuffle(values: Integers, state: State) -> None:
    """Bring values into random order, in place."""
    for last in range(len(values) - 1, 0, -1):
        other = int(uniform(state) * (last + 1))
        values[last], values[other] = values[other], values[last]


@njit(cache=True)  # type: ignore[untyped-decorator]
def index_cells(rows: Rows, columns: Integers, strides: Integers, out: Index) -> None:
    """Give the cell of each row in the table of some columns."""
    for row in range(len(rows)):
        cell = 0
        for position in range(len(columns)):
            cell += rows[row, columns[position]] * strides[position]
        out[row] = cell


@njit(cache=True, fastmath=True)  # type: ignore[untyped-decorator]
def add_weights(  # noqa: PLR0917 - kernels take arrays by position
    rows: Rows,
    weights: Floats,
    starts: Integers,
    columns: Integers,
    strides: Integers,
    offsets: Integers,
    out: Floats,
) -> None:
    """Sum the weights of rows over the tables of many groups of columns.

    Group g has the columns ``columns[starts[g]:starts[g + 1]]`` and its cells begin at
    ``offsets[g]`` of `out`. Rows are taken in parts that stay in the cache.
    """
    part = 2048
    for begin in range(0, len(rows), part):
        end = min(begin + part, len(rows))
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


@njit(cache=True, fastmath=True)  # type: ignore[untyped-decorator]
def solve_cell(expected: float, theta: float, count: float, pull: float) -> float:
    """Give the step x with expected e^x + pull (theta + x) = count, kept within the limits.

    The left side rises in x, so Newton's method finds it; its steps are damped.
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
def sweep(  # noqa: PLR0912, PLR0917 - kernels take arrays by position
    index: Index,
    weights: Floats,
    order: Integers,
    offsets: Integers,
    counts: Floats,
    pulls: Floats,
    theta: Floats,
    floor: float,
) -> tuple[float, float]:
    """Take one regularized fitting step for each table, in the given order.

    For each cell the step x solves m e^x + pull (theta + x) = count, where m is the weight of the
    particles in it, at least `floor`. The weights of a table's cells change when the next table is
    counted, so that they are read and written once per table.

    Returns
    -------
    float
        The largest share of weight that one table's step moved.
    float
        The largest share of weight that one table's cells without particles ask for.
    """
    n_rows = len(weights)
    largest = 0
    for position in range(len(order)):
        largest = max(largest, offsets[order[position] + 1] - offsets[order[position]])
    even, odd = np.zeros(largest), np.zeros(largest)
    factors, next_factors = np.ones(largest), np.ones(largest)
    most, starved, last = 0.0, 0.0, -1
    for position in range(len(order)):
        table = order[position]
        start, size = offsets[table], offsets[table + 1] - offsets[table]
        for cell in range(size):
            even[cell] = 0.0
            odd[cell] = 0.0
        mine = index[table]
        # Two sums side by side: rows in the same cell need not wait for each other.
        pairs = n_rows - n_rows % 2
        if last < 0:
            for row in range(0, pairs, 2):
                even[mine[row]] += weights[row]
                odd[mine[row + 1]] += weights[row + 1]
            if pairs < n_rows:
                even[mine[pairs]] += weights[pairs]
        else:
            before = index[last]
            for row in range(0, pairs, 2):
                one = weights[row] * factors[before[row]]
                two = weights[row + 1] * factors[before[row + 1]]
                weights[row] = one
                weights[row + 1] = two
                even[mine[row]] += one
                odd[mine[row + 1]] += two
            if pairs < n_rows:
                weights[pairs] *= factors[before[pairs]]
                even[mine[pairs]] += weights[pairs]
        moved, asked, total = 0.0, 0.0, 0.0
        for cell in range(size):
            expected = even[cell] + odd[cell]
            at = start + cell
            step = solve_cell(max(expected, floor), theta[at], counts[at], pulls[at])
            theta[at] += step
            next_factors[cell] = np.exp(step)
            moved += abs(step) * expected
            total += expected
            if expected < floor:
                asked += max(counts[at] - pulls[at] * theta[at] - floor, 0.0)
        most = max(most, moved / max(total, 1e-300))
        starved = max(starved, asked / max(total, 1e-300))
        factors, next_factors = next_factors, factors
        last = table
    if last >= 0:
        before = index[last]
        for row in range(n_rows):
            weights[row] *= factors[before[row]]
    return most, starved


@njit(cache=True, fastmath=True)  # type: ignore[untyped-decorator]
def _multiply(  # noqa: PLR0917 - kernels take arrays by position
    values: Floats,
    size: int,
    rows: Rows,
    row: int,
    column: int,
    without: int,
    first: Integers,
    tables: Integers,
    near: Integers,
    near_columns: Integers,
    near_strides: Integers,
    factors: Floats,
) -> None:
    """Set values[v] to the product of a column's factors, but for those shared with `without`."""
    for v in range(size):
        values[v] = 1.0
    n_done = 0
    for factor in range(first[column], first[column + 1]):
        base = tables[factor]
        shared = False
        for neighbor in range(near[factor], near[factor + 1]):
            if near_columns[neighbor] == without:
                shared = True
            base += rows[row, near_columns[neighbor]] * near_strides[neighbor]
        if shared:
            continue
        for v in range(size):
            values[v] *= factors[base + v]
        n_done += 1
        if n_done % 16 == 0:
            largest = 0.0
            for v in range(size):
                largest = max(largest, values[v])
            if largest > _RESCALE or 0.0 < largest < 1.0 / _RESCALE:
                for v in range(size):
                    values[v] /= largest


@njit(cache=True, fastmath=True)  # type: ignore[untyped-decorator]
def _draw(values: Floats, size: int, coin: float) -> int:
    """Draw a position with probability proportional to its value; -1 if all are zero."""
    total = 0.0
    for v in range(size):
        total += values[v]
    if not total > 0.0:
        return -1
    left = coin * total
    for v in range(size - 1):
        left -= values[v]
        if left < 0.0:
            return v
    return size - 1


@njit(cache=True, fastmath=True)  # type: ignore[untyped-decorator]
def gibbs(  # noqa: PLR0912, PLR0917 - kernels take arrays by position
    rows: Rows,
    sites: Integers,
    sizes: Integers,
    first: Integers,
    tables: Integers,
    near: Integers,
    near_columns: Integers,
    near_strides: Integers,
    factors: Floats,
    state: State,
) -> None:
    """Draw each row anew from the field, site after site, given the rest of the row.

    The coin of row r at a site is the fraction of a + r b, with a and b drawn once for the site:
    uniform for each row, and evenly spread over rows that follow each other. Rows come sorted, so
    that like rows share out the possible values instead of drawing them independently, which
    leaves less sampling error (array randomized quasi-Monte Carlo, L'Ecuyer, Lecot and Tuffin
    2008).

    A site is a column (second entry -1), or two columns that are drawn jointly. The factors of
    column i are ``first[i]`` to ``first[i + 1]``; factor f is a table that begins at ``tables[f]``
    with the column's own values next to each other, and its other columns and their strides are
    ``near[f]`` to ``near[f + 1]``.
    """
    largest = sizes.max()
    mine, other, joint = np.empty(largest), np.empty(largest), np.empty(largest)
    shared_base, shared_stride = np.empty(len(tables), np.int64), np.empty(len(tables), np.int64)
    coins = np.empty((len(sites), 4))
    for site in range(len(sites)):
        for k in range(4):
            coins[site, k] = uniform(state)
    for row in range(len(rows)):
        for site in range(len(sites)):
            i, j = sites[site, 0], sites[site, 1]
            size = sizes[i]
            _multiply(mine, size, rows, row, i, j, first, tables, near, near_columns,
                      near_strides, factors)  # fmt: skip
            if j < 0:
                coin = coins[site, 0] + row * coins[site, 1]
                drawn = _draw(mine, size, coin - np.floor(coin))
                if drawn >= 0:
                    rows[row, i] = drawn
                continue
            _multiply(other, sizes[j], rows, row, j, i, first, tables, near, near_columns,
                      near_strides, factors)  # fmt: skip
            n_shared = 0
            for factor in range(first[i], first[i + 1]):
                base, stride = tables[factor], -1
                for neighbor in range(near[factor], near[factor + 1]):
                    if near_columns[neighbor] == j:
                        stride = near_strides[neighbor]
                    else:
                        base += rows[row, near_columns[neighbor]] * near_strides[neighbor]
                if stride >= 0:
                    shared_base[n_shared], shared_stride[n_shared] = base, stride
                    n_shared += 1
            for u in range(sizes[j]):
                total = 0.0
                for v in range(size):
                    value = mine[v]
                    for s in range(n_shared):
                        value *= factors[shared_base[s] + u * shared_stride[s] + v]
                    total += value
                joint[u] = other[u] * total
            coin = coins[site, 2] + row * coins[site, 3]
            u = _draw(joint, sizes[j], coin - np.floor(coin))
            if u < 0:
                continue
            for v in range(size):
                for s in range(n_shared):
                    mine[v] *= factors[shared_base[s] + u * shared_stride[s] + v]
            coin = coins[site, 0] + row * coins[site, 1]
            drawn = _draw(mine, size, coin - np.floor(coin))
            if drawn >= 0:
                rows[row, i] = drawn
                rows[row, j] = u


@njit(cache=True)  # type: ignore[untyped-decorator]
def swap_rows(  # noqa: PLR0917 - kernels take arrays by position
    pool: Rows,
    chosen: Integers,
    left: Integers,
    right: Integers,
    strides: Integers,
    offsets: Integers,
    excess: Floats,
    offered: Integers,
    state: State,
) -> int:
    """Replace chosen rows by offered ones wherever that brings all pair counts closer.

    `chosen` and `offered` are places in the pool, `excess` is the count of each cell minus what is
    wanted. Replacing row a by b moves one from a cell to another in each pair that tells them
    apart; the sum of squares changes by 2 (excess[to] - excess[from]) + 2 for each.

    Returns
    -------
    int
        How many rows were replaced.
    """
    n_swapped = 0
    n_times = np.zeros(len(pool), np.int32)
    for a in chosen:
        n_times[a] += 1
    for b in offered:
        if n_times[b]:  # no row of the pool twice
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
