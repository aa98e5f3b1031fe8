"""Neighbors of linked tables differ in one person with all rows in all tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from audit import recorded_runs as watching
from audit.recorded_runs import record_linked
from hushtable.audit.white_box import FaultError
from hushtable.engine import linked_tables as joins
from hushtable.engine import memory_engine
from hushtable.engine.sealed_table import SealedTable, SealedTables
from hushtable.methods.linked.linked import Linked, LinkedPlan
from hushtable.privacy.accounting.run_account import RunAccount
from hushtable.privacy.accounting.sealed import unseal
from hushtable.privacy.unit import Unit
from hushtable.schema import Schema
from hushtable.schema.linked_schema import LinkedSchema

SCHEMA = LinkedSchema.parse("""
name: clinic
tables:
  persons: {key: id, columns: {old: {type: boolean, missing: other}}}
  visits:
    parent: persons
    key: visit
    foreign_key: person
    max_children: 3
    order: day
    facts: {any_icu: ward = 'icu'}
    columns:
      day: {type: integer, low: 0, high: 5, missing: other}
      ward: {type: categorical, values: [er, icu], missing: other}
  tests:
    parent: visits
    foreign_key: visit
    max_children: 2
    facts: {any_found: result = true}
    columns: {result: {type: boolean, missing: other}}
""")

Tables = dict[str, pa.Table]


def tables(
    n_persons: int, *, n_visits: int, last: str | None, others_in_icu: bool = True
) -> Tables:
    """Make persons with two visits each, on different days; the last person may differ.

    The last person is like the others (``usual``), has `n_visits` visits to the ICU with two tests
    each (``many``), or is absent (None).
    """
    ids = np.arange(n_persons + (last is not None))
    rng = np.random.default_rng(7)
    visits: list[tuple[int, int, int, str]] = []
    for person in ids:
        most = n_visits if last == "many" and person == n_persons else 2
        for turn in range(most):
            ward = "icu" if most > 2 or (others_in_icu and (person + turn) % 3 == 0) else "er"
            visits.append((len(visits), int(person), min(2 * turn + int(person) % 2, 5), ward))
    number, owner, day, ward = zip(*visits, strict=True)
    tested = np.repeat(np.array(number), 2)
    return {
        "persons": pa.table({"id": ids, "old": ids % 2 == 0}),
        "visits": pa.table({"visit": number, "person": owner, "day": day, "ward": ward}),
        "tests": pa.table({"visit": tested, "result": rng.random(len(tested)) < 0.5}),
    }


def without_last(data: Tables) -> Tables:
    """Remove the last person with all child rows."""
    person = data["persons"]["id"][-1].as_py()
    owners = np.asarray(data["visits"]["person"])
    gone = set(np.asarray(data["visits"]["visit"])[owners == person].tolist())
    kept = [visit.as_py() not in gone for visit in data["tests"]["visit"]]
    return {
        "persons": data["persons"].slice(0, data["persons"].num_rows - 1),
        "visits": data["visits"].filter(pa.array(owners != person)),
        "tests": data["tests"].filter(pa.array(kept)),
    }


def watch(
    *,
    epsilon: float = 4.0,
    delta: str | int = "1e-6",
    n_visits: int = 3,
    others_in_icu: bool = True,
) -> int:
    plan = Linked(epsilon=epsilon, delta=delta, particles=1000).plan(SCHEMA)
    data = tables(60, n_visits=n_visits, last="many", others_in_icu=others_in_icu)
    return record_linked(plan, data, without_last(data), seed=1)


@pytest.mark.parametrize(("delta", "n_visits"), [("1e-6", 3), (0, 3), ("1e-6", 9)])
def test_a_person_with_all_rows_is_one_unit(delta: str | int, n_visits: int) -> None:
    """Draws and costs are the same, with the maximum number of rows and three times that."""
    assert watch(delta=delta, n_visits=n_visits) > 10


# --- intentionally broken -------------------------------------------------------------------------


def unit_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a row of a table as the unit, although a person has several."""

    def by_row(of_person: Callable[..., Schema]) -> Callable[..., Schema]:
        return lambda *given: of_person(*given).model_copy(update={"unit": Unit(kind="row")})

    for kind in ("wide", "steps"):
        monkeypatch.setattr(LinkedSchema, kind, by_row(getattr(LinkedSchema, kind)))


