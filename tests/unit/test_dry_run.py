"""Dry runs: a release of a surrogate table, and its errors by column."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

from hushtable.datasets import sample, sample_schema
from hushtable.errors import DataError, Refused
from hushtable.evaluation import simulation as module
from hushtable.evaluation.simulation import dry_run, percent
from hushtable.methods import AlphaBeta, ContingencyTable, Quilt
from hushtable.publishing.publish import publish
from hushtable.publishing.surrogate import make_surrogate, surrogate_schema
from hushtable.schema import Schema

FAST = Quilt(epsilon=1, delta="1e-9", particles=2000)


def two(high: int = 9) -> Schema:
    columns = {"a": {"type": "integer", "low": 0, "high": high},
               "b": {"type": "categorical", "values": ["x", "y"], "missing": "forbid"}}  # fmt: skip
    return Schema.from_dict({"name": "t", "columns": columns})


def published(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Replace the published rows by a change of the original."""
    monkeypatch.setattr(module, "_rows_of", lambda table, schema, method: change(table))


def test_rows_that_are_the_same_are_off_by_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    published(monkeypatch, lambda table: table)
    found = dry_run(FAST, two(), rows=4000)
    assert found.rows == 4000
    assert set(found.columns) == {"a", "b"}
    offs = [*found.columns.values(), found.pairs]
    assert all(off is not None and off.typical == off.worst == off.rows == 0 for off in offs)
    assert found.advice == ()


def test_coins_of_the_private_table_are_left_alone(tmp_path: Path) -> None:
    """A dry run neither reads published views nor adds one."""
    view_history = tmp_path / "view_history"
    method = AlphaBeta(alpha="1/2", beta="1/8", views=2, view_history=view_history)
    assert dry_run(method, two(), rows=500).rows == 500
    assert not view_history.exists()
    publish(pa.table({"a": [1], "b": ["x"]}), two(), method, out=tmp_path / "1", anyway=True)
    before = view_history.read_bytes()
    assert dry_run(method, two(), rows=500).rows == 500
    assert view_history.read_bytes() == before


def test_errors_are_those_of_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # 600 and 400 of 1,000 rows become 660 and 340: off by 10% and 15%, also with 2,000 rows.
    rows = pa.table({"a": [0] * 1000, "b": ["x"] * 600 + ["y"] * 400})
    made = pa.table({"a": [0] * 2000, "b": ["x"] * 1320 + ["y"] * 680})
    file = tmp_path / "public.csv"
    pa_csv.write_csv(rows, file)
    published(monkeypatch, lambda table: made)
    found = dry_run(FAST, two(), like=file)
    assert found.on == "public.csv"
    off = found.columns["b"]
    assert (off.typical, off.worst, off.rows) == pytest.approx((0.125, 0.15, 60))
    assert found.pairs is not None
    assert found.pairs.worst == pytest.approx(0.15)
    assert found.to_dict()["columns"]["b"]["n_queries"] == 2


def test_the_column_to_blame_is_named_and_bins_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    schema, draw = two(999), np.random.default_rng(1)
    tried: list[Any] = []

    def change(table: pa.Table, schema: Schema, method: Any) -> pa.Table:
        rule = schema.attributes["a"].bins  # type: ignore[union-attr]
        tried.append(rule)
        wrong = draw.integers(0, 1000, table.num_rows) if rule is None else table["a"]
        return table.set_column(0, "a", pa.array(wrong) if rule is None else wrong)

    monkeypatch.setattr(module, "_rows_of", change)
    found = dry_run(FAST, schema, rows=5000)
    assert tried == [None, 50]
    (said,) = (sentence for sentence in found.advice if sentence.startswith("column"))
    assert "'a'" in said
    assert "bins: 50 in the schema, its error was 0%" in said


def test_bins_that_do_not_help_are_not_praised(monkeypatch: pytest.MonkeyPatch) -> None:
    published(monkeypatch, lambda table: table.set_column(0, "a", pa.array([0] * table.num_rows)))
    said = " ".join(dry_run(FAST, two(999), rows=5000).advice)
    assert "would not help" in said


def test_a_real_dry_run_leaves_nothing_behind(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    found = dry_run(FAST, sample_schema(), rows=3000)
    assert set(found.columns) == set(sample_schema().attributes)
    assert all(0 <= off.typical <= off.worst for off in found.columns.values())
    assert not list(tmp_path.iterdir())


def test_a_table_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    pa_csv.write_csv(pa.table({"height": [1]}), tmp_path / "other.csv")
    with pytest.raises(DataError):
        dry_run(FAST, sample_schema(), like=tmp_path / "other.csv")


def test_a_method_that_loses_columns_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lost:
        recode: ClassVar[dict[str, Any]] = {}

        def frame(self, *, drawn: bool) -> pa.Table:
            return pa.table({"a": [1]})

    monkeypatch.setattr(module, "publish", lambda *given, **more: Lost())
    with pytest.raises(Refused, match="no column b"):
        dry_run(FAST, two(), rows=100)


def test_other_methods_have_dry_runs_too() -> None:
    schema = Schema.from_dict(
        {"name": "t", "columns": {"a": {"type": "integer", "low": 0, "high": 3}}}
    )
    assert dry_run(ContingencyTable(epsilon=1), schema, rows=2000).columns["a"].typical < 0.1


def test_a_public_table_takes_the_place_of_the_stand_in(tmp_path: Path) -> None:
    pa_csv.write_csv(sample().slice(0, 2000), tmp_path / "public.csv")
    found = dry_run(FAST, sample_schema(), like=tmp_path / "public.csv")
    assert (found.rows, found.on) == (2000, "public.csv")


def test_surrogate_tables_are_made_up_and_reproducible() -> None:
    schema = surrogate_schema(sample_schema())
    assert "made-up rows" in schema.name
    assert make_surrogate(schema, 100).equals(make_surrogate(schema, 100))


@pytest.mark.parametrize(("share", "said"), [(0.031, "3.1%"), (0.0004, "0.04%"), (12.0, "1,200%")])
def test_shares_are_written_for_people(share: float, said: str) -> None:
    assert percent(share) == said
