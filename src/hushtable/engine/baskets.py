"""Counts of the tuples that records have in groups of items.

A record is a set of values, one per item. In a wide table, a record is a row and its items are the
columns; missing values are left out. In a long table, a record is a person, and each of the
person's rows is an item with its value (see `ItemColumns`). The tuple of a record in a group is the
set of its values for the group's items. A record without any of these items has no tuple there.

The matrix of records and items is mostly empty and never created, and there are far too many
possible tuples to number them. So a record is stored as a run of elements (item, value). Counting
takes three steps, whose memory is proportional to the number of elements:

- *bound*: if a record has too many elements, or tuples in too many groups, a uniformly random
  subset is kept (`keep_some`). This alone bounds the contribution of a record;
- *cut*: each element is assigned to every group that contains its item. After sorting by record,
  group and element, each run of equal record and group is a tuple (`_cut`);
- *add up*: all tuples are compared element by element. Prefixes shared by too few records are
  dropped early, which removes most long tuples (`add_equal`).

The first two steps run here for tables in memory, and in `hushtable.engine.sql_counting` for
databases. The third is shared, so both return the same tuples in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hushtable import kernels
from hushtable.arrays import Bools, Integers
from hushtable.engine.cells import Recodings
from hushtable.privacy.noise.noise import Noise
from hushtable.schema import Schema

ItemGroups = Sequence[Sequence[int]]


@dataclass(frozen=True)
class ItemColumns:
    """Names of the two columns of a long table with an item and its value."""

    item: str
    value: str


class ItemQuery(NamedTuple):
    """Query on the items of records."""

    item_columns: ItemColumns | None  # None for a wide table
    max_values: int | None  # per person of a long table; None: no limit
    recode: Recodings


class TupleLimits(NamedTuple):
    """Maximum groups per record, and minimum records per tuple."""

    max_groups: int
    at_least: int


@dataclass(frozen=True)
class Tuples:
    """Occupied tuples of all groups and their record counts.

    They are sorted by group, length and elements, so the order of the records does not matter.
    """

    groups: Integers  # of each tuple
    starts: Integers  # index of each tuple's first element, and the end of the last tuple
    items: Integers  # of each element; ascending within a tuple
    values: Integers  # of each element
    counts: Integers  # records with the tuple
    n_records: int  # rows of a wide table; persons of a long table with any value

    @property
    def lengths(self) -> Integers:
        """Number of elements of each tuple."""
        return np.diff(self.starts)

    def take(self, kept: Bools) -> Tuples:
        """Return the tuples selected by a mask."""
        elements = np.repeat(kept, self.lengths)
        starts = np.append(0, np.cumsum(self.lengths[kept]))
        return Tuples(
            self.groups[kept], starts, self.items[elements], self.values[elements],
            self.counts[kept], self.n_records,
        )  # fmt: skip


@dataclass(frozen=True)
class ItemPairs:
    """Counts of records with each item, and with both items of each pair.

    `support` has the records with each item, for all items. `agree` and `differ` have the records
    with both items of a pair, with equal and with different values. Pairs are in the order (0, 1),
    (0, 2), ..., (1, 2), ... of the compared items.
    """

    support: Integers
    agree: Integers
    differ: Integers


@dataclass(frozen=True)
class Records:
    """Elements of records, sorted by record and item; each item occurs once per record."""

    owners: Integers
    items: Integers
    values: Integers
    n_items: int
    n_values: int

    @classmethod
    def of(
        cls, owners: Integers, items: Integers, values: Integers, *, n_items: int, n_values: int
    ) -> Records:
        """Sort elements; if a record repeats an item, keep the highest value."""
        order = np.lexsort((values, items, owners))
        owners, items, values = owners[order], items[order], values[order]
        last = np.ones(len(order), np.bool_)
        last[:-1] = (owners[1:] != owners[:-1]) | (items[1:] != items[:-1])
        return cls(owners[last], items[last], values[last], n_items, n_values)

    def at_most(self, most: int | None, noise: Noise) -> Records:
        """Keep a uniformly random subset of at most `most` elements of each record."""
        if most is None:
            return self
        kept = keep_some(self.owners, most, noise)
        return Records(
            self.owners[kept], self.items[kept], self.values[kept], self.n_items, self.n_values
        )

    @property
    def sizes(self) -> Integers:
        """Number of records by number of elements, from 0 elements on (always 0 records)."""
        starts = np.flatnonzero(np.diff(self.owners, prepend=-1))
        return np.bincount(np.diff(np.append(starts, len(self.owners))), minlength=1)

    @property
    def n_records(self) -> int:
        """Number of records with any value."""
        return int(np.count_nonzero(np.diff(self.owners, prepend=-1)))


def keep_some(owners: Integers, most: int, noise: Noise) -> Integers:
    """Choose at most `most` positions of each owner, uniformly and independently.

    `owners` is sorted. Random numbers are drawn only for owners with more than `most` positions.
    The promise holds for every outcome of this choice; see ``methods/counts/columns.md``.
    """
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    sizes = np.diff(np.append(starts, len(owners)))
    kept = np.ones(len(owners), np.bool_)
    crowded = np.flatnonzero(np.repeat(sizes > most, sizes))
    if len(crowded):
        coins = noise.uniform_below(2**62, size=len(crowded))
        order = crowded[np.lexsort((coins, owners[crowded]))]
        first = np.flatnonzero(np.diff(owners[order], prepend=-1))
        place = np.arange(len(order)) - np.repeat(first, np.diff(np.append(first, len(order))))
        kept[order[place >= most]] = False
    return np.flatnonzero(kept)


@dataclass(frozen=True)
class Runs:
    """Tuples before equal ones are merged.

    A tuple has `lengths` elements from index `starts` on. An element is encoded as the number
    item * `n_values` + value; elements ascend within a tuple. `counts` has the number of records of
    each tuple. All items are below `n_items` and all values below `n_values`.
    """

    groups: Integers
    starts: Integers
    lengths: Integers
    elements: Integers
    counts: Integers
    n_items: int
    n_values: int

    def take(self, kept: Integers) -> Runs:
        """Return some of the tuples; the array of elements is shared."""
        return Runs(
            self.groups[kept], self.starts[kept], self.lengths[kept], self.elements,
            self.counts[kept], self.n_items, self.n_values,
        )  # fmt: skip


def count_tuples(records: Records, groups: ItemGroups, limits: TupleLimits, noise: Noise) -> Tuples:
    """Count the tuples of all groups, with at most `max_groups` tuples of each record."""
    owners, runs = _cut(records, groups)
    kept = keep_some(owners, limits.max_groups, noise)
    return add_equal(runs.take(kept), at_least=limits.at_least, n_records=records.n_records)


def _cut(records: Records, groups: ItemGroups) -> tuple[Integers, Runs]:
    """Return the record of each tuple, and the tuples in the order of the records."""
    n_in, belongs = _groups_of(records.items, groups, records.n_items)
    # Sorting by (record, group) and (item, value), one number each, gives runs that are tuples.
    keys = np.repeat(records.owners, n_in) * len(groups) + belongs
    elements = np.repeat(records.items * records.n_values + records.values, n_in)
    keys, elements = _sorted(keys, elements, records.n_items * records.n_values)
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    lengths = np.diff(np.append(starts, len(keys)))
    owners, of_group = np.divmod(keys[starts], len(groups))
    once = np.ones(len(starts), np.int64)
    runs = Runs(of_group, starts, lengths, elements, once, records.n_items, records.n_values)
    return owners, runs


def _groups_of(items: Integers, groups: ItemGroups, n_items: int) -> tuple[Integers, Integers]:
    """Return the number of groups of each element's item, and these groups in a flat array."""
    members = np.array([item for group in groups for item in group], np.int64)
    group_of = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    group_of = group_of[np.argsort(members, kind="stable")]  # in the order of items
    n_of_item = np.bincount(members, minlength=n_items)
    first_of_item = np.cumsum(n_of_item) - n_of_item
    n_in = n_of_item[items]
    ends = np.cumsum(n_in)
    place = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - n_in, n_in)
    return n_in, group_of[np.repeat(first_of_item[items], n_in) + place]


