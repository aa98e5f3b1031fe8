"""``hushtable linked``: check, plan and publish linked tables."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from .conftest import Run

SCHEMA = """
name: clinic
tables:
  persons: {key: id, columns: {old: {type: boolean}}}
  visits:
    parent: persons
    foreign_key: person
    max_children: 2
    facts: {any_icu: ward = 'icu'}
    columns: {ward: {type: categorical, values: [er, icu]}}
"""
PROMISE = ("--epsilon", "2", "--delta", "1e-6")


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    """Create persons with 0 to 3 visits, a visit without a person, a schema and a ledger path."""
    ids = np.arange(400)
    owner = np.append(np.repeat(ids, ids % 4), 999)
    pa_csv.write_csv(pa.table({"id": ids, "old": ids % 2 == 0}), tmp_path / "persons.csv")
    wards = np.where(owner % 3 == 0, "icu", "er")
    pq.write_table(pa.table({"person": owner, "ward": wards}), tmp_path / "visits.parquet")
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    return tmp_path


def tables(folder: Path) -> tuple[str, str]:
    return f"persons={folder / 'persons.csv'}", f"visits={folder / 'visits.parquet'}"


def test_check_reports_orphans_and_parents_with_too_many_children(run: Run, clinic: Path) -> None:
    done = run("linked", "check", clinic / "schema.yaml", *tables(clinic))
    assert done.code == 0, done.err
    assert "1 rows have no parent in 'persons'; they do not count." in done.out
    assert "100 rows of 'persons' have more than 2 child rows" in done.out
    told = json.loads(run("linked", "check", clinic / "schema.yaml", *tables(clinic), "--json").out)
    assert len(told["findings"]) == 2
    assert not told["refused"]


def test_plan_reads_no_data(run: Run, clinic: Path) -> None:
    done = run("linked", "plan", clinic / "schema.yaml", *PROMISE, "--rows", "400", "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    (promise,) = told["guarantees"]
    assert promise["unit"]["max_rows"] == 3
    assert any(step.startswith("visits: ") for step in told["split"])
    assert run("linked", "plan", clinic / "schema.yaml", *PROMISE).code == 0


def test_publish_charges_once_and_answers(run: Run, clinic: Path) -> None:
    book, out = clinic / "ledger.db", clinic / "release"
    bound = ("--schema", clinic / "schema.yaml")
    assert run("ledger", "init", book, "--epsilon", "2.1", "--delta", "1e-6", *bound).code == 0
    done = run(
        "linked", "publish", clinic / "schema.yaml", *tables(clinic), *PROMISE, "--out", out,
        "--ledger", book, "--particles", "2000", "--anyway",
    )  # fmt: skip
    assert done.code == 0, done.err
    visits = pq.read_table(out / "data" / "visits.parquet")
    persons = pq.read_table(out / "data" / "persons.parquet")
    assert set(visits["person"].to_pylist()) <= set(persons["id"].to_pylist())
    said = " ".join(done.out.split())
    assert f"{persons.num_rows:,} rows of persons, {visits.num_rows:,} rows of visits." in said
    account = json.loads(run("ledger", "show", book, "--json").out)
    assert len(account["entries"]) == 1
    assert "rows used" in run("show", out).out
    asked = run("query", out, "persons.old AND EXISTS visits.ward = 'icu'", "--json")
    assert asked.code == 0, asked.err
    answer = json.loads(asked.out)
    assert answer["low"] <= answer["value"] <= answer["high"]
    again = run(
        "linked", "publish", clinic / "schema.yaml", *tables(clinic), *PROMISE, "--out",
        clinic / "again", "--ledger", book, "--anyway",
    )  # fmt: skip
    assert again.code == 1
    assert not (clinic / "again").exists()


def test_files_are_named_by_their_tables(run: Run, clinic: Path) -> None:
    schema = clinic / "schema.yaml"
    done = run("linked", "check", schema, "persons.csv", "visits=a", "visits=b")
    assert done.code == 2
    assert "'persons.csv' is not NAME=FILE" in done.err
    assert "'visits' is given twice" in done.err
    done = run("linked", "check", schema, tables(clinic)[0])
    assert done.code == 2
    assert "data for table 'visits' is missing" in done.err
