"""Interfaces of engines: the queries that a method may run on the private table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import pyarrow as pa

from hushtable.engine.baskets import ItemColumns, ItemGroups, ItemPairs, Tuples
from hushtable.engine.cells import Counts, OccupiedCells
from hushtable.engine.published import AllCells, Keys, RowsOf, WrittenParts
from hushtable.engine.rule_breaks import RuleBreak
from hushtable.privacy.noise.noise import Noise
from hushtable.schema import Schema
from hushtable.schema.recoding import Recoding

if TYPE_CHECKING:
    from hushtable.schema.linked_schema import LinkedSchema  # many models: slow to import


MAX_HISTOGRAM = 10_000_000  # cells of one dense histogram
MAX_GROUP = 12  # columns of one dense table


class Engine(Protocol):
    """Counting queries on the private table, encoded by the schema's rules.

    With unit ``person``, at most ``max_rows`` rows of each person count (a uniformly random subset
    if there are more), and rows without a person do not count. Where the schema says ``forbid`` or
    ``refuse``, a query over rows that break such a rule raises a `DataError` that lists all broken
    rules of the queried columns. All other rules assign each row to a cell.
    """

    @property
    def schema(self) -> Schema:
        """The public schema."""
        ...

    def n_rows(self) -> int:
        """Count the rows."""
        ...

    def histograms(self, columns: Sequence[str], *, by: str | None = None) -> dict[str, Counts]:
        """Count each value of each column; with `by`, an array (value, value of `by`)."""
        ...

    def counts(
        self, columns: Sequence[str], *, recode: Mapping[str, Recoding] | None = None
    ) -> OccupiedCells:
        """Count the occupied cells of some columns, after recoding."""
        ...

    def publish_cells(
        self,
        columns: Sequence[str],
        rows_of: RowsOf,
        noise: Noise,
        *,
        recode: Mapping[str, Recoding] | None = None,
        also: Keys | AllCells | None = None,
    ) -> pa.Table | WrittenParts:
        """Return the published rows of the occupied cells, with independent noise per cell.

        If the domain may be too large for one machine, executors write the rows. The size of the
        domain decides this, since the number of occupied cells is private.

        `rows_of` returns the rows of some cells with fresh noise. It may run on parts of the cells
        in other processes, so it must be picklable. `also` adds cells with count 0 if they are not
        occupied: some, by their packed keys, or all cells of the domain (`AllCells`).
        """
        ...

    def marginals(
        self,
        groups: Sequence[Sequence[str]],
        *,
        recode: Mapping[str, Recoding] | None = None,
    ) -> list[Counts]:
        """Return the marginal table of each group of columns, including empty cells.

        The axes of a table are the group's columns in the given order. The engine uses as few
        scans as possible.
        """
        ...

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
        ...

    def pairs(
        self,
        item_columns: ItemColumns,
        *,
        items: Sequence[int] | None = None,
        max_values: int | None = None,
        recode: Mapping[str, Recoding] | None = None,
    ) -> ItemPairs:
        """Count the persons of a long table who have both items of a pair, by equality of values.

        Only pairs of `items`, in ascending order, are counted; by default, of all items.
        """
        ...

    def sizes(
        self, item_columns: ItemColumns, *, recode: Mapping[str, Recoding] | None = None
    ) -> Counts:
        """Count the persons of a long table by their number of values, starting at 1."""
        ...

    def rule_breaks(self) -> list[RuleBreak]:
        """Return all broken rules, and the rows without a person, for the custodian."""
        ...


@runtime_checkable
class LinkedEngines(Protocol):
    """Counting queries on linked tables: one engine per table.

    The engines count wide rows, each of which belongs to a person; see
    `hushtable.engine.linked_tables`.
    """

    @property
    def schema(self) -> LinkedSchema:
        """The public schema of the tables."""
        ...

    def engine(self, name: str) -> Engine:
        """Return the engine that counts the wide rows of one table."""
        ...

    def steps(self, name: str) -> Engine:
        """Return the engine that counts rows of one table together with their previous row."""
        ...


@runtime_checkable
class WavePair(Protocol):
    """Counting queries on a wave, and on the people who are also in the previous wave."""

    @property
    def now(self) -> Engine:
        """The engine that counts the rows of the wave."""
        ...

    @property
    def followed(self) -> Engine | None:
        """The engine that counts people in both waves; None if there is no previous wave."""
        ...
