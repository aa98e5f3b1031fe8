"""Published table of method columns: tuples with counts.

In a wide table, a tuple is a row: the number of its column, its values, null in the attributes of
other columns, and its count. In a long table, a tuple has a row for each of its items; these rows
share a tuple number and repeat the count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt
from typing import Any, Self

import numpy as np
import pyarrow as pa

from hushtable.arrays import Integers
from hushtable.engine.baskets import ItemColumns, Tuples
from hushtable.numeric import NORMAL
from hushtable.query.answers.estimator import Estimate
from hushtable.query.answers.row_sums import SumEstimates
from hushtable.schema import Schema
from hushtable.schema.codes import as_numpy, numbers, repeated, to_codes, to_labels
from hushtable.schema.recoding import Recoding

COLUMN, TUPLE, COUNT = "column", "tuple", "count"
"""Columns that are published in addition to the schema's own."""

READING_WIDE = (
    "Each row is a tuple of one column: values of its attributes, listed under 'columns' of "
    "the estimator in statement.json, and the noisy number of records. Other attributes are "
    "null. Records without any value in a column are not counted there."
)
READING_LONG = (
    "Rows with the same number in 'tuple' form one tuple: the items and values that 'count' people "
    "have in that column, and no other item of it. The items of each column are "
    "listed in statement.json. People without any item of a column are not counted there."
)


def write_tuples(
    schema: Schema,
    recode: Mapping[str, Recoding],
    item_columns: ItemColumns | None,
    tuples: Tuples,
    counts: Integers,
) -> pa.Table:
    """Return the published table of tuples and their noisy counts.

    Tuples keep their order, which reveals only which of them are present.
    """
    lengths = tuples.lengths
    of_tuple = np.repeat(np.arange(len(lengths)), lengths)
    if item_columns is not None:
        item, value = item_columns.item, item_columns.value
        return pa.table(
            {
                COLUMN: pa.array(np.repeat(tuples.groups, lengths), pa.int64()),
                TUPLE: pa.array(of_tuple, pa.int64()),
                item: to_labels(schema.attributes[item], tuples.items),
                value: to_labels(schema.attributes[value], tuples.values, recode.get(value)),
                COUNT: pa.array(np.repeat(counts, lengths), pa.int64()),
            }
        )
    table = {COLUMN: pa.array(tuples.groups, pa.int64())}
    for number, (name, column) in enumerate(schema.attributes.items()):
        codes = np.full(len(lengths), -1, np.int64)
        here = tuples.items == number
        codes[of_tuple[here]] = tuples.values[here]
        table[name] = to_labels(column, codes, recode.get(name))
    table[COUNT] = pa.array(counts, pa.int64())
    return pa.table(table)


@dataclass(frozen=True)
class PublishedTuples:
    """Reader of the table ``data`` of a release of columns."""

    table: pa.Table
    item_columns: ItemColumns | None  # item and value columns of a long table; None for a wide one

    @cached_property
    def starts(self) -> Integers:
        """First row of each tuple."""
        if self.item_columns is None:
            return np.arange(self.table.num_rows)
        return np.flatnonzero(np.diff(as_numpy(self.table.column(TUPLE)), prepend=-1))

    @cached_property
    def counts(self) -> Integers:
        """Count of each tuple."""
        counts: Integers = as_numpy(self.table.column(COUNT))[self.starts]
        return counts

    def of_column(self, number: int) -> PublishedTuples:
        """Return the tuples of one column."""
        mine = np.flatnonzero(as_numpy(self.table.column(COLUMN)) == number)
        return PublishedTuples(self.table.take(numbers(mine)), self.item_columns)

    def codes(self, schema: Schema, recode: Mapping[str, Recoding]) -> dict[str, Integers]:
        """Return the code of each tuple in each attribute of a column.

        `schema` has the attributes: columns of a wide table, or a column for each item of a long
        one.
        """
        if self.item_columns is None:
            return {
                name: to_codes(column, self.table.column(name), recode.get(name))
                for name, column in schema.attributes.items()
            }
        names = list(schema.attributes)
        first = names[0]  # all items have the same values
        values = to_codes(
            schema.attributes[first], self.table.column(self.item_columns.value), recode.get(first)
        )
        tuples, places = repeated(self._lengths), self._places(names)
        codes = {}
        for place, (name, column) in enumerate(schema.attributes.items()):
            missing = (recode.get(name) or column).missing_code
            here = places == place
            codes[name] = np.full(len(self.starts), missing, np.int64)
            codes[name][tuples[here]] = values[here]
        return codes

    @property
    def _lengths(self) -> Integers:
        """Number of rows of each tuple."""
        return np.diff(np.append(self.starts, self.table.num_rows))

    def _places(self, names: Sequence[str]) -> Integers:
        """Return the position among `names` of the item in each row of a long table."""
        if self.item_columns is None or not self.table.num_rows:
            return np.empty(0, np.int64)
        items = self.table.column(self.item_columns.item).combine_chunks().dictionary_encode()
        place_of = {name: place for place, name in enumerate(names)}
        known = np.array([place_of[name] for name in items.dictionary.to_pylist()], np.int64)
        return np.asarray(known[as_numpy(items.indices)])

    @property
    def n_rows(self) -> int:
        """Number of rows that `rows` returns."""
        return int(self._lengths @ self.counts)

    def rows(self) -> tuple[Integers, Integers]:
        """Repeat each tuple according to its count.

        Return the rows of the table, and the copy of a tuple that each of them belongs to.
        """
        tuples = repeated(self.counts)
        lengths = self._lengths[tuples]
        owners = repeated(lengths)
        ends = np.cumsum(lengths)
        return np.arange(len(owners)) - (ends - lengths - self.starts[tuples])[owners], owners


