"""Correct methods, in configurations that an audit must never accuse."""

from __future__ import annotations

from typing import Any

from hushtable.methods import (
    AlphaBeta,
    Columns,
    Condensation,
    ContingencyTable,
    DiffGen,
    Frapp,
    GeneralizeSuppress,
    NoisyCounts,
    Partition,
    Quilt,
    RandomSampling,
    TopDownSpecialization,
    Uncertain,
)
from hushtable.methods.degrees.degrees import Degrees
from hushtable.methods.diffgen.dp_c45 import DpC45
from hushtable.methods.parameters import Parameters
from hushtable.methods.partition.mondrian import Mondrian

RUNS = 5_000

REAL: dict[Any, int] = {
    AlphaBeta(alpha="2/5", beta="1/10"): RUNS,
    AlphaBeta(d="1/10", gamma="1/2"): RUNS,
    AlphaBeta(alpha="2/5", beta="1/10", views=2): RUNS,
    Columns(
        epsilon=1, delta="1/100", k=2, max_columns=1, columns=[["a"], ["b"]], count_share="1/5",
    ): RUNS,
    Columns(
        epsilon=2, delta="1/100", k=1, max_columns=2, clusters=[2], item="movie", value="stars",
    ): RUNS,
    Condensation(k=3): RUNS,
    ContingencyTable(epsilon=1): RUNS,
    Degrees(epsilon=1, max_degree=2): RUNS,
    Degrees(epsilon=1, max_degree=8, mechanism="partition"): RUNS,
    DiffGen(epsilon=1, specializations=1): RUNS,
    DpC45(epsilon=1, depth=2): RUNS,
    Frapp(retention="1/5"): RUNS,
    GeneralizeSuppress(k=5): RUNS,
    Mondrian(k=3): RUNS,
    NoisyCounts(epsilon=1, delta="1/100", k=5, row_count_share="1/5"): RUNS,
    NoisyCounts(epsilon=1, delta="1/100", k=5, mechanism="paper"): RUNS,
    NoisyCounts(epsilon=1, mechanism="pure"): RUNS,
    Partition(epsilon=1, max_depth=2, test_from=0): RUNS,
    Partition(epsilon=1, max_depth=1, split="class", test_from=1): RUNS,
    Quilt(epsilon=1, particles=1000): RUNS,
    RandomSampling(rate="1/5"): RUNS,
    TopDownSpecialization(k=3): RUNS,
    # Each run searches for safe noise levels by simulation, which takes 14 ms.
    Uncertain(k=3, eta="1/5", edges="wrap"): 200,
    Uncertain(k=3): RUNS,
}  # fmt: skip
"""The methods, and how often each is run in CI."""


def label(method: Parameters) -> str:
    return f"{method.name}-{list(REAL).index(method)}"
