"""Loops that change synthetic rows to match target counts: of waves, of pairs, of sequences."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hushtable.arrays import Codes16, Floats, Integers
from hushtable.extras import needing
from hushtable.kernels.log_linear import RngState, uniform

with needing("publish"):
    from numba import njit


_OTHER_PERSON = 0.1  # probability of trying another person instead of another value


class FollowTables(NamedTuple):
    """Counted tables and the positions of their cells."""

    sizes: Integers  # number of codes of each column
    singles: Integers  # start of each column's cells
    pairs: Integers  # start of the cells of two columns of a row, the first before the second
    steps: Integers  # start of the cells of each column in the previous wave by the same column now
    weights: Floats  # weight of a squared excess, for each cell
    likely: Floats  # target of each transition cell, cumulative over the new value


@njit(cache=True)  # type: ignore[untyped-decorator]
def _add(excess: Floats, cell: int, by: float, weights: Floats) -> float:
    """Add `by` to one cell; return the change in weighted squared excess."""
    change: float = by * (2 * excess[cell] + by) * weights[cell]
    excess[cell] += by
    return change


@njit(cache=True)  # type: ignore[untyped-decorator]
def _change(  # noqa: PLR0917 - kernels take arrays by position
    excess: Floats, row: Codes16, before: Codes16, column: int, by: float, counted: FollowTables
) -> float:
    """Add `by` to all cells of one column of a row; `before` is empty without a previous wave."""
    sizes, weights, code = counted.sizes, counted.weights, row[column]
    change: float = 0.0
    change += _add(excess, counted.singles[column] + code, by, weights)
    for other in range(len(sizes)):
        if other == column:
            continue
        if column < other:
            cell = counted.pairs[column, other] + code * sizes[other] + row[other]
        else:
            cell = counted.pairs[other, column] + row[other] * sizes[column] + code
        change += _add(excess, cell, by, weights)
    if len(before):
        cell = counted.steps[column] + before[column] * sizes[column] + code
        change += _add(excess, cell, by, weights)
    return change


@njit(cache=True)  # type: ignore[untyped-decorator]
def _whole(
    excess: Floats, row: Codes16, before: Codes16, by: float, counted: FollowTables
) -> float:
    """Add `by` once to each cell of the row of a followed person."""
    sizes, weights = counted.sizes, counted.weights
    change = 0.0
    for a in range(len(sizes)):
        change += _add(excess, counted.singles[a] + row[a], by, weights)
        change += _add(excess, counted.steps[a] + before[a] * sizes[a] + row[a], by, weights)
        for b in range(a + 1, len(sizes)):
            change += _add(excess, counted.pairs[a, b] + row[a] * sizes[b] + row[b], by, weights)
    return change


@njit(cache=True)  # type: ignore[untyped-decorator]
def _likely(counted: FollowTables, column: int, code: int, coin: float) -> int:
    """Draw the next value of a person who had `code`; -1 if no transition is known."""
    size = counted.sizes[column]
    start = counted.steps[column] + code * size
    at = coin * counted.likely[start + size - 1]
    for place in range(size):
        if counted.likely[start + place] > at:
            return place
    return -1


@njit(cache=True)  # type: ignore[untyped-decorator]
def follow(  # noqa: PLR0917 - kernels take arrays by position
    now: Codes16,
    who: Integers,
    before: Codes16,
    gone: Integers,
    excess: Floats,
    counted: FollowTables,
    n_tries: int,
    state: RngState,
) -> int:
    """Try random changes of values and of followed people; keep those that improve the counts.

    A change is kept if it lowers the weighted sum of squared excesses.

    Parameters
    ----------
    now : int array (row, column)
        Codes of the current rows; modified in place.
    who : int array
        For each row the person of the previous wave, or -1; modified in place.
    before : int array (person, column)
        Codes of the previous wave.
    gone : int array
        People of the previous wave who are in no row; modified in place.
    excess : array
        Count minus target of each cell of the counted tables; modified in place.
    counted : FollowTables
        The tables.
    n_tries : int
        Number of changes to try.
    state : array
        State of the random numbers.

    Returns
    -------
    int
        Number of changes made.
    """
    n, n_columns, made = len(now), len(counted.sizes), 0
    nobody = np.empty(0, np.int16)
    kept = np.empty(n_columns, np.int16)
    for _ in range(n_tries):
        row = int(uniform(state) * n)
        person = who[row]
        if person >= 0 and len(gone) and uniform(state) < _OTHER_PERSON:
            place = int(uniform(state) * len(gone))
            other = gone[place]
            kept[:] = now[row]
            change = _whole(excess, now[row], before[person], -1.0, counted)
            for column in range(n_columns):
                if now[row, column] == before[person, column]:
                    now[row, column] = before[other, column]
            change += _whole(excess, now[row], before[other], 1.0, counted)
            if change < 0.0:
                who[row], gone[place] = other, person
                made += 1
                continue
            _whole(excess, now[row], before[other], -1.0, counted)
            now[row] = kept
            _whole(excess, now[row], before[person], 1.0, counted)
            continue
        column = int(uniform(state) * n_columns)
        old = now[row, column]
        if person >= 0 and uniform(state) < 0.5:
            new = _likely(counted, column, before[person, column], uniform(state))
        else:
            new = now[int(uniform(state) * n), column]
        if new < 0 or new == old:
            continue
        was = before[person] if person >= 0 else nobody
        change = _change(excess, now[row], was, column, -1.0, counted)
        now[row, column] = new
        change += _change(excess, now[row], was, column, 1.0, counted)
        if change < 0.0:
            made += 1
            continue
        _change(excess, now[row], was, column, -1.0, counted)
        now[row, column] = old
        _change(excess, now[row], was, column, 1.0, counted)
    return made


# Loop that selects one of several draws for each row, so that counts match targets.


class PairTables(NamedTuple):
    """Counted tables of two columns and the positions of their cells."""

    first: Integers  # columns of each table
    second: Integers
    widths: Integers  # number of codes of the second column
    starts: Integers  # start of each table's cells
    weights: Floats  # weight of a squared excess, for each cell


@njit(cache=True)  # type: ignore[untyped-decorator]
def pick(
    draws: Codes16, picked: Integers, order: Integers, excess: Floats, pairs: PairTables
) -> int:
    """Select another draw of a row wherever this brings counts closer to target; in place.

    `draws` has the shape (draw, row, column), `picked` is the selected draw of each row, and
    `excess` is the count minus target of each cell. Rows are visited in the given order. Returns
    the number of rows whose draw changed.
    """
    made = 0
    for row in order:
        now = picked[row]
        best, least = now, -1e-9
        for other in range(len(draws)):
            if other == now:
                continue
            change = 0.0
            for table in range(len(pairs.first)):
                a, b = pairs.first[table], pairs.second[table]
                start, width = pairs.starts[table], pairs.widths[table]
                old = start + draws[now, row, a] * width + draws[now, row, b]
                new = start + draws[other, row, a] * width + draws[other, row, b]
                if old != new:
                    change += (1 - 2 * excess[old]) * pairs.weights[old]
                    change += (1 + 2 * excess[new]) * pairs.weights[new]
            if change < least:
                best, least = other, change
        if best == now:
            continue
        for table in range(len(pairs.first)):
            a, b = pairs.first[table], pairs.second[table]
            start, width = pairs.starts[table], pairs.widths[table]
            excess[start + draws[now, row, a] * width + draws[now, row, b]] -= 1
            excess[start + draws[best, row, a] * width + draws[best, row, b]] += 1
        picked[row] = best
        made += 1
    return made


# Loop that exchanges values of sampled rows until their sequence matches target counts.

BESIDE, BEFORE = 0, 1


class Siblings(NamedTuple):
    """Groups of rows by parent; rows of one parent are consecutive."""

    turns: Integers  # position of each row among those of its parent
    sizes: Integers  # number of rows of its parent
    # (row, 2): facts about the ordering column of a row, and about its other columns. Between
    # parents, values are exchanged only if the same facts hold, so that facts of parents stay true.
    marks: Integers


class SequenceTables(NamedTuple):
    """Counted tables and the positions of their cells."""

    kinds: (
        Integers  # whether the second column is of the same row (`BESIDE`) or previous (`BEFORE`)
    )
    first: Integers  # columns of each table
    second: Integers
    widths: Integers  # number of codes of the second column
    starts: Integers  # start of each table's cells
    weights: Floats  # weight of a squared excess, for each cell


@njit(cache=True)  # type: ignore[untyped-decorator]
def _move(  # noqa: PLR0917 - kernels take arrays by position
    excess: Floats, rows: Codes16, turns: Integers, row: int, by: float, counted: SequenceTables
) -> float:
    """Add a row to its cells, or remove it; return the change in weighted squared excess."""
    change = 0.0
    after = row + 1 if row + 1 < len(turns) and turns[row + 1] > 0 else -1
    for table in range(len(counted.kinds)):
        a, b = counted.first[table], counted.second[table]
        width, start = counted.widths[table], counted.starts[table]
        if counted.kinds[table] == BESIDE:
            cell = start + rows[row, a] * width + rows[row, b]
            change += _add(excess, cell, by, counted.weights)
            continue
        if turns[row] > 0:
            cell = start + rows[row, a] * width + rows[row - 1, b]
            change += _add(excess, cell, by, counted.weights)
        if after >= 0:
            cell = start + rows[after, a] * width + rows[row, b]
            change += _add(excess, cell, by, counted.weights)
    return change


@njit(cache=True)  # type: ignore[untyped-decorator]
def _exchange(rows: Codes16, one: int, two: int, first: int, last: int) -> None:
    for column in range(first, last):
        rows[one, column], rows[two, column] = rows[two, column], rows[one, column]


@njit(cache=True)  # type: ignore[untyped-decorator]
def arrange(  # noqa: PLR0917 - kernels take arrays by position
    rows: Codes16,
    kin: Siblings,
    places: Integers,
    n_own: int,
    excess: Floats,
    counted: SequenceTables,
    n_tries: int,
    state: RngState,
) -> int:
    """Try random exchanges of values between two rows; keep those that improve the counts.

    An exchange is kept if it lowers the weighted sum of squared excesses.

    Parameters
    ----------
    rows : int array (row, column)
        Codes. The first column orders the rows of one parent; then come the `n_own` - 1 other
        columns of the row itself, then columns that are never exchanged.
    kin : Siblings
        Groups of rows by parent.
    places : int array (row, 2)
        The rows that the ordering column and the other columns of each row came from.
    n_own : int
        Number of columns of the row itself.
    excess : array
        Count minus target of each cell of the counted tables.
    counted : SequenceTables
        The tables.
    n_tries : int
        Number of exchanges to try.
    state : array
        State of the random numbers.

    Returns
    -------
    int
        Number of exchanges made.
    """
    n, made, turns = len(rows), 0, kin.turns
    for _ in range(n_tries):
        one, two = int(uniform(state) * n), int(uniform(state) * n)
        turned = uniform(state) < 0.25  # exchange the ordering column, or all others
        first, last, part = (0, 1, 0) if turned else (1, n_own, 1)
        if not turned and uniform(state) < 0.5:  # among siblings
            two = one - turns[one] + int(uniform(state) * kin.sizes[one])
        elif kin.marks[places[one, part], part] != kin.marks[places[two, part], part]:
            continue
        if abs(one - two) < 2:
            continue  # adjacent rows may share a cell of a `BEFORE` table
        if turned and not (
            _fits(rows, turns, one, rows[two, 0]) and _fits(rows, turns, two, rows[one, 0])
        ):
            continue
        change = _move(excess, rows, turns, one, -1.0, counted)
        change += _move(excess, rows, turns, two, -1.0, counted)
        _exchange(rows, one, two, first, last)
        change += _move(excess, rows, turns, one, 1.0, counted)
        change += _move(excess, rows, turns, two, 1.0, counted)
        if change < 0.0:
            made += 1
            places[one, part], places[two, part] = places[two, part], places[one, part]
            continue
        _move(excess, rows, turns, one, -1.0, counted)
        _move(excess, rows, turns, two, -1.0, counted)
        _exchange(rows, one, two, first, last)
        _move(excess, rows, turns, one, 1.0, counted)
        _move(excess, rows, turns, two, 1.0, counted)
    return made


@njit(cache=True)  # type: ignore[untyped-decorator]
def _fits(rows: Codes16, turns: Integers, row: int, code: int) -> bool:
    """Return whether the rows of a parent stay ordered if one gets another code."""
    if turns[row] > 0 and rows[row - 1, 0] > code:
        return False
    last = row + 1 >= len(turns) or turns[row + 1] == 0
    return bool(last or code <= rows[row + 1, 0])
