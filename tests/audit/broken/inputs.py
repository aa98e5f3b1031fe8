"""Behavior that changes at some input: thresholds, caps, sizes, persons, missing values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from audit.broken.kind import Broken, Patch, around, beside, cells_of, exact, histogram, n_rows
from hushtable.errors import Refused
from hushtable.methods import (
    AlphaBeta,
    ContingencyTable,
    DiffGen,
    Frapp,
    NoisyCounts,
    Partition,
    Quilt,
)
from hushtable.methods.alpha_beta.frapp import FrappPlan
from hushtable.methods.base import Released
from hushtable.methods.counts.noisy_counts import NoisyCountsPlan
from hushtable.methods.degrees.degrees import Degrees, DegreesPlan
from hushtable.methods.diffgen.contingency_table import ContingencyTablePlan
from hushtable.methods.diffgen.diffgen import DiffGenPlan
from hushtable.methods.partition.partition import PartitionPlan
from hushtable.methods.quilt.quilt import QuiltPlan
from hushtable.privacy.mechanisms.tuple_perturbation import UniformInsertions

TABLE = ContingencyTable(epsilon=1)


def _recounted(released: Released, column: str, counts: Any) -> Released:
    table = released.tables["data"]
    place = table.column_names.index(column)
    changed = table.set_column(place, column, pa.array(np.asarray(counts, np.int64)))
    return replace(released, tables={**released.tables, "data": changed})


def _full(plan: Any, source: Any, n: int) -> Any:
    codes, counts = cells_of(plan, source)
    full = np.zeros(n, np.int64)
    full[plan.schema.domain.pack(codes)[:, 0]] = counts
    return full


def _noisy(released: Released) -> Any:
    return released.tables["data"]["noisy_count"].to_numpy().copy()


def true_threshold(at: int) -> Any:
    def change(real: Any, plan: Any, source: Any, noise: Any) -> Released:
        released = real(plan, source, noise)
        noisy = _noisy(released)
        noisy[_full(plan, source, len(noisy)) < at] = 0
        return _recounted(released, "noisy_count", noisy)

    return change


def exact_above(at: int) -> Any:
    def change(real: Any, plan: Any, source: Any, noise: Any) -> Released:
        released = real(plan, source, noise)
        noisy = _noisy(released)
        full = _full(plan, source, len(noisy))
        noisy[full > at] = full[full > at]
        return _recounted(released, "noisy_count", noisy)

    return change


def refused_below(at: int) -> Any:
    def change(real: Any, plan: Any, source: Any, noise: Any) -> Released:
        if n_rows(source) < at:
            raise Refused("the table is too small to publish.")
        return real(plan, source, noise)

    return change


def refused_above(at: int) -> Any:
    def change(real: Any, plan: Any, source: Any, noise: Any) -> Released:
        if n_rows(source) > at:
            raise Refused("the table is too large to publish.")
        return real(plan, source, noise)

    return change


def exact_from(at: int) -> Any:
    """No noise for large tables."""

    def change(real: Any, plan: Any, source: Any, noise: Any) -> Released:
        released = real(plan, source, noise)
        if n_rows(source) < at:
            return released
        return _recounted(released, "noisy_count", _full(plan, source, len(_noisy(released))))

    return change


def rounds_from_n(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    n_rounds = max(1, n_rows(source).bit_length() // 2)
    method = replace(plan.method, specializations=n_rounds)
    return real(method.plan(plan.schema), source, noise)


def depth_from_n(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    depth = 1 if n_rows(source) < 64 else 2
    return real(replace(plan.method, max_depth=depth).plan(plan.schema), source, noise)


def buckets_by_exact_counts(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    released = real(plan, source, noise)
    first = histogram(source, plan.values[0].name)
    table = released.tables["buckets"]
    merged = pa.array(np.where(np.arange(table.num_rows) < len(first),
                               np.resize((first < 20).astype(np.int32), table.num_rows), 0),
                      pa.int32())  # fmt: skip
    changed = table.set_column(table.column_names.index("bucket"), "bucket", merged)
    return replace(released, tables={**released.tables, "buckets": changed})


def as_many_rows(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    released = real(plan, source, noise)
    data = released.tables["data"]
    n = n_rows(source)
    places = np.resize(np.arange(max(data.num_rows, 1)), n) if data.num_rows else []
    taken = data.take(pa.array(places, pa.int64()))
    return replace(released, tables={**released.tables, "data": taken})


def retention_by_density(patch: Patch) -> None:
    real = UniformInsertions.keep

    def keep(self: Any, codes: Any, counts: Any, noise: Any) -> Any:
        dense = len(codes) >= 3
        kept = real(self, codes, counts, noise)
        return np.ones(len(codes), np.bool_) if dense else kept

    patch.setattr(UniformInsertions, "keep", keep)


def missing_without_noise(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    released = real(plan, source, noise)
    codes, counts = cells_of(plan, source)
    columns = list(plan.schema.attributes.values())
    lost = sum(
        int(count) for row, count in zip(codes, counts, strict=True)
        if any(c == column.missing_code for c, column in zip(row, columns, strict=True))
    )  # fmt: skip
    return beside(released, rows_with_missing_cells=lost)


def top_of_the_taxonomy(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    released = real(plan, source, noise)
    for name, column in plan.schema.attributes.items():
        if getattr(column, "taxonomy", None) is not None:
            half = histogram(source, name)
            return beside(released, top_level=[int(half[:2].sum()), int(half[2:].sum())])
    return released


def for_one_row(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    """Noise for one row, although a person has several."""
    return real(replace(plan, groups=replace(plan.groups, rate=plan.method.epsilon)), source, noise)


def persons_counted(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    released = real(plan, source, noise)
    if plan.schema.unit.kind != "person":
        return released
    return beside(released, rows_of_persons=n_rows(source))


def largest_degree(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    released = real(plan, source, noise)
    largest = int(exact(source.falling_degrees(1)).ravel()[0])
    return beside(released, has_hubs=largest >= 24)


def lucky_exchange(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    released = real(plan, source, noise)
    if n_rows(source) < 50:
        return released
    return beside(released, first_cell=int(cells_of(plan, source)[1][0]))


BROKEN = (
    Broken("threshold on the true count at 40", TABLE,
           around(ContingencyTablePlan, true_threshold(40)), True),
    Broken("counts above 100 exact", TABLE, around(ContingencyTablePlan, exact_above(100)), True),
    Broken("counts above 100 exact, of noisy counts", NoisyCounts(epsilon=1, mechanism="pure"),
           around(NoisyCountsPlan, exact_above(100))),
    Broken("refusing below 30 rows", TABLE, around(ContingencyTablePlan, refused_below(30)), True),
    Broken("quilt refusing below 30 rows", Quilt(epsilon=1, particles=1000),
           around(QuiltPlan, refused_below(30))),
    Broken("refusing above 700 rows", Partition(epsilon=1, max_depth=2),
           around(PartitionPlan, refused_above(700))),
    Broken("no noise from 1,000 rows on", TABLE, around(ContingencyTablePlan, exact_from(1000))),
    Broken("rounds from the exact number of rows", DiffGen(epsilon=1, specializations=1),
           around(DiffGenPlan, rounds_from_n)),
    Broken("depth from the exact number of rows",
           Partition(epsilon=1, max_depth=2, test_from=2), around(PartitionPlan, depth_from_n)),
    Broken("buckets by exact counts", Quilt(epsilon=1, particles=1000),
           around(QuiltPlan, buckets_by_exact_counts)),
    Broken("as many synthetic rows as there are", Quilt(epsilon=1, particles=1000),
           around(QuiltPlan, as_many_rows)),
    Broken("retention by density", AlphaBeta(alpha="2/5", beta="1/10"), retention_by_density),
    Broken("rows with missing cells counted exactly", TABLE,
           around(ContingencyTablePlan, missing_without_noise)),
    Broken("top of a taxonomy counted exactly", TABLE,
           around(ContingencyTablePlan, top_of_the_taxonomy)),
    Broken("rows of persons counted exactly", NoisyCounts(epsilon=1, mechanism="pure"),
           around(NoisyCountsPlan, persons_counted)),
    Broken("a word about hubs", Degrees(epsilon=1, max_degree=2),
           around(DegreesPlan, largest_degree)),
    Broken("first cell of larger tables exact", Frapp(retention="1/5"),
           around(FrappPlan, lucky_exchange)),
)  # fmt: skip
