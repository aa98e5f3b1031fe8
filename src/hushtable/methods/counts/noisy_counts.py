"""Method noisy-counts: frequency table of (generalized) tuples, without rare ones.

Guarantee, algorithm and proofs: ``noisy_counts.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from hushtable.engine.sealed_table import SealedTable
from hushtable.errors import TooLarge
from hushtable.methods import parameters
from hushtable.methods.base import CountError, Forecast, Method, Plan, Released, schema_problems
from hushtable.methods.count_error import mechanism_error
from hushtable.methods.counts.cell_table import (
    QUANTILES,
    TYPICAL_ROWS,
    commonest,
    describe_noise,
    label_tuples,
    memory_mb,
)
from hushtable.methods.parameters import MAX_K, parameter, said, whole
from hushtable.privacy.composition import delta_per_row
from hushtable.privacy.guarantee import ApproxDP, Guarantee, PureDP, Threshold
from hushtable.privacy.mechanisms.cells import CellCounts, NoisyCells
from hushtable.privacy.mechanisms.single_counts import CountMechanism, make_count_mechanism
from hushtable.privacy.noise.noise import Noise
from hushtable.query.answers.association_loss import kept_in_cells
from hushtable.query.answers.cell_sums import COUNT, NOISY_COUNT
from hushtable.schema import Schema
from hushtable.schema.recoding import Recoding, Rule, recoded_domain, recodings

NoisyCountsMechanism = Literal["tight", "paper", "pure"]


@dataclass(frozen=True, kw_only=True)
class NoisyCounts(Method):
    """Publish each tuple with a noisy count, or not at all.

    Parameters
    ----------
    epsilon : number or str
        Epsilon of the whole release, such as 1 or ln(5).
    delta : number or str, optional
        Delta of the whole release; required by ``tight`` and ``paper``, not allowed for ``pure``.
    k : int, optional
        Minimum number of rows of a published tuple; required by ``tight`` and ``paper``.
    mechanism : {"tight", "paper", "pure"}
        Noise mechanism: ``tight`` publishes most for the guarantee, ``paper`` is the matrix of Li
        and Li (for comparison), ``pure`` needs no delta. But ``pure`` adds noise to every tuple of
        the domain, including absent ones.
    generalize : mapping of str to rule
        Rules that generalize columns before counting: a level, a width or cuts by column (on the
        command line COLUMN=LEVEL, COLUMN=WIDTH or COLUMN=CUT,CUT). See
        `hushtable.schema.recoding.recode`. Rules are public: they must not be derived from the
        data.
    row_count_share : number or str
        Share of epsilon for a noisy number of rows, so that analysts know how much was suppressed.
        Not spent if the schema declares the number of rows public.
    max_cells : int
        Maximum number of tuples in the domain for ``pure``.

    Examples
    --------
    >>> method = NoisyCounts(epsilon=1, delta="1e-5", k=10)
    >>> method.of_one_row.release_count(0.5)
    21
    >>> round(method.of_one_row.release_probability(25), 3)
    0.996
    >>> NoisyCounts(epsilon=-1, delta=2, k=0)
    Traceback (most recent call last):
        ...
    hushtable.errors.ParameterError: epsilon is -1; it must be above 0. Typical values are 0.1 to 5.
    delta is 2; it must be at most 0.01, since delta = 0.01 already permits publishing 1% of all \