def _sorted(keys: Integers, elements: Integers, n_elements: int) -> tuple[Integers, Integers]:
    if len(keys) and (int(keys.max()) + 1) * n_elements < 2**63:
        packed = keys * n_elements + elements  # sorting plain numbers is several times faster
        packed.sort()
        return np.divmod(packed, n_elements)
    order = np.lexsort((elements, keys))
    return keys[order], elements[order]


def add_equal(runs: Runs, *, at_least: int, n_records: int) -> Tuples:
    """Add up the counts of equal tuples and sort them.

    Tuples are compared exactly, element by element: after d rounds, tuples have the same number if
    they have the same group and the same first d elements. A number with fewer than `at_least`
    records is dropped, since no tuple with that prefix can have more; this removes most long and
    rare tuples.
    """
    alive, number = np.arange(len(runs.groups)), runs.groups
    found: list[Integers] = [np.empty(0, np.int64)]
    totals: list[Integers] = [np.empty(0, np.int64)]
    depth = 0
    while len(alive):
        alive, number = _distinct(runs, alive, number, depth)
        depth += 1
        _, number, alive = _heavy(number, alive, runs.counts, at_least)
        ended = runs.lengths[alive] == depth
        sums, whole, same = _heavy(number[ended], alive[ended], runs.counts, at_least)
        found.append(
            same[np.flatnonzero(np.diff(whole, prepend=-1))]
        )  # one of each set of equal tuples
        totals.append(sums)
        alive, number = alive[~ended], number[~ended]
    return _in_order(runs, np.concatenate(found), np.concatenate(totals), n_records)


