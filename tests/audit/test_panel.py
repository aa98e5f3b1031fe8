"""Neighbors of a panel differ in one person, with all rows in all waves."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from audit.recorded_runs import record_runs
from hushtable.audit.white_box import FaultError
from hushtable.engine import memory_engine, two_waves
from hushtable.engine.sealed_table import SealedTable, SealedWaves
from hushtable.errors import SealedError
from hushtable.methods.quilt.quilt import Quilt
from hushtable.privacy.accounting.run_account import RunAccount
from hushtable.release.release import Release
from hushtable.schema import Schema
from hushtable.series import Series, SeriesPlan
from hushtable.series import panel as panel_module
from hushtable.series.panel import PanelPlan, PreviousWave
from hushtable.series.series import spent_rho
from hushtable.series.waves import EarlierWaves

SCHEMA = Schema.from_dict(
    {
        "name": "people",
        "unit": {"kind": "person", "column": "id", "max_rows": 1},
        "columns": {
            "id": {"role": "identifier"},
            "job": {"type": "categorical", "values": ["none", "day", "night"], "missing": "other"},
            "age": {"type": "integer", "low": 0, "high": 3, "missing": "other"},
        },
    }
)

N = 400


def wave(number: int, *, first: int = 1) -> pa.Table:
    """Make a wave in which the first person has `first` rows."""
    ids = np.concatenate([np.zeros(first, np.int64), np.arange(1, N)])
    stays = (ids * 7 + 3) % 10 != number  # another tenth is missing in each wave
    stays[:first] = True
    job = np.array(["none", "day", "night"])[(ids // 50 + (ids % 9 == number)) % 3]
    job[:first] = "night"
    return pa.table({"id": ids, "job": job, "age": ids % 4}).filter(pa.array(stays))


@pytest.fixture(scope="module")
def first_wave(tmp_path_factory: pytest.TempPathFactory) -> Series:
    plan = SeriesPlan(epsilon=8, delta="1e-6", waves=3, panel=True)  # type: ignore[arg-type]
    series = Series.create(tmp_path_factory.mktemp("panel") / "series", SCHEMA, plan)
    series.publish(wave(1))
    return series


def planned(series: Series) -> PanelPlan:
    prior = EarlierWaves(2, series.waves())
    method = Quilt(epsilon=4, delta="1e-6", particles=1000, accounting="concentrated", prior=prior)  # type: ignore[arg-type]
    return PanelPlan.of(method, SCHEMA, PreviousWave(1, series.release(1)), series._next_person())


def watch(series: Series, before: tuple[int, int] = (1, 0), now: tuple[int, int] = (1, 0)) -> int:
    """Run the second wave on neighbors, given the first person's rows in each wave."""

    def connected(place: int) -> Callable[[Any], Any]:
        tables = (wave(2, first=now[place]), wave(1, first=before[place]))
        return lambda coins: two_waves.open_waves(*tables).connect(SCHEMA, noise=coins)

    return record_runs(planned(series), connected(0), connected(1), seed=1)


@pytest.mark.parametrize(
    ("before", "now"),
    [((1, 0), (1, 0)), ((1, 0), (0, 0)), ((0, 0), (1, 0)), ((3, 0), (3, 0))],
)
def test_a_person_with_rows_in_both_waves_is_one_unit(
    first_wave: Series, before: tuple[int, int], now: tuple[int, int]
) -> None:
    """The draws and their costs are the same: in both waves, in one, and with too many rows."""
    assert watch(first_wave, before, now) > 4


