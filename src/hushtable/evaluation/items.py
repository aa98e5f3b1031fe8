"""Releases of item groups from a long table, such as ratings: people as rows, items as columns.

The matrix of people and items is sparse and is never built. The groups with the most popular items
are compared, each among the people who have at least one of its items.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hushtable.arrays import Integers
from hushtable.engine import connect
from hushtable.engine.baskets import ItemColumns, Tuples
from hushtable.engine.sources.header import Data
from hushtable.evaluation.rows import CodedRows
from hushtable.query.answers.published import DRAWN, ComparableRelease
from hushtable.schema import Schema

MAX_ITEMS = 24
MAX_PER_BLOCK = 6


def open_items(
    published: ComparableRelease, schema: Schema, data: Data
) -> tuple[ComparableRelease, list[CodedRows]]:
    """Choose the item groups to compare, and read the original people for each of them."""
    items = published.items
    assert items is not None  # noqa: S101 - the caller checks it
    item_columns = ItemColumns(items.item, items.value)
    engine = connect(data, schema, engine="memory")
    names = list(published.schema.attributes)
    place = {name: code for code, name in enumerate(names)}
    popularity = engine.histograms([item_columns.item])[item_columns.item]
    chosen = _chosen(items.groups, popularity, place)
    groups = [[place[name] for name in some] for some in chosen.values()]
    tuples = engine.tuples(groups, max_groups=len(groups), item_columns=item_columns)
    blocks = [items.block(number, some) for number, some in chosen.items()]
    originals = [
        _people(block.schema, tuples.take(tuples.groups == number), place)
        for number, block in enumerate(blocks)
    ]
    unique = list(dict.fromkeys(name for block in blocks for name in block.names))
    n_left_out = len(names) - len(unique)
    notes = (
        f"Each item is a column with one row per person. The comparison covers {len(unique)} items "
        "from the groups with the most popular items, among people who have at least one item of "
        f"the group. The other {n_left_out:,} items are left out.",
        "Groups of items are published, not whole records, so models and attacks on records do not "
        "apply.",
        *((DRAWN,) if any(block.recode for block in blocks) else ()),
    )
    chosen_schema = published.schema.of_rows(unique)
    return replace(published, schema=chosen_schema, blocks=tuple(blocks), notes=notes), originals


def _chosen(
    columns: Sequence[Sequence[str]], popularity: Integers, place: dict[str, int]
) -> dict[int, list[str]]:
    """Choose the groups with the most popular items, and the most popular items of each."""
    ranked = {
        column: sorted(names, key=lambda name: -int(popularity[place[name]]))[:MAX_PER_BLOCK]
        for column, names in enumerate(columns)
        if names
    }
    chosen: dict[int, list[str]] = {}
    for column in sorted(ranked, key=lambda column: -int(popularity[place[ranked[column][0]]])):
        left = MAX_ITEMS - sum(map(len, chosen.values()))
        if left > 0:
            chosen[column] = ranked[column][:left]
    return dict(sorted(chosen.items()))


def _people(schema: Schema, tuples: Tuples, place: dict[str, int]) -> CodedRows:
    """Return one row per person by repeating each tuple according to its count."""
    of_tuple = np.repeat(np.arange(len(tuples.counts)), tuples.lengths)
    codes = {}
    for name, column in schema.attributes.items():
        mine = np.full(len(tuples.counts), column.missing_code, np.int64)
        here = tuples.items == place[name]
        mine[of_tuple[here]] = tuples.values[here]
        codes[name] = np.repeat(mine, tuples.counts)
    return CodedRows.of(schema, codes).in_order()
