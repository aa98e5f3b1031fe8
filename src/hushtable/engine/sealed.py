"""What methods are given instead of an engine: the same questions, and every answer sealed.

Here it is said how far one unit moves an answer: a row is in one cell of a table, a unit has as
many rows as its schema says, a person of a long table as many items as they may have. Everything
else about sensitivity is derived from that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from hushtable.engine.base import Engine
from hushtable.engine.cells import Cells
from hushtable.engine.published import Parts, Whole
from hushtable.privacy.cell_counts import CellCounts
from hushtable.privacy.domain_mechanism import NoisyCells
from hushtable.privacy.noise import Noise
from hushtable.privacy.sealed import Sealed, SealedCells
from hushtable.privacy.spending import Account, Part, Sensitivity
from hushtable.recoding import Recoding
from hushtable.schema import Schema

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
        mechanism: CellCounts,
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
        mechanism : CellCounts
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
            also=Whole() if mechanism.whole_domain else None,
        )

    def bare(self, what: str) -> Engine:
        """Give the engine itself, to methods that declare that they open counts without noise."""
        self.account.book_bare(what)
        return self.__engine


def seal(source: Engine, account: Account) -> Any:
    """Seal a table or a graph for one run."""
    return SealedTable(source, account)


def _opened(mechanism: CellCounts, write: Write, cells: Cells, noise: Noise) -> pa.Table:
    return write(mechanism.draw(cells, noise))
