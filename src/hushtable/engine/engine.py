"""Checks common to all engines: invalid queries, and counts that do not sum to the rows.

A promise assumes that each row is in one cell. So the counts of any engine must sum to the rows
that count; otherwise the run stops before it draws noise for them. (Cells that executors count and
publish are checked after they are written and before they become a release: see
`hushtable.engine.spark.writing`.)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from hushtable.engine.baskets import (
    ItemColumns,
    ItemGroups,
    ItemPairs,
    LongTableQuery,
    Runs,
    TupleLimits,
    Tuples,
    missing_codes,
    most_listed,
    tally,
)
from hushtable.engine.cells import Counts, OccupiedCells
from hushtable.engine.published import AllCells, Keys, RowsOf, WrittenParts, publish_here
from hushtable.engine.rule_breaks import RuleBreak
from hushtable.engine.rules import (
    require_columns,
    require_dense,
    require_groups,
    require_marginals,
)
from hushtable.errors import DataError
from hushtable.privacy.noise.noise import Noise
from hushtable.schema import Schema
from hushtable.schema.recoding import Recoding


def not_once(columns: Sequence[str]) -> DataError:
    """Return the error for counts that do not sum to the rows, without the difference."""
    return DataError(
        f"columns {', '.join(map(repr, columns))}: the counts do not add up to the rows that "
        "count, so a row was counted more than once or not at all, and nothing was published. If "
        "the table was written to meanwhile, run again; if it was not, the engine does not compare "
        "values as it must: count a copy of the table in a Parquet file, and report this."
    )


class CheckedEngine(ABC):
    """Base class of engines, which checks all queries and results."""

    _schema: Schema

    @property
    def schema(self) -> Schema:
        """The public schema."""
        return self._schema

    @abstractmethod
    def n_rows(self) -> int:
        """Count the rows."""

    @abstractmethod
    def rule_breaks(self) -> list[RuleBreak]:
        """Return all broken rules of the table, for the custodian."""

    def histograms(self, columns: Sequence[str], *, by: str | None = None) -> dict[str, Counts]:
        """Count each value of each column; with `by`, an array (value, value of `by`)."""
        require_columns(self._schema, columns, by=by)
        require_dense(self._schema, columns, by=by)
        answer = self._histograms(columns, by)
        for name, counts in answer.items():
            self._require_each_row_once([name] if by is None else [name, by], counts)
        return answer

    def counts(
        self, columns: Sequence[str], *, recode: Mapping[str, Recoding] | None = None
    ) -> OccupiedCells:
        """Count the occupied cells of some columns, after recoding."""
        require_columns(self._schema, columns)
        cells = self._counts(columns, recode or {})
        self._require_each_row_once(columns, cells.counts)
        return cells

    def publish_cells(
        self,
        columns: Sequence[str],
        rows_of: RowsOf,
        noise: Noise,
        *,
        recode: Mapping[str, Recoding] | None = None,
        also: Keys | AllCells | None = None,
    ) -> pa.Table | WrittenParts:
        """Return the published rows of the occupied cells, with independent noise per cell."""
        require_columns(self._schema, columns)
        executors = self._executors(columns, recode or {}, noise)
        if executors is not None:
            return executors(rows_of, noise, also=also)
        cells = self.counts(columns, recode=recode)
        return publish_here(cells, rows_of, noise, also=also)

    def _executors(
        self, columns: Sequence[str], recode: Mapping[str, Recoding], noise: Noise
    ) -> Callable[..., WrittenParts] | None:
        """Return rows that executors write, if the cells may be too many to fetch, else None."""
        return None

    def marginals(
        self,
        groups: Sequence[Sequence[str]],
        *,
        recode: Mapping[str, Recoding] | None = None,
    ) -> list[Counts]:
        """Return the marginal table of each group of columns, in as few scans as possible."""
        shapes = require_marginals(self._schema, groups, recode)
        tables = self._marginals(groups, shapes, recode or {})
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
        recode: Mapping[str, Recoding] | None = None,
    ) -> Tuples:
        """Count the tuples of records in groups of items."""
        recode = recode or {}
        require_groups(self._schema, groups, item_columns)
        if item_columns is None and max_groups >= len(groups):
            return self._unbounded_tuples(groups, recode, at_least=at_least)
        bounds = TupleLimits(max_groups, at_least)
        if item_columns is None:
            tuples = self._wide_tuples(groups, recode, bounds)
            columns = list(self._schema.attributes)
        else:
            tuples = self._listed_tuples(
                groups, LongTableQuery(item_columns, max_values, recode), bounds
            )
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

    def _unbounded_tuples(
        self, groups: ItemGroups, recode: Mapping[str, Recoding], *, at_least: int
    ) -> Tuples:
        """Count the tuples of rows without a limit: the cells of each group."""
        names = list(self._schema.attributes)
        missing, n_values = missing_codes(self._schema, recode)
        parts = []
        for number, items in enumerate(groups):
            group = sorted(items)
            cells = self.counts([names[item] for item in group], recode=recode)
            there = cells.codes != missing[group]
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
        return tally(runs, at_least=at_least, n_records=self.n_rows())

    def pairs(
        self,
        item_columns: ItemColumns,
        *,
        items: Sequence[int] | None = None,
        max_values: int | None = None,
        recode: Mapping[str, Recoding] | None = None,
    ) -> ItemPairs:
        """Count the persons of a long table with both items of a pair, by equality of values."""
        require_groups(self._schema, [[0]], item_columns)
        pairs = self._pairs(LongTableQuery(item_columns, max_values, recode or {}), items)
        # A row has at most one item, and a person with a pair has each of its items.
        both = int((pairs.agree + pairs.differ).max(initial=0))
        if int(pairs.support.sum()) > self.n_rows() or both > int(pairs.support.max(initial=0)):
            raise not_once([item_columns.item, item_columns.value])
        return pairs

    def sizes(
        self, item_columns: ItemColumns, *, recode: Mapping[str, Recoding] | None = None
    ) -> Counts:
        """Count the persons of a long table by their number of values, starting at 1."""
        require_groups(self._schema, [[0]], item_columns)
        most = most_listed(self._schema, item_columns)
        found = self._sizes(LongTableQuery(item_columns, None, recode or {}))
        # Each value has its own row, and nobody has more rows than the unit allows.
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
    def _histograms(self, columns: Sequence[str], by: str | None) -> dict[str, Counts]: ...

    @abstractmethod
    def _counts(self, columns: Sequence[str], recode: Mapping[str, Recoding]) -> OccupiedCells: ...

    @abstractmethod
    def _marginals(
        self,
        groups: Sequence[Sequence[str]],
        shapes: Sequence[tuple[int, ...]],
        recode: Mapping[str, Recoding],
    ) -> list[Counts]: ...

    @abstractmethod
    def _wide_tuples(
        self, groups: ItemGroups, recode: Mapping[str, Recoding], bounds: TupleLimits
    ) -> Tuples:
        """Count the tuples of rows with a limit on the groups per row."""

    @abstractmethod
    def _listed_tuples(
        self, groups: ItemGroups, listed: LongTableQuery, bounds: TupleLimits
    ) -> Tuples:
        """Count the tuples of the persons of a long table."""

    @abstractmethod
    def _pairs(self, listed: LongTableQuery, items: Sequence[int] | None) -> ItemPairs: ...

    @abstractmethod
    def _sizes(self, listed: LongTableQuery) -> Counts: ...
