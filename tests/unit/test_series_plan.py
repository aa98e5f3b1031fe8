"""The plan of a series: shares that never exceed the budget, and their expected errors."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest

from hushtable.errors import ParameterError
from hushtable.privacy.guarantee import ApproxDP
from hushtable.privacy.ledger.budget import Budget, LedgerCap, Loss
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.schema import Schema
from hushtable.series import SeriesPlan
from hushtable.series.plan import require_fit

PERSON = {"kind": "person", "column": "id", "max_rows": 2}


def schema(**changes: object) -> Schema:
    content = {
        "name": "people",
        "unit": PERSON,
        "columns": {
            "id": {"role": "identifier"},
            "age": {"type": "integer", "low": 0, "high": 9},
            "sex": {"type": "categorical", "values": ["f", "m"]},
        },
    }
    return Schema.from_dict(content | changes)


def plan(**changes: object) -> SeriesPlan:
    return SeriesPlan(**({"epsilon": 2, "delta": "1e-6", "waves": 12} | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("waves", [1, 2, 3, 24])
@pytest.mark.parametrize("spares", [0, 1, 5])
def test_all_planned_releases_fit_a_ledger_and_no_more(
    tmp_path: Path, waves: int, spares: int
) -> None:
    made = plan(waves=waves, spares=spares)
    book = Ledger.create(tmp_path / "l", epsilon=2, delta="1e-6", schema=schema())
    for place in range(1, waves + spares + 1):
        [promise] = made.method(place).plan(schema()).guarantees
        book.charge([promise], purpose=str(place), schema=schema())
    spent = sum((entry.concentrated.rho for entry in book.entries()), Fraction(0))
    assert 0.999 < spent / made.rho <= 1
    with pytest.raises(ParameterError, match="no budget is left"):
        made.method(waves + spares + 1)


def test_shares_of_an_open_series_never_sum_to_more_than_all() -> None:
    made = plan(waves=None, horizon=24)
    shares = [made.share(place) for place in range(1, 5001)]
    assert sum(shares) == 1 - Fraction(24, 5024)
    assert sum(shares[:24]) == Fraction(1, 2)
    assert all(one > other > 0 for one, other in pairwise(shares))


def test_what_a_wave_promises_costs_no_more_than_its_share() -> None:
    made = plan()
    for place in (1, 2, 13):
        [promise] = made.method(place).plan(schema()).guarantees
        assert isinstance(promise, ApproxDP)
        assert promise.rho is not None
        assert promise.unit == schema().unit
        cost = Loss.of(promise).concentrated.rho
        assert cost <= made.share(place) * made.rho
        assert cost > 0.999 * made.share(place) * made.rho


def test_the_whole_is_what_the_ledger_takes_for_it() -> None:
    account = LedgerCap.shared(Budget(epsilon=Fraction(2), delta=Fraction(1, 10**6)))
    assert account is not None
    assert plan().rho == account.concentrated.rho


def test_a_plan_says_all_that_is_wrong_with_it() -> None:
    with pytest.raises(ParameterError) as refused:
        SeriesPlan(epsilon=0, delta=0, waves=0, spares=-1, change=2)  # type: ignore[arg-type]
    said = str(refused.value)
    assert all(
        word in said for word in ("epsilon is", "delta is 0", "waves is", "spares", "change")
    )
    with pytest.raises(ParameterError, match="exactly one of"):
        plan(horizon=3)
    with pytest.raises(ParameterError, match="exactly one of"):
        plan(waves=None)


def test_a_plan_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    for made in (plan(), plan(waves=None, horizon=7, change=0.2)):
        (tmp_path / "p.yaml").write_text(made.to_yaml())
        assert SeriesPlan.load(tmp_path / "p.yaml") == made
    (tmp_path / "p.yaml").write_text("format: 1\nepsilon: 1\ndelta: 1e-6\nwaves: 2\nextra: 1\n")
    with pytest.raises(ParameterError, match="fields that a series plan does not"):
        SeriesPlan.load(tmp_path / "p.yaml")


def test_rows_instead_of_people_and_numbers_without_bins_are_refused() -> None:
    wide = {
        "id": {"role": "identifier"},
        "pay": {"type": "integer", "low": 0, "high": 9999},
    }
    with pytest.raises(ParameterError) as refused:
        require_fit(schema(unit="row", columns=wide))
    assert "a series protects a person" in str(refused.value)
    assert "'pay' has too many values" in str(refused.value)
    require_fit(schema())


def test_a_forecast_is_better_for_levels_and_for_changes_than_a_wave_alone() -> None:
    made = plan(waves=24, change=0.03)
    expected = made.forecast(schema(), 100_000)
    assert expected.change is not None
    assert expected.trend is not None
    assert expected.level < 0.6 * expected.alone
    assert expected.change < expected.level
    assert expected.trend < expected.change
    faster = replace(made, change=0.5).forecast(schema(), 100_000)
    assert expected.level < faster.level <= faster.alone
    assert made.forecast(schema(), 100_000) == expected
    assert plan(waves=1).forecast(schema(), 1000).change is None