# Distribution of the number of values per person, and correction for values that are not used.
#
# At most m values of a person are used: of s values, each with probability min(1, m/s). How far an
# answer is too low depends on how many values the people in question have, which is not published.
# A noisy histogram of sizes bounds it; see ``columns.md``.


def size_ends(kept: int, most: int) -> list[int]:
    """Return the largest size of each class. Ends grow by up to a third or by 1. Public.

    `kept`, the maximum number of values that are used, is one of the ends.

    Examples
    --------
    >>> size_ends(4, 32)
    [1, 2, 3, 4, 5, 6, 8, 10, 13, 17, 22, 29, 32]
    """
    ends = [1]
    while ends[-1] < most:
        following = max(ends[-1] + 1, ends[-1] * 4 // 3)
        limit = kept if ends[-1] < kept else most
        ends.append(min(following, limit))
    return ends


def class_of_sizes(ends: Sequence[int]) -> list[int]:
    """Return the class of each size, from 1 to the last end."""
    return [int(place) for place in np.searchsorted(ends, np.arange(1, ends[-1] + 1))]


@dataclass(frozen=True)
class BasketSizes:
    """Noisy numbers of people by number of values, of which `kept` are used.

    Examples
    --------
    >>> sizes = BasketSizes(kept=2, ends=(1, 2, 4), counts=(10, 20, 30), std=0.0)
    >>> round(sizes.share_kept, 3)  # people with 3 or 4 values keep 2 of them
    0.71
    """

    kept: int  # maximum number of values of a person that are used
    ends: tuple[int, ...]  # largest size of each class
    counts: tuple[int, ...]  # noisy number of people in each class
    std: float  # standard deviation of each of these counts

    @classmethod
    def read(cls, kept: int, published: Mapping[str, Any]) -> Self:
        """Read the distribution from the settings of a release."""
        ends, counts = tuple(published["ends"]), tuple(published["counts"])
        return cls(kept, ends, counts, float(published["std"]))

    @property
    def share_kept(self) -> float:
        """Share of all values that are used, with each size at the middle of its class."""
        starts = np.append(1, np.array(self.ends[:-1], np.int64) + 1)
        middle = (starts + np.array(self.ends)) / 2
        people = np.maximum(self.counts, 0)
        return float(
            (people * np.minimum(middle, self.kept)).sum() / max((people * middle).sum(), 1e-9)
        ) or 1.0  # fmt: skip

    @property
    def most_short(self) -> float:
        """Upper bound on the number of people with more values than are used."""
        short = [
            count for end, count in zip(self.ends, self.counts, strict=True) if end > self.kept
        ]
        return max(0.0, sum(short) + NORMAL * self.std * sqrt(len(short)))

    def most_who_have(self, counted: float) -> float:
        """Bound how many people have a value, given the number of them that was counted.

        The loss is largest if these people have as many values as possible: fill the largest
        classes first, each person with the smallest probability of its class.
        """
        left, people, n_filled = counted, 0.0, 0
        for end, count in zip(reversed(self.ends), reversed(self.counts), strict=True):
            if end <= self.kept or left <= 0:
                break
            chance = self.kept / end
            taken = min(max(count, 0.0), left / chance)
            people, left, n_filled = people + taken, left - taken * chance, n_filled + 1
        # One more person in a class adds at most one person to the result.
        noise = NORMAL * self.std * sqrt(n_filled)
        most = self.ends[-1] / self.kept * counted
        return min(people + max(0.0, left) + noise, max(counted, most))

    def undone(self, seen: Estimate, *, of_one_item: bool) -> Estimate:
        """Convert an answer about the used values into one about all values."""
        short = self.most_short
        if of_one_item:
            # Everyone who was counted has the value; the number counted is a sum of independent
            # Bernoulli variables.
            counted = seen.high + NORMAL * sqrt(seen.high) + NORMAL**2
            low = seen.low
            high = min(self.most_who_have(counted), counted + short)
            value = seen.value / self.share_kept
            note = (
                f"At most {self.kept} values per person are used, a random subset if there are "
                "more. The estimate assumes that people with this value have as many other "
                "values as average; the interval is valid for any number."
            )
        else:
            low, high, value = max(0.0, seen.low - short), seen.high + short, seen.value
            note = (
                f"At most {self.kept} values per person are used, a random subset if there are "
                "more. The estimate refers to the used values; the interval allows for all "
                "people with more values to satisfy the condition, or none of them."
            )
        return Estimate(
            value=min(max(value, low), high),
            low=low,
            high=high,
            privacy_std=seen.privacy_std / (self.share_kept if of_one_item else 1.0),
            model_std=float(np.hypot(seen.model_std, (high - low) / sqrt(12))),
            notes=(*seen.notes, note),
        )

    def undone_sums(self, seen: SumEstimates) -> SumEstimates:
        """Scale up sums over people; the squared increase is added to the model variance."""
        kept = self.share_kept
        gained = np.outer(seen.values, seen.values) * (1 / kept - 1) ** 2
        note = (
            f"At most {self.kept} values per person are used, a random subset if there are "
            "more. Sums are scaled up as if this were unrelated to the question."
        )
        scaled = seen.divided(kept)
        return replace(scaled, model=scaled.model + gained, notes=(*seen.notes, note))
