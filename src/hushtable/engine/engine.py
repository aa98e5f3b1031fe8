"""Engines: the queries that a method may run on the private table, and checks of their results.

A promise assumes that each row is in one cell. So the counts of any engine must sum to the rows
that count; otherwise the run stops before it draws noise for them. (Cells that executors count and
publish are checked after they are written and before they become a release: see
`hushtable.engine.spark.writing`.)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hushtable.engine.baskets import (
    ItemColumns,
    ItemGroups,
    ItemPairs,
    ItemQuery,
    Runs,
    TupleLimits,
    Tuples,
    add_equal,
    missing_codes,
    most_listed,
)
from hushtable.engine.cells import (
    AllCells,
    ColumnGroups,
    Counts,
    Keys,
    OccupiedCells,
    Recodings,
    RowsOf,
    WrittenParts,
    publish_here,
)
from hushtable.engine.rule_breaks import MISSING, OUTSIDE, UNREADABLE, MisfitKind, RuleBreak
from hushtable.errors import DataError, ParameterError, TooLarge, shown, unpublished
from hushtable.privacy.noise.noise import Noise
from hushtable.schema import Categorical, Column, Schema
from hushtable.schema.recoding import recoded_domain

if TYPE_CHECKING:
    from hushtable.schema.linked_schema import LinkedSchema  # many models: slow to import


MAX_HISTOGRAM = 10_000_000  # cells of one dense histogram
MAX_GROUP = 12  # columns of one dense table


def require_columns(schema: Schema, columns: Sequence[str], *, by: str | None = None) -> None:
    """Raise an error if a column is not published or is repeated, or if none is given."""
    named = [*columns] if by is None else [*columns, by]
    problems = unpublished(named, schema.attributes)
    problems += [
        f"column {name!r} is given more than once; give each column once."
        for name in dict.fromkeys(columns)
        if list(columns).count(name) > 1
    ]
    if not columns:
        problems.append("no column is given; give at least one.")
    ParameterError.raise_if_any(problems)


def require_dense(schema: Schema, groups: ColumnGroups, recode: Recodings) -> list[tuple[int, ...]]:
    """Return the shapes of dense tables; raise an error if one has too many cells or columns."""
    sizes = recoded_domain(schema, list(dict.fromkeys(chain(*groups))), recode).sizes
    shapes = [tuple(sizes[name] for name in group) for group in groups]
    problems = [
        f"columns {', '.join(map(repr, group))}: a table of {math.prod(shape)} cells of "
        f"{len(group)} columns is over the limit of {MAX_HISTOGRAM} cells and {MAX_GROUP} columns; "
        "use coarser or fewer columns."
        for group, shape in zip(groups, shapes, strict=True)
        if math.prod(shape) > MAX_HISTOGRAM or len(group) > MAX_GROUP
    ]
    TooLarge.raise_if_any(problems)
    return shapes


def require_groups(schema: Schema, groups: ItemGroups, item_columns: ItemColumns | None) -> None:
    """Raise an error if the groups or item columns of a tuple query are invalid."""
    n_items = len(schema.attributes)
    if item_columns is not None:
        require_columns(schema, [item_columns.item, item_columns.value])
        item = schema.attributes[item_columns.item]
        n_items = item.n_values
        problems = []
        if not isinstance(item, Categorical):
            problems.append(f"column {item_columns.item!r}: items must be a categorical column.")
        if schema.unit.kind != "person":
            problems.append(
                f"the unit is {schema.unit.kind}; a long table needs the unit person, whose values "
                "are combined."
            )
        ParameterError.raise_if_any(problems)
    if not groups or any(
        not group or len(set(group)) < len(group) or not all(0 <= i < n_items for i in group)
        for group in groups
    ):
        raise ParameterError(f"each group must consist of distinct items from 0 to {n_items - 1}.")


_KINDS: dict[int, MisfitKind] = {MISSING: "missing", UNREADABLE: "unreadable", OUTSIDE: "outside"}
CODES = {kind: code for code, kind in _KINDS.items()}

_ADVICE = (
    "the default rules accept every table; choose the domain from public knowledge, never from "
    "the values of these rows"
)


def rule_break(schema: Schema, name: str, code: int, n_rows: int) -> RuleBreak:
    """Describe the rows with a negative code in a column, and how the schema treats them."""
    from hushtable.engine.encode import RuleCodes  # noqa: PLC0415 - imports ibis

    column = schema.attributes[name]
    rules = RuleCodes.of(column)
    taken = {MISSING: rules.no_value, UNREADABLE: rules.unreadable, OUTSIDE: rules.above}[code]
    by_outside = code == OUTSIDE or (code == UNREADABLE and column.outside != "clip")
    said = f"outside: {column.outside}" if by_outside else f"missing: {column.missing}"
    if taken < 0:
        what = f"and the schema says {said}; {_ADVICE}"
    elif code == OUTSIDE and column.outside == "clip":
        what = f"and count as the nearest bound ({said})"
    else:
        apart = taken >= column.n_values
        value = column.name(taken) if apart else shown(column.value(taken))
        what = f"and count as {value} ({said})"
    return RuleBreak(
        name, f"{_out_of_domain(column, code)}, {what}", n_rows, _KINDS[code], taken < 0
    )


def _out_of_domain(column: Column, code: int) -> str:
    if code == MISSING:
        return "have no value"
    if code == UNREADABLE:
        words = {"integer": "whole number", "decimal": "number"}
        return f"cannot be read as a {words.get(column.type, column.type)}"
    if isinstance(column, Categorical):
        return "lie outside the listed values"
    return f"lie outside {column.bounds}"


def rule_breaks(
    schema: Schema, found: Iterable[tuple[str, int, int]], *, n_nobody: int = 0
) -> list[RuleBreak]:
    """Return broken rules in the order of the schema, and the rows without a person.

    Each entry of `found` is a column, a negative code, and the number of rows with that code.
    """
    order = {name: position for position, name in enumerate(schema.attributes)}
    ordered = sorted(found, key=lambda item: (order[item[0]], -item[1]))
    breaks = [rule_break(schema, *item) for item in ordered if item[2] > 0]
    if n_nobody:
        why = "have no person and do not count, since a person's contribution could not be bounded"
        breaks.append(RuleBreak(schema.unit.column or "", why, n_nobody, "nobody", refused=False))
    return breaks


def refuse_broken(breaks: Sequence[RuleBreak]) -> None:
    """Raise one error that names every broken rule, if there is any."""
    if breaks:
        raise DataError([str(broken) for broken in breaks])


def not_once(columns: Sequence[str]) -> DataError:
    """Return the error for counts that do not sum to the rows; it does not reveal by how much."""
    return DataError(
        f"columns {', '.join(map(repr, columns))}: the counts do not add up to the rows that "
        "count, so a row was counted more than once or not at all, and nothing was published. If "
        "the table was written to meanwhile, run again; if it was not, the engine does not compare "
        "values as it must: count a copy of the table in a Parquet file, and report this."
    )


class Engine(ABC):
    """Counting queries on the private table, encoded by the schema's rules.

    With unit ``person``, at most ``max_rows`` rows of each person count (a uniformly random subset
    if there are more), and rows without a person do not count. Where the schema says ``forbid`` or
    ``refuse``, a query over rows that break such a rule raises a `DataError` that lists all broken
    rules of the queried columns. All other rules assign each row to a cell.

    The public methods check the query and that the counts sum to the rows that count. Subclasses
    only count.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    @abstractmethod
    def n_rows(self) -> int:
        """Return the number of rows that count, after the limit per person."""

    @abstractmethod
    def rule_breaks(self) -> list[RuleBreak]:
        """Return all broken rules, and the rows without a person, for the custodian."""

    def histograms(self, columns: Sequence[str], *, by: str | None = None) -> dict[str, Counts]:
        """Count each value of each column; with `by`, an array (value, value of `by`)."""
        require_columns(self.schema, columns, by=by)
        groups = [[name] if by is None else [name, by] for name in columns]
        return dict(zip(columns, self._dense_tables(groups, {}), strict=True))

    def counts(self, columns: Sequence[str], *, recode: Recodings | None = None) -> OccupiedCells:
        """Count the occupied cells of some columns, after recoding."""
        require_columns(self.schema, columns)
        cells = self._counts(columns, recode or {})
        self._require_each_row_once(columns, cells.counts)
        return cells

    def publish_cells(
        self,
        columns: Sequence[str],
        rows_of: RowsOf,
        noise: Noise,
        *,
        recode: Recodings | None = None,
        also: Keys | AllCells | None = None,
    ) -> pa.Table | WrittenParts:
        """Return the published rows of the occupied cells, with independent noise per cell.

        If the domain may be too large for one machine, executors write the rows. The size of the
        domain decides this, since the number of occupied cells is private.

        `rows_of` returns the rows of some cells with fresh noise. It may run on parts of the cells
        in other processes, so it must be picklable. `also` adds cells with count 0 if they are not
        occupied: some, by their packed keys, or all cells of the domain (`AllCells`).
        """
        require_columns(self.schema, columns)
        executors = self._executors(columns, recode or {}, noise)
        if executors is not None:
            return executors(rows_of, noise, also=also)
        cells = self.counts(columns, recode=recode)
        return publish_here(cells, rows_of, noise, also=also)

    def _executors(
        self, columns: Sequence[str], recode: Recodings, noise: Noise
    ) -> Callable[..., WrittenParts] | None:
        """Return a function that has executors write rows; None if the cells can be fetched."""
        return None

    def marginals(self, groups: ColumnGroups, *, recode: Recodings | None = None) -> list[Counts]:
        """Return the marginal table of each group of columns, including empty cells.

        The axes of a table are the group's columns in the given order. The engine uses as few
        scans as possible.
        """
        if not groups:
            raise ParameterError("no group of columns is given; give at least one.")
        for group in groups:
            require_columns(self.schema, group)
        return self._dense_tables(groups, recode or {})

    def _dense_tables(self, groups: ColumnGroups, recode: Recodings) -> list[Counts]:
        shapes = require_dense(self.schema, groups, recode)
        tables = self._marginals(groups, shapes, recode)
        for group, table in zip(groups, tables, strict=True):
            self._require_each_row_once(group, table)
        return tables

    def tuples(
        self,
        groups: ItemGroups,
        *,
        max_groups: int,
        at_least: int = 1,
        item_columns: ItemColumns | None = None,
        max_values: int | None = None,
        recode: Recodings | None = None,
    ) -> Tuples:
        """Count the tuples of records in groups of items, see `hushtable.engine.baskets`.

        Parameters
        ----------
        groups : sequence of sequences of int
            Items of each group: positions of columns, or codes of the item column with
            `item_columns`.
        max_groups : int
            Maximum number of groups per record; of more, a uniformly random subset counts.
        at_least : int
            Tuples of fewer records are left out.
        item_columns : ItemColumns, optional
            For a long table, in which a record is a person. Otherwise a record is a row.
        max_values : int, optional
            With `item_columns`: maximum number of values per person; of more, a uniformly random
            subset counts.
        recode : mapping of str to Recoding, optional
            Recodings of the values; the item column cannot be recoded.
        """
        query = ItemQuery(item_columns, max_values, recode or {})
        require_groups(self.schema, groups, item_columns)
        if item_columns is None and max_groups >= len(groups):
            return self._unbounded_tuples(groups, query.recode, at_least=at_least)
        tuples = self._tuples(groups, query, TupleLimits(max_groups, at_least))
        columns = list(self.schema.attributes)
        if item_columns is None:
            tuples = replace(tuples, n_records=self.n_rows())
        else:
            columns = [item_columns.item, item_columns.value]
        # A record has at least one row, and one tuple in each of at most `max_groups` groups.
        held = np.bincount(tuples.groups, tuples.counts, len(groups))
        most = min(max_groups, len(groups)) * tuples.n_records
        if (
            tuples.n_records > self.n_rows()
            or int(held.max(initial=0)) > tuples.n_records
            or int(held.sum()) > most
        ):
            raise not_once(columns)
        return tuples

    def _unbounded_tuples(self, groups: ItemGroups, recode: Recodings, *, at_least: int) -> Tuples:
        """Count the tuples of rows without a limit: the cells of each group."""
        names = list(self.schema.attributes)
        missing, n_values = missing_codes(self.schema, recode)
        parts = []
        for number, items in enumerate(groups):
            group = sorted(items)
            cells = self.counts([names[item] for item in group], recode=recode)
            there = cells.codes != [missing[names[item]] for item in group]
            kept = there.any(axis=1) & (cells.counts >= at_least)
            codes, there = cells.codes[kept], there[kept]
            elements = (np.array(group, np.int64) * n_values + codes)[there]
            of_group = np.full(len(codes), number)
            parts.append((of_group, there.sum(axis=1), elements, cells.counts[kept]))
        of_group, lengths, elements, counts = (
            np.concatenate(part).astype(np.int64) for part in zip(*parts, strict=True)
        )
        starts = np.cumsum(lengths) - lengths
        runs = Runs(of_group, starts, lengths, elements, counts, len(names), n_values)
        return add_equal(runs, at_least=at_least, n_records=self.n_rows())

    def pairs(
        self,
        item_columns: ItemColumns,
        *,
        items: Sequence[int] | None = None,
        max_values: int | None = None,
        recode: Recodings | None = None,
    ) -> ItemPairs:
        """Count the persons of a long table with each item, and with both items of each pair.

        Pairs are counted by whether their values are equal. Only pairs of `items`, which are in
        ascending order, are counted; by default, pairs of all items.
        """
        require_groups(self.schema, [[0]], item_columns)
        pairs = self._pairs(ItemQuery(item_columns, max_values, recode or {}), items)
        # A row has at most one item, and a person with a pair has each of its items.
        both = int((pairs.agree + pairs.differ).max(initial=0))
        if int(pairs.support.sum()) > self.n_rows() or both > int(pairs.support.max(initial=0)):
            raise not_once([item_columns.item, item_columns.value])
        return pairs

    def sizes(self, item_columns: ItemColumns, *, recode: Recodings | None = None) -> Counts:
        """Count the persons of a long table by their number of values, starting at 1."""
        require_groups(self.schema, [[0]], item_columns)
        most = most_listed(self.schema, item_columns)
        found = self._sizes(ItemQuery(item_columns, None, recode or {}))
        # Each value has its own row, and a person has at most as many rows as the unit allows.
        n_values = int((found * np.arange(len(found))).sum())
        if len(found) > most + 1 or n_values > self.n_rows() or found[:1].any():
            raise not_once([item_columns.item, item_columns.value])
        sizes = np.zeros(most, np.int64)
        sizes[: max(0, len(found) - 1)] = found[1:]
        return sizes

    def _require_each_row_once(self, columns: Sequence[str], counts: Counts) -> None:
        if int(counts.sum()) != self.n_rows():
            raise not_once(columns)

    @abstractmethod
    def _counts(self, columns: Sequence[str], recode: Recodings) -> OccupiedCells: ...

    @abstractmethod
    def _marginals(
        self, groups: ColumnGroups, shapes: Sequence[tuple[int, ...]], recode: Recodings
    ) -> list[Counts]: ...

    @abstractmethod
    def _tuples(self, groups: ItemGroups, query: ItemQuery, limits: TupleLimits) -> Tuples: ...

    @abstractmethod
    def _pairs(self, query: ItemQuery, items: Sequence[int] | None) -> ItemPairs: ...

    @abstractmethod
    def _sizes(self, query: ItemQuery) -> Counts: ...


class LinkedEngines(ABC):
    """Counting queries on linked tables: one engine per table.

    The engines count wide rows, and each row belongs to a person; see
    `hushtable.engine.linked_tables`.
    """

    schema: LinkedSchema

    @abstractmethod
    def engine(self, name: str) -> Engine:
        """Return the engine that counts the wide rows of one table."""

    @abstractmethod
    def steps(self, name: str) -> Engine:
        """Return the engine that counts rows of one table together with their previous row."""


@dataclass(frozen=True, eq=False)
class WavePair:
    """Engines of a wave, and of the people who are also in the previous wave."""

    now: Engine
    followed: Engine | None  # None without a previous wave
