"""Loop that selects one of several draws for each row, so that counts match targets."""

from __future__ import annotations

from typing import NamedTuple

from hushtable.arrays import Codes16, Floats, Integers
from hushtable.extras import needing

with needing("publish"):
    from numba import njit


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

    Parameters
    ----------
    draws : int array (draw, row, column)
        Codes.
    picked : int array
        The selected draw of each row.
    order : int array
        The rows in the order in which they are visited.
    excess : array
        Count minus target of each cell of the tables.
    pairs : PairTables
        The tables.

    Returns
    -------
    int
        Number of rows whose draw changed.
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
