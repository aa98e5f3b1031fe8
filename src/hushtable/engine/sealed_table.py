"""Sealed tables, which methods receive instead of an engine: the same queries, sealed results.

This module defines the sensitivity of each result: a row is in one cell of a table, a unit has at
most as many rows as its schema allows, and a person of a long table at most as many items as
allowed. Everything else about sensitivity is derived from that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from hushtable.engine.baskets import ItemColumns, ItemGroups, most_listed
from hushtable.engine.cells import AllCells, ColumnGroups, OccupiedCells, Recodings, WrittenParts
from hushtable.engine.engine import Engine, LinkedEngines, WavePair
from hushtable.engine.graph import Graph, SealedGraph
from hushtable.errors import SealedError
from hushtable.privacy.accounting.run_account import DataPart, Draw, RunAccount
from hushtable.privacy.accounting.sealed import SealedCells, SealedCounts
from hushtable.privacy.accounting.sensitivity import Sensitivity
from hushtable.privacy.mechanisms.cells import CellMechanism, NoisyCells, SealedTuples
from hushtable.privacy.noise.noise import Noise
from hushtable.schema import Schema

if TYPE_CHECKING:
    from hushtable.schema.linked_schema import LinkedSchema  # many models: slow to import

Made = TypeVar("Made")

Write = Callable[[NoisyCells], pa.Table]
"""Function that returns the published rows of opened cells; executors may run it."""


class SealedTable:
    """Queries of `hushtable.engine.engine.Engine` with sealed results.

    Queries that open a result are recorded in `account`.
    """

    def __init__(self, engine: Engine, account: RunAccount) -> None:
        self.__engine = engine
        self.account = account

    def __repr__(self) -> str:
        return f"<sealed table {self.schema.name!r}>"

    @property
    def schema(self) -> Schema:
        """The public schema."""
        return self.__engine.schema

    @property
    def sensitivity(self) -> Sensitivity:
        """Sensitivity of a table in which each row is in one cell."""
        rows = self.schema.unit.max_rows or 1
        promise = self.account.promise
        exchanged = promise is not None and promise.exchanged
        return Sensitivity(rows=2 * rows if exchanged else rows, exchanged=exchanged)

    @property
    def _persons(self) -> int:
        """Number of persons that neighbors differ in: 1, or 2 if a person is replaced."""
        return 2 if self.sensitivity.exchanged else 1

    @property
    def _part(self) -> DataPart:
        return self.account.root

    def _sealed(self, counts: Any) -> SealedCounts:
        return SealedCounts(counts, self.sensitivity, self._part)

    def n_rows(self) -> SealedCounts:
        """Count the rows; the result is an array of one count."""
        return self._sealed(np.array([self.__engine.n_rows()], np.int64))

    def histograms(
        self, columns: Sequence[str], *, by: str | None = None
    ) -> dict[str, SealedCounts]:
        """Count each value of each column; with `by`, an array (value, value of `by`)."""
        answer = self.__engine.histograms(columns, by=by)
        return {name: self._sealed(counts) for name, counts in answer.items()}

    def counts(self, columns: Sequence[str], *, recode: Recodings | None = None) -> SealedCells:
        """Count the occupied cells of some columns, after recoding."""
        cells = self.__engine.counts(columns, recode=recode)
        return SealedCells(cells, self.sensitivity, self._part)

    def marginals(
        self, groups: ColumnGroups, *, recode: Recodings | None = None
    ) -> list[SealedCounts]:
        """Return the marginal table of each group of columns, in as few scans as possible."""
        return [self._sealed(table) for table in self.__engine.marginals(groups, recode=recode)]

    def publish_cells(
        self,
        columns: Sequence[str],
        mechanism: CellMechanism,
        write: Write,
        noise: Noise,
        *,
        what: str,
        recode: Recodings | None = None,
    ) -> pa.Table | WrittenParts:
        """Open the occupied cells and return their published rows, on executors if needed.

        The cost of `mechanism` is recorded here, even if executors run it. `write` returns the
        published rows of opened cells; it may run on parts of them in other processes, so it must
        be picklable. `what` describes the query in the account of the run.
        """
        record = self.account.record(what, (self._part,), self.sensitivity, mechanism)
        return self.__engine.publish_cells(
            columns,
            partial(_opened, self.account.observed(record, mechanism.draw_some), write),
            noise,
            recode=recode,
            also=AllCells() if mechanism.whole_domain else mechanism.inserted(noise),
        )

    def tuples(
        self,
        groups: ItemGroups,
        *,
        max_groups: int,
        at_least: int = 1,
        item_columns: ItemColumns | None = None,
        max_values: int | None = None,
        recode: Recodings | None = None,
    ) -> SealedTuples:
        """Count the tuples of records in groups of items; see `Engine.tuples`.

        A record adds at most one tuple to each group and counts in at most `max_groups` groups.
        A second bound also limits the sensitivity: the largest number of values of a record, times
        the largest number of groups that share an item.
        """
        tuples = self.__engine.tuples(
            groups,
            max_groups=max_groups,
            at_least=at_least,
            item_columns=item_columns,
            max_values=max_values,
            recode=recode,
        )
        reached = self._most_values(item_columns, max_values) * max(
            Counter(chain(*groups)).values()
        )
        records = self.sensitivity.rows if item_columns is None else self._persons
        sensitivity = Sensitivity(rows=records, cells=min(max_groups, len(groups), reached))
        return SealedTuples.of(tuples, sensitivity, self._part, at_least=at_least)

    def item_support(
        self,
        item_columns: ItemColumns,
        *,
        max_values: int | None = None,
        recode: Recodings | None = None,
    ) -> SealedCounts:
        """Count the persons of a long table with each item.

        A person changes the counts of the items that they have.
        """
        pairs = self.__engine.pairs(item_columns, items=(), max_values=max_values, recode=recode)
        moved = Sensitivity(rows=self._persons, cells=self._most_values(item_columns, max_values))
        return SealedCounts(pairs.support, moved, self._part)

    def item_pairs(
        self,
        item_columns: ItemColumns,
        *,
        items: Sequence[int],
        max_values: int | None = None,
        recode: Recodings | None = None,
    ) -> SealedCounts:
        """Count the persons with both items of a pair: with equal and with different values.

        A person changes one of the two counts of each pair of items that they have.
        """
        pairs = self.__engine.pairs(item_columns, items=items, max_values=max_values, recode=recode)
        most = self._most_values(item_columns, max_values)
        moved = Sensitivity(rows=self._persons, cells=most * (most - 1) // 2)
        return SealedCounts(np.stack((pairs.agree, pairs.differ)), moved, self._part)

    def basket_sizes(
        self, item_columns: ItemColumns, *, recode: Recodings | None = None
    ) -> SealedCounts:
        """Count the persons of a long table by number of values; a person is in one count."""
        sizes = self.__engine.sizes(item_columns, recode=recode)
        return SealedCounts(sizes, Sensitivity(rows=self._persons), self._part)

    def _most_values(self, item_columns: ItemColumns | None, max_values: int | None) -> int:
        """Return the maximum number of values of a record."""
        if item_columns is None:
            return len(self.schema.attributes)
        return most_listed(self.schema, item_columns, max_values)

    def exact_engine(self, what: str) -> Engine:
        """Return the engine, for methods that declare that they see exact counts."""
        self.account.record_unprotected(what)
        return self.__engine


class SealedTables:
    """Sealed linked tables; one account records the queries on all of them."""

    def __init__(self, engines: LinkedEngines, account: RunAccount) -> None:
        self.__engines = engines
        self.account = account

    @property
    def schema(self) -> LinkedSchema:
        """The public schema of the tables."""
        return self.__engines.schema

    def table(self, name: str) -> SealedTable:
        """Return the sealed wide rows of one table."""
        return SealedTable(self.__engines.engine(name), self.account)

    def steps(self, name: str) -> SealedTable:
        """Return the sealed rows of one table together with their previous row."""
        return SealedTable(self.__engines.steps(name), self.account)


class SealedWaves:
    """Sealed wave, and sealed people also in the previous wave, with one account."""

    def __init__(self, waves: WavePair, account: RunAccount) -> None:
        self.account = account
        self.now = SealedTable(waves.now, account)
        followed = waves.followed
        self.followed = None if followed is None else SealedTable(followed, account)


Counting = Engine | LinkedEngines | WavePair | Graph
"""Sources of counts that can be sealed for a run."""


def seal(source: Counting, account: RunAccount) -> Any:
    """Seal a table, linked tables, two waves or a graph for one run."""
    if isinstance(source, Graph):
        return SealedGraph(source, account)
    if isinstance(source, LinkedEngines):
        return SealedTables(source, account)
    if isinstance(source, WavePair):
        return SealedWaves(source, account)
    return SealedTable(source, account)


def accounted(source: Counting, account: RunAccount, ask: Callable[[Any], Made]) -> Made:
    """Seal a source, run `ask` on it, and check that the cost is within the promise."""
    try:
        made = ask(seal(source, account))
    except SealedError:
        raise
    except Exception:
        # The result of a run that spent more than promised is not covered by the promise.
        account.require_within()
        raise
    account.settle()
    return made


def _opened(draw: Draw, write: Write, cells: OccupiedCells, noise: Noise) -> pa.Table:
    return write(draw(cells, noise))
