"""Exact information in files: totals, order, dictionaries, sizes and texts."""

from __future__ import annotations

import sys
from dataclasses import replace
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
    n_rows,
    noted,
    reordered,
)
from hushtable.errors import TooLarge
from hushtable.methods import (
    AlphaBeta,
    Columns,
    ContingencyTable,
    DiffGen,
    NoisyCounts,
    Partition,
    Quilt,
)
from hushtable.methods.alpha_beta.alpha_beta import AlphaBetaPlan
from hushtable.methods.base import Released
from hushtable.methods.counts.columns import ColumnsPlan
from hushtable.methods.counts.noisy_counts import NoisyCountsPlan
from hushtable.methods.degrees.degrees import Degrees, DegreesPlan
from hushtable.methods.diffgen.contingency_table import ContingencyTablePlan
from hushtable.methods.diffgen.diffgen import DiffGenPlan
from hushtable.methods.partition.partition import PartitionPlan
from hushtable.methods.quilt.quilt import QuiltPlan

TABLE = ContingencyTable(epsilon=1)
PURE = NoisyCounts(epsilon=1, mechanism="pure")
TIGHT = NoisyCounts(epsilon=1, delta="1/100", k=5)
QUILT = Quilt(epsilon=1, particles=1000)
DIFFGEN = DiffGen(epsilon=1, specializations=1)
COLUMNS = Columns(epsilon=1, delta="1/100", k=2, max_columns=1, columns=[["a"], ["b"]])


def total_in_a_note(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    return noted(real(plan, source, noise), f"Made from {n_rows(source):,} rows.")


def occupied_in_a_setting(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    return beside(real(plan, source, noise), n_occupied=len(cells_of(plan, source)[1]))


def counts_in_the_drawing(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    released = real(plan, source, noise)
    bars = "".join(f'<rect height="{int(count)}"/>' for count in cells_of(plan, source)[1])
    return replace(released, attachments={"cuts.svg": f"<svg>{bars}</svg>"})


def rows_by_exact_counts(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    released = real(plan, source, noise)
    codes, counts = cells_of(plan, source)
    full = np.zeros(released.tables["data"].num_rows, np.int64)
    full[plan.schema.domain.pack(codes)[:, 0]] = counts
    return reordered(released, np.argsort(-full, kind="stable"))


def rows_by_occupied_first(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    released = real(plan, source, noise)
    table = released.tables["data"]
    keys = [name for name in table.column_names if name in plan.schema.attributes]
    there = set()
    columns = list(plan.schema.attributes.values())
    for row in cells_of(plan, source)[0]:
        there.add(tuple(column.value(int(c)) for column, c in zip(columns, row, strict=True)))
    rows = list(zip(*(table.column(key).to_pylist() for key in keys), strict=True))
    return reordered(released, np.argsort([row not in there for row in rows], kind="stable"))


def padding(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    released = real(plan, source, noise)
    return replace(released, attachments={"about.txt": "noise".ljust(n_rows(source) + 10, ".")})


def refusal_that_tells(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    if noise.uniform_below(2, size=1)[0]:
        raise TooLarge(f"of {n_rows(source)} rows, too many are alike.")
    return real(plan, source, noise)


def printed(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    sys.stderr.write(f"read {n_rows(source)} rows\n")
    return real(plan, source, noise)


def nodes_in_a_setting(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    return beside(real(plan, source, noise), nodes_read=int(exact(source.n_nodes()).ravel()[0]))


def regions_by_exact_counts(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    """Ties between equal noisy counts, broken by exact counts."""
    released = real(plan, source, noise)
    return beside(released, last_row=n_rows(source) % 7)


def any_dictionary(patch: Patch) -> None:
    """Rows written with a dictionary of the values that occur."""

    def write(table: pa.Table, path: Any, schema: Any = None) -> None:
        pq.write_table(table, path)

    patch.setattr("hushtable.release.writer.write_parquet", write)

    def change(real: Any, plan: Any, source: Any, noise: Any) -> Released:
        released = real(plan, source, noise)
        occurring = sorted({int(code) for code in cells_of(plan, source)[0][:, 0]})
        table = released.tables["data"]
        words = pa.array([f"value {code}" for code in [99, *occurring]])
        column = pa.DictionaryArray.from_arrays(pa.array([0] * table.num_rows), words)
        return replace(released, tables={"data": table.append_column("kind", column)})

    around(ContingencyTablePlan, change)(patch)


def metadata(patch: Patch) -> None:
    """File metadata from the private table."""

    def write(table: pa.Table, path: Any, schema: Any = None) -> None:
        pq.write_table(table, path)

    patch.setattr("hushtable.release.writer.write_parquet", write)

    def change(real: Any, plan: Any, source: Any, noise: Any) -> Released:
        released = real(plan, source, noise)
        told = {"source": f"{n_rows(source)} rows"}
        table = released.tables["data"].replace_schema_metadata(told)
        return replace(released, tables={**released.tables, "data": table})

    around(QuiltPlan, change)(patch)


def row_groups(patch: Patch) -> None:
    """Row groups that follow the parts of the private table."""
    seen = [1]

    def change(real: Any, plan: Any, source: Any, noise: Any) -> Released:
        seen[0] = 1 + n_rows(source) % 5
        return real(plan, source, noise)

    def write(table: pa.Table, path: Any, schema: Any = None) -> None:
        pq.write_table(table, path, row_group_size=seen[0])

    around(NoisyCountsPlan, change)(patch)
    patch.setattr("hushtable.release.writer.write_parquet", write)


BROKEN = (
    Broken("exact total in a note", TABLE, around(ContingencyTablePlan, total_in_a_note), True),
    Broken("exact total in a note of quilt", QUILT, around(QuiltPlan, total_in_a_note)),
    Broken("exact total in a note of columns", COLUMNS, around(ColumnsPlan, total_in_a_note)),
    Broken("exact total in a note of alpha-beta", AlphaBeta(alpha="2/5", beta="1/10"),
           around(AlphaBetaPlan, total_in_a_note)),
    Broken("number of occupied tuples in a setting", TIGHT,
           around(NoisyCountsPlan, occupied_in_a_setting)),
    Broken("exact counts in an attached drawing", DIFFGEN,
           around(DiffGenPlan, counts_in_the_drawing), True),
    Broken("rows ordered by exact counts", TABLE,
           around(ContingencyTablePlan, rows_by_exact_counts), True),
    Broken("rows of noisy counts ordered by exact counts", PURE,
           around(NoisyCountsPlan, rows_by_exact_counts)),
    Broken("occupied groups first", TABLE, around(ContingencyTablePlan, rows_by_occupied_first)),
    Broken("a dictionary of occurring values", TABLE, any_dictionary, True),
    Broken("metadata of the file", QUILT, metadata),
    Broken("row groups of the file", PURE, row_groups),
    Broken("size of an attached file", TABLE, around(ContingencyTablePlan, padding)),
    Broken("refusals that name the number of rows", PURE,
           around(NoisyCountsPlan, refusal_that_tells)),
    Broken("number of rows on standard error", TABLE, around(ContingencyTablePlan, printed)),
    Broken("exact number of nodes in a setting", Degrees(epsilon=1, max_degree=2),
           around(DegreesPlan, nodes_in_a_setting)),
    Broken("remainder of the number of rows in a setting", Partition(epsilon=1, max_depth=2),
           around(PartitionPlan, regions_by_exact_counts)),
)  # fmt: skip
