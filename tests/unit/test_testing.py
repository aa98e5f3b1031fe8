"""The contract checks for authors of methods fail for broken methods: one mutant per law."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from hushtable.datasets import sample
from hushtable.engine import PrivateTable
from hushtable.errors import DataError
from hushtable.methods import ContingencyTable
from hushtable.methods.base import Forecast, Plan, Released
from hushtable.methods.diffgen.contingency_table import ContingencyTablePlan
from hushtable.methods.registry import find
from hushtable.privacy.accounting.run_account import RunAccount
from hushtable.privacy.guarantee import Guarantee, PureDP
from hushtable.privacy.ledger.payment import Payment
from hushtable.query.answers.estimator import Estimate
from hushtable.release.release import Release
from hushtable.release.writer import ReleaseWriter
from hushtable.schema import Schema
from hushtable.testing import (
    CANARY,
    CHECKS,
    ContractError,
    Example,
    check_audit,
    check_audit_sees,
    check_method,
    check_proof,
    check_source,
    check_spec,
)

HONEST_PLAN = ContingencyTable.plan
Break = Callable[[], Any]
CHECK = {check.__name__.removeprefix("check_"): check for check in CHECKS}
EXAMPLE = Example(ContingencyTable(epsilon=1), table=sample().slice(0, 600))


@dataclass(frozen=True, kw_only=True)
class Looking(ContingencyTable):
    """A method whose promise depends on the table."""

    def guarantee(self, schema: Schema, table: Any = None) -> tuple[Guarantee, ...]:
        return super().guarantee(schema)


@dataclass(kw_only=True, frozen=True)
class Unexplained(ContingencyTable):
    """A method with an undocumented parameter."""

    depth: int = 3


@dataclass(frozen=True, kw_only=True)
class HalfTheNoise(ContingencyTable):
    """A mechanism that draws noise for twice the epsilon."""

    def plan(self, schema: Schema) -> Plan[Any]:
        plan = HONEST_PLAN(self, schema)
        return replace(plan, groups=replace(plan.groups, rate=2 * plan.groups.rate))


@contextmanager
def changed_release(change: Callable[[Released], Released]) -> Iterator[None]:
    """Replace the output of the method."""
    honest = ContingencyTablePlan.release

    def release(self: Any, source: Any, noise: Any) -> Released:
        return change(honest(self, source, noise))

    with mock.patch.object(ContingencyTablePlan, "release", release):
        yield


def with_setting(**settings: Any) -> Callable[[Released], Released]:
    return lambda released: replace(released, settings={**released.settings, **settings})


def another_each_time() -> Callable[[Released], Released]:
    n_runs = itertools.count()

    def change(released: Released) -> Released:
        return with_setting(**{f"run_{next(n_runs)}": True})(released)

    return change


def shuffled(released: Released) -> Released:
    order = sorted(range(released.tables["data"].num_rows), key=lambda row: os.urandom(8))
    return replace(released, tables={"data": released.tables["data"].take(pa.array(order))})


def half_a_forecast(self: Any, rows: int | None = None) -> Forecast:
    split = {"cells": self.method.epsilon / 2}
    return Forecast(lines={"cells": 1}, split=split, n_cells=1, memory_mb=1.0)


def quoting(*args: Any, **kwargs: Any) -> None:
    raise DataError(f"column 'sex': 50 rows hold {CANARY}.")


def below_zero(self: Release, where: str, **kwargs: Any) -> Estimate:
    return Estimate(value=600.0, low=-1.0, high=700.0, privacy_std=900.0, model_std=0.0)


@contextmanager
def half_the_noise_and_no_accountant() -> Iterator[None]:
    with ExitStack() as stack:
        for part in ("settle", "_require_covered"):
            stack.enter_context(mock.patch.object(RunAccount, part))
        stack.enter_context(mock.patch.object(ContingencyTable, "plan", HalfTheNoise.plan))
        yield


MUTANTS: dict[str, Break] = {
    "promise": lambda: mock.patch.object(PureDP, "unprotected", ()),
    "parameters": lambda: mock.patch.object(ContingencyTable, "estimator_kind", "unheard-of"),
    "forecast": lambda: mock.patch.object(ContingencyTablePlan, "forecast", half_a_forecast),
    "account": half_the_noise_and_no_accountant,
    "charge": lambda: mock.patch.object(Payment, "charge", return_value=None),
    "errors": lambda: mock.patch.object(PrivateTable, "connect", quoting),
    "every_row": lambda: changed_release(with_setting(saw=CANARY)),
    "shape": lambda: changed_release(another_each_time()),
    "seed": lambda: changed_release(shuffled),
    "release": lambda: mock.patch.object(Release, "count", below_zero),
    "full_disk": lambda: mock.patch.object(ReleaseWriter, "__exit__", return_value=None),
}


def test_every_law_has_its_mutant() -> None:
    assert MUTANTS.keys() == CHECK.keys()


@pytest.mark.parametrize("name", CHECK)
def test_a_violated_law_is_reported(name: str, tmp_path: Path) -> None:
    check = CHECK[name]
    (tmp_path / "as it is").mkdir()
    check(EXAMPLE, tmp_path / "as it is")
    (tmp_path / "broken").mkdir()
    with MUTANTS[name](), pytest.raises(ContractError):
        check(EXAMPLE, tmp_path / "broken")


def test_a_promise_that_takes_data_is_reported(tmp_path: Path) -> None:
    looking = dataclasses.replace(EXAMPLE, method=Looking(epsilon=1))
    with pytest.raises(ContractError, match="it must only take the schema"):
        CHECK["promise"](looking, tmp_path)


def test_an_undocumented_parameter_is_reported(tmp_path: Path) -> None:
    unexplained = dataclasses.replace(EXAMPLE, method=Unexplained(epsilon=1))
    with pytest.raises(ContractError, match="does not describe depth"):
        CHECK["parameters"](unexplained, tmp_path)


def test_all_violations_are_reported_together() -> None:
    both = (MUTANTS["forecast"](), MUTANTS["parameters"]())
    with both[0], both[1], pytest.raises(ContractError) as told:
        check_method(EXAMPLE)
    lines = str(told.value).splitlines()
    assert {line.partition(":")[0] for line in lines} >= {"check_forecast", "check_parameters"}


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import random", "uses random"),
        ("from numpy.random import default_rng", "uses numpy.random"),
        ("import numpy as np\nnp.random.random()", "uses np.random"),
        ("from duckdb import sql", "uses duckdb"),
        ("from hushtable.privacy.accounting.sealed import unseal", "open counts with noise.open"),
        ("noise.discrete_laplace(1)", "draws discrete_laplace directly"),
        ("counts._SealedValue__value", "accesses the content of a sealed value"),
        ("class Mine(Mechanism):\n    pass", "is a mechanism"),
    ],
)
def test_forbidden_code_is_reported(code: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "method.py"
    path.write_text("import numpy\n")
    check_source(path)
    path.write_text(code)
    with pytest.raises(ContractError, match=told):
        check_source(path)


def test_an_incomplete_proof_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="no proof in the same folder"):
        check_proof(tmp_path / "method.py")
    (tmp_path / "method.md").write_text("The promise is kept. The proof is by the paper.")
    with pytest.raises(ContractError, match="does not mention: checks, custodian, algorithm"):
        check_proof(tmp_path / "method.py")


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("name", "another"),
        ("audit", "hushtable.schema:Schema"),
        ("estimator", "hushtable.schema:Schema"),
        ("method", "hushtable.schema:Schema"),
    ],
)
def test_a_listing_with_a_wrong_part_is_reported(part: str, value: str) -> None:
    listing = find("contingency-table")
    assert listing is not None
    with pytest.raises(ContractError):
        check_spec(replace(listing, **{part: value}))


def test_the_auditor_is_a_check() -> None:
    quick: dict[str, Any] = {"runs": 400, "largest": 1, "seconds": None, "tests": ["loss"]}
    assert check_audit(ContingencyTable(epsilon=1), **quick).n_runs > 0
    with pytest.raises(ContractError, match="not detected"):
        check_audit_sees(ContingencyTable(epsilon=1), **quick)
    with half_the_noise_and_no_accountant():
        quick["tests"] = ["account"]  # which does not need statistics
        check_audit_sees(ContingencyTable(epsilon=1), **quick)
        with pytest.raises(ContractError, match="VIOLATION"):
            check_audit(ContingencyTable(epsilon=1), **quick)
