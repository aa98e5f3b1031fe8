"""Generalize and suppress: exact counts of coarse tuples, those of fewer than k rows left out.

What this promises, and how little that is, stands in ``generalize_suppress.md`` beside this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa

from hushtable.codes import to_labels
from hushtable.engine.base import Engine
from hushtable.errors import ParameterError
from hushtable.methods.base import Forecast, Method, Released
from hushtable.methods.counts.noisy_counts import COUNT
from hushtable.privacy.guarantee import Guarantee, Threshold
from hushtable.privacy.noise import Noise
from hushtable.privacy.rational import as_rational
from hushtable.recoding import Recoding, Rule, recoded_domain, recodings
from hushtable.schema import Schema

TYPICAL_ROWS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class GeneralizeSuppress(Method):
    """Publish each tuple of at least k rows with its exact count.

    This is a threshold and not differential privacy. Use `NoisyCounts` to protect people.

    Parameters
    ----------
    k : int
        Tuples of fewer rows are not published; at least 2.
    generalize : mapping of str to rule
        How columns are made coarser before counting, see `hushtable.recoding.recode`. The rules
        are public: they must not come from the data.

    Examples
    --------
    >>> from hushtable import sample_schema
    >>> for promise in GeneralizeSuppress(k=5).guarantee(sample_schema()):
    ...     print(promise.explain(), promise.counted)
    Combinations of values held by fewer than 5 rows are not published. False
    """

    name: ClassVar[str] = "generalize-suppress"
    paper: ClassVar[str] = (
        "Li and Li, semantic k-anonymity and noisy count publishing (section 4), for comparison."
    )
    summary: ClassVar[str] = "Publish exact counts of coarse tuples, rare ones left out; not DP."
    estimator: ClassVar[str] = "suppressed-cells"

    k: int = field(metadata={"help": "Tuples of fewer rows than this are not published."})
    generalize: Mapping[str, Rule] = field(
        default_factory=dict,
        hash=False,
        metadata={"help": "Make a column coarser: COLUMN=LEVEL, COLUMN=WIDTH or COLUMN=CUT,CUT."},
    )

    def __post_init__(self) -> None:
        problems = []
        k = as_rational(self.k, name="k")
        if k.denominator != 1 or k < 2:
            problems.append(f"k is {self.k}; it must be a whole number of at least 2.")
        if not isinstance(self.generalize, Mapping):
            problems.append(
                f"generalize is {self.generalize!r}; it must map column names to rules."
            )
        if problems:
            raise ParameterError(problems)
        rules = {
            name: list(rule) if isinstance(rule, tuple) else rule
            for name, rule in self.generalize.items()
        }
        object.__setattr__(self, "k", int(k))
        object.__setattr__(self, "generalize", rules)

    def guarantee(self, schema: Schema) -> tuple[Guarantee, ...]:
        """Promise the threshold, which is outside differential privacy and not counted."""
        self._recode(schema)
        return (Threshold(k=self.k),)

    def forecast(self, schema: Schema, rows: int | None = None) -> Forecast:
        """Say how large the domain is."""
        n_cells = recoded_domain(schema, list(schema.attributes), self._recode(schema)).size
        rows = schema.rows if rows is None else rows
        lines: dict[str, str | float | int] = {
            "tuples in the domain": n_cells,
            "warning": "the published counts are exact; this is not differential privacy",
        }
        if rows is not None:
            lines["rows per tuple, if spread evenly"] = rows / n_cells
        held = min(n_cells, max(1, TYPICAL_ROWS if rows is None else rows))
        memory = held * 8 * (2 * len(schema.attributes) + 8) / 1e6
        return Forecast(lines=lines, split={}, n_cells=n_cells, memory_mb=memory)

    def run(self, engine: Engine, noise: Noise) -> Released:
        """Count the tuples and leave out the rare ones; nothing here is random."""
        schema = engine.schema
        recode = self._recode(schema)
        cells = engine.counts(list(schema.attributes), recode=recode)
        shown = cells.counts >= self.k
        table = {
            name: to_labels(column, cells.codes[shown, position], recode.get(name))
            for position, (name, column) in enumerate(schema.attributes.items())
        }
        table[COUNT] = pa.array(cells.counts[shown], pa.int64())
        return Released(tables={"data": pa.table(table)})

    def _recode(self, schema: Schema) -> dict[str, Recoding]:
        problems = []
        if COUNT in schema.attributes:
            problems.append(
                f"column {COUNT!r}: the published table has a column of that name for the counts; "
                "rename the column in schema and data."
            )
        if schema.unit.kind == "node":
            problems.append(
                "unit is node: generalize-suppress publishes tables of rows. Use unit row or "
                "person, or a method for graphs."
            )
        try:
            recode = recodings(schema, self.generalize)
        except ParameterError as error:
            problems += error.problems
        if problems:
            raise ParameterError(problems)
        return recode