people in full. Choose a delta well below one over the number of people, such as 1e-6.
    k is 0; it must be a whole number from 1 to 1,000,000.
    """

    name: ClassVar[str] = "noisy-counts"

    epsilon: Fraction = parameter(read=parameters.epsilon)
    delta: Fraction | None = parameter(read=parameters.delta, default=None)
    k: int | None = parameter(read=whole(1, MAX_K), default=None)
    mechanism: NoisyCountsMechanism = parameter(default="tight")
    generalize: Mapping[str, Rule] = parameter(
        read=parameters.rules, default_factory=dict, hash=False
    )
    row_count_share: Fraction = parameter(read=parameters.share, default=Fraction(0))
    max_cells: int = parameter(read=whole(), default=5_000_000)

    def _problems(self, *, fields_are_right: bool) -> list[str]:
        """List missing parameters of the mechanism, and those that it does not use."""
        if self.mechanism == "pure":
            return [
                f"{name} is {value}, but the mechanism pure does not use it; omit it."
                for name, value in (("delta", self.delta), ("k", self.k))
                if value is not None
            ] + [said("share of the number of rows", row_count_share=self.row_count_share)] * (
                self.row_count_share != 0
            )
        return [
            f"{name} is missing; the mechanism {self.mechanism} requires it, {example}."
            for name, value, example in (
                ("delta", self.delta, "such as 1e-6"),
                ("k", self.k, "such as 10"),
            )
            if value is None
        ]

    @cached_property
    def of_one_row(self) -> CountMechanism:
        """Distribution of the published count of a tuple, if the unit is a row."""
        return self._mechanism(self.epsilon * (1 - self.row_count_share), 1)

    def plan(self, schema: Schema) -> NoisyCountsPlan:
        """Compute everything that is fixed before the data is read, or refuse."""
        unfit = schema_problems(schema, self.name, (COUNT, NOISY_COUNT))
        recode = recodings(schema, self.generalize, unfit)
        n_cells = recoded_domain(schema, list(schema.attributes), recode).size
        if self.mechanism == "pure" and n_cells > self.max_cells:
            raise TooLarge(said("many tuples", n_cells=n_cells, max_cells=self.max_cells))
        max_rows = schema.unit.max_rows or 1
        rows_share = self.row_count_share if schema.counted_rows is None else Fraction(0)
        rows_epsilon = self.epsilon * rows_share
        tuples_epsilon = self.epsilon - rows_epsilon
        return NoisyCountsPlan(
            method=self,
            schema=schema,
            recode=recode,
            n_cells=n_cells,
            max_rows=max_rows,
            tuples_epsilon=tuples_epsilon,
            rows_epsilon=rows_epsilon,
            mechanism=self._mechanism(tuples_epsilon, max_rows),
        )

    def _mechanism(self, epsilon: Fraction, max_rows: int) -> CountMechanism:
        """Return the mechanism that keeps the guarantee for up to `max_rows` rows together."""
        delta = None if self.delta is None else delta_per_row(epsilon, self.delta, max_rows)
        return make_count_mechanism(
            self.mechanism, epsilon=epsilon / max_rows, delta=delta, k=self.k
        )


@dataclass(frozen=True)
class NoisyCountsPlan(Plan[SealedTable]):
    """Plan of method noisy-counts: how the tuples of a schema are counted and noised."""

    method: NoisyCounts
    schema: Schema
    recode: Mapping[str, Recoding]
    n_cells: int
    max_rows: int
    tuples_epsilon: Fraction
    rows_epsilon: Fraction
    mechanism: CountMechanism

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """Differential privacy for one added or removed unit, and the threshold."""
        method, unit = self.method, self.schema.unit
        if method.delta is None or method.k is None:
            return (PureDP(epsilon=method.epsilon, unit=unit, neighbors="add-remove"),)
        return (
            ApproxDP(epsilon=method.epsilon, delta=method.delta, unit=unit, neighbors="add-remove"),
            Threshold(k=method.k),
        )

    def forecast(self, rows: int | None = None) -> Forecast:
        """Forecast which counts will be published, their noise, and whether the domain fits."""
        schema, k, mechanism = self.schema, self.method.k, self.mechanism
        rows = schema.expected_rows(rows)
        lines: dict[str, str | float | int] = {"tuples in the domain": self.n_cells}
        if k is None:
            absent = mechanism.release_probability(0)
            lines["chance that an absent tuple gets a count above 0"] = absent
            lines["absent tuples with a count above 0, at most about"] = round(
                absent * self.n_cells
            )
        else:
            for chance in QUANTILES:
                name = f"rows from which a tuple is published with probability {chance:g}"
                lines[name] = mechanism.release_count(chance)
            if schema.unit.kind == "person":
                people = -(-k // self.max_rows)
                lines["people behind a published tuple, at least"] = people
        lines["standard deviation of a published count"] = mechanism.std
        if self.rows_mechanism:
            lines["standard deviation of the number of rows"] = self.rows_mechanism.std
        elif k is not None:
            known = schema.counted_rows is not None
            lines["number of rows"] = "public" if known else "not published (row_count_share is 0)"
        if rows is not None:
            per_cell = rows / self.n_cells
            lines["rows per tuple, if all are equally frequent"] = per_cell
            if k is not None and per_cell < mechanism.release_count(0.5):
                lines["warning"] = _sparse(rows, self.n_cells, mechanism.release_count(0.5))
            elif k is None and per_cell < mechanism.std:
                lines["warning"] = said("noisy tuples", rows=rows, n_cells=self.n_cells)
        split = {"tuples": self.tuples_epsilon}
        if self.rows_epsilon:
            split["number of rows"] = self.rows_epsilon
        # Only occupied tuples are in memory, at most one per row; pure has all tuples in memory.
        occupied = TYPICAL_ROWS if rows is None else rows
        held = self.n_cells if k is None else min(self.n_cells, max(occupied, 1))
        return Forecast(
            lines=lines, split=split, n_cells=self.n_cells, memory_mb=memory_mb(schema, held)
        )

    def count_error(self, *, rows: int | None, share: float) -> CountError:
        """Return the expected error, from the noise of the tuples and the rows that are suppressed.

        If tuples may be suppressed, all are assumed to be equally frequent.
        """
        return mechanism_error(
            self.mechanism,
            rows=self.schema.expected_rows(rows),
            n_cells=self.n_cells,
            share=share,
            assumes="The question selects the same share of all tuples as of the rows."
            + " All tuples are equally frequent." * (self.method.k is not None),
        )

    @property
    def follows_paper(self) -> bool:
        """See `Plan`."""
        return self.method.mechanism == "paper"

    def uninformative(self, rows: int) -> str:
        """Return the reason if no tuple is expected to be published, or an empty text."""
        if self.method.k is None:
            return super().uninformative(rows)
        sizes = recoded_domain(self.schema, list(self.schema.attributes), self.recode).shape
        needed = self.mechanism.release_count(0.5)
        if commonest(rows, sizes) >= needed:
            return ""
        return said("no tuple", rows=rows, n_cells=self.n_cells, needed=needed)

    def association_kept(self, released: Released) -> dict[tuple[str, str], float]:
        """Return the association left after sampling values from inside generalized cells."""
        table = released.tables["data"]
        raw = NOISY_COUNT if NOISY_COUNT in table.column_names else COUNT
        return kept_in_cells(self.schema, self.recode, table, raw, self.mechanism.bias)

    def release(self, source: SealedTable, noise: Noise) -> Released:
        """Count the tuples once, sample the published counts, and drop suppressed tuples."""
        rows = source.publish_cells(
            list(self.schema.attributes),
            CellCounts(self.mechanism),
            partial(_published, self),
            noise,
            what="tuples",
            recode=self.recode,
        )
        return Released(
            tables={"data": rows},
            settings={
                **describe_noise(self.mechanism, per="row"),
                "row_total": _row_total(self, source, noise),
            },
        )

    @cached_property
    def rows_mechanism(self) -> CountMechanism | None:
        """Mechanism for the number of rows, which one unit changes by at most max_rows."""
        if not self.rows_epsilon:
            return None
        return make_count_mechanism("pure", epsilon=self.rows_epsilon / self.max_rows)


def _published(plan: NoisyCountsPlan, cells: NoisyCells) -> pa.Table:
    """Return the tuples with their published counts."""
    table = label_tuples(plan.schema, plan.recode, cells.codes)
    table[COUNT] = pa.array(np.maximum(cells.noisy, 0), pa.int64())
    if plan.method.k is None:
        table[NOISY_COUNT] = pa.array(cells.noisy, pa.int64())
    return pa.table(table)


def _row_total(plan: NoisyCountsPlan, source: SealedTable, noise: Noise) -> dict[str, Any] | None:
    """Publish the number of rows with noise, if it has a share of epsilon."""
    if plan.rows_mechanism is None:
        return None
    drawn = noise.open(source.n_rows(), plan.rows_mechanism, "number of rows")
    scale = 1 / plan.rows_mechanism.epsilon
    return {"value": max(0, int(drawn[0])), "scale": str(scale), "epsilon": str(plan.rows_epsilon)}


def _sparse(rows: int, n_cells: int, needed: int) -> str:
    return said("mostly rare tuples", rows=rows, n_cells=n_cells, needed=needed)
