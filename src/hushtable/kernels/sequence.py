"""Loop that exchanges values of sampled rows until their sequence matches target counts."""

from __future__ import annotations

from typing import NamedTuple

from hushtable.arrays import Codes16, Floats, Integers
from hushtable.extras import needing
from hushtable.kernels.log_linear import RngState, uniform

with needing("publish"):
    from numba import njit


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
            change += by * (2 * excess[cell] + by) * counted.weights[cell]
            excess[cell] += by
            continue
        if turns[row] > 0:
            cell = start + rows[row, a] * width + rows[row - 1, b]
            change += by * (2 * excess[cell] + by) * counted.weights[cell]
            excess[cell] += by
        if after >= 0:
            cell = start + rows[after, a] * width + rows[row, b]
            change += by * (2 * excess[cell] + by) * counted.weights[cell]
            excess[cell] += by
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
    """Exchange values of two rows wherever this brings all counts closer to target.

    Parameters
    ----------
    rows : int array (row, column)
        Codes. The first column orders the rows of one parent; then come the `n_own` - 1 other
        columns of the row itself, then columns that are never exchanged.
    kin : Siblings
        Groups of rows by parent.
    places : int array (row, 2)
        The rows from which the ordering column and the other columns of each row came.
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
            continue  # both may be in the same cell of a row and its previous row
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