def test_a_person_in_all_waves_loses_no_more_than_is_promised(tmp_path: Path) -> None:
    """Computed from the noise stated in the releases: of tables, of transitions, and of choices."""
    plan = SeriesPlan(epsilon=4, delta="1e-6", waves=3, spares=0, panel=True)  # type: ignore[arg-type]
    series = Series.create(tmp_path / "series", SCHEMA, plan)
    series.publish(wave(1))
    for number in (2, 3):
        series.publish(wave(number), before=wave(number - 1))
    series.check()
    spent, of_moves = Fraction(0), Fraction(0)
    for path in series.releases().values():
        statement = Release.load(path).statement
        [promise] = statement.guarantees
        rho = promise.rho  # type: ignore[union-attr]
        assert rho is not None
        spent += spent_rho(statement.estimator, rows_per_unit=1, rho=rho)
        tables = statement.estimator.get("transitions", {"tables": []})["tables"]
        of_moves += sum((1 / (2 * Fraction(t["parameter"])) for t in tables), Fraction(0))
    assert Fraction(95, 100) * plan.rho < spent <= plan.rho
    assert Fraction(15, 100) * plan.rho < of_moves < Fraction(18, 100) * plan.rho  # 2/3 of 1/4


# --- intentionally broken -------------------------------------------------------------------------


def bound_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count all rows of a person, and all pairs of previous and current rows."""

    def all_rows(source: Any, side: str) -> Any:
        return source.table.drop("coin")

    monkeypatch.setattr(two_waves, "_one_each", all_rows)
    monkeypatch.setattr(memory_engine, "_bounded", lambda persons, _, __: np.arange(len(persons)))


def joined_by_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Link persons by their position in the table."""
    monkeypatch.setattr(
        two_waves, "known_key", lambda raw, _: two_waves.ibis.row_number().cast("string")
    )


def moves_not_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use one account for the wave and another for transitions, each as large as the promise."""
    made = SealedWaves.__init__

    def apart(self: SealedWaves, waves: Any, account: RunAccount) -> None:
        made(self, waves, account)
        self.now = SealedTable(waves.now, RunAccount(account.promise, spends_all=False))

    plan = PanelPlan.of.__func__  # type: ignore[attr-defined]

    def dear(cls: Any, *given: Any) -> PanelPlan:
        found: PanelPlan = plan(cls, *given)
        whole = type(found.quilt)(**(vars(found.quilt) | {"total": found.total}))
        return type(found)(whole, found.total, found.before, found.next_person)

    monkeypatch.setattr(SealedWaves, "__init__", apart)
    monkeypatch.setattr(PanelPlan, "of", classmethod(dear))


def links_are_private(monkeypatch: pytest.MonkeyPatch) -> None:
    """Number synthetic people from the number of private ones."""
    joined, seen = two_waves._followed, []

    def counted(*given: Any) -> Any:
        engine = joined(*given)
        seen.append(engine.n_rows())
        return engine

    carried = panel_module.carried_on

    def by_count(*given: Any, **how: Any) -> Any:
        return carried(*given, **how | {"next_person": how["next_person"] + seen[-1]})

    monkeypatch.setattr(two_waves, "_followed", counted)
    monkeypatch.setattr(panel_module, "carried_on", by_count)


@pytest.mark.parametrize(
    ("break_it", "fault", "before", "now"),
    [
        (bound_ignored, "changes by 9 in total between neighbors; 1 was recorded", (3, 0), (3, 0)),
        (joined_by_place, "between neighbors", (0, 0), (1, 0)),
        (moves_not_charged, "the recomputed cost of the run on all tables", (1, 0), (1, 0)),
        (links_are_private, "persons", (1, 0), (1, 0)),
    ],
)
def test_broken_plans_are_caught(  # noqa: PLR0917 - the parameters of a test
    monkeypatch: pytest.MonkeyPatch,
    first_wave: Series,
    break_it: Callable[[pytest.MonkeyPatch], None],
    fault: str,
    before: tuple[int, int],
    now: tuple[int, int],
) -> None:
    break_it(monkeypatch)
    with pytest.raises(FaultError, match=fault):
        watch(first_wave, before, now)


def test_moves_with_too_little_noise_are_caught_by_the_account(
    monkeypatch: pytest.MonkeyPatch, first_wave: Series
) -> None:
    whole = panel_module.moves_budget
    monkeypatch.setattr(panel_module, "moves_budget", lambda total: whole(2 * total))
    with pytest.raises(SealedError):
        watch(first_wave)
