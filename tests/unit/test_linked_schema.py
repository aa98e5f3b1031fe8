"""Schemas of linked tables: content, and all problems at once."""

from __future__ import annotations

from typing import Any

import pytest

from hushtable.errors import SchemaError, Unconfirmed
from hushtable.query.where.rules import facts_of
from hushtable.schema import Boolean, Integer
from hushtable.schema.linked_schema import LinkedSchema

TEXT = """
name: clinic
tables:
  visits:
    parent: persons
    key: visit
    foreign_key: person
    max_children: 12
    order: day
    facts: {any_icu: ward = 'icu', late: day >= 300 or day < 3}
    columns:
      day: {type: integer, low: 0, high: 365}
      ward: {type: categorical, values: [er, icu], taxonomy: {all: [er, icu]}, missing: forbid}
      discharged: {type: date, low: 2020-01-01, high: 2020-12-31, outside: refuse}
      note: {role: identifier}
  persons:
    key: id
    columns: {age: {type: integer, low: 0, high: 99}}
  payments:
    parent: visits
    foreign_key: visit
    max_children: 3
    columns: {paid: {type: boolean}}
"""


def plain() -> dict[str, Any]:
    return LinkedSchema.parse(TEXT).to_dict()


def test_parents_come_first_and_a_person_has_a_product_of_rows() -> None:
    schema = LinkedSchema.parse(TEXT)
    assert list(schema.tables) == ["persons", "visits", "payments"]
    assert schema.root == "persons"
    assert [schema.max_rows_per_person(name) for name in ("persons", "visits", "payments")] == [
        1,
        12,
        36,
    ]
    assert schema.unit.max_rows == 49
    assert schema.unit.column == "id"


def test_wide_schemas() -> None:
    schema = LinkedSchema.parse(TEXT)
    persons, visits, payments = (schema.wide(n) for n in ("persons", "visits", "payments"))
    assert list(persons.attributes) == ["age", "n_visits", "any_icu", "late"]
    own = ["day", "ward", "discharged"]
    above = ["persons.age", "persons.n_visits", "persons.any_icu", "persons.late"]
    assert list(visits.attributes) == [*own, "n_payments", *above]
    steps = schema.steps("visits")
    assert list(steps.attributes) == [*own, *(f"previous.{c}" for c in own)]
    assert steps.unit == visits.unit
    assert list(payments.attributes) == ["paid", *(f"visits.{c}" for c in own),
                                         "visits.n_payments", *above]  # fmt: skip
    number = persons.attributes["n_visits"]
    assert isinstance(number, Integer)
    assert (number.low, number.high) == (0, 13), "the last value stands for more than 12"
    assert isinstance(persons.attributes["any_icu"], Boolean)
    assert visits.unit.max_rows == 12
    assert schema.conditions[0].startswith("visits: Tables with out-of-domain values.")
    assert "Keys of visits" in schema.conditions[-1]


def test_plain_data_reads_back() -> None:
    schema = LinkedSchema.parse(TEXT)
    again = LinkedSchema.from_dict(schema.to_dict())
    assert again.to_dict() == schema.to_dict()
    assert all(again.wide(name) == schema.wide(name) for name in schema.tables)


def test_facts_are_runs_of_codes() -> None:
    facts = facts_of(LinkedSchema.parse(TEXT))["visits"]
    assert facts["late"].runs == [(0, 2), (300, 365)]
    assert facts["any_icu"].runs == [(1, 1)]


def test_all_problems_at_once() -> None:
    with pytest.raises(SchemaError) as caught:
        LinkedSchema.parse("""
        name: clinic
        persons: 3
        tables:
          persons: {max_children: 3, columns: {age: {type: integer, low: 9, high: 0}}}
          visits:
            parent: persons
            foreign_key: day
            order: ward
            columns: {day: {type: integer, low: 0, high: 9}, ward: {type: categorical, values: [a]}}
          other: {parent: persons, key: x, order: z, wrong: 1, columns: {y: {type: boolean}}}
        """)
    told = "\n".join(caught.value.problems)
    for part in (
        "'persons' is not a known key",
        "table 'persons': ",
        "table 'visits': foreign_key 'day' is a published column",
        "table 'visits': max_children is missing",
        "table 'visits': order is 'ward', whose values have no order",
        "table 'other': 'wrong' is not a known key",
    ):
        assert part in told, part


@pytest.mark.parametrize(
    ("table", "change", "problem"),
    [
        ("visits", {"parent": "nobody"}, "parent 'nobody' is not among the tables"),
        ("visits", {"parent": "payments"}, "is its own ancestor: visits -> payments -> visits"),
        ("visits", {"key": None}, "table 'visits': key is missing"),
        ("persons", {"columns": {"n_visits": {"type": "boolean"}}}, "'n_visits' occurs twice"),
        ("persons", {"columns": {"Late": {"type": "boolean"}}}, "'late' occurs twice"),
        ("payments", {"columns": {"a.b": {"type": "boolean"}}}, "'a.b' is not a valid name"),
        ("payments", {"columns": {"id": {"type": "boolean"}}}, "'id' is not a valid name"),
        ("payments", {"parent": None, "foreign_key": None, "max_children": None}, "here persons, "),
    ],
)
def test_inconsistent_relations_between_tables_are_refused(
    table: str, change: dict[str, Any], problem: str
) -> None:
    content = plain()
    content["tables"][table] |= change
    with pytest.raises(SchemaError) as caught:
        LinkedSchema.from_dict(content)
    assert any(problem in said for said in caught.value.problems), caught.value.problems


def test_names_of_tables_and_facts() -> None:
    content = plain()
    content["tables"]["previous"] = content["tables"].pop("payments")
    with pytest.raises(SchemaError, match="letters, digits and _ for names"):
        LinkedSchema.from_dict(content)
    content = plain()
    content["tables"]["visits"]["facts"] = {"odd": "day = 3 and ward = 'er'", "no": "wart = 1"}
    with pytest.raises(SchemaError) as caught:
        facts_of(LinkedSchema.from_dict(content))
    assert len(caught.value.problems) == 2
    assert "fact 'odd': \"day = 3 and ward = 'er'\" must use exactly one column" in str(
        caught.value
    )


def test_parts_derived_from_the_data_must_be_confirmed() -> None:
    content = plain()
    content["tables"]["visits"]["columns"]["day"]["confirm"] = ["low"]
    with pytest.raises(Unconfirmed, match="table 'visits': column 'day': low came from the data"):
        LinkedSchema.from_dict(content).require_confirmed()
