"""Engine that counts encoded columns in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Self

import numpy as np

from hushtable import kernels
from hushtable.arrays import Codes32, Integers
from hushtable.engine.baskets import (
    ItemGroups,
    ItemPairs,
    ItemQuery,
    Records,
    TupleLimits,
    Tuples,
    count_pairs,
    count_tuples,
    listed_sizes,
    missing_codes,
)
from hushtable.engine.cells import ColumnGroups, Counts, OccupiedCells, Recodings
from hushtable.engine.coded_rows import Encoded
from hushtable.engine.engine import (
    MAX_GROUP,
    MAX_HISTOGRAM,
    Engine,
    refuse_broken,
    require_columns,
    rule_breaks,
)
from hushtable.engine.rule_breaks import N_RULES, RuleBreak
from hushtable.privacy.noise.noise import Noise
from hushtable.schema import Schema
from hushtable.schema.recoding import recoded_domain

_PART = 1 << 14  # rows counted together, so that their codes stay in the cache
_PACKED = 1 << 19  # rows whose codes are packed together
_DENSE_PER_ROW = 4  # cells per row up to which counting in an array is faster than sorting


class MemoryEngine(Engine):
    """Engine that counts with NumPy.

    `read` reads and encodes the rows once, at the first query. `noise` chooses the rows that count
    if a person has more than ``max_rows``. For many rows, `in_duckdb` returns an
    engine that counts tuples of items in less memory.
    """

    def __init__(
        self,
        read: Callable[[], Encoded],
        schema: Schema,
        noise: Noise,
        *,
        in_duckdb: Callable[[Mapping[str, Codes32], Schema], Engine] | None = None,
    ) -> None:
        super().__init__(schema)
        self._noise = noise
        self._in_duckdb = in_duckdb
        self._read: Callable[[], Encoded] | None = read

    @classmethod
    def from_codes(
        cls,
        schema: Schema,
        codes: Mapping[str, Codes32],
        noise: Noise,
        *,
        persons: Codes32 | None = None,
    ) -> Self:
        """Return an engine on rows that are given as codes.

        `codes` has every published column; `persons` has the number of each row's person (-1:
        none), if the unit is a person.
        """
        return cls(lambda: Encoded(dict(codes), persons), schema, noise)

    def use_noise(self, noise: Noise, *, resample_rows: bool) -> None:
        """Select tuples by this noise from now on; with `resample_rows`, also rows of persons."""
        self._noise = noise
        if resample_rows:
            vars(self).pop("_rows_and_persons", None)

    @cached_property
    def _encoded(self) -> Encoded:
        assert self._read is not None  # noqa: S101 - set to None only below, and this runs once
        encoded = self._read()
        self._read = None  # the raw rows are not needed any more
        return encoded

    @property
    def _rows(self) -> dict[str, Codes32]:
        """The rows that count."""
        return self._rows_and_persons[0]

    @cached_property
    def _rows_and_persons(self) -> Encoded:
        codes, persons = self._encoded
        if persons is None:
            return Encoded(codes, None)
        max_rows = self.schema.unit.max_rows
        assert max_rows is not None  # noqa: S101 - Unit checks it
        kept = _bounded(persons, max_rows, self._noise)
        return Encoded({name: column[kept] for name, column in codes.items()}, persons[kept])

    def n_rows(self) -> int:
        """Return the number of rows that count, after the limit per person."""
        return len(next(iter(self._rows.values())))

    def _counts(self, columns: Sequence[str], recode: Recodings) -> OccupiedCells:
        domain, n_rows = recoded_domain(self.schema, columns, recode), self.n_rows()
        if len(columns) <= MAX_GROUP and domain.size <= min(_DENSE_PER_ROW * n_rows, MAX_HISTOGRAM):
            (table,) = self._marginals([columns], [domain.shape], recode)
            occupied = np.flatnonzero(table)
            return OccupiedCells(domain, occupied[:, None], table.ravel()[occupied])
        self._refuse_broken(columns)
        keys = np.empty((n_rows, len(domain.limbs)), np.int64)
        for start in range(0, n_rows, _PACKED):
            rows = slice(start, start + _PACKED)
            codes = [self._recoded(name, recode, rows) for name in columns]
            keys[rows] = domain.pack(np.stack(codes, axis=1, dtype=np.int64))
        return OccupiedCells(domain, *_tally(keys))

    def _marginals(
        self, groups: ColumnGroups, shapes: Sequence[tuple[int, ...]], recode: Recodings
    ) -> list[Counts]:
        """Count all tables in one pass over the rows."""
        columns = list(dict.fromkeys(chain(*groups)))
        self._refuse_broken(columns)
        place = {name: position for position, name in enumerate(columns)}
        tally = kernels.counting.Tally(
            [[place[name] for name in group] for group in groups], shapes
        )
        new_codes = {
            name: recode[name].of_all.astype(np.int32) for name in columns if name in recode
        }
        for start in range(0, self.n_rows(), _PART):
            parts = {name: self._rows[name][start : start + _PART] for name in columns}
            parts |= {name: codes[parts[name]] for name, codes in new_codes.items()}
            part = np.stack(list(parts.values()), dtype=np.int32)
            tally.add(part, part.shape[1])
        return tally.tables()

    def _tuples(self, groups: ItemGroups, query: ItemQuery, limits: TupleLimits) -> Tuples:
        if query.item_columns is None and self._in_duckdb is not None:
            return self._in_duckdb(self._rows, self.schema)._tuples(groups, query, limits)
        if query.item_columns is None:
            records = self._wide_records(groups, query.recode)
        else:
            records = self._listed_records(query)
        return count_tuples(records, groups, limits, self._noise)

    def _pairs(self, query: ItemQuery, items: Sequence[int] | None) -> ItemPairs:
        return count_pairs(self._listed_records(query), items)

    def _sizes(self, query: ItemQuery) -> Counts:
        return self._listed_records(query).sizes

    def _wide_records(self, groups: ItemGroups, recode: Recodings) -> Records:
        names = list(self.schema.attributes)
        wanted = sorted(set(chain(*groups)))
        self._refuse_broken([names[item] for item in wanted])
        missing, n_values = missing_codes(self.schema, recode)
        owners, items, values = [], [], []
        for item in wanted:
            codes = self._recoded(names[item], recode).astype(np.int64)
            there = np.flatnonzero(codes != missing[names[item]])
            owners.append(there)
            items.append(np.full(len(there), item, np.int64))
            values.append(codes[there])
        return Records.of(
            np.concatenate(owners), np.concatenate(items), np.concatenate(values),
            n_items=len(names), n_values=n_values,
        )  # fmt: skip

    def _listed_records(self, query: ItemQuery) -> Records:
        item_columns, max_values, recode = query
        assert item_columns is not None  # noqa: S101 - a long table
        item, value = item_columns.item, item_columns.value
        self._refuse_broken([item, value])
        persons = self._rows_and_persons.persons
        assert persons is not None  # noqa: S101 - require_groups checks the unit
        items, values = (self._recoded(name, recode).astype(np.int64) for name in (item, value))
        missing, _ = missing_codes(self.schema, recode)
        there = (items != missing[item]) & (values != missing[value])
        n_items, n_values = listed_sizes(self.schema, item_columns, recode)
        records = Records.of(
            persons[there].astype(np.int64), items[there], values[there],
            n_items=n_items, n_values=n_values,
        )  # fmt: skip
        return records.at_most(max_values, self._noise)

    def _recoded(
        self, name: str, recode: Recodings, rows: slice = slice(None)
    ) -> Integers | Codes32:
        """Return a column of some of the rows that count, after recoding."""
        codes = self._rows[name][rows]
        if name not in recode:
            return codes
        if recode[name].n_values <= len(codes):  # a lookup table is faster for many rows
            return recode[name].of_all[codes]
        return recode[name].apply(codes.astype(np.int64))

    def codes(self, columns: Sequence[str]) -> dict[str, Integers]:
        """Return the rows that count as codes; only for tables that the caller owns."""
        require_columns(self.schema, columns)
        self._refuse_broken(columns)
        return {name: self._rows[name].astype(np.int64) for name in columns}

    def rule_breaks(self) -> list[RuleBreak]:
        """Return all broken rules, and the rows without a person, for the custodian."""
        codes, persons = self._encoded
        n_nobody = 0 if persons is None else int(np.count_nonzero(persons < 0))
        found = _negative(codes, self.schema.attributes)
        return rule_breaks(self.schema, found, n_nobody=n_nobody)

    def _refuse_broken(self, columns: Sequence[str]) -> None:
        refuse_broken(rule_breaks(self.schema, _negative(self._rows, dict.fromkeys(columns))))


def _negative(
    rows: Mapping[str, Codes32], columns: Mapping[str, object]
) -> list[tuple[str, int, int]]:
    found = []
    for name in columns:
        codes = rows[name]
        if len(codes) and codes.min() >= 0:  # fast path for most tables
            codes = codes[:0]
        broken = np.bincount(-codes[codes < 0], minlength=N_RULES + 1)
        found += [(name, -rule, int(broken[rule])) for rule in range(1, N_RULES + 1)]
    return found


def _bounded(persons: Codes32, max_rows: int, noise: Noise) -> Integers:
    """Choose at most `max_rows` rows of each person, uniformly and independently.

    The promise does not depend on this choice. The rows of other persons are chosen in the same way
    whether or not a person is in the table, so the promise holds for every outcome of the random
    numbers, hence on average (joint convexity of the divergence). It only requires that the random
    numbers do not depend on the data and that a choice does not use other persons' rows. Rows
    without a person do not count, since they might all belong to one person.
    """
    coins = noise.uniform_below(2**62, size=len(persons))
    order = np.lexsort((coins, persons))
    order = order[np.count_nonzero(persons < 0) :]  # rows without a person come first
    starts = np.flatnonzero(np.diff(persons[order], prepend=-1))
    n_each = np.diff(np.append(starts, len(order)))
    place = np.arange(len(order)) - np.repeat(starts, n_each)
    return np.sort(order[place < max_rows])


def _tally(keys: Integers) -> tuple[Integers, Counts]:
    """Return the sorted distinct keys and their counts; may sort in place."""
    # Faster than numpy.unique for integers.
    if keys.shape[1] > 1:
        keys = keys[np.lexsort(keys.T[::-1])]
    else:
        keys.sort(axis=0)
    changed = np.ones(len(keys), bool)
    changed[1:] = np.any(keys[1:] != keys[:-1], axis=1)
    starts = np.flatnonzero(changed)
    return keys[starts], np.diff(np.append(starts, len(keys))).astype(np.int64)
