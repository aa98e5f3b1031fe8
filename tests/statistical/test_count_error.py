"""Errors of counts in real runs: they agree with `Method.count_error`.

Each test makes RUNS releases with operating-system randomness. An error that stays within the
half-width with probability 0.95 or more does so in fewer than LEAST of them with probability below
ALPHA. If the formula is exact and not only a bound, the standard deviation of the errors is
compared too, with a range that a sample of RUNS leaves with probability below ALPHA (see SPREAD).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from hushtable.datasets import sample, sample_schema
from hushtable.engine import connect
from hushtable.engine.edges import read_graph
from hushtable.methods import (
    AlphaBeta,
    Columns,
    ContingencyTable,
    DiffGen,
    Frapp,
    Method,
    NoisyCounts,
    Partition,
    Quilt,
)
from hushtable.methods.degrees.degrees import Degrees
from hushtable.methods.registry import estimator_for
from hushtable.privacy.noise.sources import SecureNoise
from hushtable.schema import Schema
from sealing import sealed

RUNS = 120
ALPHA = 1e-6
LEAST = int(binom.ppf(ALPHA, RUNS, 0.95))
# Sums of Laplace noise have kurtosis up to 6, so the relative error of a standard deviation from
# 120 draws is at most sqrt(5 / 480) = 0.1; six of these are far beyond ALPHA.
SPREAD = 0.6

COARSE = {"age": 20, "region": 1, "diagnosis": 1}


def errors(method: Method, schema: Schema, table: pa.Table, where: str, truth: float) -> np.ndarray:
    """Publish repeatedly, and return the errors of the answers to one question."""
    engine = connect(table.select(list(schema.columns)), schema, engine="memory")
    off = []
    for _ in range(RUNS):
        released = method.run(engine, SecureNoise())
        settings = {**released.settings, "kind": method.estimator_kind}
        estimator = estimator_for(settings, schema, method.parameters(), released.tables)
        off.append(estimator.count(where).value - truth)
    return np.array(off)


def check(off: np.ndarray, *, half_width: float, std: float, exact: bool) -> None:
    within = int(np.count_nonzero(np.abs(off) <= half_width))
    assert within >= LEAST, f"{within} of {RUNS} within {half_width}"
    if exact:
        assert abs(np.sqrt(np.mean(off**2)) / std - 1) < SPREAD


def small_schema(*names: str) -> Schema:
    content = sample_schema().to_dict()
    columns = {name: content["columns"][name] for name in names}
    return Schema.from_dict({"name": "part", "columns": columns})


def true_count(where: Callable[[dict[str, np.ndarray]], np.ndarray], table: pa.Table) -> int:
    columns = {
        name: np.array(table.column(name).to_pylist(), object) for name in table.column_names
    }
    return int(np.count_nonzero(where(columns)))


def even(n_each: int) -> tuple[Schema, pa.Table]:
    """Make a table in which every combination of values has equally many rows."""
    schema = Schema.from_dict(
        {
            "name": "even",
            "columns": {
                "a": {"type": "integer", "low": 0, "high": 9},
                "b": {"type": "categorical", "values": ["x", "y"]},
            },
        }
    )
    a = np.repeat(np.arange(10), 2 * n_each)
    b = np.tile(np.repeat(["x", "y"], n_each), 10)
    return schema, pa.table({"a": a, "b": b})


def test_contingency_table() -> None:
    schema, table = small_schema("age", "sex"), sample()
    method = ContingencyTable(epsilon="1/2")
    truth = true_count(lambda c: (c["age"] >= 40) & (c["age"] < 50), table)
    off = errors(method, schema, table, "age BETWEEN 40 AND 49", truth)
    said = method.count_error(schema, rows=None, share=0.1)
    check(off, half_width=said.half_width, std=said.std, exact=True)


@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_quilt(delta: str) -> None:
    schema, table = even(60)
    method = Quilt(epsilon=1, delta=delta, particles=1000)
    off = errors(method, schema, table, "a < 5", 600)
    said = method.count_error(schema, rows=table.num_rows, share=0.5)
    check(off, half_width=said.half_width, std=said.std, exact=False)
    # Half of the values: knowing the number of rows from other tables at best halves the variance.
    assert np.sqrt(np.mean(off**2)) > (1 - SPREAD) * said.std / 2**0.5


def test_noisy_counts_of_the_whole_domain() -> None:
    schema, table = sample_schema(), sample()
    method = NoisyCounts(epsilon=1, mechanism="pure", generalize=COARSE)
    truth = true_count(lambda c: (c["age"] >= 40) & (c["age"] < 60) & (c["sex"] == "F"), table)
    off = errors(method, schema, table, "age BETWEEN 40 AND 59 AND sex = 'F'", truth)
    said = method.count_error(schema, rows=None, share=0.1)
    check(off, half_width=said.half_width, std=said.std, exact=True)


@pytest.mark.parametrize("mechanism", ["tight", "paper"])
def test_noisy_counts_without_suppression(mechanism: str) -> None:
    schema, table = even(60)
    method = NoisyCounts(epsilon=1, delta="1e-6", k=10, mechanism=mechanism)  # type: ignore[arg-type]
    assert method.of_one_row.release_probability(60) > 1 - 1e-6
    off = errors(method, schema, table, "b = 'x'", 600)
    said = method.count_error(schema, rows=table.num_rows, share=0.5)
    check(off, half_width=said.half_width, std=said.std, exact=True)


@pytest.mark.parametrize("mechanism", ["tight", "paper"])
def test_noisy_counts_half_of_them_suppressed(mechanism: str) -> None:
    method = NoisyCounts(epsilon=1, delta="1e-6", k=10, mechanism=mechanism)  # type: ignore[arg-type]
    schema, _ = even(1)
    each = method.of_one_row.release_count(0.5)
    published = method.plan(schema).mechanism
    counts = np.full((RUNS, 10), each, np.int64)
    noisy = published.noisy(counts.ravel(), SecureNoise()).reshape(RUNS, 10)
    off = np.where(noisy > 0, noisy - published.bias, 0.0).sum(axis=1) - 10 * each
    said = method.count_error(schema, rows=20 * each, share=0.5)
    within = int(np.count_nonzero(np.abs(off) <= said.half_width))
    assert within >= LEAST
    assert abs(off.std() / said.std - 1) < SPREAD


def test_columns() -> None:
    schema, table = even(60)
    method = Columns(epsilon=1, delta="1e-6", k=10, max_columns=1, columns=[["a", "b"]])
    off = errors(method, schema, table, "b = 'x'", 600)
    said = method.count_error(schema, rows=table.num_rows, share=0.5)
    check(off, half_width=said.half_width, std=said.std, exact=True)


def test_partition_grown_to_its_full_depth() -> None:
    schema, table = small_schema("age", "sex", "region"), sample()
    method = Partition(epsilon=1, max_depth=5, test_from=5, consistent=False, stop_count=-(10**6))
    off = errors(method, schema, table, "age >= 0", table.num_rows)
    said = method.count_error(schema, rows=None, share=1.0)
    check(off, half_width=said.half_width, std=said.std, exact=True)


@pytest.mark.long
def test_partition_that_stops_early_is_within_the_bound() -> None:
    schema, table = small_schema("age", "sex", "region", "diagnosis"), sample()
    method = Partition(epsilon=1)
    off = errors(method, schema, table, "age >= 0", table.num_rows)
    said = method.count_error(schema, rows=None, share=1.0)
    check(off, half_width=said.half_width, std=said.std, exact=False)


@pytest.mark.parametrize("columns", [("age", "sex", "diagnosis"), ("region", "sex", "diagnosis")])
def test_diffgen(columns: tuple[str, ...]) -> None:
    schema, table = small_schema(*columns), sample()
    method = DiffGen(epsilon=1, specializations=2)
    off = errors(method, schema, table, "sex IN ('F', 'M')", table.num_rows)
    said = method.count_error(schema, rows=None, share=1.0)
    check(off, half_width=said.half_width, std=said.std, exact=False)
    # The formula is exact for the largest table that two splits can make.
    assert said.std >= off.std() * (1 - SPREAD)


def test_diffgen_never_makes_more_groups_than_foreseen() -> None:
    schema = sample_schema()
    engine = connect(sample(), schema, engine="memory")
    for h in range(1, 8):
        method = DiffGen(epsilon=1, specializations=h)
        for _ in range(5):
            made = method.run(engine, SecureNoise()).settings["n_groups"]
            assert made <= method.plan(schema).most_groups(0)


@pytest.mark.parametrize("epsilon", ["1", pytest.param("3", marks=pytest.mark.long)])
def test_alpha_beta(epsilon: str) -> None:
    schema, table = sample_schema(), sample()
    distinct = table.select(list(schema.attributes)).group_by(list(schema.attributes)).aggregate([])
    start = AlphaBeta(alpha="9/20", beta="1/20")
    method = start.at_epsilon(schema, Fraction(epsilon))
    truth = true_count(lambda c: c["sex"] == "F", distinct)
    off = errors(method, schema, table, "sex = 'F'", truth)
    said = method.count_error(schema, rows=distinct.num_rows, share=0.5)
    check(off, half_width=said.half_width, std=said.std, exact=True)


def test_frapp() -> None:
    schema, table = small_schema("age", "sex"), sample()
    method = Frapp(retention="1/5")
    truth = true_count(lambda c: c["sex"] == "F", table)
    off = errors(method, schema, table, "sex = 'F'", truth)
    said = method.count_error(schema, rows=table.num_rows, share=0.5)
    check(off, half_width=said.half_width, std=said.std, exact=True)


def test_degrees_of_a_ring() -> None:
    edges = pa.table({"source": np.arange(2000), "target": (np.arange(2000) + 1) % 2000})
    graph = read_graph(edges, nodes=list(range(2000)))
    method = Degrees(epsilon=1, max_degree=8)
    off = []
    for _ in range(RUNS):
        noisy, _ = method.plan().measure(sealed(graph), SecureNoise())
        up_to = noisy.column("nodes_up_to_degree").to_numpy()
        off.append(up_to[5] - up_to[1] - 2000)
    said = method.plan().count_error(rows=None, share=1.0)
    check(np.array(off), half_width=said.half_width, std=said.std, exact=True)
