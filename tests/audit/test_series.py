"""A series and neighbors that differ in one person over all waves, by its published measurements.

A release contains its measurements with their noise, so the loss of any person can be computed
exactly. For each noisy table it is the squared distance by which the person's rows change it,
divided by twice the variance; for choices and the number of rows, it is the cost that the release
states. The audit uses the worst possible person, and compares with the promise of the series. It
must fail for intentionally broken series.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from audit.recorded_runs import record_runs
from hushtable.audit.white_box import FaultError
from hushtable.engine import connect, memory_engine
from hushtable.errors import HushtableError, Refused
from hushtable.methods.prior import EarlierEstimates
from hushtable.methods.quilt.quilt import Quilt, QuiltPlan
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.privacy.ledger.payment import Payment
from hushtable.privacy.ledger.records import Entry
from hushtable.schema import Schema
from hushtable.series import Series, SeriesPlan
from hushtable.series import series as series_module
from hushtable.series.waves import EarlierWaves, Wave, Waves

N = 1500
MAX_ROWS = 2


def schema(unit: Any = None) -> Schema:
    return Schema.from_dict(
        {
            "name": "visits",
            "unit": unit or {"kind": "person", "column": "id", "max_rows": MAX_ROWS},
            "columns": {
                "id": {"role": "identifier"},
                "ward": {"type": "categorical", "values": ["a", "b", "c"]},
                "days": {"type": "integer", "low": 0, "high": 5},
                "home": {"type": "categorical", "values": ["yes", "no"]},
            },
        }
    )


def visits(wave: int) -> pa.Table:
    """Make a wave in which everyone has two rows."""
    row = np.arange(2 * N)
    return pa.table(
        {
            "id": row // 2,
            "ward": np.array(["a", "b", "c"])[(row + wave) % 3],
            "days": row % 6,
            "home": np.where(row % 6 > 3, "yes", "no"),
        }
    )


PLAN = SeriesPlan(epsilon=4, delta="1e-6", waves=3, spares=0)  # type: ignore[arg-type]


def published(folder: Path, public: Schema | None = None) -> Series:
    series = Series.create(folder / "series", public or schema(), PLAN)
    for wave in (1, 2, 3):
        series.publish(visits(wave))
    return series


def loss(series: Series) -> Fraction:
    """Return the loss of a person who has two equal rows in every wave, the worst case."""
    found = Fraction(0)
    for path in series.releases().values():
        wave = Wave(0, series_release(path))
        settings = wave.settings
        [promise] = wave.release.statement.guarantees
        assert promise.rho is not None  # type: ignore[union-attr]
        for table in settings["tables"]:
            if "earlier" not in table:
                found += Fraction(MAX_ROWS**2) / (2 * Fraction(table["parameter"]))
        for step in ("choices", "number of rows"):
            found += Fraction(settings["budget_shares"].get(step, 0)) * promise.rho  # type: ignore[union-attr]
    return found


def series_release(path: Path) -> Any:
    return series_module.Release.load(path)


def carries_on_what_is_public(series: Series) -> bool:
    """Return whether the earlier measurements of each wave follow from previous releases alone."""
    whole = series.waves()
    for place, wave in enumerate(whole.waves[1:], start=1):
        before = Waves(whole.waves[:place], whole.first, whole.supposed)
        expected = {
            (table.columns, table.shape): table.counts
            for table in before.brought_to(wave.number).tables
        }
        counts = wave.release.table("measured").column("count").to_numpy()
        start = 0
        for told in wave.settings["tables"]:
            part = counts[start : start + int(np.prod(told["shape"]))]
            start += len(part)
            if "earlier" in told:
                same = expected.get((tuple(told["columns"]), tuple(told["shape"])))
                if same is None or not np.allclose(part, same, rtol=1e-9, atol=1e-6):
                    return False
    return True


def test_a_person_in_all_waves_loses_no_more_than_is_promised(tmp_path: Path) -> None:
    series = published(tmp_path)
    assert Fraction(95, 100) * PLAN.rho < loss(series) <= PLAN.rho  # all of it is used
    assert carries_on_what_is_public(series)
    series.check()
    with pytest.raises(HushtableError, match="planned for 3"):
        series.publish(visits(4))


def test_rows_as_the_unit_instead_of_people_are_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(HushtableError, match="a series protects a person"):
        published(tmp_path, schema("row"))
    monkeypatch.setattr(series_module, "require_fit", lambda _, **__: None)
    series = published(tmp_path, schema("row"))
    assert loss(series) > 3 * PLAN.rho  # four times, except for choices
    # The verification of a series also detects it in the releases.
    (series.folder / "schema.yaml").write_text(schema().to_yaml())
    with pytest.raises(
        Refused, match="its noise is for 1 rows per person, but the schema allows 2"
    ):
        Series.open(series.folder).check()


def test_noise_for_one_row_of_two_is_caught_by_the_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = QuiltPlan.budget

    def for_a_row(plan: QuiltPlan) -> Any:
        purse = whole(plan)
        purse.rows_per_unit = 1
        return purse

    monkeypatch.setattr(QuiltPlan, "budget", for_a_row)
    with pytest.raises(HushtableError):
        published(tmp_path)


# --- neighbors of one wave ------------------------------------------------------------------------


def second_wave(n_rows: int) -> pa.Table:
    """Make the second wave with this many rows of a person who was not in the first."""
    others = visits(2)
    one = {"id": -1, "ward": "a", "days": 0, "home": "yes"}
    return pa.concat_tables([others, pa.Table.from_pylist([one] * n_rows, others.schema)])


def watch(first: Series, n_rows: int) -> int:
    """Run the second wave, with the first as its prior, with and without the person's rows."""
    prior = EarlierWaves(2, first.waves())
    method = Quilt(epsilon=4, delta="1e-6", particles=1000, accounting="concentrated", prior=prior)  # type: ignore[arg-type]

    def counted(rows: int) -> Any:
        return lambda coins: connect(second_wave(rows), schema(), noise=coins)

    return record_runs(method.plan(schema()), counted(n_rows), counted(0), seed=1)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Series:
    series = Series.create(tmp_path_factory.mktemp("waves") / "series", schema(), PLAN)
    series.publish(visits(1))
    return series


