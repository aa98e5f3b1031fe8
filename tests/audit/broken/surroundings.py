"""Mistakes around a method: how raw rows are read, what is charged, what a run is told.

Messages about raw rows, rows without a person, bounds per value, charges after the first, the
calendar, environment variables, and queries that no part of the data pays for.
"""

from __future__ import annotations

import functools
import os
import sys
import time
import warnings
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from audit.broken.budgets import _unsettled
from audit.broken.kind import Broken, Patch, around, beside, histogram, n_rows, noted, reordered
from hushtable.engine import coded_rows, memory_engine
from hushtable.errors import HushtableWarning
from hushtable.methods import ContingencyTable, NoisyCounts, Quilt
from hushtable.methods.base import Released
from hushtable.methods.counts.noisy_counts import NoisyCountsPlan
from hushtable.methods.diffgen.contingency_table import ContingencyTablePlan
from hushtable.methods.quilt.budget import BudgetShares
from hushtable.methods.quilt.quilt import QuiltPlan
from hushtable.privacy.accounting.run_account import RunAccount
from hushtable.privacy.ledger.payment import Payment
from hushtable.publishing.run import PublishRun

TABLE = ContingencyTable(epsilon=1)
PURE = NoisyCounts(epsilon=1, mechanism="pure")
QUILT = Quilt(epsilon=1, particles=1000)


# --- rows -----------------------------------------------------------------------------------------


def rows_without_person(patch: Patch) -> None:
    """Rows without an identifier count, all of them."""
    real = memory_engine._bounded

    def bounded(persons: Any, most: int, noise: Any) -> Any:
        kept = real(persons, most, noise)
        return np.sort(np.concatenate([kept, np.flatnonzero(persons < 0)]))

    patch.setattr(memory_engine, "_bounded", bounded)


def rows_of_each_value(patch: Patch) -> None:
    """A bound on the rows of a person and value, not of a person."""

    def changed(self: Any) -> Any:
        codes, persons = self._encoded
        if persons is None:
            return memory_engine.Encoded(codes, None)
        first = next(iter(codes.values())).astype(np.int64)
        both = np.where(persons < 0, -1, persons.astype(np.int64) * 100_000 + first)
        kept = memory_engine._bounded(both, self.schema.unit.max_rows, self._noise)
        found = {name: column[kept] for name, column in codes.items()}
        return memory_engine.Encoded(found, persons[kept])

    prop = functools.cached_property(changed)
    prop.__set_name__(memory_engine.MemoryEngine, "_rows_and_persons")
    patch.setattr(memory_engine.MemoryEngine, "_rows_and_persons", prop)


def missing_cells_in_a_warning(patch: Patch) -> None:
    real = coded_rows.EncodedRows._values

    def values(self: Any, raw: Any) -> Any:
        if n := sum(column.null_count for column in raw.columns):
            warnings.warn(f"{n} cells are missing.", HushtableWarning, stacklevel=1)
        return real(self, raw)

    patch.setattr(coded_rows.EncodedRows, "_values", values)


def clipped_cells_on_the_terminal(patch: Patch) -> None:
    real = coded_rows.EncodedRows._encoded

    def encoded(self: Any, values: Any) -> Any:
        codes = real(self, values)
        for name, column in codes.items():
            n = int((column == column.max(initial=0)).sum())
            print(f"column {name!r}: {n} cells at the upper bound", file=sys.stderr)
        return codes

    patch.setattr(coded_rows.EncodedRows, "_encoded", encoded)


