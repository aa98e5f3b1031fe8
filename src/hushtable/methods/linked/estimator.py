"""Estimator of linked releases: the quilt of a table answers questions about its wide rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.errors import Refused, ReleaseError
from hushtable.methods.linked.linked import KINDS, STEPS
from hushtable.methods.linked.questions import COLUMN_BY_COLUMN, read
from hushtable.methods.quilt.estimator import QuiltEstimator
from hushtable.numeric import NORMAL
from hushtable.query.answers.drawing import Generator
from hushtable.query.answers.estimator import Estimate, Estimator
from hushtable.query.answers.row_sums import RowFunction
from hushtable.query.answers.sums import SumEstimates
from hushtable.query.where import Predicate, parse
from hushtable.query.where.linked_facts import LinkedFact, facts_of
from hushtable.schema.codes import as_numpy
from hushtable.schema.linked_schema import PREVIOUS, LinkedSchema


class LinkedEstimator(Estimator):
    """Estimates of counts of persons and of rows of their child tables.

    The quilt of the counted table answers a count. All other statistics are about persons.
    """

    counts_are_sums = True

    @cached_property
    def linked(self) -> LinkedSchema:
        """The public schema of all tables."""
        return LinkedSchema.from_dict(self.settings["linked"])

    @cached_property
    def _facts(self) -> dict[str, dict[str, LinkedFact]]:
        return facts_of(self.linked)

    @property
    def table(self) -> pa.Table:
        """The published persons."""
        return self.tables[self.linked.root]

    def frame(self) -> pa.Table:
        """Return the persons; use `table` for the other tables."""
        return self.table

    # --- quilts -----------------------------------------------------------------------------------

    @cached_property
    def _quilts(self) -> dict[str, QuiltEstimator]:
        return {}

    def quilt(self, name: str) -> QuiltEstimator:
        """Return the estimator for the wide rows of a table."""
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
        """The estimator for persons."""
        return self.quilt(self.linked.root)

    def _wide(self, name: str) -> pa.Table:
        """Join published rows with their ancestors."""
        table, rows = self.linked.tables[name], self.tables[name]
        columns = {column: rows[column] for column in table.attributes}
        columns |= {column: rows[column] for column in self.linked.child_columns(name)}
        if table.parent is None:
            return pa.table(columns)
        held, parent = as_numpy(rows[table.foreign_key]), table.parent
        places = pa.array(self._places(parent, held))
        above = self._wide(parent)
        for column in self.linked.above(parent):
            seen = above[column.removeprefix(f"{parent}.")]
            columns[column] = seen.take(places)
        return pa.table(columns)

    def _places(self, parent: str, held: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the indices of rows of a table with the given keys."""
        keys = as_numpy(self.tables[parent][self.linked.tables[parent].key])
        order = np.argsort(keys, kind="stable")
        found = np.minimum(np.searchsorted(keys[order], held), max(len(keys) - 1, 0))
        if len(held) and (not len(keys) or not np.array_equal(keys[order][found], held)):
            raise ReleaseError(f"a row has no parent in {parent!r}; get a fresh copy.")
        return order[found]

    @property
    def bounded(self) -> str:
        """Empty: `count` adds this note for the counted table."""
        return ""

    # --- answers ----------------------------------------------------------------------------------

    def count(self, where: str) -> Estimate:
        """Estimate how many persons, or rows of another table, satisfy a condition."""
        base, clause, follows = read(where, self.linked, self._facts)
        answer = self._step(base, clause) if follows else self.quilt(base).count(clause)
        table = self.linked.tables[base]
        if table.parent is None:
            return replace(answer, notes=(*answer.notes, f"This counts rows of {base}."))
        said = (
            f"This counts rows of {base}, at most {self.linked.max_rows_per_person(base)} per "
            "person (a random "
            "subset if there are more)."
        )
        return replace(answer, notes=(*answer.notes, said))

    def _step(self, base: str, clause: str) -> Estimate:
        """Answer from the noisy table of a column by the same column of the previous row."""
        asked = parse(clause, self.linked.steps(base))
        names = {column.removeprefix(f"{PREVIOUS}.") for column in asked.columns}
        if len(names) != 1:
            raise Refused(f"{clause} uses several columns: {COLUMN_BY_COLUMN}")
        (name,) = names
        quilt = self.quilt(base)
        bucket_of = quilt.measured.buckets[name][quilt.bins[name]]
        truth = self._truth(asked, name, bucket_of)
        told = self.settings["steps"][base]
        place = [step["column"] for step in told].index(name)
        start = sum(step["size"] ** 2 for step in told[:place])
        counts = as_numpy(self.tables[f"{base}.{STEPS}"]["count"])
        counts = counts[start : start + truth.size].astype(np.float64)
        value, std = float(counts[truth].sum()), told[place]["std"] * float(truth.sum()) ** 0.5
        reach = NORMAL * std
        return Estimate(
            value=max(0.0, value),
            low=max(0.0, value - reach),
            high=max(0.0, value) + reach,
            privacy_std=std,
            model_std=0.0,
            notes=("Rows were counted jointly with the previous row; noise is the only error.",),
        )

    def _truth(
        self, asked: Predicate, name: str, bucket_of: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return the cells that satisfy a condition; refuse one that splits a bucket."""
        first = np.unique(bucket_of, return_index=True)[1]
        before, every = f"{PREVIOUS}.{name}", np.arange(len(bucket_of))
        for column, other in ((name, before), (before, name)):
            for code in first:
                line = asked.mask({column: every, other: np.full(len(every), code)})
                if not np.array_equal(line, line[first][bucket_of]):
                    raise Refused(
                        f"the condition separates values of {name!r} that were counted together; "
                        "use whole ranges (see the buckets of this release)."
                    )
        grid = np.meshgrid(first, first, indexing="ij")
        return asked.mask({name: grid[0].ravel(), before: grid[1].ravel()})

    def sums(self, functions: Sequence[RowFunction], *, together: bool = True) -> SumEstimates:
        """Estimate sums over persons."""
        return self.persons.sums(functions, together=together)

    def association_kept(self) -> dict[tuple[str, str], float]:
        """Return the share of each pair's dependence that remains in the persons."""
        return self.persons.association_kept()

    def redrawn(self, rng: Generator) -> tuple[dict[str, NDArray[np.int64]], NDArray[np.float64]]:
        """Draw weights of the persons from the uncertainty of the tables."""
        return self.persons.redrawn(rng)
