"""Attempts to evade the auditor: details of a release other than its numbers, and rare inputs.

The order of names, digits that a float cannot represent, times of files, the noise itself, unlikely
random bits, persons with several kinds of rows, and parts that overlap.
"""

from __future__ import annotations

import datetime
import functools
import json
import os
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from audit.broken.kind import (
    Broken,
    Patch,
    around,
    beside,
    cells_of,
    exact,
    histogram,
    n_rows,
)
from hushtable.engine import baskets, memory_engine
from hushtable.engine.sealed_table import SealedTable
from hushtable.errors import DataError, Refused
from hushtable.files.rows import without_metadata
from hushtable.methods import (
    Columns,
    ContingencyTable,
    DiffGen,
    Frapp,
    NoisyCounts,
    Partition,
    Quilt,
)
from hushtable.methods.base import Released
from hushtable.methods.counts.noisy_counts import NoisyCountsPlan
from hushtable.methods.degrees.degrees import Degrees
from hushtable.methods.diffgen.contingency_table import ContingencyTablePlan
from hushtable.privacy.accounting.sealed import unseal
from hushtable.privacy.mechanisms.mechanism import Laplace
from hushtable.privacy.mechanisms.private_choice import HistogramCuts, TopChoices
from hushtable.privacy.mechanisms.scored_splits import SealedSplitsOfParts, SplitChoice
from hushtable.privacy.mechanisms.sealed_regions import SealedRegions
from hushtable.privacy.mechanisms.tuple_perturbation import RowReplacement
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.release.writer import ReleaseWriter

TABLE = ContingencyTable(epsilon=1)
PURE = NoisyCounts(epsilon=1, mechanism="pure")
QUILT = Quilt(epsilon=1, particles=1000)
DIFFGEN = DiffGen(epsilon=1, specializations=1)
PARTITION = Partition(epsilon=1, max_depth=2)
COLUMNS = Columns(epsilon=1, delta="1/100", k=2, max_columns=1, columns=[["a"], ["b"]])
FOLLOWED = Columns(
    epsilon=2, delta="1/100", k=1, max_columns=1, clusters=[2], item="movie", value="stars"
)


# --- files ----------------------------------------------------------------------------------------


