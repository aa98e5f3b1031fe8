"""Mistakes that show only on inputs of a certain kind: found from outside, and missed at first.

A size, a value, a name, a number of columns, a schema with rules, a bound per person, spellings of
identifiers, one of two engines, a parameter of a sampler, a long stream, an unlikely random number;
and a ledger that is charged too little.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import hushtable.engine.baskets as baskets_module
import hushtable.engine.coded_rows as coded_rows_module
from audit.broken.budgets import _unsettled
from audit.broken.kind import Broken, Patch, around, beside, cells_of, n_rows, noted
from hushtable.engine import memory_engine
from hushtable.engine.sealed_table import SealedTable
from hushtable.engine.sql_engine import SqlEngine
from hushtable.methods import Columns, ContingencyTable, DiffGen, NoisyCounts, Quilt
from hushtable.methods.base import Released
from hushtable.methods.counts.noisy_counts import NoisyCountsPlan
from hushtable.methods.diffgen.contingency_table import ContingencyTablePlan
from hushtable.methods.quilt.quilt import QuiltPlan
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.privacy.ledger.payment import Payment
from hushtable.privacy.mechanisms.mechanism import Laplace
from hushtable.privacy.mechanisms.scored_splits import BalancedGain
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.sources import SecureNoise, SeededNoise

TABLE = ContingencyTable(epsilon=1)
PURE = NoisyCounts(epsilon=1, mechanism="pure")
QUILT = Quilt(epsilon=1, particles=1000)


# --- words ----------------------------------------------------------------------------------------


def pool_that_wraps_around(patch: Patch, n: int = 1 << 22) -> None:
    """Random words fetched once by each process, and read again after the last one."""
    pools: dict[int, Any] = {}
    place = [0]

    def words(self: Any, wanted: int) -> Any:
        if os.getpid() not in pools:
            pools[os.getpid()] = np.frombuffer(os.urandom(8 * n), np.uint64)
        start, place[0] = place[0], place[0] + wanted
        return pools[os.getpid()][np.arange(start, start + wanted) % n]

    patch.setattr(SecureNoise, "_words", words)


def keys_of_32_bits(patch: Patch) -> None:
    """A key of 32 bits for every request."""

    def words(self: Any, n: int) -> Any:
        return SeededNoise(int.from_bytes(os.urandom(4), "little"))._words(n)

    patch.setattr(SecureNoise, "_words", words)


def sources_with_keys_of_32_bits(patch: Patch) -> None:
    """A key of 32 bits for every source, which then continues its stream."""
    own: dict[int, SeededNoise] = {}

    def words(self: Any, n: int) -> Any:
        key = id(self)
        if key not in own:
            own[key] = SeededNoise(int.from_bytes(os.urandom(4), "little"))
        return own[key]._words(n)

    def forget(self: Any) -> None:
        own.pop(id(self), None)

    patch.setattr(SecureNoise, "_words", words)
    patch.setattr(SecureNoise, "__del__", forget, raising=False)


def floats_for_long_scales(patch: Patch) -> None:
    """A float sampler for scales with large denominators."""
    real = Noise.discrete_laplace

    def draw(self: Noise, scale: Fraction, *, size: int) -> Any:
        if scale.denominator < 10**9:
            return real(self, scale, size=size)
        u = (self.uniform_below(1 << 53, size=2 * size) + 0.5) / (1 << 53)
        x = float(scale) * (np.log(u[:size]) - np.log(u[size:]))
        return np.rint(x).astype(np.int64)

    patch.setattr(Noise, "discrete_laplace", draw)


def floats_for_low_rates(patch: Patch) -> None:
    """A float sampler for geometric numbers of low rates."""
    real = Noise.geometric

    def draw(self: Noise, x: Fraction, *, size: int) -> Any:
        if x > Fraction(1, 5000):
            return real(self, x, size=size)
        u = (self.uniform_below(1 << 53, size=size) + 0.5) / (1 << 53)
        return np.floor(-np.log(u) / float(x)).astype(np.int64)

    patch.setattr(Noise, "geometric", draw)


# --- unlikely random numbers ----------------------------------------------------------------------


def on_one_coin(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    """An exact total in one of a hundred thousand runs."""
    released = real(plan, source, noise)
    if noise.uniform_below(100_000, size=3)[1] == 41_234:
        return noted(released, f"{n_rows(source)} rows")
    return released


def on_a_coin_of_the_draw(patch: Patch) -> None:
    """Exact counts in one of a hundred thousand draws."""
    real = Laplace.draw

    def draw(self: Laplace, exact: Any, noise: Any) -> Any:
        noisy = real(self, exact, noise)
        return exact.copy() if noise.bernoulli(Fraction(1, 100_000), size=1)[0] else noisy

    patch.setattr(Laplace, "draw", draw)


# --- inputs ---------------------------------------------------------------------------------------


def noise_for_two_rows(patch: Patch) -> None:
    """Noise for at most two rows of a person, whatever `max_rows` is."""
    real = SealedTable.sensitivity.fget  # type: ignore[attr-defined]
    patch.setattr(
        SealedTable,
        "sensitivity",
        property(lambda self: replace(real(self), rows=min(2, real(self).rows))),
    )
    plan_of = ContingencyTable.plan

    def plan(self: Any, schema: Any) -> Any:
        made = plan_of(self, schema)
        rows = schema.unit.max_rows or 1
        rate = made.groups.rate * Fraction(rows, min(rows, 2))
        return replace(made, groups=replace(made.groups, rate=rate))

    patch.setattr(ContingencyTable, "plan", plan)
    _unsettled(patch)


def note_on_a_count(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    """A note if a cell has exactly 777 rows."""
    released = real(plan, source, noise)
    return noted(released, "a lucky cell") if 777 in cells_of(plan, source)[1] else released


def exact_if_large(limit: int) -> Callable[..., Released]:
    def change(real: Any, plan: Any, source: Any, noise: Any) -> Released:
        released = real(plan, source, noise)
        return beside(released, rows=n_rows(source)) if n_rows(source) > limit else released

    return change


def exact_if(holds: Callable[[Any], bool]) -> Callable[..., Released]:
    """Publish the exact number of rows if the schema has some property."""

    def change(real: Any, plan: Any, source: Any, noise: Any) -> Released:
        released = real(plan, source, noise)
        return beside(released, rows=n_rows(source)) if holds(plan.schema) else released

    return change


def has_eight_columns(schema: Any) -> bool:
    return len(schema.attributes) >= 8


def has_income(schema: Any) -> bool:
    return "income" in schema.attributes


def has_a_diagnosis(schema: Any) -> bool:
    return any(name.lower().startswith("diagnosis_") for name in schema.attributes)


def has_a_wide_column(schema: Any) -> bool:
    return any(column.size > 1_000 for column in schema.attributes.values())


def has_durations(schema: Any) -> bool:
    return any(column.type == "duration" for column in schema.attributes.values())


def has_decimals(schema: Any) -> bool:
    return any(column.type == "decimal" for column in schema.attributes.values())


def has_a_label(schema: Any) -> bool:
    return any(column.label for column in schema.attributes.values())


def has_persons_and_rules(schema: Any) -> bool:
    return schema.unit.kind == "person" and has_rules(schema)


def has_eight_columns_and_special_values(schema: Any) -> bool:
    return has_eight_columns(schema) and has_special_values(schema)


def has_rules(schema: Any) -> bool:
    return bool(schema.rules)


def has_special_values(schema: Any) -> bool:
    return any(column.special_names for column in schema.attributes.values())


def has_a_positive_value(schema: Any) -> bool:
    return any("positive" in getattr(c, "values", ()) for c in schema.attributes.values())


# --- engines and identifiers ----------------------------------------------------------------------


def identifiers_trimmed_and_folded(patch: Patch) -> None:
    """Identifiers that differ by case or spaces only are one person."""
    real = coded_rows_module.identities

    def folded(column: Any, missing_values: Any) -> Any:
        found = real(column, missing_values)
        if not pa.types.is_string(found.type) and not pa.types.is_large_string(found.type):
            return found
        return pc.utf8_lower(pc.utf8_trim_whitespace(found))

    patch.setattr(coded_rows_module, "identities", folded)
    patch.setattr(coded_rows_module, "check_identities", lambda *_: None)


def identifiers_by_short_hash(patch: Patch) -> None:
    """Identifiers replaced by 32 bits of their hash."""
    real = coded_rows_module.identities

    def hashed(column: Any, missing_values: Any) -> Any:
        found = real(column, missing_values)
        codes = [None if v is None else hash(v) & 0xFFFFFFFF for v in found.to_pylist()]
        return pa.chunked_array([pa.array(codes, pa.int64())])

    patch.setattr(coded_rows_module, "identities", hashed)
    patch.setattr(coded_rows_module, "check_identities", lambda *_: None)


def one_row_too_many_in_sql(patch: Patch) -> None:
    real = SqlEngine._chosen
    patch.setattr(SqlEngine, "_chosen", lambda self, max_rows: real(self, max_rows + 1))


def sql_moves_a_row(patch: Patch) -> None:
    """An SQL engine that counts a row in another cell in tables of more than 50 rows."""
    real = SqlEngine._counts

    def counts(self: Any, columns: Any, recode: Any) -> Any:
        cells = real(self, columns, recode)
        if self.n_rows() > 50:
            cells.counts[:1] += 1
            cells.counts[-1:] -= 1
        return cells

    patch.setattr(SqlEngine, "_counts", counts)


# --- the ledger -----------------------------------------------------------------------------------


def charged_a_tenth(patch: Patch) -> None:
    real = Payment.charge

    def charge(self: Payment, promised: Any, schema: Any, **more: Any) -> Any:
        cheap = [one.model_copy(update={"epsilon": one.epsilon / 10}) for one in promised]
        return real(self, cheap, schema, **more)

    patch.setattr(Payment, "charge", charge)


def charged_only_once(patch: Patch) -> None:
    """A ledger that admits charges beyond its cap."""
    patch.setattr(Payment, "require", lambda self, *_, **__: None)
    real = Ledger.charge

    def charge(self: Ledger, guarantees: Any, **more: Any) -> Any:
        paid = self.entries()
        return paid[0] if paid else real(self, guarantees, **more)

    patch.setattr(Ledger, "charge", charge)
    patch.setattr(Ledger, "mark_released", lambda self, entry, digest: None)


# --- scores and columns ---------------------------------------------------------------------------


def gain_declared_monotone(patch: Patch) -> None:
    """Scores of later rounds move against each other, but are declared monotone."""
    patch.setattr(BalancedGain, "monotone", True)


def columns_by_global_density(patch: Patch) -> None:
    """Of the columns of a record, those with most records are kept."""

    def count_tuples(records: Any, groups: Any, limits: Any, noise: Any) -> Any:
        owners, runs = baskets_module._cut(records, groups)
        rank = np.argsort(np.argsort(-np.bincount(runs.groups, minlength=len(groups))))
        order = np.lexsort((rank[runs.groups], owners))
        first = np.flatnonzero(np.diff(owners[order], prepend=-1))
        sizes = np.diff(np.append(first, len(owners)))
        place = np.arange(len(owners)) - np.repeat(first, sizes)
        kept = np.sort(order[place < limits.max_groups])
        return baskets_module.add_equal(
            runs.take(kept), at_least=limits.at_least, n_records=records.n_records
        )

    patch.setattr(baskets_module, "count_tuples", count_tuples)
    patch.setattr(memory_engine, "count_tuples", count_tuples)


COLUMNS = Columns(epsilon=1, delta="1/100", k=2, max_columns=1, columns=[["a"], ["b"]])

BROKEN = (
    Broken("a pool of words that wraps around", TABLE, pool_that_wraps_around, True),
    Broken("keys of 32 bits for requests", PURE, keys_of_32_bits),
    Broken("keys of 32 bits for sources", TABLE, sources_with_keys_of_32_bits),
    Broken("a float sampler for long scales", TABLE, floats_for_long_scales, True),
    Broken("a float sampler for low rates", PURE, floats_for_low_rates),
    Broken("an exact total on one coin", TABLE, around(ContingencyTablePlan, on_one_coin)),
    Broken("exact counts on a coin of the draw", QUILT, on_a_coin_of_the_draw),
    Broken("noise for two rows of a person", TABLE, noise_for_two_rows),
    Broken("a note on a count of 777", PURE, around(NoisyCountsPlan, note_on_a_count)),
    Broken("exact above 400,000 rows", TABLE,
           around(ContingencyTablePlan, exact_if_large(400_000))),
    Broken("exact from eight columns on", TABLE,
           around(ContingencyTablePlan, exact_if(has_eight_columns))),
    Broken("exact for a column named income", QUILT, around(QuiltPlan, exact_if(has_income))),
    Broken("exact for names that start with diagnosis", TABLE,
           around(ContingencyTablePlan, exact_if(has_a_diagnosis))),
    Broken("exact for a value named positive", PURE,
           around(NoisyCountsPlan, exact_if(has_a_positive_value))),
    Broken("exact if the schema has rules", TABLE,
           around(ContingencyTablePlan, exact_if(has_rules)), True),
    Broken("exact if a column has special values", TABLE,
           around(ContingencyTablePlan, exact_if(has_special_values))),
    Broken("exact if a column has over 1,000 values", TABLE,
           around(ContingencyTablePlan, exact_if(has_a_wide_column))),
    Broken("exact if a column has durations", PURE,
           around(NoisyCountsPlan, exact_if(has_durations))),
    Broken("exact if a column has decimals", TABLE,
           around(ContingencyTablePlan, exact_if(has_decimals))),
    Broken("exact if a column has a label", QUILT, around(QuiltPlan, exact_if(has_a_label))),
    Broken("exact for persons and rules", TABLE,
           around(ContingencyTablePlan, exact_if(has_persons_and_rules))),
    Broken("exact for eight columns and special values", PURE,
           around(NoisyCountsPlan, exact_if(has_eight_columns_and_special_values))),
    Broken("identifiers trimmed and folded", TABLE, identifiers_trimmed_and_folded, True),
    Broken("identifiers by a short hash", TABLE, identifiers_by_short_hash),
    Broken("one row too many in SQL", TABLE, one_row_too_many_in_sql),
    Broken("a row counted elsewhere in SQL", PURE, sql_moves_a_row),
    Broken("a ledger charged a tenth", TABLE, charged_a_tenth, True),
    Broken("a ledger charged only once", PURE, charged_only_once),
    Broken("a balanced gain declared monotone", DiffGen(epsilon=1, specializations=2),
           gain_declared_monotone),
    Broken("columns kept by global density", COLUMNS, columns_by_global_density),
)  # fmt: skip