@pytest.mark.parametrize("n_rows", [1, 2, 6])
def test_a_person_in_a_later_wave_is_one_unit(first: Series, n_rows: int) -> None:
    """The draws and their costs are the same: with the maximum number of rows, fewer, and more."""
    assert watch(first, n_rows) > 4


def test_a_bound_that_is_ignored_is_caught(first: Series, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_engine, "_bounded", lambda persons, *_: np.arange(len(persons)))
    with pytest.raises(FaultError, match="changes by 6 in total between neighbors; 2 was recorded"):
        watch(first, 6)


# --- all waves ------------------------------------------------------------------------------------


def test_a_prior_that_is_private_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Waves.brought_to
    exact = np.bincount(np.array(["abc".index(w) for w in visits(2)["ward"].to_pylist()])).astype(
        float
    )

    def private(waves: Waves, number: int) -> EarlierEstimates:
        earlier = honest(waves, number)
        for table in earlier.tables:
            if table.columns == ("ward",):
                table.counts[:] = exact
        return earlier

    with monkeypatch.context() as patched:
        patched.setattr(Waves, "brought_to", private)
        series = published(tmp_path)
    assert not carries_on_what_is_public(series)


def test_a_wave_paid_by_the_charge_of_another_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = Series.create(tmp_path / "series", schema(), PLAN)
    series.publish(visits(1))
    [first] = series.ledger.entries()

    def same_again(*_: Any, **__: Any) -> Entry:
        return first

    with monkeypatch.context() as patched:
        patched.setattr(Payment, "charge", same_again)
        with pytest.raises(HushtableError):  # the ledger marks an entry as released once
            series.publish(visits(2))
        assert list(series.published()) == [1]
        patched.setattr(Ledger, "mark_released", lambda *_: None)
        series.publish(visits(2))
    with pytest.raises(Refused, match="is that of 001"):
        series.check()
    with pytest.raises(Refused, match="is that of 001"):
        series.publish(visits(3))
