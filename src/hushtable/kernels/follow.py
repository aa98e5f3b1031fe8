"""Compiled loop that lets people of one wave become rows of the next, until counts are right."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hushtable.kernels.field import State, uniform

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Codes = NDArray[np.int16]

_OTHER_PERSON = 0.1  # how often another person is tried in place of another value


class Counted(NamedTuple):
    """Say which tables are counted, and where their cells are.

    Parameters
    ----------
    sizes : int array
        How many codes each column has.
    singles : int array
        Where the cells of each column begin.
    pairs : int array (column, column)
        Where the cells of two columns of a row begin, for the first before the second.
    steps : int array
        Where the cells of each column of the wave before and the same column now begin.
    weights : array
        For each cell what a squared excess counts for.
    likely : array
        For each cell what is wanted, added up along its line: where people of a value go.
    """

    sizes: Integers
    singles: Integers
    pairs: Integers
    steps: Integers
    weights: Floats
    likely: Floats


@njit(cache=True)  # type: ignore[untyped-decorator]
def _add(excess: Floats, cell: int, by: float, weights: Floats) -> float:
    """Add to one cell; give the change in squared excess."""
    change: float = by * (2 * excess[cell] + by) * weights[cell]
    excess[cell] += by
    return change


@njit(cache=True)  # type: ignore[untyped-decorator]
def _change(  # noqa: PLR0917 - kernels take arrays by position
    excess: Floats, row: Codes, before: Codes, column: int, by: float, counted: Counted
) -> float:
    """Add a row to all cells that one of its columns is in; a `before` of length 0 is nobody."""
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
def _whole(excess: Floats, row: Codes, before: Codes, by: float, counted: Counted) -> float:
    """Add a row of somebody who was there before to all cells that it is in, each once."""
    sizes, weights = counted.sizes, counted.weights
    change = 0.0
    for a in range(len(sizes)):
        change += _add(excess, counted.singles[a] + row[a], by, weights)
        change += _add(excess, counted.steps[a] + before[a] * sizes[a] + row[a], by, weights)
        for b in range(a + 1, len(sizes)):
            change += _add(excess, counted.pairs[a, b] + row[a] * sizes[b] + row[b], by, weights)
    return change


@njit(cache=True)  # type: ignore[untyped-decorator]
def _likely(counted: Counted, column: int, code: int, coin: float) -> int:
    """Draw where somebody with a code goes; -1 where nothing is known."""
    size = counted.sizes[column]
    start = counted.steps[column] + code * size
    at = coin * counted.likely[start + size - 1]
    for place in range(size):
        if counted.likely[start + place] > at:
            return place
    return -1


@njit(cache=True)  # type: ignore[untyped-decorator]
def follow(  # noqa: PLR0917 - kernels take arrays by position
    now: Codes,
    who: Integers,
    before: Codes,
    gone: Integers,
    excess: Floats,
    counted: Counted,
    n_tries: int,
    state: State,
) -> int:
    """Change values, and who stays, wherever that brings all counts closer to what is wanted.

    Parameters
    ----------
    now : int array (row, column)
        Codes of the rows now; changed in place.
    who : int array
        For each row who of the wave before it is, or -1; changed in place.
    before : int array (person, column)
        Codes of the wave before.
    gone : int array
        Those of the wave before who are in no row; changed in place.
    excess : array
        For each cell of the counted tables its count minus what is wanted.
    counted : Counted
        The tables.
    n_tries : int
        How many changes to try.
    state : array
        The coins.

    Returns
    -------
    int
        How many were made.
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
