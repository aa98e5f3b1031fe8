"""Counts from a release of columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hushtable import Columns, Release, Schema, publish
from hushtable.errors import PredicateError, Refused
from seeds import shifted

BASIC: dict[str, Any] = {"epsilon": 4, "delta": "1e-4", "k": 5}


def wide(**columns: list[Any]) -> tuple[pa.Table, Schema]:
    described = {
        name: {"type": "integer", "low": 0, "high": 3}
        | ({"missing": "category"} if None in values else {})
        for name, values in columns.items()
    }
    schema = Schema.from_dict({"name": "t", "columns": described})
    return pa.table({n: pa.array(v, pa.int64()) for n, v in columns.items()}), schema


def abc(rows: int = 3000) -> tuple[pa.Table, Schema]:
    draw = np.random.default_rng(shifted(6))
    a = draw.integers(0, 4, rows)
    return wide(a=a.tolist(), b=((a + draw.integers(0, 2, rows)) % 4).tolist(),
                c=draw.integers(0, 3, rows).tolist())  # fmt: skip


def make(table: pa.Table, schema: Schema, out: Path, **parameters: Any) -> Release:
    return publish(table, schema, Columns(**{**BASIC, **parameters}), out=out)


def true_count(table: pa.Table, **values: int) -> int:
    mask = np.ones(table.num_rows, bool)
    for name, value in values.items():
        mask &= table[name].to_numpy() == value
    return int(mask.sum())


def test_a_condition_inside_a_column(tmp_path: Path) -> None:
    table, schema = abc()
    release = make(table, schema, tmp_path / "r", columns=[["a", "b"], ["c"]], max_columns=2)
    for a in range(4):
        estimate = release.count(f"a = {a} AND b = {a}")
        # Noise of scale 1/2, up to one suppressed cell: 30 is beyond e^-50.
        assert abs(estimate.value - true_count(table, a=a, b=a)) < 30
        assert estimate.high - estimate.low < 30
    assert release.count("c = 3").value == 0


def test_several_columns_are_averaged_and_the_better_one_counts_more(tmp_path: Path) -> None:
    table, schema = abc()
    one = make(table, schema, tmp_path / "1", columns=[["a"], ["b"], ["c"]], max_columns=3)
    two = make(table, schema, tmp_path / "2", columns=[["a"], ["a"], ["c"]], max_columns=3)
    alone, both = one.count("a = 1"), two.count("a = 1")
    assert both.privacy_std == pytest.approx(alone.privacy_std / 2**0.5)
    assert any("2 columns contain these" in note for note in both.notes)
    assert abs(both.value - true_count(table, a=1)) < 40
    uneven = make(table, schema, tmp_path / "3", columns=[["a"], ["a", "c"], ["b"]], max_columns=3)
    estimate = uneven.count("a = 1")
    assert estimate.privacy_std < alone.privacy_std


def test_across_columns_the_interval_holds_for_every_joint_distribution(tmp_path: Path) -> None:
    n, slack = 4000, 60  # noise of a count has a standard deviation below 2 (or of n, below 6)
    half = [0] * (n // 2) + [1] * (n // 2)
    worlds = {"equal": half, "opposite": half[::-1], "independent": [0, 1] * (n // 2)}
    for name, b in worlds.items():
        table, schema = wide(a=half, b=b)
        release = make(
            table, schema, tmp_path / name, columns=[["a"], ["b"]], max_columns=2,
            count_share="1/10",
        )  # fmt: skip
        estimate = release.count("a = 1 AND b = 1")
        assert estimate.value == pytest.approx(n / 4, rel=0.05)
        assert estimate.low - slack <= true_count(table, a=1, b=1) <= estimate.high + slack
        assert estimate.model_std > 0
        assert "independent" in estimate.notes[0]
        either = release.count("a = 1 OR b = 1")
        assert either.low - slack <= n - true_count(table, a=0, b=0) <= either.high + slack
        assert either.low > n / 2 - 100
        assert release.count("a = 1 AND b = 1 AND a = 0").high == 0


def test_across_columns_needs_the_number_of_records(tmp_path: Path) -> None:
    table, schema = abc()
    release = make(table, schema, tmp_path / "r", columns=[["a"], ["b"]], max_columns=2)
    with pytest.raises(Refused, match="a, b are in different columns"):
        release.count("a = 1 AND b = 1")
    with pytest.raises(Refused, match="no column of this release contains c"):
        release.count("c = 1")


def test_records_left_out_at_random_are_scaled_up(tmp_path: Path) -> None:
    table, schema = abc(20_000)
    release = make(
        table, schema, tmp_path / "r", columns=[["a"], ["b"], ["c"]], max_columns=1,
        count_share="1/10",
    )  # fmt: skip
    estimate, true = release.count("a = 1"), true_count(table, a=1)
    # Binomial(5000, 1/3) / (1/3) has a standard deviation of 100.
    assert abs(estimate.value - true) < 700
    assert 300 < estimate.high - estimate.low < 1500
    assert any("chosen at random" in note for note in estimate.notes)
    everyone = release.count("TRUE")
    assert everyone.low <= 20_000 + 700
    assert everyone.high >= 20_000 - 700


def test_records_without_a_value(tmp_path: Path) -> None:
    table, schema = wide(a=[1] * 300 + [None] * 700, b=[2] * 1000)
    parameters = {"columns": [["a"], ["b"]], "max_columns": 2}
    blind = make(table, schema, tmp_path / "blind", **parameters)
    assert abs(blind.count("a = 1").value - 300) < 30
    with pytest.raises(Refused, match="not counted"):
        blind.count("a IS NULL")
    told = make(table, schema, tmp_path / "told", **parameters, count_share="1/4")
    estimate = told.count("a IS NULL")
    assert abs(estimate.value - 700) < 60
    assert told.count("a IS NOT NULL").high < 1000
    public = Schema.from_dict({**schema.to_dict(), "rows": 1000})
    known = make(table, public, tmp_path / "known", **parameters)
    assert abs(known.count("a IS NULL").value - 700) < 30


class TestLongTable:
    PEOPLE = [{0: 5, 1: 4}] * 400 + [{0: 5, 2: 1}] * 300 + [{1: 2}] * 200

    def release(self, out: Path, **parameters: Any) -> Release:
        rows = [(p, m, r) for p, mine in enumerate(self.PEOPLE) for m, r in mine.items()]
        table = pa.table(
            {"user": [r[0] for r in rows], "movie": [f"m{r[1]}" for r in rows],
             "rating": [r[2] for r in rows]}
        )  # fmt: skip
        schema = Schema.from_dict(
            {
                "name": "ratings",
                "unit": {"kind": "person", "column": "user", "max_rows": 3},
                "columns": {
                    "user": {"role": "identifier"},
                    "movie": {"type": "categorical", "values": ["m0", "m1", "m2"]},
                    "rating": {"type": "integer", "low": 1, "high": 5},
                },
            }
        )
        return make(table, schema, out, item="movie", value="rating", **parameters)

    def test_items_are_the_columns_of_conditions(self, tmp_path: Path) -> None:
        release = self.release(
            tmp_path / "r", columns=[["m0", "m1"], ["m2"]], max_columns=2, count_share="1/4"
        )
        for where, true in (
            ("m0 = 5", 700), ("m0 = 5 AND m1 = 4", 400), ("m0 >= 4 AND m1 IS NULL", 300),
            ("m0 IS NOT NULL OR m1 IS NOT NULL", 900), ("m2 = 1", 300), ("m2 IS NULL", 600),
            ("m1 IS NULL", 300), ("m0 = m1 + 1", 400),
        ):  # fmt: skip
            estimate = release.count(where)
            assert abs(estimate.value - true) < 60, where
            assert estimate.low <= true + 60, where
            assert estimate.high >= true - 60, where
        across = release.count("m0 = 5 AND m2 = 1")
        assert across.low <= 300 <= across.high + 60
        assert across.value == pytest.approx(700 * 300 / 900, rel=0.2)

    def test_conditions_about_columns_of_the_table_are_wrong(self, tmp_path: Path) -> None:
        release = self.release(tmp_path / "r", columns=[["m0", "m1"]], max_columns=1)
        for where in ("rating = 5", "movie = 'm0'", "m7 = 1"):
            with pytest.raises(PredicateError):
                release.count(where)
        with pytest.raises(Refused, match="no column of this release contains m2"):
            release.count("m2 = 1")

    def test_people_in_too_many_columns_widen_the_interval(self, tmp_path: Path) -> None:
        release = self.release(
            tmp_path / "r", columns=[["m0"], ["m1"], ["m2"]], max_columns=1, count_share="1/4"
        )
        estimate = release.count("m0 = 5")
        assert estimate.low <= 700 <= estimate.high
        assert estimate.high > 2 * estimate.low
        assert any("random subset" in note for note in estimate.notes)

    def test_a_column_of_countless_tuples_needs_the_number_of_people(self, tmp_path: Path) -> None:
        items = [f"m{i}" for i in range(500)]
        schema = Schema.from_dict(
            {
                "name": "ratings",
                "unit": {"kind": "person", "column": "user", "max_rows": 3},
                "columns": {
                    "user": {"role": "identifier"},
                    "movie": {"type": "categorical", "values": items},
                    "rating": {"type": "integer", "low": 1, "high": 5},
                },
            }
        )
        table = pa.table({"user": range(400), "movie": ["m0"] * 400, "rating": [5] * 400})
        parameters = {"item": "movie", "value": "rating", "columns": [items], "max_columns": 1}
        blind = make(table, schema, tmp_path / "blind", **parameters)
        with pytest.raises(Refused, match="may contain any number"):
            blind.count("m0 = 5")
        told = make(table, schema, tmp_path / "told", **parameters, count_share="1/4")
        estimate = told.count("m0 = 5")
        assert abs(estimate.value - 400) < 40
        assert estimate.high < 440

    def test_a_wide_column_of_items_has_a_far_but_finite_end(self, tmp_path: Path) -> None:
        release = self.release(tmp_path / "r", columns=[["m0", "m1", "m2"]], max_columns=1)
        estimate = release.count("m0 = 5")
        assert estimate.low <= 700 <= estimate.high < 10**5
