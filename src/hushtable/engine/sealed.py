"""What methods are given instead of an engine: the same questions, and every answer sealed.

Here it is said how far one unit moves an answer: a row is in one cell of a table, a unit has as
many rows as its schema says, a person of a long table as many items as they may have. Everything
else about sensitivity is derived from that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from hushtable.engine.base import Engine, Engines
from hushtable.engine.baskets import ItemColumns, ItemGroups
from hushtable.engine.cells import Cells
from hushtable.engine.graph import Graph
from hushtable.engine.published import Parts, Whole
from hushtable.engine.sealed_graph import SealedGraph
from hushtable.privacy.cell_counts import CellMechanism
from hushtable.privacy.domain_mechanism import NoisyCells
from hushtable.privacy.noise import Noise
from hushtable.privacy.sealed import Sealed, SealedCells
from hushtable.privacy.spending import Account, Part, Sensitivity
from hushtable.privacy.tuple_counts import SealedTuples
from hushtable.recoding import Recoding
from hushtable.schema import Schema

if TYPE_CHECKING:
    from hushtable.schema.linked import LinkedSchema  # many models: slow to import

Made = TypeVar("Made")

Write = Callable[[NoisyCells], pa.Table]
"""Makes the published rows of cells that may be seen; sent to executors where there are some."""


class SealedTable:
    """Answer the questions of `hushtable.engine.base.Engine`, sealed.

    Parameters
    ----------
    engine : Engine
        What counts.
    account : Account
        Where looks at the answers are booked.
    """

    def __init__(self, engine: Engine, account: Account) -> None:
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
        """How far one unit moves a table in which each row is in one cell."""
        rows = self.schema.unit.max_rows or 1
        promise = self.account.promise
        exchanged = promise is not None and promise.exchanged
        return Sensitivity(rows=2 * rows if exchanged else rows, exchanged=exchanged)

    @property
    def _part(self) -> Part:
        return self.account.root

    def _sealed(self, counts: Any) -> Sealed:
        return Sealed(counts, self.sensitivity, self._part)

    def n_rows(self) -> Sealed:
        """Count the rows: one count."""
        return self._sealed(np.array([self.__engine.n_rows()], np.int64))

    def histograms(self, columns: Sequence[str], *, by: str | None = None) -> dict[str, Sealed]:
        """Count each value of each column; with `by`, an array (value, value of `by`)."""
        answer = self.__engine.histograms(columns, by=by)
        return {name: self._sealed(counts) for name, counts in answer.items()}

    def counts(
        self, columns: Sequence[str], *, recode: Mapping[str, Recoding] | None = None
    ) -> SealedCells:
        """Count the occupied cells of some columns, recoded first where a recoding is given."""
        cells = self.__engine.counts(columns, recode=recode)
        return SealedCells(cells, self.sensitivity, self._part)

    def marginals(
        self, groups: Sequence[Sequence[str]], *, recode: Mapping[str, Recoding] | None = None
    ) -> list[Sealed]:
        """Count all cells of many groups of columns, in as few scans as it takes."""
        return [self._sealed(table) for table in self.__engine.marginals(groups, recode=recode)]

    def publish_cells(
        self,
        columns: Sequence[str],
        mechanism: CellMechanism,
        write: Write,
        noise: Noise,
        *,
        what: str,
        recode: Mapping[str, Recoding] | None = None,
    ) -> pa.Table | Parts:
        """Open the occupied cells and make the rows to be published, on executors where they are.

        Parameters
        ----------
        columns : sequence of str
            The columns of the cells.
        mechanism : CellMechanism
            What lets cells out; booked here, whoever draws from it.
        write : function
            Makes the published rows of the cells that were let out. It may be called for parts of
            them, in other processes, so it must be possible to send it there.
        noise : Noise
            Where randomness comes from.
        what : str
            What it is, in words, for the account of the run.
        recode : mapping of str to Recoding, optional
            Recodings of the columns.
        """
        self.account.book(what, (self._part,), self.sensitivity, mechanism)
        return self.__engine.publish_cells(
            columns,
            partial(_opened, mechanism, write),
            noise,
            recode=recode,
            also=Whole() if mechanism.whole_domain else mechanism.inserted(noise),
        )

    def tuples(
        self,
        groups: ItemGroups,
        *,
        max_groups: int,
        at_least: int = 1,
        listing: ItemColumns | None = None,
        max_values: int | None = None,
        recode: Mapping[str, Recoding] | None = None,
    ) -> SealedTuples:
        """Count the tuples that records have in groups of items; see `Engine.tuples`.

        A record has one tuple in a group, in `max_groups` groups at most, and in no more than its
        values can reach.
        """
        tuples = self.__engine.tuples(
            groups,
            max_groups=max_groups,
            at_least=at_least,
            listing=listing,
            max_values=max_values,
            recode=recode,
        )
        reached = self._most_values(listing, max_values) * max(Counter(chain(*groups)).values())
        records = self.sensitivity.rows if listing is None else 1
        sensitivity = Sensitivity(rows=records, cells=min(max_groups, len(groups), reached))
        return SealedTuples.of(tuples, sensitivity, self._part, at_least=at_least)

    def item_support(
        self,
        listing: ItemColumns,
        *,
        max_values: int | None = None,
        recode: Mapping[str, Recoding] | None = None,
    ) -> Sealed:
        """Count the people of a long table who have each item: a person moves those they have."""
        pairs = self.__engine.pairs(listing, items=(), max_values=max_values, recode=recode)
        moved = Sensitivity(rows=1, cells=self._most_values(listing, max_values))
        return Sealed(pairs.support, moved, self._part)

    def item_pairs(
        self,
        listing: ItemColumns,
        *,
        items: Sequence[int],
        max_values: int | None = None,
        recode: Mapping[str, Recoding] | None = None,
    ) -> Sealed:
        """Count pairs of items that a person has: with equal values, and with different ones.

        A person moves one of the two counts of each pair of items that they have.
        """
        pairs = self.__engine.pairs(listing, items=items, max_values=max_values, recode=recode)
        most = self._most_values(listing, max_values)
        moved = Sensitivity(rows=1, cells=max(1, most * (most - 1) // 2))
        return Sealed(np.stack((pairs.agree, pairs.differ)), moved, self._part)

    def basket_sizes(
        self, listing: ItemColumns, *, recode: Mapping[str, Recoding] | None = None
    ) -> Sealed:
        """Count the people of a long table by how many values they have: a person is in one."""
        sizes = self.__engine.sizes(listing, recode=recode)
        return Sealed(sizes, Sensitivity(rows=1), self._part)

    def _most_values(self, listing: ItemColumns | None, max_values: int | None) -> int:
        """Bound the values of one record."""
        if listing is None:
            return len(self.schema.attributes)
        bounds = (
            self.schema.attributes[listing.item].n_values,
            max_values,
            self.schema.unit.max_rows,
        )
        return min(bound for bound in bounds if bound is not None)

    def bare(self, what: str) -> Engine:
        """Give the engine itself, to methods that declare that they open counts without noise."""
        self.account.book_bare(what)
        return self.__engine


class SealedTables:
    """Give tables that belong together, each sealed; looks at all of them are in one account.

    Parameters
    ----------
    engines : Engines
        What counts.
    account : Account
        Where looks at the answers are booked.
    """

    def __init__(self, engines: Engines, account: Account) -> None:
        self.__engines = engines
        self.account = account

    @property
    def schema(self) -> LinkedSchema:
        """What is public about the tables."""
        return self.__engines.schema

    def table(self, name: str) -> SealedTable:
        """Give the wide rows of one of the tables."""
        return SealedTable(self.__engines.engine(name), self.account)

    def steps(self, name: str) -> SealedTable:
        """Give the rows of one of the tables that have a row before them, beside that one."""
        return SealedTable(self.__engines.steps(name), self.account)


def seal(source: Engine | Engines | Graph, account: Account) -> Any:
    """Seal a table, several that belong together, or a graph, for one run."""
    if isinstance(source, Graph):
        return SealedGraph(source, account)
    if isinstance(source, Engines):
        return SealedTables(source, account)
    return SealedTable(source, account)


def accounted(
    source: Engine | Engines | Graph, account: Account, ask: Callable[[Any], Made]
) -> Made:
    """Seal a source, ask it, and check that the answer cost what was promised."""
    made = ask(seal(source, account))
    account.settle()
    return made


def _opened(mechanism: CellMechanism, write: Write, cells: Cells, noise: Noise) -> pa.Table:
    return write(mechanism.draw_some(cells, noise))
