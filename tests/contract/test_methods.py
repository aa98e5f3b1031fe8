"""What every method must keep: the laws of the house and good manners."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import jsonschema
import pytest

from contract.examples import EXAMPLES, example, label
from hushtable.methods import METHODS, Method
from hushtable.methods.listing import Listing
from hushtable.methods.registry import listings
from hushtable.statement import Statement
from hushtable.testing import CHECKS, check_listing, check_source
from hushtable.testing.laws import Check

METHODS_FOLDER = Path(inspect.getfile(Method)).parent
SOURCES = sorted(METHODS_FOLDER.rglob("*.py"))

every_method = pytest.mark.parametrize("method", EXAMPLES, ids=label)


def test_every_registered_method_is_tried() -> None:
    assert {method.name for method in EXAMPLES} == set(METHODS)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_law_2_methods_reach_neither_for_randomness_nor_for_data(path: Path) -> None:
    check_source(path, draws=path.parent.name == "uncertain")  # records, no differential privacy


@pytest.mark.parametrize("listing", listings().values(), ids=lambda listing: listing.name)
def test_law_3_all_parts_are_there_and_the_proof_lies_beside_the_code(listing: Listing) -> None:
    check_listing(listing)


@every_method
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_the_other_laws(check: Check, method: Method, tmp_path: Path) -> None:
    check(example(method), tmp_path)
    for statement in tmp_path.rglob("statement.json"):
        document = json.loads(statement.read_text())
        jsonschema.validate(document, Statement.model_json_schema(by_alias=True))