def sorted_by_true_counts(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    """Rows in the order of the frequency of their first value."""
    released = real(plan, source, noise)
    name, column = next(iter(plan.schema.attributes.items()))
    rank = {column.value(code): n for code, n in enumerate(histogram(source, name).tolist())}
    values = released.tables["data"][name].to_pylist()
    return reordered(released, sorted(range(len(values)), key=lambda at: -rank.get(values[at], 0)))


def hours_that_occur(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    """The first occupied hour of timestamps."""
    released = real(plan, source, noise)
    for name, column in plan.schema.attributes.items():
        if column.type == "timestamp":
            occupied = np.flatnonzero(histogram(source, name))
            return noted(released, f"{name} starts at {occupied[:1]}")
    return released


# --- messages, days and environment ---------------------------------------------------------------


def rows_in_the_progress(patch: Patch) -> None:
    real = PublishRun._release

    def release(self: Any, read: Any) -> Any:
        def reading() -> Any:
            source = read()
            self._progress(f"{source.n_rows():,} rows", 0.2)
            return source

        return real(self, reading)

    patch.setattr(PublishRun, "_release", release)


def if_asked(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    """Exact totals for debugging."""
    released = real(plan, source, noise)
    is_asked = os.environ.get("HUSHTABLE_DEBUG")
    return beside(released, rows=n_rows(source)) if is_asked else released


def on_one_weekday(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    released = real(plan, source, noise)
    is_that_day = time.localtime().tm_wday == 2
    return beside(released, rows=n_rows(source)) if is_that_day else released


def in_one_month(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    released = real(plan, source, noise)
    is_that_month = time.gmtime().tm_mon == 2
    return beside(released, rows=n_rows(source)) if is_that_month else released


def at_night(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    released = real(plan, source, noise)
    is_night = time.localtime().tm_hour < 6
    return beside(released, rows=n_rows(source)) if is_night else released


# --- charges --------------------------------------------------------------------------------------


def later_charges_of_a_tenth(patch: Patch) -> None:
    real = Payment.charge

    def charge(self: Payment, promised: Any, schema: Any, **more: Any) -> Any:
        if self.opened_ledger is not None and self.opened_ledger.entries():
            promised = [one.model_copy(update={"epsilon": one.epsilon / 10}) for one in promised]
        return real(self, promised, schema, **more)

    patch.setattr(Payment, "charge", charge)


def persons_charged_like_rows(patch: Patch) -> None:
    real = Payment.charge

    def charge(self: Payment, promised: Any, schema: Any, **more: Any) -> Any:
        rows = schema.unit.max_rows or 1
        promised = [one.model_copy(update={"epsilon": one.epsilon / rows}) for one in promised]
        return real(self, promised, schema, **more)

    patch.setattr(Payment, "charge", charge)


def third_query_is_free(patch: Patch) -> None:
    """The third query of a run is charged to no part, so the others have less noise."""
    real, noise_of = RunAccount.record, BudgetShares.count_noise

    def record(self: Any, what: str, parts: Any, *given: Any) -> Any:
        return real(self, what, parts if len(self.records) != 2 else [], *given)

    def count_noise(self: Any, share: Fraction, moved: Any = None) -> Any:
        noise = noise_of(self, share, moved)
        return replace(noise, parameter=noise.parameter * Fraction(4, 5))

    patch.setattr(RunAccount, "record", record)
    patch.setattr(BudgetShares, "count_noise", count_noise)
    _unsettled(patch)


BROKEN = (
    Broken("rows without a person count", TABLE, rows_without_person, True),
    Broken("rows of a person by value", TABLE, rows_of_each_value),
    Broken("missing cells in a warning", TABLE, missing_cells_in_a_warning),
    Broken("clipped cells on the terminal", TABLE, clipped_cells_on_the_terminal),
    Broken("rows sorted by true counts", QUILT, around(QuiltPlan, sorted_by_true_counts)),
    Broken("hours that occur", TABLE, around(ContingencyTablePlan, hours_that_occur)),
    Broken("rows in the progress", TABLE, rows_in_the_progress),
    Broken("exact if a variable is set", TABLE, around(ContingencyTablePlan, if_asked), True),
    Broken("exact on one weekday", TABLE, around(ContingencyTablePlan, on_one_weekday)),
    Broken("exact in February", TABLE, around(ContingencyTablePlan, in_one_month)),
    Broken("exact at night", PURE, around(NoisyCountsPlan, at_night)),
    Broken("later charges of a tenth", TABLE, later_charges_of_a_tenth, True),
    Broken("persons charged like rows", TABLE, persons_charged_like_rows),
    Broken("a third query for free", QUILT, third_query_is_free),
)  # fmt: skip
