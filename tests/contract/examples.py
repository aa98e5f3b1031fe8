"""Every registered method with parameters to try it by; a new method only adds its line here."""

from __future__ import annotations

from hushtable.datasets import sample, sample_schema
from hushtable.methods import (
    AlphaBeta,
    Columns,
    ContingencyTable,
    DiffGen,
    Frapp,
    GeneralizeSuppress,
    Method,
    NoisyCounts,
    Partition,
    TopDownSpecialization,
)
from hushtable.schema import Schema

COARSE = {"age": 20, "region": 1, "diagnosis": 1}

EXAMPLES: list[Method] = [
    NoisyCounts(epsilon=1, delta="1e-6", k=10, generalize=COARSE),
    NoisyCounts(epsilon=1, delta="1e-6", k=10, generalize=COARSE, row_count_share="1/20"),
    NoisyCounts(epsilon="1/2", delta="1e-6", k=5, mechanism="paper", generalize=COARSE),
    NoisyCounts(epsilon=1, mechanism="pure", generalize=COARSE),
    DiffGen(epsilon=1, specializations=6),
    DiffGen(epsilon=1, specializations=5, score="total-variation"),
    DiffGen(epsilon=1, score="information-gain", consistent=True),
    DiffGen(epsilon="1/2", specializations=4, score="max", calibration="paper"),
    Partition(epsilon=1),
    Partition(epsilon="1/2", target="sex", split="random-attribute", test_from=2, max_depth=6),
    Partition(epsilon=1, split="midpoint", summarize="lower", consistent=False, test_from=0),
    AlphaBeta(d="1/20", gamma="1/2"),
    AlphaBeta(prior_factor="1/10", n_public=6000, gamma="3/5", adversary="independent"),
    AlphaBeta(alpha="9/20", beta="1/20"),
    AlphaBeta(
        prior_factor="1/10", n_public=6000, gamma="1/2", source={"region": [4, 2, 2, 1, 1]}
    ),
    Frapp(retention="1/5"),
    Columns(
        epsilon=2, delta="1e-6", k=10, max_columns=2, generalize=COARSE,
        columns=[["age", "sex", "region"], ["region", "smoker", "diagnosis"]],
    ),
    Columns(
        epsilon=2, delta="1e-6", k=10, max_columns=2, generalize=COARSE, count_share="1/20",
        columns=[["age", "sex"], ["smoker", "diagnosis"], ["region", "sex"]], mechanism="paper",
    ),
    Columns(
        epsilon=2, delta="1e-6", k=10, max_columns=5, generalize=COARSE, count_share="1/20",
        clusters=[2, 3],
    ),
    GeneralizeSuppress(k=5, generalize=COARSE),
    ContingencyTable(epsilon=1),
    TopDownSpecialization(k=10),
]  # fmt: skip


def label(method: Method) -> str:
    """Name an example in test output."""
    return "-".join([method.name, *(str(v) for v in method.parameters().values())])[:60]


def schema() -> Schema:
    """Give the schema all examples are valid for."""
    return sample_schema()


def n_counted(method: Method) -> int:
    """Count what a method's estimates are about in the sample: rows, or distinct tuples."""
    rows = sample().select(list(schema().attributes))
    if isinstance(method, AlphaBeta):
        rows = rows.group_by(rows.column_names).aggregate([])
    return int(rows.num_rows)
