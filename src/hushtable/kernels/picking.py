"""Compiled loop that picks one of several draws for each row, so that counts are as wanted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Codes = NDArray[np.int16]


class Pairs(NamedTuple):
    """Say which tables of two columns are counted, and where their cells are.

    Parameters
    ----------
    first, second : int array
        The columns of each table.
    widths : int array
        How many codes the second one has.
    starts : int array
        Where its cells begin.
    weights : array
        For each cell what a squared excess counts for.
    """

    first: Integers
    second: Integers
    widths: Integers
    starts: Integers
    weights: Floats


@njit(cache=True)  # type: ignore[untyped-decorator]
def pick(draws: Codes, picked: Integers, order: Integers, excess: Floats, pairs: Pairs) -> int:
    """Take another draw of a row wherever that brings counts closer to what is wanted; in place.

    Parameters
    ----------
    draws : int array (draw, row, column)
        Codes.
    picked : int array
        For each row which draw is taken.
    order : int array
        The rows in the order in which they are looked at.
    excess : array
        For each cell of the tables its count minus what is wanted.
    pairs : Pairs
        The tables.

    Returns
    -------
    int
        How many rows took another draw.
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
