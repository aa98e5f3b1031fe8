"""Count from linked tables: each table has a quilt of its wide rows, which answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.codes import as_numpy
from hushtable.errors import ReleaseError
from hushtable.estimate.base import Estimate, Estimator
from hushtable.estimate.drawing import Generator
from hushtable.estimate.row_functions import RowFunction
from hushtable.estimate.sums import Sums
from hushtable.linked.linked import KINDS
from hushtable.linked.questions import read
from hushtable.methods.quilt.estimator import QuiltEstimator
from hushtable.predicate.facts import Fact, facts_of
from hushtable.schema.linked import PREVIOUS, LinkedSchema


class LinkedEstimator(Estimator):
    """Answer counts of persons, and of rows that hang on them.

    A question is put to the quilt of the table that it counts. All other answers are about persons.
    """

    counts_are_sums = True

    @cached_property
    def linked(self) -> LinkedSchema:
        """What is public about all tables."""
        return LinkedSchema.from_dict(self.settings["linked"])

    @cached_property
    def _facts(self) -> dict[str, dict[str, Fact]]:
        return facts_of(self.linked)

    @property
    def table(self) -> pa.Table:
        """The published persons."""
        return self.tables[self.linked.root]

    def frame(self) -> pa.Table:
        """Give the persons; the other tables have their own names."""
        return self.table

    # --- quilts -----------------------------------------------------------------------------------

    @cached_property
    def _quilts(self) -> dict[str, QuiltEstimator]:
        return {}

    def quilt(self, name: str) -> QuiltEstimator:
        """Give what answers for the wide rows of a table."""
        if name not in self._quilts:
            beside = {kind: self.tables[f"{name}.{kind}"] for kind in KINDS}
            self._quilts[name] = QuiltEstimator(
                self.linked.wide(name),
                self.parameters,
                self.settings["quilts"][name],
                {"data": self._wide(name), **beside},
            )
        return self._quilts[name]

    @property
    def persons(self) -> QuiltEstimator:
        """Give what answers for persons."""
        return self.quilt(self.linked.root)

    def _wide(self, name: str) -> pa.Table:
        """Lay published rows beside those before them and those that they hang on."""
        table, rows = self.linked.tables[name], self.tables[name]
        columns = {column: rows[column] for column in table.attributes}
        columns |= {column: rows[column] for column in self.linked.told(name)}
        if table.parent is None:
            return pa.table(columns)
        held = as_numpy(rows[table.foreign_key])
        if table.order is not None:
            first = np.diff(held, prepend=held[:1] - 1) != 0
            before = pa.array(np.maximum(np.arange(len(held)) - 1, 0), mask=first)
            columns |= {f"{PREVIOUS}.{c}": rows[c].take(before) for c in table.attributes}
        parent = table.parent
        places = pa.array(self._places(parent, held))
        above = self._wide(parent)
        for column in self.linked.above(parent):
            seen = above[column.removeprefix(f"{parent}.")]
            columns[column] = seen.take(places)
        return pa.table(columns)

    def _places(self, parent: str, held: NDArray[np.int64]) -> NDArray[np.int64]:
        """Find the rows of a table by their keys."""
        keys = as_numpy(self.tables[parent][self.linked.tables[parent].key])
        order = np.argsort(keys, kind="stable")
        found = np.minimum(np.searchsorted(keys[order], held), max(len(keys) - 1, 0))
        if len(held) and (not len(keys) or not np.array_equal(keys[order][found], held)):
            raise ReleaseError(f"a row hangs on no row of {parent!r}; get a fresh copy.")
        return order[found]

    @property
    def bounded(self) -> str:
        """Nothing: it is said of the table that is counted."""
        return ""

    # --- answers ----------------------------------------------------------------------------------

    def count(self, where: str) -> Estimate:
        """Estimate how many persons, or rows of another table, satisfy a condition."""
        base, clause = read(where, self.linked, self._facts)
        answer = self.quilt(base).count(clause)
        table = self.linked.tables[base]
        if table.parent is None:
            return replace(answer, notes=(*answer.notes, f"Counted are {base}."))
        said = (
            f"Counted are {base}: of each person those that count, at most "
            f"{self.linked.reach(base)}, chosen at random where there are more."
        )
        return replace(answer, notes=(*answer.notes, said))

    def sums(self, functions: Sequence[RowFunction], *, together: bool = True) -> Sums:
        """Estimate sums over persons."""
        return self.persons.sums(functions, together=together)

    def kept(self) -> dict[tuple[str, str], float]:
        """Compare the persons with the noisy tables they were made from."""
        return self.persons.kept()

    def redrawn(self, rng: Generator) -> tuple[dict[str, NDArray[np.int64]], NDArray[np.float64]]:
        """Draw weights of the persons from the uncertainty of the tables."""
        return self.persons.redrawn(rng)
