"""Tuples and pairs of items counted where the rows are; see `hushtable.engine.baskets`.

Every function takes the elements of the records: a table of `owner`, `item` and `value`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import lazy_loader
import numpy as np
import pyarrow as pa

from hushtable.arrays import Integers
from hushtable.engine.baskets import (
    ItemGroups,
    ItemPairs,
    ItemQuery,
    Runs,
    TupleLimits,
    Tuples,
    missing_codes,
    tally,
)
from hushtable.engine.encode import Expression, recoded
from hushtable.engine.sources.source import PERSON, TableSource
from hushtable.engine.sql.cell_counts import RuleBreakCounts, broken_rules, integers, union
from hushtable.schema import Schema
from hushtable.schema.recoding import Recoding

ibis = lazy_loader.load("ibis")

MAX_TUPLES = 20_000_000  # occupied tuples fetched in one answer


def at_most(elements: Expression, most: int | None) -> Expression:
    """Keep at most `most` elements of each record.

    The engine's own random numbers suffice, as for the rows of a person: see `SqlEngine`.
    """
    if most is None:
        return elements
    drawn = elements.mutate(coin=ibis.random())
    ranked = drawn.mutate(place=ibis.row_number().over(group_by=drawn.owner, order_by=drawn.coin))
    return ranked.filter(ranked.place < most).drop("coin", "place")


def count_tuples(
    source: TableSource, groups: ItemGroups, limits: TupleLimits, sizes: tuple[int, int]
) -> Tuples:
    """Count the tuples of all groups, with at most `max_groups` tuples of each record.

    The source's rows are elements, of items and values of these `sizes`.
    """
    elements, (n_items, n_values) = source.table, sizes
    members = ibis.memtable(
        pa.table(
            {
                "member": pa.array([i for group in groups for i in group], pa.int64()),
                "group": pa.array([n for n, group in enumerate(groups) for _ in group], pa.int64()),
            }
        )
    )
    joined = elements.join(members, elements.item == members.member)
    joined = joined.select("owner", "group", element=joined.item * n_values + joined.value)
    tuples = joined.group_by(["owner", "group"]).agg(elements=joined.element.collect().sort())
    if limits.max_groups < len(groups):
        source = source.draw(at_most(tuples, limits.max_groups))
        tuples = source.table
    counted = tuples.group_by(["group", "elements"]).agg(n=ibis._.count())
    answer = source.fetch(counted.filter(counted.n >= limits.at_least), most=MAX_TUPLES)
    lists = answer["elements"].combine_chunks()
    lengths = lists.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
    flat = lists.flatten().to_numpy(zero_copy_only=False).astype(np.int64)
    n_records = source.scalar(elements.owner.nunique())
    runs = Runs(
        integers(answer["group"]), np.cumsum(lengths) - lengths, lengths, flat,
        integers(answer["n"]), n_items, n_values,
    )  # fmt: skip
    return tally(runs, at_least=limits.at_least, n_records=n_records)


def count_sizes(source: TableSource) -> Integers:
    """Count records by number of elements, from 0 elements on (always 0 records)."""
    of_record = source.table.group_by("owner").agg(size=ibis._.count())
    answer = source.fetch(of_record.group_by("size").agg(n=ibis._.count()))
    size, n = integers(answer["size"]), integers(answer["n"])
    sizes = np.zeros(int(size.max(initial=0)) + 1, np.int64)
    sizes[size] = n
    return sizes


def count_pairs(source: TableSource, n_items: int, items: Sequence[int] | None) -> ItemPairs:
    """Count pairs of items within records, of all items or of the given ones."""
    elements = source.table
    alone = source.fetch(elements.group_by("item").agg(n=ibis._.count()))
    support = np.zeros(n_items, np.int64)
    support[integers(alone["item"])] = integers(alone["n"])
    if items is not None:
        places = {"item": pa.array(items, pa.int64()), "place": pa.array(range(len(items)))}
        compared = elements.join(ibis.memtable(pa.table(places)), "item")
        elements = compared.select("owner", "value", item=compared.place)
        n_items = len(items)
    n_pairs = n_items * (n_items - 1) // 2
    agree, differ = np.zeros(n_pairs, np.int64), np.zeros(n_pairs, np.int64)
    if n_pairs == 0:
        return ItemPairs(support, agree, differ)
    other = elements.view()
    joined = elements.join(
        other, (elements.owner == other.owner) & (elements.item < other.item)
    ).select(i=elements.item, j=other.item, same=elements.value == other.value)
    answer = source.fetch(joined.group_by(["i", "j", "same"]).agg(n=ibis._.count()))
    i, j, n = (integers(answer[name]) for name in ("i", "j", "n"))
    same = answer["same"].to_numpy().astype(np.bool_)
    pair = i * n_items - i * (i + 1) // 2 + j - i - 1
    agree[pair[same]], differ[pair[~same]] = n[same], n[~same]
    return ItemPairs(support, agree, differ)


# The elements of records, made where the rows are; see `hushtable.engine.baskets`.
#
# An element is a row of `owner`, `item` and `value`. Rows that break a rule are refused on the way.


def listed_elements(rows: TableSource, schema: Schema, query: ItemQuery) -> TableSource:
    """Return at most `max_values` elements of each person, chosen once."""
    item_columns, max_values, recode = query
    assert item_columns is not None  # noqa: S101 - a long table
    places = {"item": item_columns.item, "value": item_columns.value}
    broken_rules(rows, schema, list(places.values())).refuse()
    elements = recoded(rows.select({"owner": PERSON, **places}), places, recode)
    for place, name in places.items():
        elements = elements.mutate(**{place: elements[place].cast("int64")})
        missing = (recode.get(name) or schema.attributes[name]).missing_code
        if missing is not None:
            elements = elements.filter(elements[place] != missing)
    # Of a repeated item, the highest value is kept.
    elements = elements.group_by(["owner", "item"]).agg(value=elements.value.max())
    return rows.keep(at_most(elements, max_values), {}, drawn=max_values is not None)


def wide_elements(
    rows: TableSource, schema: Schema, groups: ItemGroups, recode: Mapping[str, Recoding]
) -> TableSource:
    """Return the elements of rows; rows are numbered once."""
    names = list(schema.attributes)
    missing, _ = missing_codes(schema, recode)
    items = sorted(set(chain(*groups)))
    places = {f"c{item}": names[item] for item in items}
    coded = recoded(rows.select(places), places, recode)
    numbered = rows.keep_numbered(coded, "owner")
    table, parts = numbered.table, []
    for item in items:
        part = table.select(
            "owner", item=ibis.literal(item, "int64"), value=table[f"c{item}"].cast("int64")
        )
        parts.append(part.filter(part.value != int(missing[item])))
    elements = union(parts)
    wrong = elements.filter(elements.value < 0).group_by(["item", "value"])
    found = numbered.fetch(wrong.agg(n=ibis._.count()))
    broken = RuleBreakCounts(schema)
    for item in items:
        here = integers(found["item"]) == item
        codes = integers(found["value"])[here, None]
        broken.set_aside([names[item]], codes, integers(found["n"])[here])
    broken.refuse()
    return numbered.keep(elements, {})
