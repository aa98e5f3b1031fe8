"""Loop that assigns people of one wave to rows of the next until counts match."""

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
    """Add to one cell; return the change in weighted squared excess."""
    change: float = by * (2 * excess[cell] + by) * weights[cell]
    excess[cell] += by
    return change


@njit(cache=True)  # type: ignore[untyped-decorator]
def _change(  # noqa: PLR0917 - kernels take arrays by position
    excess: Floats, row: Codes16, before: Codes16, column: int, by: float, counted: FollowTables
) -> float:
    """Add a row to all cells of one of its columns; an empty `before` is a row without a past."""
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
    """Add the row of a followed person to all of its cells, each once."""
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
    """Draw the next value of a person with a code; -1 if no transition is known."""
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
    """Change values, and who is followed, wherever this brings all counts closer to target.

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
