"""Queries that count cells and tuples in the engine that has the rows, or fetch all codes.

A database groups fastest by one number, so the codes of a cell are packed into keys. Codes of
broken rules are negative, and an error reports their number of rows; so keys are packed with a
domain that includes them (`packed_domain`). Many small tables are counted in few scans: groups of
columns are covered by few blocks (`cover`), whose occupied cells are counted, several blocks in one
query, and added up here (`add_up`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import lazy_loader
import numpy as np
import pyarrow as pa

from hushtable.arrays import Bools, Integers
from hushtable.domain import Domain
from hushtable.engine.baskets import (
    ItemGroups,
    ItemPairs,
    ItemQuery,
    Runs,
    TupleLimits,
    Tuples,
    add_equal,
    missing_codes,
)
from hushtable.engine.cells import ColumnGroups, Counts, OccupiedCells, Recodings
from hushtable.engine.coded_rows import CHECKED_ROWS, Encoded, spot_check
from hushtable.engine.encode import Expression, encode, recoded
from hushtable.engine.engine import not_once, refuse_broken, rule_breaks
from hushtable.engine.rule_breaks import N_RULES, RuleBreak
from hushtable.engine.sources.source import (
    PERSON,
    TableSource,
    integers,
    packed,
    union,
    wanted_columns,
)
from hushtable.schema import Schema
from hushtable.schema.recoding import recoded_domain

ibis = lazy_loader.load("ibis")

MAX_TUPLES = 20_000_000  # occupied tuples fetched in one answer
_PART = 1 << 18  # cells that are unpacked together
MAX_BLOCK_CELLS = 1 << 18  # cells of a block, occupied or not


class RuleBreakCounts:
    """Counts of rows that break rules, collected over the parts of a result."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._n_rows: dict[tuple[str, int], int] = {}

    def set_aside(self, names: Sequence[str], codes: Integers, counts: Counts) -> Bools:
        """Record the cells that break rules; return a mask of the others."""
        fine: Bools = np.all(codes >= 0, axis=1)
        codes, counts = codes[~fine], counts[~fine]
        for position, name in enumerate(names):
            for rule in range(-N_RULES, 0):
                # A column in several results has the same rows in each.
                self._n_rows[name, rule] = int(counts[codes[:, position] == rule].sum())
        return fine

    def breaks(self, *, n_nobody: int = 0) -> list[RuleBreak]:
        """Return the broken rules, and the rows without a person."""
        found = [(*key, n_rows) for key, n_rows in self._n_rows.items()]
        return rule_breaks(self._schema, found, n_nobody=n_nobody)

    def refuse(self) -> None:
        """Raise one error that lists all broken rules, if there are any."""
        refuse_broken(self.breaks())


def packed_domain(sizes: Mapping[str, int]) -> Domain:
    """Return the domain that packs the keys of columns of the given sizes."""
    return Domain({name: size + N_RULES for name, size in sizes.items()})


def unpacked(wide: Domain, keys: Integers) -> Integers:
    """Unpack keys to codes, including negative codes of broken rules."""
    return wide.unpack(keys) - N_RULES


def tally(rows: TableSource, domain: Domain, recode: Recodings) -> tuple[Expression, Domain]:
    """Return a query for the keys and counts of cells, and the domain that packs the keys."""
    places = {f"c{position}": name for position, name in enumerate(domain.names)}
    coded = recoded(rows.select(places), places, recode)
    wide = packed_domain(domain.sizes)
    keys = {
        f"key{limb}": packed(coded, list(places)[run], wide.shape[run])
        for limb, run in enumerate(wide.limbs)
    }
    return coded.select(**keys).group_by(list(keys)).agg(n=ibis._.count()), wide


def count_cells(
    rows: TableSource, schema: Schema, columns: Sequence[str], recode: Recodings, *, most: int
) -> OccupiedCells:
    """Count the occupied cells of some columns, after recoding; at most `most` are fetched."""
    domain = recoded_domain(schema, columns, recode)
    query, wide = tally(rows, domain, recode)
    table = rows.fetch(query, most=most if wide.size > most else None)
    keys = np.stack([integers(table[f"key{at}"]) for at in range(len(wide.limbs))], axis=1)
    order = np.lexsort(keys.T[::-1]) if keys.shape[1] > 1 else np.argsort(keys[:, 0])
    keys, counts = keys[order], integers(table["n"])[order]
    packed_codes, broken = np.empty((len(keys), len(domain.limbs)), np.int64), False
    for start in range(0, len(keys), _PART):
        codes = unpacked(wide, keys[start : start + _PART])
        broken |= codes.min(initial=0) < 0
        packed_codes[start : start + _PART] = domain.pack(codes)
    if broken:
        found = RuleBreakCounts(schema)
        found.set_aside(columns, unpacked(wide, keys), counts)
        found.refuse()
    return OccupiedCells(domain, packed_codes, counts)


@dataclass(frozen=True)
class JointCount:
    """Columns that are counted together, and the groups whose tables are sums of the counts."""

    columns: tuple[str, ...]
    groups: tuple[int, ...]


