"""Releases of groups of items of a long table, such as ratings: people are rows, items columns.

The matrix of people and items is nearly empty and is never made. The groups with the most popular
items are compared, each among the people who have any of its items.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.codes import to_codes
from hushtable.engine import connect
from hushtable.engine.baskets import Tuples
from hushtable.engine.header import Data
from hushtable.evaluation.published import DRAWN, Block, Published
from hushtable.evaluation.rows import Rows, some_columns
from hushtable.methods.counts.column_table import COLUMN, COUNT, TUPLE
from hushtable.methods.counts.columns_estimator import ColumnsEstimator
from hushtable.recoding import Recoding
from hushtable.schema import Schema

Integers = NDArray[np.int64]

MAX_ITEMS = 24
MAX_PER_BLOCK = 6


def open_items(estimator: ColumnsEstimator, data: Data) -> tuple[Published, list[Rows]]:
    """Read a release of items, and the original's people for each of its groups.

    Parameters
    ----------
    estimator : ColumnsEstimator
        Reads the release.
    data : path or frame
        The private long table.
    """
    listing = estimator.plan.listing
    assert listing is not None  # noqa: S101 - the caller checks it
    engine = connect(data, estimator.private_schema, engine="memory")
    names = list(estimator.schema.attributes)
    place = {name: code for code, name in enumerate(names)}
    popularity = engine.histograms([listing.item])[listing.item]
    chosen = _chosen(estimator.columns, popularity, place)
    groups = [[place[name] for name in items] for items in chosen.values()]
    tuples = engine.tuples(groups, max_groups=len(groups), listing=listing)
    recoding = estimator.recode.get(listing.value)
    blocks, originals = [], []
    for number, (column, items) in enumerate(chosen.items()):
        schema = some_columns(estimator.schema, items)
        originals.append(_people(schema, tuples.take(tuples.groups == number), place))
        recode = {} if recoding is None else dict.fromkeys(items, recoding)
        blocks.append(Block(schema, _released(estimator, column, schema, recoding), recode))
    everything = [name for items in chosen.values() for name in items]
    unique = list(dict.fromkeys(everything))
    n_left_out = len(names) - len(unique)
    return Published(
        schema=some_columns(estimator.schema, unique),
        blocks=tuple(blocks),
        about="people",
        count=estimator.count,
        notes=(
            f"Each item is a column with one row per person. Compared are {len(unique)} items, "
            "from the groups with the most popular ones, among people who have any of a group's; "
            f"the other {n_left_out:,} items are not.",
            "Groups of items are published, not whole records: nothing is predicted, and attacks "
            "on records do not apply.",
            *((DRAWN,) if recoding is not None else ()),
        ),
    ), originals


def _chosen(
    columns: Sequence[Sequence[str]], popularity: Integers, place: dict[str, int]
) -> dict[int, list[str]]:
    """Choose the groups with the most popular items, and their most popular ones."""
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


def _people(schema: Schema, tuples: Tuples, place: dict[str, int]) -> Rows:
    """Repeat each tuple as often as people have it."""
    of_tuple = np.repeat(np.arange(len(tuples.counts)), tuples.lengths)
    codes = {}
    for name, column in schema.attributes.items():
        mine = np.full(len(tuples.counts), column.missing_code, np.int64)
        here = tuples.items == place[name]
        mine[of_tuple[here]] = tuples.values[here]
        codes[name] = np.repeat(mine, tuples.counts)
    return Rows.of(schema, codes).in_order()


def _released(
    estimator: ColumnsEstimator, column: int, schema: Schema, recoding: Recoding | None
) -> dict[str, Integers]:
    """Repeat each published tuple of a group by its count, for the items that are compared."""
    listing = estimator.plan.listing
    assert listing is not None  # noqa: S101 - the caller checks it
    mine = np.flatnonzero(estimator.table.column(COLUMN).to_numpy() == column)
    table = estimator.table.take(pa.array(mine))
    starts = np.flatnonzero(np.diff(table.column(TUPLE).to_numpy(), prepend=-1))
    of_tuple = np.cumsum(np.diff(table.column(TUPLE).to_numpy(), prepend=-1) != 0) - 1
    counts = table.column(COUNT).to_numpy()[starts]
    first = next(iter(schema.attributes.values()))
    values = to_codes(first, table.column(listing.value), recoding)
    items = table.column(listing.item).cast(pa.string()).combine_chunks()
    missing = (recoding or first).missing_code
    codes, any_value = {}, np.zeros(len(starts), np.bool_)
    for name in schema.attributes:
        here = np.asarray(pa.compute.equal(items, name).to_numpy(zero_copy_only=False), np.bool_)
        codes[name] = np.full(len(starts), missing, np.int64)
        codes[name][of_tuple[here]] = values[here]
        any_value[of_tuple[here]] = True
    repeats = np.where(any_value, counts, 0)
    return {name: np.repeat(of_name, repeats) for name, of_name in codes.items()}