def _distinct(
    runs: Runs, alive: Integers, number: Integers, depth: int
) -> tuple[Integers, Integers]:
    """Renumber tuples by their old number and next element, in the order of both."""
    keys = number * (runs.n_items * runs.n_values) + runs.elements[runs.starts[alive] + depth]
    order = np.argsort(keys, kind="stable")
    changed = np.diff(keys[order], prepend=-1) != 0
    return alive[order], np.cumsum(changed) - 1


def _heavy(
    number: Integers, places: Integers, counts: Integers, at_least: int
) -> tuple[Integers, Integers, Integers]:
    """Drop tuples whose number has fewer than `at_least` records, and renumber the others.

    Return the record count of each kept number, and the new numbers and positions of kept tuples.
    """
    if not len(number):
        return number, number, places
    sums = np.bincount(number, weights=counts[places]).astype(np.int64)
    heavy = (sums >= at_least) & (sums > 0)
    stays = heavy[number]
    return sums[heavy], (np.cumsum(heavy) - 1)[number[stays]], places[stays]


def _in_order(runs: Runs, chosen: Integers, counts: Integers, n_records: int) -> Tuples:
    """Return the chosen tuples sorted by group; within a group, keep the given order."""
    order = np.argsort(runs.groups[chosen], kind="stable")
    chosen, counts = chosen[order], counts[order]
    lengths = runs.lengths[chosen]
    begins = np.append(0, np.cumsum(lengths))
    places = np.repeat(runs.starts[chosen] - begins[:-1], lengths) + np.arange(begins[-1])
    items, values = np.divmod(runs.elements[places], runs.n_values)
    return Tuples(runs.groups[chosen], begins, items, values, counts, n_records)


def missing_codes(schema: Schema, recode: Recodings) -> tuple[dict[str, int], int]:
    """Return each column's code for missing (-1 if it has none), and a number above all codes."""
    columns = {name: recode.get(name) or column for name, column in schema.attributes.items()}
    missing = {
        name: -1 if column.missing_code is None else column.missing_code
        for name, column in columns.items()
    }
    return missing, max(column.size for column in columns.values())


def most_listed(schema: Schema, item_columns: ItemColumns, max_values: int | None = None) -> int:
    """Return the public maximum number of values of a person in a long table."""
    bounds = (schema.attributes[item_columns.item].n_values, schema.unit.max_rows, max_values)
    return min(bound for bound in bounds if bound is not None)


def listed_sizes(schema: Schema, item_columns: ItemColumns, recode: Recodings) -> tuple[int, int]:
    """Return the number of items of a long table, and of codes of its value column."""
    value = recode.get(item_columns.value)
    column = schema.attributes[item_columns.value]
    return schema.attributes[item_columns.item].n_values, (value or column).size


def count_pairs(records: Records, items: Sequence[int] | None = None) -> ItemPairs:
    """Count records by item, and by pairs of the given items (by default, of all items)."""
    support = np.bincount(records.items, minlength=records.n_items).astype(np.int64)
    compared = np.arange(records.n_items) if items is None else np.asarray(items, np.int64)
    place = np.full(records.n_items, -1, np.int64)
    place[compared] = np.arange(len(compared))
    kept = place[records.items] >= 0
    n = len(compared)
    agree, differ = np.zeros(n * (n - 1) // 2, np.int64), np.zeros(n * (n - 1) // 2, np.int64)
    kernels.counting.add_pairs(
        records.owners[kept], place[records.items[kept]], records.values[kept], n, agree, differ
    )
    return ItemPairs(support, agree, differ)
