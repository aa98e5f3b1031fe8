"""Joins of linked tables: wide rows are correct on each engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

from clinic import DATA, PERSONS, SCHEMA, TESTS, VISITS, check_wide_rows, rows
from hushtable.engine import EngineName, linked_tables
from hushtable.engine.linked_tables import open_linked
from hushtable.engine.open_table import PrivateTable
from hushtable.engine.open_table import open as open_one
from hushtable.errors import DataError, ParameterError
from hushtable.schema.linked_schema import LinkedSchema


@pytest.mark.parametrize("engine", ["auto", "duckdb", "csv"])
def test_wide_rows(engine: str, tmp_path: Path) -> None:
    data: dict[str, Any] = DATA
    if engine == "csv":
        data = {name: tmp_path / f"{name}.csv" for name in DATA}
        for name, path in data.items():
            pa_csv.write_csv(DATA[name], path)
    name: EngineName = "duckdb" if engine == "duckdb" else "auto"
    check_wide_rows(open_linked(data, SCHEMA, engine=name))


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_facts_hold_at_all_levels_above(engine: EngineName) -> None:
    """Visit 1 of person a has a positive test; the other persons have none."""
    plain = SCHEMA.to_dict()
    plain["tables"]["tests"]["facts"] = {"any_found": "result = true"}
    schema = LinkedSchema.from_dict(plain)
    assert schema.facts_below("persons") == ["any_icu", "late", "any_found"]
    engines = open_linked(DATA, schema, engine=engine).connect(schema)
    assert rows(engines.engine("persons"), ["n_visits", "any_icu", "any_found"]) == {
        (3, "true", "true"): 1, (0, "false", "false"): 1, (1, "false", "false"): 1,
    }  # fmt: skip
    assert rows(engines.engine("visits"), ["day", "n_tests", "any_found"]) == {
        (0, 0, "false"): 1, (9, 0, "false"): 1, (10, 2, "true"): 1, (3, 1, "false"): 1,
    }  # fmt: skip


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_who_has_too_many_keeps_a_uniformly_random_part(engine: EngineName) -> None:
    """Of 10 visits, 3 count, all with the same probability; n_visits and facts use all visits.

    With 600 persons and 3 of 10 visits each, every visit is kept 180 times on average, with a
    standard deviation of 11.2; 6.5 of these are exceeded with probability below 1e-9 per visit. Of
    9 visits with a previous one, 3 count as well, each 200 times, with a standard deviation of
    11.5. If both visits of a pair had to be among the 3, it would be 3/10 * 2/9 of 600, or 40.
    """
    n = 600
    visits = pa.table(
        {
            "visit": np.arange(10 * n),
            "person": np.repeat(np.arange(n), 10),
            "day": np.tile(np.arange(10), n),
            "ward": np.tile(["er"] * 9 + ["icu"], n),
        }
    )
    persons = pa.table({"id": np.arange(n), "sex": ["F"] * n})
    data = {"persons": persons, "visits": visits, "tests": TESTS.slice(0, 0)}
    engines = open_linked(data, SCHEMA, engine=engine).connect(SCHEMA)
    counted = engines.engine("visits")
    assert counted.n_rows() == 3 * n
    days = counted.histograms(["day"])["day"][:10]
    assert days.sum() == 3 * n
    assert (np.abs(days - 180) < 6.5 * 11.3).all()
    steps = rows(engines.steps("visits"), ["day", "previous.day"])
    assert set(steps) <= {(day + 1, day) for day in range(9)}
    assert steps.total() == 3 * n
    assert all(abs(steps[day + 1, day] - 200) < 6.5 * 11.6 for day in range(9))
    (cell,) = rows(engines.engine("persons"), ["n_visits", "any_icu"]).items()
    assert cell == ((4, "true"), n), "more than three is one value, and facts are about all"
    assert [str(one) for one in engines.findings()] == [
        "table 'visits': 600 rows of 'persons' have more than 3 child rows; a uniformly random "
        "subset of these counts."
    ]


def test_keys_between_must_differ() -> None:
    """Child rows of a visit shared by two persons would belong to both."""
    twice = {**DATA, "visits": pa.concat_tables([VISITS, VISITS.slice(0, 1)])}
    engines = open_linked(twice, SCHEMA).connect(SCHEMA)
    engines.engine("persons").n_rows()
    with pytest.raises(DataError, match="table 'visits': 'visit' is not unique"):
        engines.engine("tests")
    (same,) = [one for one in engines.findings() if one.refused]
    assert "1 rows repeat a 'visit' of another row" in str(same)


def test_a_person_of_two_rows_still_counts_once() -> None:
    twice = {**DATA, "persons": pa.concat_tables([PERSONS, PERSONS])}
    engines = open_linked(twice, SCHEMA).connect(SCHEMA)
    assert engines.engine("persons").n_rows() == 3
    assert engines.engine("visits").n_rows() == 5, "3 of the 6 wide rows of a, 2 of c"


def test_ties_are_broken_by_coins() -> None:
    """Two visits of one day have a random order; seeing only one order has probability 2 ** -60."""
    n = 60
    visits = pa.table(
        {
            "visit": np.arange(2 * n),
            "person": np.repeat(np.arange(n), 2),
            "day": np.zeros(2 * n, int),
            "ward": ["er", "icu"] * n,
        }
    )
    persons = pa.table({"id": np.arange(n), "sex": ["F"] * n})
    data = {"persons": persons, "visits": visits, "tests": TESTS.slice(0, 0)}
    engine = open_linked(data, SCHEMA).connect(SCHEMA).steps("visits")
    found = rows(engine, ["ward", "previous.ward"])
    assert found["er", "icu"] + found["icu", "er"] == n
    assert found["er", "icu"] > 0
    assert found["icu", "er"] > 0


@pytest.mark.parametrize(("engine", "limits"), [("spark", ["1GB", None, None]), ("duckdb", None)])
def test_one_session_of_spark_takes_its_limit_once(
    monkeypatch: pytest.MonkeyPatch, engine: EngineName, limits: list[str | None] | None
) -> None:
    """An existing session refuses a memory limit; the first table starts the session for all."""
    seen: list[str | None] = []

    def opened(data: Any, *, memory_limit: str | None, **_: Any) -> PrivateTable:
        seen.append(memory_limit)
        return open_one(data)

    monkeypatch.setattr(linked_tables, "open_one", opened)
    open_linked(DATA, SCHEMA, engine=engine, memory_limit="1GB")
    assert seen == (limits or ["1GB"] * 3)


def test_what_is_given_must_be_all_tables() -> None:
    with pytest.raises(ParameterError) as caught:
        open_linked({"persons": PERSONS, "visit": VISITS}, SCHEMA)
    assert len(caught.value.problems) == 3
    bad = {"persons": PERSONS.drop_columns(["sex"]), "visits": VISITS, "tests": VISITS}
    with pytest.raises(DataError) as refused:
        open_linked(bad, SCHEMA).check(SCHEMA)
    told = {problem.split(":")[0] for problem in refused.value.problems}
    assert told == {"table 'persons'", "table 'tests'"}
