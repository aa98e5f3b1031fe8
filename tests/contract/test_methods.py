"""Contract of every method: the checks of `hushtable.testing`."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import jsonschema
import pytest

from contract.examples import EXAMPLES, example, label
from hushtable.methods import METHODS, Method
from hushtable.methods.registry import specs
from hushtable.methods.spec import MethodSpec
from hushtable.release.statement import Statement
from hushtable.testing import (
    CHECKS,
    Check,
    check_charge,
    check_errors,
    check_every_row,
    check_full_disk,
    check_source,
    check_spec,
)

METHODS_FOLDER = Path(inspect.getfile(Method)).parent
SOURCES = sorted(METHODS_FOLDER.rglob("*.py"))


def _names(methods: list[Method]) -> set[str]:
    return {method.name for method in methods}


STATEMENTS = jsonschema.Draft202012Validator(Statement.model_json_schema(by_alias=True))

# Checks that hardly depend on the parameters of a method use its first example, and all
# of them in the long suite.
ON_ONE = (check_charge, check_errors, check_every_row, check_full_disk)
FIRST = [method for at, method in enumerate(EXAMPLES) if method.name not in _names(EXAMPLES[:at])]
TRIED = [
    pytest.param(
        check,
        method,
        id=f"{check.__name__.removeprefix('check_')}-{label(method)}",
        marks=[pytest.mark.long] if check in ON_ONE and method not in FIRST else [],
    )
    for check in CHECKS
    for method in EXAMPLES
]


def test_every_registered_method_is_tried() -> None:
    assert _names(EXAMPLES) == set(METHODS)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_law_2_methods_reach_neither_for_randomness_nor_for_data(path: Path) -> None:
    check_source(path, draws=path.parent.name == "uncertain")  # records, no differential privacy


@pytest.mark.parametrize("listing", specs().values(), ids=lambda listing: listing.name)
def test_law_3_all_parts_exist_and_the_proof_is_beside_the_code(listing: MethodSpec) -> None:
    check_spec(listing)


@pytest.mark.parametrize(("check", "method"), TRIED)
def test_the_other_laws(check: Check, method: Method, tmp_path: Path) -> None:
    check(example(method), tmp_path)
    for statement in tmp_path.rglob("statement.json"):
        STATEMENTS.validate(json.loads(statement.read_text()))
