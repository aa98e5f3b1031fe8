"""The self-test: it passes here, and detects faults."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from hushtable import selftest
from hushtable.cli.app import app
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.privacy.noise.sources import SecureNoise
from hushtable.selftest import (
    CHECKS,
    METHODS,
    NOISE_CHECKS,
    CheckResult,
    SelfCheck,
    _forged,
    _race,
    run_checks,
)

QUICK = [check for check in CHECKS if check.group in {"noise", "papers"}]


def test_fast_checks_hold() -> None:
    rows = run_checks(QUICK)
    assert [row.name for row in rows if row.word != "holds"] == []
    assert len(rows) == 1 + 5


def test_every_family_is_audited() -> None:
    from hushtable.methods.registry import METHODS as REGISTERED

    assert REGISTERED
    families = {make().__class__.__module__.split(".")[2] for make in METHODS.values()}
    assert families == set(METHODS)


def test_the_ledger_holds() -> None:
    assert _forged().word == "holds"


@pytest.mark.long
def test_everything_holds() -> None:
    rows = run_checks()
    assert [row for row in rows if row.word == "FAILS"] == []


def test_a_wrong_sampler_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    right = SecureNoise.discrete_laplace

    def wider(self: SecureNoise, scale: Fraction, *, size: int) -> Any:
        return right(self, scale * Fraction(103, 100), size=size)

    monkeypatch.setattr(SecureNoise, "discrete_laplace", wider)
    (found,) = run_checks(NOISE_CHECKS)
    assert found.word == "FAILS"
    assert "discrete_laplace" in found.said
    assert "geometric" not in found.said


def test_a_wrong_number_of_a_paper_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    scales = selftest.gaussian_scales
    monkeypatch.setattr(
        selftest, "gaussian_scales", lambda points, k: np.asarray(scales(points, k)) * 0.99
    )
    found = {row.name: row.word for row in run_checks(QUICK)}
    assert found["Aggarwal (2008), scales of uncertain records"] == "FAILS"


def test_a_ledger_that_loses_entries_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "entries", lambda self: [])
    assert _race().word == "FAILS"


def test_an_error_is_a_failed_check() -> None:
    def breaks() -> CheckResult:
        raise ValueError("no such thing")

    (row,) = run_checks([SelfCheck("noise", "breaks", breaks)])
    assert (row.word, row.said) == ("FAILS", "ValueError: no such thing")


@pytest.mark.parametrize(("word", "code"), [("holds", 0), ("FAILS", 1), ("not tested", 0)])
def test_the_command_prints_the_results(
    monkeypatch: pytest.MonkeyPatch, word: Any, code: int
) -> None:
    checks = [SelfCheck("noise", "a coin", lambda: CheckResult(word, "3 draws"))]
    monkeypatch.setattr("hushtable.selftest.run_checks", lambda progress: run_checks(checks))
    done = CliRunner().invoke(app, ["selftest"])
    assert done.exit_code == code
    assert word in done.stdout
    assert "a coin" in done.stdout
    done = CliRunner().invoke(app, ["selftest", "--json"])
    told = json.loads(done.stdout)
    assert told["holds"] is (code == 0)
    assert told["checks"][0]["word"] == word
