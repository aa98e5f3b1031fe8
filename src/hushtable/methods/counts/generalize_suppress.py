"""Method generalize-suppress: exact counts of generalized tuples with at least k rows.

``generalize_suppress.md`` states the guarantee and its limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from hushtable.engine.sealed_table import SealedTable
from hushtable.methods import parameters
from hushtable.methods.base import Forecast, Method, Plan, Released, schema_problems
from hushtable.methods.count_error import left_out_line
from hushtable.methods.counts.cell_table import TYPICAL_ROWS, label_tuples, memory_mb
from hushtable.methods.parameters import MAX_K, parameter, whole
from hushtable.privacy.guarantee import Guarantee, Threshold
from hushtable.privacy.noise.noise import Noise
from hushtable.query.answers.association_loss import kept_in_cells
from hushtable.query.answers.cell_sums import COUNT
from hushtable.schema import Schema
from hushtable.schema.recoding import Recoding, Rule, recoded_domain, recodings


@dataclass(frozen=True, kw_only=True)
class GeneralizeSuppress(Method):
    """Publish each tuple of at least k rows with its exact count.

    This is a threshold, not differential privacy. Use `NoisyCounts` to protect people.

    Parameters
    ----------
    k : int
        Minimum number of rows of a published tuple, at least 2.
    generalize : mapping of str to rule
        Rules that generalize columns before counting: a level, a width or cuts by column (on the
        command line COLUMN=LEVEL, COLUMN=WIDTH or COLUMN=CUT,CUT). See
        `hushtable.schema.recoding.recode`. Rules are public: they must not be derived from the
        data.

    Examples
    --------
    >>> from hushtable import sample_schema
    >>> for promise in GeneralizeSuppress(k=5).guarantee(sample_schema()):
    ...     print(promise.explain(), promise.counted)
    Combinations of values that occur in fewer than 5 rows are not published. False
    """

    name: ClassVar[str] = "generalize-suppress"
    sees_exact_counts: ClassVar[str] = "counts of at least k rows are published as they are."

    k: int = parameter(read=whole(2, MAX_K))
    generalize: Mapping[str, Rule] = parameter(
        read=parameters.rules, default_factory=dict, hash=False
    )

    def plan(self, schema: Schema) -> GeneralizeSuppressPlan:
        """Return how tuples are generalized, or refuse."""
        recode = recodings(schema, self.generalize, schema_problems(schema, self.name, (COUNT,)))
        n_cells = recoded_domain(schema, list(schema.attributes), recode).size
        return GeneralizeSuppressPlan(self, schema, recode, n_cells)


@dataclass(frozen=True)
class GeneralizeSuppressPlan(Plan[SealedTable]):
    """Plan of method generalize-suppress: how tuples are generalized."""

    method: GeneralizeSuppress
    schema: Schema
    recode: Mapping[str, Recoding]
    n_cells: int

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """The threshold, which is not differential privacy and is not counted in a ledger."""
        return (Threshold(k=self.method.k),)

    def forecast(self, rows: int | None = None) -> Forecast:
        """Forecast the size of the domain."""
        rows = self.schema.expected_rows(rows)
        lines: dict[str, str | float | int] = {
            "tuples in the domain": self.n_cells,
            "warning": "the published counts are exact; this is not differential privacy",
        }
        if rows is not None:
            lines["rows per tuple, if all are equally frequent"] = rows / self.n_cells
            lines |= left_out_line((self.method.k - 1) * self.n_cells / max(rows, 1))
        held = min(self.n_cells, max(1, TYPICAL_ROWS if rows is None else rows))
        return Forecast(
            lines=lines, split={}, n_cells=self.n_cells, memory_mb=memory_mb(self.schema, held)
        )

    def association_kept(self, released: Released) -> dict[tuple[str, str], float]:
        """Return the association left after sampling values from inside generalized cells."""
        return kept_in_cells(self.schema, self.recode, released.tables["data"], COUNT)

    def release(self, source: SealedTable, noise: Noise) -> Released:
        """Count the tuples and drop the rare ones; nothing is random."""
        table = source.exact_engine("tuples")
        cells = table.counts(list(self.schema.attributes), recode=self.recode)
        shown = cells.counts >= self.method.k
        columns = label_tuples(self.schema, self.recode, cells.only(shown).codes)
        columns[COUNT] = pa.array(cells.counts[shown], pa.int64())
        return Released(tables={"data": pa.table(columns)})
