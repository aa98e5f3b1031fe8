"""Simulated errors: measured correctly, stored, and compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from hushtable.errors import Refused
from hushtable.evaluation import simulation as module
from hushtable.evaluation.inputs import read_rows
from hushtable.evaluation.simulation import (
    KINDS,
    SimulatedError,
    Simulation,
    beside,
    compare_methods,
    measure_errors,
    simulate,
)
from hushtable.methods import ContingencyTable, NoisyCounts, Partition
from hushtable.methods.base import Method
from hushtable.publishing.surrogate import N_VARIANTS, make_surrogate
from hushtable.schema import Schema

SCHEMA = Schema.from_dict(
    {"name": "t", "columns": {
        "age": {"type": "integer", "low": 0, "high": 9},
        "sex": {"type": "categorical", "values": ["F", "M"]},
    }}
)  # fmt: skip


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "hushtable" / "forecasts"


class Shifted:
    """A release whose counts are 7 too large, and whose means are half a year too large."""

    statement: ClassVar[Any] = SimpleNamespace(method="shifted")

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self._rows = read_rows(table, SCHEMA)

    def published(self, _: Any) -> Any:
        return SimpleNamespace(about="rows")

    def _mask(self, where: str) -> Any:
        return duckdb.from_arrow(self._table).filter(where).fetchnumpy()["age"]

    def count(self, where: str) -> Any:
        return SimpleNamespace(value=len(self._mask(where)) + 7)

    def mean(self, _: str, where: str) -> Any:
        if "'M'" in where:
            raise Refused("not this one.")
        return SimpleNamespace(value=float(self._mask(where).mean()) + 0.5)


def test_errors_are_those_of_the_answers() -> None:
    rng = np.random.default_rng(3)
    table = pa.table(
        {"age": rng.integers(0, 10, 2000), "sex": rng.choice(["F", "M"], 2000)}
    )  # fmt: skip
    errors = measure_errors(Shifted(table), read_rows(table, SCHEMA), seed=1)  # type: ignore[arg-type]
    assert set(errors[KINDS[0]]) == set(errors[KINDS[1]]) == {7.0}
    assert errors[KINDS[2]] == []  # there are two columns
    means = errors["group means"]
    assert means
    assert means == pytest.approx([0.5 / np.std(table["age"].to_numpy())] * len(means))


def test_results_are_stored_by_their_public_inputs(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = ContingencyTable(epsilon=1)
    assert simulate(method, SCHEMA, rows=300, stored_only=True) is None
    found = simulate(method, SCHEMA, rows=300)
    assert found is not None
    assert found.errors[KINDS[0]].typical > 0
    monkeypatch.setattr(module, "_simulated", lambda *_: pytest.fail("it is stored"))
    assert simulate(method, SCHEMA, rows=300) == found
    assert simulate(ContingencyTable(epsilon=2), SCHEMA, rows=300, stored_only=True) is None
    assert simulate(method, SCHEMA, rows=301, stored_only=True) is None
    (path,) = cache.iterdir()
    path.write_text("{")  # a damaged file is ignored
    assert simulate(method, SCHEMA, rows=300, stored_only=True) is None


def test_what_publish_refuses_is_not_recommended() -> None:
    wide = Schema.from_dict(
        {"name": "w", "columns": {f"c{n}": {"type": "integer", "low": 0, "high": 99}
                                  for n in range(8)}}
    )  # fmt: skip
    refused = NoisyCounts(epsilon=1, delta="1e-6", k=10)
    good = Partition(epsilon=2, max_depth=3)
    found = compare_methods([refused, good], wide, rows=1000)
    assert [one.method for one in found] == ["partition", "noisy-counts"]
    assert "mostly noise" in " ".join(found[1].problems)
    assert math.isinf(found[1].score())


def test_methods_are_ordered_by_the_errors_that_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    def known(method: Method, *_: object) -> Simulation:
        counts, means = {"partition": (10.0, 2.0), "quilt": (20.0, 1.0)}[method.name]
        errors = {kind: SimulatedError(counts, 9 * counts, 5) for kind in KINDS[:3]}
        return Simulation(
            method.name, 9, "t", errors | {KINDS[3]: SimulatedError(means, means, 5)}
        )  # fmt: skip

    monkeypatch.setattr(module, "_simulated", known)
    methods: Sequence[Method] = [Partition(epsilon=1), beside(Partition(epsilon=1))[0]]
    for use, best in (("counts", "partition"), ("numbers", "quilt"), ("predict", "partition")):
        assert compare_methods(methods, SCHEMA, use=use)[0].method == best


def test_surrogate_tables_differ_in_their_dependence() -> None:
    strength = []
    for variant in range(N_VARIANTS):
        rows = read_rows(make_surrogate(SCHEMA, 20_000, variant), SCHEMA).codes
        strength.append(abs(float(np.corrcoef(rows["age"], rows["sex"])[0, 1])))
    assert strength[0] > 0.3
    assert strength[1] < 0.1