def bound_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count all rows of a person, not the maximum of the schema."""

    def all_rows(persons: Any, max_rows: int, noise: Any) -> Any:
        return np.arange(len(persons))

    monkeypatch.setattr(memory_engine, "_bounded", all_rows)


def table_not_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spend the whole promised budget on each table."""
    plan = Linked.plan

    def dear(self: Linked, schema: LinkedSchema) -> Any:
        made = plan(self, schema)
        parts = {
            name: type(part)(part.method, part.schema, part.values, None, made.total)
            for name, part in made.parts.items()
        }
        return type(made)(made.method, made.linked, parts, made.steps, made.total)

    monkeypatch.setattr(Linked, "plan", dear)

    def apart(given: Callable[..., SealedTable]) -> Callable[..., SealedTable]:
        def sealed(self: SealedTables, name: str) -> SealedTable:
            table = given(self, name)
            if name != self.schema.root:
                table.account = RunAccount(self.account.promise, spends_all=False)
            return table

        return sealed

    for kind in ("table", "steps"):
        monkeypatch.setattr(SealedTables, kind, apart(getattr(SealedTables, kind)))


def row_before_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the previous row of the table, even if it belongs to another person."""
    window = joins.ibis.window

    def of_all(*, group_by: Any, order_by: Any) -> Any:
        return window(order_by=[group_by, *order_by])

    monkeypatch.setattr(joins.ibis, "window", of_all)


def fact_of_anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set a fact for everyone if it holds for anyone."""
    below = joins.LinkedEngine._below

    def told(self: Any, name: str) -> Any:
        found = below(self, name)
        facts = [column for column in found.columns if column not in {"above", "told0"}]
        return found.mutate(**{fact: found[fact].max().over() for fact in facts})

    monkeypatch.setattr(joins.LinkedEngine, "_below", told)


def keys_from_the_number_of_persons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Number synthetic keys from the end of the true ones."""
    seen: list[int] = []
    table = SealedTables.table

    def counted(self: SealedTables, name: str) -> SealedTable:
        found = table(self, name)
        if name == self.schema.root:
            seen[:] = unseal(found.n_rows()).tolist()
        return found

    written = LinkedPlan._written

    def numbered(self: LinkedPlan, name: str, rows: Any) -> pa.Table:
        made = written(self, name, rows)
        key = self.linked.tables[name].key
        if key is None:
            return made
        moved = pa.array(np.asarray(made[key]) + seen[0])
        return made.set_column(made.column_names.index(key), key, moved)

    monkeypatch.setattr(SealedTables, "table", counted)
    monkeypatch.setattr(LinkedPlan, "_written", numbered)


def prior_that_is_private(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start visits from the number of private persons, not of synthetic ones."""
    opened, seen = watching.open_linked, []

    def remembered(data: Any, schema: LinkedSchema) -> Any:
        seen.append(data)
        return opened(data, schema)

    prepared = LinkedPlan._prepared

    def private(self: LinkedPlan, *given: Any) -> Any:
        part = prepared(self, *given)
        if part.prior is None:
            return part
        n = seen[-1]["persons"].num_rows
        codes = {column: np.resize(rows, n) for column, rows in part.prior.codes.items()}
        return replace(part, prior=replace(part.prior, codes=codes))

    monkeypatch.setattr(watching, "open_linked", remembered)
    monkeypatch.setattr(LinkedPlan, "_prepared", private)


@pytest.mark.parametrize(
    ("break_it", "fault", "n_visits"),
    [
        (unit_row, "changes by 3 in total between neighbors; 1 was recorded", 3),
        (bound_ignored, "changes by 9 in total between neighbors; 3 was recorded", 9),
        (table_not_charged, "the recomputed cost of the run on all tables", 3),
        (row_before_of_another, "between neighbors|at most; their noise is for", 3),
        (fact_of_anybody, "between neighbors; 1 was recorded|at most; their noise is for", 3),
        (keys_from_the_number_of_persons, "persons", 3),
        (prior_that_is_private, "scores of draw|visits", 3),
    ],
)
def test_broken_plans_are_caught(
    monkeypatch: pytest.MonkeyPatch,
    break_it: Callable[[pytest.MonkeyPatch], None],
    fault: str,
    n_visits: int,
) -> None:
    break_it(monkeypatch)
    with pytest.raises(FaultError, match=fault):
        watch(n_visits=n_visits, others_in_icu=break_it is not fact_of_anybody)
