"""What each record holds, cut into groups of attributes: how often each tuple occurs.

A record is a set of values, each under an item. In a wide table a record is a row and its items are
the columns; a missing value is no value. In a long table a record is a person, and each of the
person's rows is one item with its value (see `Listing`). The matrix of records and items, nearly
all of it empty, is never made.

A record's tuple in a group is the set of its values under the group's items. A record without any
has no tuple there: nothing is counted for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hushtable import kernels
from hushtable.privacy.noise import Noise
from hushtable.recoding import Recoding, recoded_domain
from hushtable.schema import Schema

if TYPE_CHECKING:
    from hushtable.engine.base import Engine

Integers = NDArray[np.int64]
Groups = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Listing:
    """Say which two columns of a long table hold an item and its value."""

    item: str
    value: str


@dataclass(frozen=True)
class Tuples:
    """Hold the occupied tuples of all groups and how many records have each.

    They are in the order of group, length and elements, whatever the order of the records was.

    Parameters
    ----------
    groups : array of int
        The group of each tuple.
    starts : array of int
        Where each tuple begins among the elements, and where the last one ends.
    items, values : array of int
        The elements: codes of items, rising within a tuple, and of their values.
    counts : array of int
        Records that have the tuple.
    n_records : int
        Rows of a wide table; people of a long table who have any value.
    """

    groups: Integers
    starts: Integers
    items: Integers
    values: Integers
    counts: Integers
    n_records: int

    @property
    def lengths(self) -> Integers:
        """Number of elements of each tuple."""
        return np.diff(self.starts)

    def take(self, kept: NDArray[np.bool_]) -> Tuples:
        """Keep some of the tuples."""
        elements = np.repeat(kept, self.lengths)
        starts = np.append(0, np.cumsum(self.lengths[kept]))
        return Tuples(
            self.groups[kept], starts, self.items[elements], self.values[elements],
            self.counts[kept], self.n_records,
        )  # fmt: skip


@dataclass(frozen=True)
class Pairs:
    """Hold how many records have an item, and two items with equal or with different values.

    Supports are of all items. Pairs are in the order (0, 1), (0, 2), ..., (1, 2), ... of the items
    that were compared.
    """

    support: Integers
    agree: Integers
    differ: Integers


@dataclass(frozen=True)
class Records:
    """Hold records element by element, in the order of record and item, each item once."""

    owners: Integers
    items: Integers
    values: Integers
    n_items: int
    n_values: int

    @classmethod
    def of(
        cls, owners: Integers, items: Integers, values: Integers, *, n_items: int, n_values: int
    ) -> Records:
        """Put elements in order; of an item that a record has twice, the highest value stays."""
        order = np.lexsort((values, items, owners))
        owners, items, values = owners[order], items[order], values[order]
        last = np.ones(len(order), np.bool_)
        last[:-1] = (owners[1:] != owners[:-1]) | (items[1:] != items[:-1])
        return cls(owners[last], items[last], values[last], n_items, n_values)

    def at_most(self, most: int | None, noise: Noise) -> Records:
        """Keep at most so many elements of each record, a uniformly random part."""
        if most is None:
            return self
        kept = keep_some(self.owners, most, noise)
        return Records(
            self.owners[kept], self.items[kept], self.values[kept], self.n_items, self.n_values
        )

    @property
    def n_records(self) -> int:
        """Number of records with any value."""
        return int(np.count_nonzero(np.diff(self.owners, prepend=-1)))


def keep_some(owners: Integers, most: int, noise: Noise) -> Integers:
    """Choose at most `most` places of each owner, uniformly and independently of other owners.

    `owners` is in order. Only owners with more than that toss coins. The choice protects nobody:
    the promise holds whatever the coins show, see ``methods/counts/columns.md``.
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


