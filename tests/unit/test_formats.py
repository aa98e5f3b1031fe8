"""Files of released versions: every later version reads them (`docs/compatibility.md`).

`tests/fixtures/write.py` wrote them once for each version, with seeded noise.
"""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from hushtable import Ledger, NoisyCounts, Release
from hushtable.datasets import sample_schema
from hushtable.dossier import verify_dossier
from hushtable.privacy.guarantee import parse_guarantee
from hushtable.schema import Schema
from hushtable.series import Series

VERSIONS = sorted(path for path in (Path(__file__).parents[1] / "fixtures").iterdir()
                  if path.is_dir() and path.name[0].isdigit())  # fmt: skip


@pytest.fixture(params=VERSIONS, ids=lambda path: path.name)
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a copy of the files of a version."""
    return Path(shutil.copytree(request.param, tmp_path / "written"))


@pytest.fixture
def expected(written: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((written / "expected.json").read_text())
    return content


def test_schemas_mean_the_same(written: Path) -> None:
    found, now = Schema.load(written / "schema.yaml"), sample_schema()
    assert found.domain.sizes == now.domain.sizes
    assert found.unit == now.unit


def test_releases_have_their_promise_rows_and_answers(
    written: Path, expected: dict[str, Any]
) -> None:
    assert len(expected["releases"]) >= 11
    for name, content in expected["releases"].items():
        release = Release.load(written / name)
        promises = [parse_guarantee(promise) for promise in content["guarantees"]]
        assert list(release.statement.guarantees) == promises, name
        assert release.frame().num_rows == content["rows"], name
        answer, (_, low, high) = release.count(content["where"]), content["answer"]
        assert answer.low <= high, name
        assert low <= answer.high, name


def test_linked_releases_and_degrees_load(written: Path) -> None:
    for name in ("linked", "degrees"):
        assert Release.load(written / name).statement.guarantees


def test_ledgers_keep_what_was_spent_and_pay_on(written: Path, expected: dict[str, Any]) -> None:
    ledger = Ledger.open(written / "paid.ledger")
    assert ledger.verify() == expected["ledger"]["head"]
    before = ledger.remaining()
    assert [str(before.epsilon), str(before.delta)] == expected["ledger"]["remaining"]
    assert [entry.status for entry in ledger.entries()] == ["released", "void"]
    schema = Schema.load(written / "schema.yaml")
    method = NoisyCounts(epsilon="1/2", mechanism="pure")
    ledger.charge(method.guarantee(schema), purpose="a later version", schema=schema)
    assert before.epsilon - ledger.remaining().epsilon == Fraction(1, 2)


def test_dossiers_are_verified(written: Path) -> None:
    verify_dossier(written / "dossier.html")


def test_series_continue(written: Path) -> None:
    series = Series.open(written / "series")
    assert len(series.ledger.entries()) == 2
    assert series.plan.waves == 3
    assert series.count("job = 'night'", wave=2).high > 0
    assert series.change("job = 'night'", since=1).high > -400