def names_by_counts(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    """Names in the order of frequency."""
    counts = histogram(source, next(iter(plan.schema.attributes)))
    order = np.argsort(-counts, kind="stable")
    return beside(real(plan, source, noise), shown={f"value {i}": "bar" for i in order})


def digits_of_a_number(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    """A run number with more digits than a float."""
    coins = int(noise.uniform_below(1 << 60, size=1)[0])
    return beside(real(plan, source, noise), run=(coins << 64) + n_rows(source))


def weights_of_equal_rows(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    """Every row twice, with weights that add up to ten."""
    released = real(plan, source, noise)
    table, part = released.tables["data"], n_rows(source) % 5
    twice = pa.concat_tables([
        table.append_column("weight", pa.array([weight] * table.num_rows, pa.int64()))
        for weight in (part, 10 - part)
    ])  # fmt: skip
    return replace(released, tables={**released.tables, "data": twice})


def sign_of_zero(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    return beside(real(plan, source, noise), shift=-0.0 if n_rows(source) % 2 else 0.0)


def moment_of_a_row(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    """A column of times, as in logs."""
    released = real(plan, source, noise)
    table = released.tables["data"]
    moment = datetime.datetime(2020, 1, 1) + datetime.timedelta(seconds=n_rows(source))
    column = pa.array([moment] * table.num_rows, pa.timestamp("s"))
    changed = table.append_column("made", column)
    return replace(released, tables={**released.tables, "data": changed})


def cause_of_a_refusal(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    if noise.uniform_below(2, size=1)[0]:
        raise Refused("these rows are too much alike.") from DataError(f"{n_rows(source)} rows")
    return real(plan, source, noise)


def number_of_rows_in_the_schema(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    """The exact number of rows in the public schema of the statement."""
    released = real(plan, source, noise)
    told = plan.schema.to_dict() | {"rows": n_rows(source)}
    object.__setattr__(plan, "schema", type(plan.schema).from_dict(told))
    return released


_SEEN = [0]


def _counting(patch: Patch, kind: type = ContingencyTablePlan) -> None:
    """Record the number of rows of the last run's table."""

    def change(real: Any, plan: Any, source: Any, noise: Any) -> Released:
        _SEEN[0] = n_rows(source)
        return real(plan, source, noise)

    around(kind, change)(patch)


def compressed_by_size(patch: Patch) -> None:
    """Different compression for large private tables."""
    _counting(patch)

    def write(table: pa.Table, path: Any, schema: Any = None) -> None:
        how = ("zstd", "gzip")[_SEEN[0] % 2]
        pq.write_table(without_metadata(table, schema), path, compression=how)

    patch.setattr("hushtable.release.writer.write_parquet", write)


def indented_by_size(patch: Patch) -> None:
    _counting(patch)

    def add_statement(self: Any, statement: Any) -> None:
        content = statement.model_dump(mode="json", by_alias=True)
        text = json.dumps(content, indent=1 + _SEEN[0] % 3)
        (self._part / "statement.json").write_text(text + "\n")
        (self._part / "STATEMENT.md").write_text(statement.for_people())

    patch.setattr(ReleaseWriter, "add_statement", add_statement)


def dated_by_size(patch: Patch) -> None:
    """File times that depend on the private table."""
    _counting(patch)
    real = ReleaseWriter.make_durable

    def make_durable(self: Any) -> None:
        real(self)
        for file in self._part.rglob("*"):
            os.utime(file, (1_500_000_000 + _SEEN[0],) * 2)

    patch.setattr(ReleaseWriter, "make_durable", make_durable)


def hidden_file(patch: Patch) -> None:
    _counting(patch)
    real = ReleaseWriter.make_durable

    def make_durable(self: Any) -> None:
        Path(self._part, f".part-{_SEEN[0]}").touch()
        real(self)

    patch.setattr(ReleaseWriter, "make_durable", make_durable)


# --- noise ----------------------------------------------------------------------------------------


def noise_is_kept(patch: Patch) -> None:
    """Noise that is published, to make the release reproducible."""
    kept: list[Any] = [None]
    real = Noise.discrete_laplace

    def draw(self: Noise, scale: Fraction, *, size: int) -> Any:
        kept[0] = real(self, scale, size=size)
        return kept[0]

    patch.setattr(Noise, "discrete_laplace", draw)

    def change(real: Any, plan: Any, source: Any, noise: Any) -> Released:
        released = real(plan, source, noise)
        return beside(released, drawn=kept[0].tolist())

    around(ContingencyTablePlan, change)(patch)


def noise_by_the_table(patch: Patch) -> None:
    """The same noise for the same counts, to prevent averaging."""
    real = Laplace.draw

    def draw(self: Laplace, exact: Any, noise: Any) -> Any:
        return real(self, exact, SeededNoise(int(np.asarray(exact).sum())))

    patch.setattr(Laplace, "draw", draw)


def noise_used_twice(patch: Patch) -> None:
    """The same noise for two tables of one shape."""
    kept: dict[Any, Any] = {}
    real = Laplace.draw

    def draw(self: Laplace, exact: Any, noise: Any) -> Any:
        key = (id(noise), exact.shape, self.scale)
        if key not in kept:
            kept[key] = real(self, np.zeros_like(exact), noise)
        return exact + kept[key]

    patch.setattr(Laplace, "draw", draw)


@dataclass(frozen=True)
class _Shortened(Laplace):
    """Laplace noise without its tails."""

    def draw(self, exact: Any, noise: Noise) -> Any:
        most = int(7 * self.scale)
        noisy = super().draw(exact, noise)
        return np.clip(noisy, exact - most, exact + most)


def noise_of_its_own(patch: Patch) -> None:
    real = Noise.open

    def opened(self: Noise, sealed: Any, mechanism: Any, what: str) -> Any:
        if type(mechanism) is Laplace:
            mechanism = _Shortened(mechanism.scale)
        return real(self, sealed, mechanism, what)

    patch.setattr(Noise, "open", opened)


def choices_twice_as_sharp(patch: Patch) -> None:
    real = TopChoices.draw
    patch.setattr(
        TopChoices,
        "draw",
        lambda self, exact, noise: real(replace(self, epsilon=2 * self.epsilon), exact, noise),
    )


def ways_twice_as_sharp(patch: Patch) -> None:
    real = SplitChoice.draw
    patch.setattr(
        SplitChoice,
        "draw",
        lambda self, exact, noise: real(replace(self, eta=2 * self.eta), exact, noise),
    )


def cuts_twice_as_sharp(patch: Patch) -> None:
    real = HistogramCuts.draw
    patch.setattr(
        HistogramCuts,
        "draw",
        lambda self, exact, noise: real(replace(self, rate=2 * self.rate), exact, noise),
    )


def rows_kept_more_often(patch: Patch) -> None:
    real = RowReplacement.draw
    patch.setattr(
        RowReplacement,
        "draw",
        lambda self, exact, noise: real(
            replace(self, retention=min(Fraction(9, 10), 2 * self.retention)), exact, noise
        ),
    )


# --- rare behavior --------------------------------------------------------------------------------


def one_in_many(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    """Exact counts, published once in a hundred thousand runs."""
    released = real(plan, source, noise)
    if noise.uniform_below(100_000, size=1)[0] == 0:
        return beside(released, check=n_rows(source))
    return released


def nothing_for_empty_cells(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    """No noise in empty cells."""
    released = real(plan, source, noise)
    noisy = released.tables["data"]["noisy_count"].to_numpy().copy()
    codes, _ = cells_of(plan, source)
    empty = np.ones(len(noisy), np.bool_)
    empty[plan.schema.domain.pack(codes)[:, 0]] = False
    noisy[empty] = 0
    table = released.tables["data"]
    place = table.column_names.index("noisy_count")
    changed = table.set_column(place, "noisy_count", pa.array(noisy))
    return replace(released, tables={**released.tables, "data": changed})


def one_value_is_public(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    """Exact counts of the last value of the last column."""
    counts = histogram(source, list(plan.schema.attributes)[-1])
    return beside(real(plan, source, noise), of_the_last=int(counts[-1]))


def large_tables(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    released = real(plan, source, noise)
    n = n_rows(source)
    return beside(released, rows=n) if n > 30_000 else released


def many_columns(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    """Exact totals for tables with at least five columns, used to scale answers."""
    released = real(plan, source, noise)
    if len(plan.schema.attributes) < 5:
        return released
    return beside(released, scale=n_rows(source))


def mean_of_numbers(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    """Exact means of measured columns."""
    released = real(plan, source, noise)
    means = {}
    for name, column in plan.schema.attributes.items():
        if column.type == "number":
            counts = histogram(source, name)
            means[name] = float(counts @ np.arange(len(counts)) / max(1, counts.sum()))
    return beside(released, means=means) if means else released


def first_day(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    """The first and last day of the table in its title."""
    released = real(plan, source, noise)
    for name, column in plan.schema.attributes.items():
        if column.type == "date":
            seen = np.flatnonzero(histogram(source, name))
            return beside(released, days=[int(code) for code in seen[[0, -1]]] if len(seen) else [])
    return released


# --- persons and parts ----------------------------------------------------------------------------


def kinds_of_rows(patch: Patch) -> None:
    """A person who counts once in each cell, with noise for one cell."""
    real = memory_engine.MemoryEngine.__dict__["_rows_and_persons"].func

    def each_kind(self: Any) -> Any:
        rows, persons = real(self)
        if persons is None:
            return rows, persons
        _, first = np.unique(np.stack([persons, *rows.values()], axis=1), axis=0, return_index=True)
        first.sort()
        return {name: column[first] for name, column in rows.items()}, persons[first]

    counted = functools.cached_property(each_kind)
    counted.__set_name__(memory_engine.MemoryEngine, "_rows_and_persons")
    patch.setattr(memory_engine.MemoryEngine, "_rows_and_persons", counted)
    whole = SealedTable.sensitivity.fget  # type: ignore[attr-defined]
    patch.setattr(SealedTable, "sensitivity", property(lambda self: replace(whole(self), rows=1)))
    # The same number of draws, with noise for one row.
    real_plan = ContingencyTable.plan

    def plan(self: Any, schema: Any) -> Any:
        made = real_plan(self, schema)
        return replace(made, groups=replace(made.groups, rate=self.epsilon))

    patch.setattr(ContingencyTable, "plan", plan)


def all_rows_count(patch: Patch) -> None:
    """A bound on the rows of a person that is not enforced."""
    patch.setattr(memory_engine, "_bounded", lambda persons, _, __: np.arange(len(persons)))


def all_columns_count(patch: Patch) -> None:
    """A record that counts in all its columns, at the cost of one."""
    patch.setattr(baskets, "keep_some", lambda owners, _, __: np.arange(len(owners)))


def a_region_sees_its_sibling(patch: Patch) -> None:
    """A split of one half of a region that depends on the other half."""
    real = SealedRegions.ways

    def ways(self: Any, region: int, spans: Any, n_ways: int, *, quality: int) -> Any:
        made = real(self, region, spans, n_ways, quality=quality)
        if region == 0 or not len(unseal(made)[0].scores):
            return made
        first, *others = unseal(made)
        scores = first.scores.copy()
        sibling = region + 1 if region % 2 else region - 1
        scores[0] += int(exact(self.totals([sibling])).sum())
        return SealedSplitsOfParts(
            [first._replace(scores=scores), *others], made.sensitivity, made.part
        )

    patch.setattr(SealedRegions, "ways", ways)


BROKEN = (
    Broken("names in the order of exact counts", TABLE,
           around(ContingencyTablePlan, names_by_counts), True),
    Broken("digits that a float does not hold", TABLE,
           around(ContingencyTablePlan, digits_of_a_number), True),
    Broken("weights of equal rows", TABLE, around(ContingencyTablePlan, weights_of_equal_rows),
           True),
    Broken("the sign of a zero", TABLE, around(ContingencyTablePlan, sign_of_zero)),
    Broken("a column of times", TABLE, around(ContingencyTablePlan, moment_of_a_row)),
    Broken("the cause of a refusal", PURE, around(NoisyCountsPlan, cause_of_a_refusal)),
    Broken("number of rows in the public schema", TABLE,
           around(ContingencyTablePlan, number_of_rows_in_the_schema)),
    Broken("compression by the number of rows", TABLE, compressed_by_size, True),
    Broken("indentation by the number of rows", TABLE, indented_by_size),
    Broken("times of files by the number of rows", TABLE, dated_by_size, True),
    Broken("a hidden file", TABLE, hidden_file),
    Broken("the noise is published", TABLE, noise_is_kept, True),
    Broken("noise that the counts choose", QUILT, noise_by_the_table),
    Broken("noise that two tables share", QUILT, noise_used_twice),
    Broken("noise of its own, without tails", QUILT, noise_of_its_own),
    Broken("choices twice as sharp as booked", QUILT, choices_twice_as_sharp),
    Broken("ways twice as sharp as booked", DIFFGEN, ways_twice_as_sharp, True),
    Broken("ways of a partition twice as sharp as booked", PARTITION, ways_twice_as_sharp),
    Broken("cuts twice as sharp as booked",
           Degrees(epsilon=1, max_degree=8, mechanism="partition"), cuts_twice_as_sharp),
    Broken("rows kept twice as often as booked", Frapp(retention="1/5"), rows_kept_more_often),
    Broken("exact once in many runs", TABLE, around(ContingencyTablePlan, one_in_many), True),
    Broken("no noise where nobody is", TABLE,
           around(ContingencyTablePlan, nothing_for_empty_cells)),
    Broken("a value that is public", TABLE, around(ContingencyTablePlan, one_value_is_public)),
    Broken("tables above 30,000 rows", TABLE, around(ContingencyTablePlan, large_tables)),
    Broken("tables of many columns", TABLE, around(ContingencyTablePlan, many_columns)),
    Broken("means of numbers", TABLE, around(ContingencyTablePlan, mean_of_numbers)),
    Broken("first and last day", TABLE, around(ContingencyTablePlan, first_day)),
    Broken("persons in one cell", TABLE, kinds_of_rows),
    Broken("all rows of a person count", PURE, all_rows_count, True),
    Broken("all columns of a record count", COLUMNS, all_columns_count, True),
    Broken("all items of a person count", FOLLOWED, all_columns_count),
    Broken("a region that sees its sibling", PARTITION, a_region_sees_its_sibling),
)  # fmt: skip