def count_tuples(
    records: Records, groups: Groups, *, max_groups: int, at_least: int, noise: Noise
) -> Tuples:
    """Count the tuples of all groups, with at most `max_groups` tuples of each record."""
    members = np.array([item for group in groups for item in group], np.int64)
    group_of = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    order = np.argsort(members, kind="stable")
    group_of, n_in = group_of[order], np.bincount(members, minlength=records.n_items)
    first_in = np.cumsum(n_in) - n_in

    repeats = n_in[records.items]
    ends = np.cumsum(repeats)
    place = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - repeats, repeats)
    belongs = group_of[np.repeat(first_in[records.items], repeats) + place]
    # One number for record and group, one for item and value; sorted together they are tuples.
    keys = np.repeat(records.owners, repeats) * len(groups) + belongs
    elements = np.repeat(records.items * records.n_values + records.values, repeats)
    keys, elements = _sorted(keys, elements, records.n_items * records.n_values)

    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    lengths = np.diff(np.append(starts, len(keys)))
    kept = keep_some(keys[starts] // len(groups), max_groups, noise)
    return tally(
        keys[starts[kept]] % len(groups), starts[kept], lengths[kept], elements,
        np.ones(len(kept), np.int64), at_least=at_least, n_values=records.n_values,
        n_elements=records.n_items * records.n_values, n_records=records.n_records,
    )  # fmt: skip


def _sorted(keys: Integers, elements: Integers, n_elements: int) -> tuple[Integers, Integers]:
    if len(keys) and (int(keys.max()) + 1) * n_elements < 2**63:
        packed = keys * n_elements + elements  # sorting plain numbers is several times faster
        packed.sort()
        return np.divmod(packed, n_elements)
    order = np.lexsort((elements, keys))
    return keys[order], elements[order]


def tally(
    groups: Integers,
    starts: Integers,
    lengths: Integers,
    elements: Integers,
    counts: Integers,
    *,
    at_least: int,
    n_values: int,
    n_elements: int,
    n_records: int,
) -> Tuples:
    """Add up the counts of equal tuples and put them in order.

    Tuples are told apart exactly, element by element: after d rounds, tuples have the same number
    if they have the same group and the same first d elements. A number that belongs to fewer than
    `at_least` records leads to no tuple that is wanted, so it is dropped, and with it nearly
    everything that is long and rare.
    """
    alive, node = np.arange(len(groups)), groups
    found: list[Integers] = [np.empty(0, np.int64)]
    totals: list[Integers] = [np.empty(0, np.int64)]
    depth = 0
    while len(alive):
        keys = node * n_elements + elements[starts[alive] + depth]
        order = np.argsort(keys, kind="stable")
        changed = np.diff(keys[order], prepend=-1) != 0
        alive, node = alive[order], np.cumsum(changed) - 1
        depth += 1
        _, node, alive = _heavy(node, alive, counts, at_least)
        ended = lengths[alive] == depth
        sums, numbers, whole = _heavy(node[ended], alive[ended], counts, at_least)
        first = np.flatnonzero(np.diff(numbers, prepend=-1))
        found.append(whole[first])
        totals.append(sums)
        alive, node = alive[~ended], node[~ended]
    chosen, total = np.concatenate(found), np.concatenate(totals)
    order = np.argsort(groups[chosen], kind="stable")
    chosen, total = chosen[order], total[order]
    sizes = lengths[chosen]
    begins = np.append(0, np.cumsum(sizes))
    places = np.repeat(starts[chosen] - begins[:-1], sizes) + np.arange(begins[-1])
    items, values = np.divmod(elements[places], n_values)
    return Tuples(groups[chosen], begins, items, values, total, n_records)


def _heavy(
    node: Integers, places: Integers, counts: Integers, at_least: int
) -> tuple[Integers, Integers, Integers]:
    """Drop numbers that stand for fewer than `at_least` records and close the gaps."""
    if not len(node):
        return node, node, places
    sums = np.bincount(node, weights=counts[places]).astype(np.int64)
    heavy = (sums >= at_least) & (sums > 0)
    stays = heavy[node]
    return sums[heavy], (np.cumsum(heavy) - 1)[node[stays]], places[stays]


def tuples_of_counts(
    engine: Engine, groups: Groups, *, at_least: int, recode: Mapping[str, Recoding]
) -> Tuples:
    """Count the tuples of a wide table whose records need no bound: one question per group."""
    names = list(engine.schema.attributes)
    missing, n_values = missing_codes(engine.schema, recode)
    parts = []
    for number, items in enumerate(groups):
        group = sorted(items)
        cells = engine.counts([names[item] for item in group], recode=recode)
        there = cells.codes != missing[group]
        kept = there.any(axis=1) & (cells.counts >= at_least)
        codes, there = cells.codes[kept], there[kept]
        elements = (np.array(group, np.int64) * n_values + codes)[there]
        parts.append((np.full(len(codes), number), there.sum(axis=1), elements, cells.counts[kept]))
    of_group, lengths, elements, counts = (
        np.concatenate(part).astype(np.int64) for part in zip(*parts, strict=True)
    )
    starts = np.cumsum(lengths) - lengths
    return tally(
        of_group, starts, lengths, elements, counts, at_least=at_least, n_values=n_values,
        n_elements=len(names) * n_values, n_records=engine.n_rows(),
    )  # fmt: skip


def missing_codes(schema: Schema, recode: Mapping[str, Recoding]) -> tuple[Integers, int]:
    """Give the code of missing of each column (-1: none), and a number above all codes."""
    sizes = recoded_domain(schema, list(schema.attributes), recode).shape
    columns = [recode.get(name) or column for name, column in schema.attributes.items()]
    codes = [-1 if column.missing_code is None else column.missing_code for column in columns]
    return np.array(codes, np.int64), max(sizes)


def listed_sizes(
    schema: Schema, listing: Listing, recode: Mapping[str, Recoding]
) -> tuple[int, int]:
    """Give the numbers of items and of values (missing not among them) of a long table."""
    value = recode.get(listing.value)
    column = schema.attributes[listing.value]
    return schema.attributes[listing.item].n_values, (value or column).size


def count_pairs(records: Records, items: Sequence[int] | None = None) -> Pairs:
    """Count pairs of items within records; only of some items, if they are given."""
    support = np.bincount(records.items, minlength=records.n_items).astype(np.int64)
    compared = np.arange(records.n_items) if items is None else np.asarray(items, np.int64)
    place = np.full(records.n_items, -1, np.int64)
    place[compared] = np.arange(len(compared))
    kept = place[records.items] >= 0
    n = len(compared)
    agree, differ = np.zeros(n * (n - 1) // 2, np.int64), np.zeros(n * (n - 1) // 2, np.int64)
    kernels.pairs.add_pairs(
        records.owners[kept], place[records.items[kept]], records.values[kept], n, agree, differ
    )
    return Pairs(support, agree, differ)
