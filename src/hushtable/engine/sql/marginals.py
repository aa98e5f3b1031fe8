"""Many small tables from few scans: groups of columns are counted together in blocks.

Rows are encoded once. Groups are covered by few blocks of columns (`cover`), whose occupied cells
are counted, several blocks in one query, and added up here (`add_up`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import lazy_loader
import numpy as np
from numpy.typing import NDArray

from hushtable.engine.cells import Counts
from hushtable.engine.encode import Expression, recoded
from hushtable.engine.sources.source import TableSource
from hushtable.engine.sql.results import (
    RuleBreakCounts,
    integers,
    packed,
    packed_domain,
    union,
    unpacked,
)
from hushtable.schema import Schema
from hushtable.schema.recoding import Recoding, recoded_domain

ibis = lazy_loader.load("ibis")

MAX_BLOCK_CELLS = 1 << 18
"""Cells of a block, occupied or not; its answer has a row for each that is occupied."""

BLOCKS_PER_QUERY = 16  # a query of more is slow to plan


@dataclass(frozen=True)
class JointCount:
    """Columns that are counted together, and the groups whose tables are sums of the counts."""

    columns: tuple[str, ...]
    groups: tuple[int, ...]


def cover(groups: Sequence[Sequence[str]], sizes: Mapping[str, int]) -> list[JointCount]:
    """Partition groups of columns into few blocks of at most `MAX_BLOCK_CELLS` cells.

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
            # Weight a column by how nearly it completes groups.
            pull: dict[str, float] = {}
            for group in left.values():
                lacking = group.difference(columns)
                if lacking and len(lacking) < len(group):
                    for name in lacking:
                        pull[name] = pull.get(name, 0.0) + 1 / len(lacking) ** 2
            fitting = [name for name in pull if n_cells * sizes[name] <= MAX_BLOCK_CELLS]
            if not fitting:
                break
            # Prefer small columns, since more of them fit.
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


def count_groups(
    rows: TableSource,
    schema: Schema,
    groups: Sequence[Sequence[str]],
    shapes: Sequence[tuple[int, ...]],
    recode: Mapping[str, Recoding],
) -> list[Counts]:
    """Count all cells of many groups of columns, several groups in each scan."""
    columns = list(dict.fromkeys(name for group in groups for name in group))
    sizes = recoded_domain(schema, columns, recode).sizes
    places = {f"c{position}": name for position, name in enumerate(columns)}
    place_of = {name: place for place, name in places.items()}
    counted = recoded(rows.select(places), places, recode)
    answers: list[Counts] = [np.empty(0, np.int64)] * len(groups)
    blocks, broken = cover(groups, sizes), RuleBreakCounts(schema)
    for start in range(0, len(blocks), BLOCKS_PER_QUERY):
        batch = blocks[start : start + BLOCKS_PER_QUERY]
        found = _count_blocks(rows, counted, batch, place_of, sizes)
        for block, (codes, counts) in zip(batch, found, strict=True):
            fine = broken.set_aside(block.columns, codes, counts)
            for group in block.groups:
                answers[group] = add_up(
                    block.columns, codes[fine], counts[fine], groups[group], shapes[group]
                )
    broken.refuse()
    return answers


def _count_blocks(
    source: TableSource,
    rows: Expression,
    blocks: Sequence[JointCount],
    place_of: Mapping[str, str],
    sizes: Mapping[str, int],
) -> list[tuple[NDArray[np.int64], Counts]]:
    """Count the occupied cells of some blocks in one query."""
    parts = []
    wide = [packed_domain({name: sizes[name] for name in block.columns}) for block in blocks]
    for number, (block, domain) in enumerate(zip(blocks, wide, strict=True)):
        key = packed(rows, [place_of[name] for name in block.columns], domain.shape)
        tally = rows.select(key=key).group_by("key").agg(n=ibis._.count())
        parts.append(tally.select("key", "n", number=ibis.literal(number, "int32")))
    answer = source.fetch(union(parts))
    numbers, keys = integers(answer["number"]), integers(answer["key"])
    counts = integers(answer["n"])
    of_block = [numbers == number for number in range(len(blocks))]
    return [
        (unpacked(domain, keys[mine, None]), counts[mine])
        for domain, mine in zip(wide, of_block, strict=True)
    ]


# The codes of each of many columns, counted in one query.


def count_each(
    rows: TableSource, columns: Sequence[str], *, by: str | None = None, only_broken: bool = False
) -> Iterator[tuple[str, NDArray[np.int64], Counts]]:
    """Count the codes of each column, or its pairs of codes with `by`; with `only_broken`, few."""
    asked = {} if by is None else {"by": by}
    parts = []
    for number, name in enumerate(columns):
        part = rows.select({"code": name, **asked})
        if only_broken:
            part = part.filter(part.code < 0)
        counted = part.group_by(["code", *asked]).agg(n=ibis._.count())
        keys = {key: counted[key].cast("int64") for key in ("code", *asked)}
        parts.append(counted.select(**keys, n=counted.n, number=ibis.literal(number, "int32")))
    answer = rows.fetch(union(parts))
    numbers, counts = integers(answer["number"]), integers(answer["n"])
    found = np.stack([integers(answer[key]) for key in ("code", *asked)], axis=1)
    for number, name in enumerate(columns):
        mine = numbers == number
        yield name, found[mine], counts[mine]


def broken_rules(rows: TableSource, schema: Schema, columns: Sequence[str]) -> RuleBreakCounts:
    """Gather the rows that break a rule of some columns."""
    broken = RuleBreakCounts(schema)
    for name, codes, counts in count_each(rows, columns, only_broken=True):
        broken.set_aside([name], codes, counts)
    return broken
