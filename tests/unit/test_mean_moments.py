"""Means and quantiles of dates and times, with errors in units of time."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hushtable import Release, publish
from hushtable.errors import ParameterError
from hushtable.methods import GeneralizeSuppress, Quilt
from hushtable.query.answers.estimator import Estimate
from hushtable.query.answers.table import EstimateTable
from hushtable.schema import Schema

DAY = 86_400
FIRST = datetime.date(2020, 1, 1)
COLUMNS = {
    "day": {"type": "date", "low": "2020-01-01", "high": "2020-04-30"},
    "month": {"type": "date", "low": "2020-01-01", "high": "2020-12-31", "step": "month"},
    "at": {"type": "time", "step": "hour"},
    "sex": {"type": "categorical", "values": ["F", "M"]},
}


def table(n: int = 6000) -> pa.Table:
    places = np.arange(n)
    days = [FIRST + datetime.timedelta(int(place % 40 + 30 * (place % 2))) for place in places]
    return pa.table(
        {
            "day": pa.array(days, pa.date32()),
            "month": pa.array([datetime.date(2020, 1 + int(p % 3), 5) for p in places]),
            "at": pa.array([datetime.time(int(8 + p % 4)) for p in places]),
            "sex": np.array(["F", "M"])[places % 2],
        }
    )


def schema(*names: str) -> Schema:
    kept = {name: COLUMNS[name] for name in names or COLUMNS}
    return Schema.from_dict({"name": "moments", "rows": 6000, "columns": kept})


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Release:
    out = tmp_path_factory.mktemp("moments") / "release"
    return publish(table(), schema(), GeneralizeSuppress(k=2), out=out)


def test_the_mean_of_a_date(exact: Release) -> None:
    days = np.array([(day - FIRST).days for day in table()["day"].to_pylist()])
    answer = exact.mean("day")
    assert isinstance(answer, Estimate)
    start = (FIRST - datetime.date(1970, 1, 1)).days
    assert answer.value == pytest.approx(DAY * (start + days.mean()))
    assert answer.figures()[0] == str(FIRST + datetime.timedelta(round(days.mean())))
    assert str(answer).startswith("mean of day: 2020-02-04 (95% interval 2020-02-")
    sampled = exact.mean("day", scope="population")
    assert isinstance(sampled, Estimate)
    assert sampled.sampling_std == pytest.approx(DAY * days.std() / 6000**0.5, rel=1e-6)
    assert sampled.to_dict()["written"]["value"] == "2020-02-04"


def test_months_count_from_their_first_day(exact: Release) -> None:
    answer = exact.mean("month")
    assert isinstance(answer, Estimate)  # January, February and March 2020: after 0, 31, 60 days
    assert answer.figures()[0] == "2020-01-31"
    assert exact.median("month").figures()[0] == "2020-02-01"  # type: ignore[union-attr]


def test_times_of_day_and_groups(exact: Release) -> None:
    answer = exact.mean("at")
    assert isinstance(answer, Estimate)
    assert answer.figures()[0] == "09:30:00"
    by_sex = exact.mean("day", by=["sex"])
    assert isinstance(by_sex, EstimateTable)
    assert "| F   |  2020-01-20 |" in str(by_sex)
    assert by_sex.to_csv().splitlines()[1].startswith("F,2020-01-20,2020-01-19,2020-01-21,")
    days = sorted(table()["day"].to_pylist())
    assert exact.quantile("day", 0.88).figures()[0] == str(days[5280 - 1])  # type: ignore[union-attr]


def test_moments_are_not_added_up(exact: Release) -> None:
    for ask in (exact.total, exact.variance):
        with pytest.raises(ParameterError, match="cannot be summed; ask for its mean"):
            ask("day")
    assert "moment" not in exact.count("sex = 'F'").to_dict()


def test_noise_on_dates_is_reported(tmp_path: Path) -> None:
    method = Quilt(epsilon=5, delta="1e-9", particles=2000)
    kept = table().select(["day", "sex"])
    release = publish(kept, schema("day", "sex"), method, out=tmp_path / "release")
    days = np.array([(day - FIRST).days for day in table()["day"].to_pylist()])
    truth = DAY * ((FIRST - datetime.date(1970, 1, 1)).days + days.mean())
    answer = release.mean("day")
    assert isinstance(answer, Estimate)
    # A deviation of 6 has a probability below 1e-8; 2 days are far more than the noise leaves.
    assert abs(answer.value - truth) < 6 * answer.privacy_std
    assert 0 < answer.high - answer.low < 2 * DAY
