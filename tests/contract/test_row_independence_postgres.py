"""Rows of a PostgreSQL table: codes and persons of the reference encoder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.test_row_independence import (
    OF_PERSONS,
    check_codes,
    check_examples,
    check_many,
)
from postgres_server import add_collation, running_server
from raw_formats import Format, in_postgres

pytestmark = pytest.mark.xdist_group("postgres")

EXAMPLES = 3


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    yield from running_server()


@pytest.fixture
def chosen(server: Any) -> Format:
    add_collation(server)
    return in_postgres(server)


def test_codes(chosen: Format, tmp_path: Path) -> None:
    assert check_examples(check_codes, chosen, tmp_path, EXAMPLES, person=False)


@pytest.mark.parametrize("check", OF_PERSONS)
def test_persons(chosen: Format, check: str, tmp_path: Path) -> None:
    assert check_examples(OF_PERSONS[check], chosen, tmp_path, EXAMPLES)


@pytest.mark.long
def test_many_codes(chosen: Format, tmp_path: Path) -> None:
    check_many(check_codes, chosen, tmp_path, person=False)


@pytest.mark.long
@pytest.mark.parametrize("check", OF_PERSONS)
def test_many_persons(chosen: Format, check: str, tmp_path: Path) -> None:
    check_many(OF_PERSONS[check], chosen, tmp_path)
