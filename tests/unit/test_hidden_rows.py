"""Rows of unpublished cells: the model, its validation, and bounds of the answers.

No random draws, except in tests that say so.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hushtable import Release, Schema, publish
from hushtable.errors import Refused
from hushtable.methods import GeneralizeSuppress
from hushtable.methods.counts import cell_estimator
from hushtable.methods.counts.cell_estimator import HiddenRows, hidden_rows

K = 20
SUPPRESSED = np.ones(K)


def spread_of(table: np.ndarray) -> HiddenRows:
    """Hide counts below K, and return the number of hidden rows."""
    hidden = table < K
    return hidden_rows(table, hidden, float(table[hidden].sum()), SUPPRESSED)


def independent(n_rows: float = 8000.0) -> np.ndarray:
    """Make a table with independent columns."""
    falling = 0.6 ** np.arange(8)
    return np.round(n_rows * np.outer(falling, falling) / falling.sum() ** 2)


def lopsided() -> np.ndarray:
    """Make a table whose first group has few large cells, and the second many small ones."""
    table = np.zeros((2, 60))
    table[0, :6] = 400.0
    table[1] = 10.0 + np.arange(60) % 30
    return table


def test_hidden_rows_add_up_and_stay_possible() -> None:
    rows = spread_of(independent())
    table = independent()
    assert rows.n_rows == pytest.approx(table[table < K].sum(), rel=1e-3)
    assert not rows.expected[table.ravel() >= K].any()
    assert rows.expected.max() < K


def test_rows_are_where_columns_say() -> None:
    table = independent()
    rows, hidden = spread_of(table), (table < K).ravel()
    true, even = table.ravel()[hidden], table.ravel()[hidden].mean()
    off = np.abs(rows.expected[hidden] - true).sum()
    assert off < np.abs(even - true).sum() / 2


def test_a_dry_run_sees_whether_the_model_fits() -> None:
    fits, does_not = spread_of(independent()), spread_of(lopsided())
    assert fits.unlike < 0.02
    assert does_not.unlike > 5 * fits.unlike


def test_without_anything_to_try_nothing_is_ruled_out() -> None:
    table = np.array([[500.0, 300.0], [3.0, 2.0]])
    rows = spread_of(table)
    assert rows.unlike == 1.0
    half = np.array([[0.0, 0.0, 1.0, 0.0]])
    part = float(rows.means(half)[0])
    assert rows.covariance(half)[0, 0] >= rows.n_rows**2 * part * (1 - part)


def test_all_hidden_rows_are_as_many_as_are_hidden() -> None:
    rows = spread_of(independent())
    assert rows.covariance(np.ones((1, 64)))[0, 0] == pytest.approx(0.0, abs=1e-6 * rows.n_rows**2)


@pytest.fixture(name="release")
def _release(tmp_path: Path):
    table = independent().astype(int)
    a, b = np.divmod(np.repeat(np.arange(64), table.ravel()), 8)
    described = {"type": "integer", "low": 0, "high": 7}
    schema = Schema.from_dict(
        {"name": "t", "rows": len(a), "columns": {"a": described, "b": described}}
    )
    data = pa.table({"a": a, "b": b})
    return table, publish(data, schema, GeneralizeSuppress(k=K), out=tmp_path / "out")


CONDITIONS = [(f"a {way} {one} AND b {way} {other}", one, other, way)
              for way in ("<=", ">=") for one in range(8) for other in range(8)]  # fmt: skip


def test_answers_hold_and_are_narrower_than_what_is_sure(
    release, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, published = release
    likely = {where: published.count(where) for where, *_ in CONDITIONS}
    monkeypatch.setattr(cell_estimator, "MAX_SPREAD", 0)
    published.estimator.__dict__.pop("hidden_rows", None)
    held, ratios = [], []
    for where, one, other, way in CONDITIONS:
        kept = slice(0, one + 1) if way == "<=" else slice(one, 8)
        kept_too = slice(0, other + 1) if way == "<=" else slice(other, 8)
        true, sure, answer = table[kept, kept_too].sum(), published.count(where), likely[where]
        assert sure.low <= true <= sure.high
        assert sure.low - 1e-6 <= answer.low <= answer.high <= sure.high + 1e-6
        held.append(answer.low <= true <= answer.high)
        if sure.high > sure.low:
            ratios.append((answer.high - answer.low) / (sure.high - sure.low))
    assert np.mean(held) >= 0.95
    assert np.median(ratios) < 0.5


def test_the_answer_names_the_model_and_what_is_certain(release) -> None:
    _, published = release
    (note,) = published.count("a >= 4").notes
    assert "model with independent columns" in note
    assert "Without the model: " in note


def test_one_hidden_cell_may_be_full(release) -> None:
    _, published = release
    answer = published.count("a = 7 AND b = 7")
    assert answer.high >= K - 1


def zero_inflated(tmp_path: Path, *, k: int, rows: int | None = 1000) -> Release:
    """Publish amounts that are mostly 0, in ranges of 100; most combinations have few rows."""
    place = np.arange(1000)
    amount = np.where(place % 50 == 0, 7 * place % 800, 0)
    described = {"type": "integer", "low": 0, "high": 799}
    group = {"type": "integer", "low": 0, "high": 63}
    schema = {"name": "t", "columns": {"amount": described, "group": group}}
    if rows:
        schema["rows"] = rows
    method = GeneralizeSuppress(k=k, generalize={"amount": 100})
    group_of = np.where(place % 4 == 0, 0, place % 64)
    data = pa.table({"amount": amount, "group": group_of})
    return publish(data, Schema.from_dict(schema), method, out=tmp_path / "out")


def test_few_published_cells_do_not_narrow_what_is_sure(tmp_path: Path) -> None:
    """Of 512 cells, one is published: the model of hidden rows cannot be validated."""
    release = zero_inflated(tmp_path, k=30)
    answer = release.count("amount = 0")
    assert answer.low <= 980 <= answer.high
    assert answer.support == "untested"
    with pytest.raises(Refused, match="most rows are in combinations that are not published"):
        release.mean("amount")


def test_hidden_rows_of_a_split_cell_may_all_satisfy_a_condition(tmp_path: Path) -> None:
    table = independent().astype(int)
    a, b = np.divmod(np.repeat(np.arange(64), table.ravel()), 8)
    described = {"type": "integer", "low": 0, "high": 7}
    columns = {"a": described, "b": {"type": "integer", "low": 0, "high": 79}}
    schema = Schema.from_dict({"name": "t", "rows": len(a), "columns": columns})
    method = GeneralizeSuppress(k=K, generalize={"b": 10})
    release = publish(pa.table({"a": a, "b": 10 * b}), schema, method, out=tmp_path / "out")
    assert not release.estimator.hidden_rows.is_untested
    split = release.count("a >= 4 AND b IN (0, 10, 20, 30, 40, 50, 60, 70)")
    every = release.count("a >= 4")
    assert every.high > every.value
    assert split.high >= every.high - 1
    # The published and the hidden rows may deviate together.
    assert release.share("b IN (0, 10, 20, 30, 40, 50, 60, 70)").high == 1


def test_an_upper_end_far_above_the_published_rows_is_unbounded(tmp_path: Path) -> None:
    release = zero_inflated(tmp_path, k=300, rows=None)
    answer = release.count("group > 0")
    assert answer.high == np.inf
    assert "there is no upper end" in " ".join(answer.notes)
    assert "unbounded" in str(answer)
