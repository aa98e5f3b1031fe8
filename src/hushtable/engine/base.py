"""Where counts come from: the few questions a method may ask of the private table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import pyarrow as pa

from hushtable.engine.baskets import ItemColumns, ItemGroups, Pairs, Tuples
from hushtable.engine.cells import Cells, Counts
from hushtable.engine.published import Keys, Parts, RowsOf, Whole
from hushtable.privacy.noise import Noise
from hushtable.recoding import Recoding
from hushtable.schema import Schema

if TYPE_CHECKING:
    from hushtable.schema.linked import LinkedSchema  # many models: slow to import

# Negative codes mark rows that break a rule of the schema, while they are being encoded.
MISSING, UNREADABLE, OUTSIDE = -1, -2, -3

MisfitKind = Literal["missing", "unreadable", "outside", "nobody", "surplus", "rule"]

MAX_HISTOGRAM = 10_000_000  # cells of one dense histogram
MAX_GROUP = 12  # columns of one dense table


@dataclass(frozen=True)
class RuleBreak:
    """Say how many rows do not fit in which way in which column; never which values.

    With `refused`, the schema's rules have the table refused for it.
    """

    column: str
    rule: str
    n_rows: int
    kind: MisfitKind
    refused: bool

    def __str__(self) -> str:
        return f"column {self.column!r}: {self.n_rows:,} rows {self.rule}."


class Engine(Protocol):
    """Answer counts over the private table, encoded and checked by the schema's rules.

    Every answer is about the rows that count: with unit ``person``, at most ``max_rows`` rows of
    each person, a uniformly random part where there are more, and no row that names no person.
    Where the schema says ``forbid`` or ``refuse``, an answer over rows that break such a rule
    raises `DataError` naming every broken rule of the columns asked for; other rules give each row
    a cell.
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
    ) -> Cells:
        """Count the occupied cells of some columns, recoded first where a recoding is given."""
        ...

    def publish_cells(
        self,
        columns: Sequence[str],
        rows_of: RowsOf,
        noise: Noise,
        *,
        recode: Mapping[str, Recoding] | None = None,
        also: Keys | Whole | None = None,
    ) -> pa.Table | Parts:
        """Make the rows to be published from the occupied cells, each with noise of its own.

        Cells that might be too many for one machine do not travel: executors make their rows. The
        number of cells of the domain decides, not that of occupied ones, which is private.

        Parameters
        ----------
        columns : sequence of str
            The columns of the cells.
        rows_of : function
            Makes the rows of some cells, with fresh noise for each. It may be called for parts of
            the cells, in other processes, so it must be possible to send it there.
        noise : Noise
            Where randomness comes from.
        recode : mapping of str to Recoding, optional
            Recodings of the columns.
        also : keys or Whole, optional
            Cells that come with the count 0 where they are not occupied: some, by their packed
            keys, or all cells of the domain.
        """
        ...

    def marginals(
        self,
        groups: Sequence[Sequence[str]],
        *,
        recode: Mapping[str, Recoding] | None = None,
    ) -> list[Counts]:
        """Count all cells of many groups of columns, empty ones too, in as few scans as it takes.

        Parameters
        ----------
        groups : sequence of sequences of str
            The columns of each table.
        recode : mapping of str to Recoding, optional
            Recodings of the columns.

        Returns
        -------
        list of arrays
            One array for each group; its axes are the group's columns, in the order given.
        """
        ...

    def tuples(
        self,
        groups: ItemGroups,
        *,
        max_groups: int,
        at_least: int = 1,
        listing: ItemColumns | None = None,
        max_values: int | None = None,
        recode: Mapping[str, Recoding] | None = None,
    ) -> Tuples:
        """Count the tuples that records have in groups of items, see `hushtable.engine.baskets`.

        Parameters
        ----------
        groups : sequence of sequences of int
            Items of each group: positions of columns, or with `listing` codes of the item column.
        max_groups : int
            A record with tuples in more groups keeps those in a uniformly random part of them.
        at_least : int
            Tuples of fewer records are left out.
        listing : ItemColumns, optional
            The table is long, and a record is a person. Otherwise a record is a row.
        max_values : int, optional
            With `listing`, a person with more values keeps a uniformly random part of them.
        recode : mapping of str to Recoding, optional
            Recodings of the values; the item column has none.
        """
        ...

    def pairs(
        self,
        listing: ItemColumns,
        *,
        items: Sequence[int] | None = None,
        max_values: int | None = None,
        recode: Mapping[str, Recoding] | None = None,
    ) -> Pairs:
        """Count pairs of items that a person of a long table has, with equal values and not.

        Only pairs of the given `items`, which rise, are counted; of all items by default.
        """
        ...

    def sizes(
        self, listing: ItemColumns, *, recode: Mapping[str, Recoding] | None = None
    ) -> Counts:
        """Count the people of a long table by how many values they have: first those with one."""
        ...

    def rule_breaks(self) -> list[RuleBreak]:
        """List every broken rule, and rows of nobody, for the custodian."""
        ...


@runtime_checkable
class Engines(Protocol):
    """Answer counts over private tables that belong together: an engine for each.

    Every answer is about wide rows that name a person, see `hushtable.engine.linked`.
    """

    @property
    def schema(self) -> LinkedSchema:
        """What is public about the tables."""
        ...

    def engine(self, name: str) -> Engine:
        """Give what counts the wide rows of one table."""
        ...

    def steps(self, name: str) -> Engine:
        """Give what counts the rows of one table that have a row before them, beside that one."""
        ...


@runtime_checkable
class TwoWaves(Protocol):
    """Answer counts over a wave, and over the people who were in the wave before, too."""

    @property
    def now(self) -> Engine:
        """Count the rows of the wave."""
        ...

    @property
    def followed(self) -> Engine | None:
        """Count the people of both waves, each with both rows; None where there is none before."""
        ...
