"""Many small tables from few scans: groups of columns are counted together in blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MAX_BLOCK_CELLS = 1 << 18
"""Cells of a block, occupied or not; its answer has a row for each that is occupied."""


@dataclass(frozen=True)
class JointCount:
    """Name columns that are counted together, and the groups whose tables follow from that."""

    columns: tuple[str, ...]
    groups: tuple[int, ...]


def cover(groups: Sequence[Sequence[str]], sizes: Mapping[str, int]) -> list[JointCount]:
    """Put groups of columns into few blocks, each of at most `MAX_BLOCK_CELLS` cells.

    A group that is larger than that has a block of its own. Blocks grow greedily: from the first
    group that is left, by the column that completes most other groups.

    Examples
    --------
    >>> pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    >>> cover(pairs, {"a": 4, "b": 4, "c": 4})
    [JointCount(columns=('a', 'b', 'c'), groups=(0, 1, 2))]
    >>> len(cover(pairs, {"a": 1000, "b": 1000, "c": 1000}))
    3
    """
    left = dict(enumerate(frozenset(group) for group in groups))
    blocks = []
    while left:
        first = next(iter(left))
        columns = dict.fromkeys(groups[first])
        n_cells = math.prod(sizes[name] for name in columns)
        while True:
            # What is one column short of being in the block pulls that column in.
            pull: dict[str, float] = {}
            for group in left.values():
                lacking = group.difference(columns)
                if lacking and len(lacking) < len(group):
                    for name in lacking:
                        pull[name] = pull.get(name, 0.0) + 1 / len(lacking) ** 2
            fitting = [name for name in pull if n_cells * sizes[name] <= MAX_BLOCK_CELLS]
            if not fitting:
                break
            # Small columns first among equals: more of them fit.
            best = max(fitting, key=lambda name: pull[name] / math.log(sizes[name] + 1))
            columns[best] = None
            n_cells *= sizes[best]
        inside = tuple(number for number, group in left.items() if group <= columns.keys())
        blocks.append(JointCount(tuple(columns), inside))
        for number in inside:
            del left[number]
    return blocks


def add_up(
    block: Sequence[str],
    codes: NDArray[np.int64],
    counts: NDArray[np.int64],
    group: Sequence[str],
    shape: Sequence[int],
) -> NDArray[np.int64]:
    """Sum the occupied cells of a block to the table of a group inside it.

    Examples
    --------
    >>> cells, counts = np.array([[0, 0], [0, 1], [1, 1]]), np.array([5, 2, 3])
    >>> add_up(("a", "b"), cells, counts, ("b",), (2,))
    array([5, 5])
    """
    key = np.zeros(len(codes), np.int64)
    for name, size in zip(group, shape, strict=True):
        key = key * size + codes[:, block.index(name)]
    table = np.zeros(math.prod(shape), np.int64)
    np.add.at(table, key, counts)
    return table.reshape(shape)
