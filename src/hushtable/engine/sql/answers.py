"""Query results of a database: codes and counts, without rows that break rules."""

from __future__ import annotations

from collections.abc import Sequence

import lazy_loader
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.engine.cells import Counts
from hushtable.engine.encode import Expression
from hushtable.engine.rule_breaks import RuleBreak
from hushtable.engine.rules import N_RULES, refuse_broken, rule_breaks
from hushtable.engine.sources.source import TableSource
from hushtable.schema import Schema

ibis = lazy_loader.load("ibis")


class RuleBreakCounts:
    """Counts of rows that break rules, collected over the parts of a result."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._n_rows: dict[tuple[str, int], int] = {}

    def set_aside(
        self, names: Sequence[str], codes: NDArray[np.int64], counts: Counts
    ) -> NDArray[np.bool_]:
        """Record the cells that break rules; return a mask of the others."""
        fine: NDArray[np.bool_] = np.all(codes >= 0, axis=1)
        codes, counts = codes[~fine], counts[~fine]
        for position, name in enumerate(names):
            for rule in range(-N_RULES, 0):
                # A column in several results (`by`) has the same rows in each.
                self._n_rows[name, rule] = int(counts[codes[:, position] == rule].sum())
        return fine

    def breaks(self) -> list[RuleBreak]:
        """Return the broken rules."""
        return rule_breaks(self._schema, [(*key, n_rows) for key, n_rows in self._n_rows.items()])

    def refuse(self) -> None:
        """Raise one error that lists all broken rules, if there are any."""
        refuse_broken(self.breaks())


def integers(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return the columns of a result as integers."""
    return np.asarray(column.to_numpy(), np.int64)


def union(tables: Sequence[Expression]) -> Expression:
    """Concatenate tables."""
    return tables[0] if len(tables) == 1 else ibis.union(*tables)


def n_rows(source: TableSource, rows: Expression) -> int:
    """Count rows."""
    return int(source.fetch(rows.agg(n=ibis._.count()))["n"][0].as_py())
