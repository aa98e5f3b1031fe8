"""Quilt with noisy tables of earlier waves: same cells, averaged, paid for once."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hushtable.engine import connect
from hushtable.methods.base import Released
from hushtable.methods.prior import EarlierEstimates, EarlierTable, Prior
from hushtable.methods.quilt.prior_weight import EarlierMeasurements
from hushtable.methods.quilt.quilt import Quilt
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.schema import Schema
from seeds import shifted

N = 4000


class Before(Prior):
    """Prior made of measurements of earlier waves, for a test."""

    kind = "release"
    name = "before"
    sha256 = "0" * 64

    def __init__(self, earlier: EarlierEstimates) -> None:
        self._earlier = earlier

    def is_file_of(self, data: Any) -> bool:
        return False

    def codes(self, schema: Schema) -> dict[str, Any]:
        raise AssertionError("rows are not asked for where there are tables")

    def earlier(self, schema: Schema) -> EarlierEstimates:
        return self._earlier


def schema(n_columns: int) -> Schema:
    columns = {f"c{i}": {"type": "integer", "low": 0, "high": 3} for i in range(n_columns)}
    return Schema.from_dict({"name": "t", "columns": columns})


def rows(n_columns: int) -> pa.Table:
    """Return rows whose first two columns are equal, and the others independent."""
    row = np.arange(N)
    codes = [row % 4, row % 4, *((row // 4**i) % 4 for i in range(1, n_columns - 1))]
    return pa.table({f"c{i}": codes[i] for i in range(n_columns)})


def earlier(n_columns: int, variance: float) -> EarlierEstimates:
    """Return exact tables of all columns and of the first pair, merged into two buckets each."""
    buckets = np.array([0, 0, 1, 1])
    names = [f"c{i}" for i in range(n_columns)]
    tables = [
        EarlierTable((name,), (None,), (4,), np.full(4, N / 4), np.full(4, variance))
        for name in names
    ]
    both = np.array([N / 2, 0.0, 0.0, N / 2])
    tables.append(EarlierTable(("c0", "c1"), (None, None), (2, 2), both, np.full(4, variance)))
    return EarlierEstimates(
        dict.fromkeys(names, buckets), {name: np.full(4, 0.25) for name in names}, tables,
        dict.fromkeys(names, 0.0), 0.0,
    )  # fmt: skip


def run(n_columns: int, prior: Prior | None, *, epsilon: float = 0.05, seed: int = 1) -> Released:
    noise = SeededNoise(shifted(seed))
    method = Quilt(epsilon=epsilon, delta="1e-6", particles=2000, prior=prior)
    return method.run(connect(rows(n_columns), schema(n_columns), noise=noise), noise)


def test_earlier_cells_are_kept_and_published() -> None:
    made = run(3, Before(earlier(3, 4.0)))
    assert made.tables["buckets"]["bucket"].to_pylist() == [0, 0, 1, 1] * 3
    told = [table for table in made.settings["tables"] if "earlier" in table]
    assert [table["columns"] for table in told] == [["c0"], ["c1"], ["c2"], ["c0", "c1"]]
    assert all(table["std"] == 2.0 and "parameter" not in table for table in told)
    lengths = sum(int(np.prod(table["shape"])) for table in made.settings["tables"])
    assert made.tables["measured"].num_rows == lengths


def test_rows_follow_precise_earlier_tables_more_than_new_ones() -> None:
    """The noise of one wave is 200 and more; earlier tables are exact to two rows."""
    data = run(3, Before(earlier(3, 4.0))).tables["data"]
    same = np.mean((data["c0"].to_numpy() > 1) == (data["c1"].to_numpy() > 1))
    assert same > 0.97
    assert abs(data.num_rows - N) < 100


def test_few_pairs_are_all_measured_and_nothing_is_spent_on_selection() -> None:
    made = run(3, Before(earlier(3, 1e4)), epsilon=2)
    spent = {step: Fraction(share) for step, share in made.settings["budget_shares"].items()}
    assert "choices" not in spent
    assert spent["tables of all pairs"] > Fraction(1, 2)
    assert sum(spent.values()) <= 1
    fresh = {tuple(t["columns"]) for t in made.settings["tables"] if "earlier" not in t}
    assert {("c0", "c1"), ("c0", "c2"), ("c1", "c2")} <= fresh


def test_some_of_many_pairs_are_selected() -> None:
    made = run(9, Before(earlier(9, 1e4)))
    spent = {step: Fraction(share) for step, share in made.settings["budget_shares"].items()}
    assert spent["choices"] > 0
    assert "tables of the forest" not in spent
    assert "tables of all pairs" not in spent
    assert sum(spent.values()) <= 1


def test_earlier_tables_get_less_weight_if_the_columns_contradict_them() -> None:
    """All rows changed since; the remaining error is noise of 40 rows, times 6 as tolerance."""
    before = earlier(3, 4.0)
    wrong = [
        replace(table, counts=np.array([N, 0.0, 0.0, 0.0])) if table.columns == ("c0",) else table
        for table in before.tables
    ]
    made = run(3, Before(replace(before, tables=wrong)), epsilon=2)
    told = {tuple(t["columns"]): t["std"] for t in made.settings["tables"] if "earlier" in t}
    assert told["c0",] > 100
    assert told["c0", "c1"] > 100
    assert told["c1",] == told["c2",] == 2.0
    first = np.mean(made.tables["data"]["c0"].to_numpy() > 1)
    assert abs(first - 0.5) < 0.06


def test_a_table_has_the_error_of_the_cell_of_a_random_row() -> None:
    one = EarlierTable(("c0",), (None,), (2,), np.array([98.0, -5.0]), np.array([100.0, 1.0]))
    made = EarlierMeasurements(
        EarlierEstimates({"c0": np.arange(2)}, {"c0": np.full(2, 0.5)}, [one], {"c0": 0.0}, 0.0),
        ["c0"],
    )
    assert made.stds() == pytest.approx([((99 * 100 + 1) / 100) ** 0.5])
    assert made.total() == pytest.approx((93.0, 101.0))
    assert not made.marginals  # no pair was measured
