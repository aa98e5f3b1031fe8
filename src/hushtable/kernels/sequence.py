"""Compiled loop that exchanges drawn rows until they follow each other as they should."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hushtable.kernels.field import State, uniform

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Codes = NDArray[np.int16]

BESIDE, BEFORE = 0, 1


class Kin(NamedTuple):
    """Say whose rows are whose; rows of one parent follow each other.

    Parameters
    ----------
    turns, sizes : int array
        For each row its place among those of its parent, and how many these are.
    marks : int array (row, 2)
        Facts that hold of what orders a row, and of its other columns: between parents, values go
        only where the same facts hold, so that facts of parents stay true.
    """

    turns: Integers
    sizes: Integers
    marks: Integers


class Counted(NamedTuple):
    """Say which tables are counted, and where their cells are.

    Parameters
    ----------
    kinds : int array
        For each table whether its second column is of the same row (`BESIDE`) or of the row before
        it (`BEFORE`).
    first, second : int array
        Its columns.
    widths : int array
        How many codes the second one has.
    starts : int array
        Where its cells begin.
    weights : array
        For each cell what a squared excess counts for.
    """

    kinds: Integers
    first: Integers
    second: Integers
    widths: Integers
    starts: Integers
    weights: Floats


@njit(cache=True)  # type: ignore[untyped-decorator]
def _move(  # noqa: PLR0917 - kernels take arrays by position
    excess: Floats, rows: Codes, turns: Integers, row: int, by: float, counted: Counted
) -> float:
    """Add a row to all cells that it is in, or take it out; give the change in squared excess."""
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
def _exchange(rows: Codes, one: int, two: int, first: int, last: int) -> None:
    for column in range(first, last):
        rows[one, column], rows[two, column] = rows[two, column], rows[one, column]


@njit(cache=True)  # type: ignore[untyped-decorator]
def arrange(  # noqa: PLR0917 - kernels take arrays by position
    rows: Codes,
    kin: Kin,
    places: Integers,
    n_own: int,
    excess: Floats,
    counted: Counted,
    n_tries: int,
    state: State,
) -> int:
    """Exchange values of two rows wherever that brings all counts closer to what is wanted.

    Parameters
    ----------
    rows : int array (row, column)
        Codes. The first column is what orders rows of one parent, then come the `n_own` - 1 other
        columns of the row itself, then columns that stay where they are.
    kin : Kin
        Whose rows are whose.
    places : int array (row, 2)
        From which rows what orders a row, and its other columns, have come.
    n_own : int
        How many columns are of the row itself.
    excess : array
        For each cell of the counted tables its count minus what is wanted.
    counted : Counted
        The tables.
    n_tries : int
        How many exchanges to try.
    state : array
        The coins.

    Returns
    -------
    int
        How many were made.
    """
    n, made, turns = len(rows), 0, kin.turns
    for _ in range(n_tries):
        one, two = int(uniform(state) * n), int(uniform(state) * n)
        turned = uniform(state) < 0.25  # what orders them, or all else
        first, last, part = (0, 1, 0) if turned else (1, n_own, 1)
        if not turned and uniform(state) < 0.5:  # among siblings
            two = one - turns[one] + int(uniform(state) * kin.sizes[one])
        elif kin.marks[places[one, part], part] != kin.marks[places[two, part], part]:
            continue
        if abs(one - two) < 2:
            continue  # both may be in one cell of a row and the one before it
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
def _fits(rows: Codes, turns: Integers, row: int, code: int) -> bool:
    """Say whether rows of a parent stay in order if one gets another code."""
    if turns[row] > 0 and rows[row - 1, 0] > code:
        return False
    last = row + 1 >= len(turns) or turns[row + 1] == 0
    return bool(last or code <= rows[row + 1, 0])