def cover(groups: ColumnGroups, sizes: Mapping[str, int]) -> list[JointCount]:
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
    codes: Integers,
    counts: Integers,
    group: Sequence[str],
    shape: Sequence[int],
) -> Integers:
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
    groups: ColumnGroups,
    shapes: Sequence[tuple[int, ...]],
    recode: Recodings,
) -> list[Counts]:
    """Count all cells of many groups of columns, several groups in each scan."""
    columns = list(dict.fromkeys(chain(*groups)))
    sizes = recoded_domain(schema, columns, recode).sizes
    places = {f"c{position}": name for position, name in enumerate(columns)}
    place_of = {name: place for place, name in places.items()}
    counted = recoded(rows.select(places), places, recode)
    answers: list[Counts] = [np.empty(0, np.int64)] * len(groups)
    blocks, broken = cover(groups, sizes), RuleBreakCounts(schema)
    wide = [packed_domain({place_of[name]: sizes[name] for name in block.columns})
            for block in blocks]  # fmt: skip
    for block, (codes, counts) in zip(blocks, tables(rows, counted, wide), strict=True):
        fine = broken.set_aside(block.columns, codes, counts)
        for group in block.groups:
            answers[group] = add_up(
                block.columns, codes[fine], counts[fine], groups[group], shapes[group]
            )
    broken.refuse()
    return answers


def tables(
    source: TableSource, rows: Expression, blocks: Sequence[Domain]
) -> list[tuple[Integers, Counts]]:
    """Count the occupied cells of several blocks of columns, in as few queries as possible."""
    found = source.tallies(rows, blocks)
    return [
        (unpacked(block, keys[:, None]), counts)
        for block, (keys, counts) in zip(blocks, found, strict=True)
    ]


def broken_rules(rows: TableSource, schema: Schema, columns: Sequence[str]) -> RuleBreakCounts:
    """Count the rows that break a rule of some columns."""
    places = {f"c{position}": name for position, name in enumerate(columns)}
    coded = rows.select(places)
    coded = coded.select(**{place: ibis.least(coded[place], 0) for place in places})
    broken = RuleBreakCounts(schema)
    found = tables(rows, coded, [packed_domain({place: 1}) for place in places])
    for name, (codes, counts) in zip(columns, found, strict=True):
        broken.set_aside([name], codes, counts)
    return broken


# Tuples and pairs of items; see `hushtable.engine.baskets`. An element is a row of `owner`, `item`
# and `value`.


def at_most(elements: Expression, most: int | None) -> Expression:
    """Keep a uniformly random subset of at most `most` rows of each `owner`.

    The engine's own random numbers suffice, as for the rows of a person: see `SqlEngine._chosen`.
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

    The source's rows are elements; `sizes` are the numbers of items and of value codes.
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
    return add_equal(runs, at_least=limits.at_least, n_records=n_records)


def count_sizes(source: TableSource) -> Integers:
    """Count records by number of elements, from 0 elements on (always 0 records)."""
    of_record = source.table.group_by("owner").agg(size=ibis._.count())
    answer = source.fetch(of_record.group_by("size").agg(n=ibis._.count()))
    size, n = integers(answer["size"]), integers(answer["n"])
    sizes = np.zeros(int(size.max(initial=0)) + 1, np.int64)
    sizes[size] = n
    return sizes


def count_pairs(source: TableSource, n_items: int, items: Sequence[int] | None) -> ItemPairs:
    """Count records by item, and by pairs of the given items (by default, of all items)."""
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
    rows: TableSource, schema: Schema, groups: ItemGroups, recode: Recodings
) -> TableSource:
    """Return the elements of rows; rows are numbered once."""
    names = list(schema.attributes)
    missing, _ = missing_codes(schema, recode)
    items = sorted(set(chain(*groups)))
    places = {f"c{item}": names[item] for item in items}
    broken_rules(rows, schema, list(places.values())).refuse()
    coded = recoded(rows.select(places), places, recode)
    numbered = rows.keep_numbered(coded, "owner")
    table, parts = numbered.table, []
    for item in items:
        part = table.select(
            "owner", item=ibis.literal(item, "int64"), value=table[f"c{item}"].cast("int64")
        )
        parts.append(part.filter(part.value != missing[names[item]]))
    return numbered.keep(union(parts), {})


# Codes of all rows of a table in a database, fetched into memory.


def encoded_rows(source: TableSource, schema: Schema) -> Encoded:
    """Encode all rows where they are, and fetch their codes."""
    source = source.here(wanted_columns(schema))
    query, columns = source.code_view(schema)
    table = source.fetch(query)
    n_raw = source.scalar(source.table.count())
    if len(table) != n_raw:
        raise not_once(list(schema.attributes))
    check_some_rows(source, schema)
    columns.pop(PERSON, None)
    codes = {name: np.asarray(table[place].to_numpy(), np.int32) for name, place in columns.items()}
    if schema.unit.column is None:
        return Encoded(codes, None)
    numbers = table["person"].combine_chunks().dictionary_encode().indices
    return Encoded(codes, numbers.fill_null(-1).to_numpy().astype(np.int32))


def check_some_rows(source: TableSource, schema: Schema) -> None:
    """Fetch a few random rows with their codes, and compare these with the reference encoder."""
    places = {f"c{position}": name for position, name in enumerate(schema.attributes)}
    raw = {f"r{position}": name for position, name in enumerate(schema.attributes)}
    chosen = source.select(places | raw).order_by(ibis.random()).limit(CHECKED_ROWS)
    table = source.fetch(encode(chosen, schema, places))
    if len(table):
        codes = {name: table[place].to_numpy() for place, name in places.items()}
        values = {name: table[place] for place, name in raw.items()}
        spot_check(values, codes, schema, np.arange(len(table)))
