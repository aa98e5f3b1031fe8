"""A small clinic: linked tables of persons, visits and tests, and their wide rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from hushtable.engine.linked_tables import LinkedData
from hushtable.schema.linked_schema import LinkedSchema

SCHEMA = LinkedSchema.parse("""
name: clinic
missing_values: ["", "?"]
tables:
  persons: {key: id, columns: {sex: {type: categorical, values: [F, M], missing: other}}}
  visits:
    parent: persons
    key: visit
    foreign_key: person
    max_children: 3
    order: day
    facts: {any_icu: ward = 'icu', late: day >= 8}
    columns:
      day: {type: integer, low: 0, high: 20, missing: other}
      ward: {type: categorical, values: [er, icu, ob], missing: other}
  tests:
    parent: visits
    foreign_key: visit
    max_children: 2
    columns: {result: {type: boolean, missing: other}}
""")
PERSONS = pa.table({"id": ["a", "b", "c", "?"], "sex": ["F", "M", "F", "M"]})
VISITS = pa.table(
    {
        "visit": [1, 2, 3, 4, 5, 6],
        "person": ["a", "a", "c", "a", "nobody", "?"],
        "day": ["10", "9", "3", "0", "5", "5"],
        "ward": ["icu", "er", "ob", "icu", "icu", "icu"],
    }
)
TESTS = pa.table({"visit": [1.0, 1.0, 3.0, 7.0], "result": ["yes", "no", "no", "yes"]})
DATA = {"persons": PERSONS, "visits": VISITS, "tests": TESTS}


def rows(engine: Any, columns: list[str]) -> Counter[tuple[Any, ...]]:
    """Return the counted rows with their values."""
    cells = engine.counts(columns)
    kinds = [engine.schema.attributes[name] for name in columns]
    return Counter(
        {
            tuple(kind.value(int(code)) for kind, code in zip(kinds, row, strict=True)): int(n)
            for row, n in zip(cells.codes, cells.counts, strict=True)
        }
    )


def check_wide_rows(tables: LinkedData) -> None:
    """Check child counts, facts and previous rows of each person; orphan rows are left out."""
    tables.check(SCHEMA)
    engines = tables.connect(SCHEMA)
    told = ["n_visits", "any_icu", "late"]
    assert rows(engines.engine("persons"), ["sex", *told]) == Counter(
        {("F", 3, "true", "true"): 1, ("M", 0, "false", "false"): 1, ("F", 1, "false", "false"): 1}
    )
    beside = ["day", "ward", "persons.sex", "n_tests"]
    assert rows(engines.engine("visits"), beside) == Counter(
        {(0, "icu", "F", 0): 1, (9, "er", "F", 0): 1, (10, "icu", "F", 2): 1, (3, "ob", "F", 1): 1}
    )
    before = ["day", "ward", "previous.day", "previous.ward"]
    assert rows(engines.steps("visits"), before) == Counter(
        {(9, "er", 0, "icu"): 1, (10, "icu", 9, "er"): 1}
    )
    above = ["result", "visits.ward", "visits.n_tests", "persons.n_visits", "persons.late"]
    assert rows(engines.engine("tests"), above) == Counter(
        {
            ("true", "icu", 2, 3, "true"): 1,
            ("false", "icu", 2, 3, "true"): 1,
            ("false", "ob", 1, 1, "false"): 1,
        }
    )
    assert [str(one) for one in engines.findings()] == [
        "table 'persons': 1 rows have no 'id'; they do not count.",
        "table 'visits': 1 rows have no 'person'; they do not count.",
        "table 'visits': 1 rows have no parent in 'persons'; they do not count.",
        "table 'tests': 1 rows have no parent in 'visits'; they do not count.",
    ]
