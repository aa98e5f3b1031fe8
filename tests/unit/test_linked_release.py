"""Releases of linked tables: matching keys, correct facts, one charge, answers with intervals."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

from hushtable.engine.linked_tables import open_linked
from hushtable.errors import ParameterError, PredicateError, Refused, ReleaseError, SchemaError
from hushtable.methods.linked.estimator import read as read_question
from hushtable.methods.linked.estimator import with_parentheses
from hushtable.methods.linked.linked import Linked
from hushtable.privacy.guarantee import Unit
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.publishing.publish import publish_linked
from hushtable.query.where.rules import facts_of
from hushtable.release.release import Release
from hushtable.schema.linked_schema import LinkedSchema
from seeds import shifted

SCHEMA = LinkedSchema.parse("""
name: clinic
tables:
  persons:
    key: id
    columns:
      old: {type: boolean, missing: other}
      region: {type: categorical, values: [N, E, S], missing: other}
  visits:
    parent: persons
    key: visit
    foreign_key: person
    max_children: 4
    order: day
    facts: {any_icu: ward = 'icu', any_late: day >= 80}
    columns:
      day: {type: integer, low: 0, high: 99, missing: other}
      ward: {type: categorical, values: [er, icu, ob], missing: other}
  tests:
    parent: visits
    foreign_key: visit
    max_children: 2
    columns: {result: {type: boolean, missing: other}}
""")


def clinic(n: int = 3000) -> dict[str, pa.Table]:
    """Make persons whose age determines the ward, and wards that persist from day to day."""
    rng = np.random.default_rng(shifted(5))
    old = rng.random(n) < 0.4
    sizes = rng.integers(0, 4, n) + 2 * old
    owner = np.repeat(np.arange(n), sizes)
    day = rng.integers(0, 100, len(owner))
    order = np.lexsort((day, owner))
    owner, day = owner[order], day[order]
    first = np.diff(owner, prepend=-1) != 0
    ward = np.where(
        rng.random(len(owner)) < 0.1 + 0.5 * old[owner], 1, 2 * rng.integers(0, 2, len(owner))
    )
    for at in np.flatnonzero(~first & (rng.random(len(owner)) < 0.5)):
        ward[at] = ward[at - 1]
    n_tests = rng.integers(0, 3, len(owner)) * (ward == 1)
    tested = np.repeat(np.arange(len(owner)), n_tests)
    return {
        "persons": pa.table(
            {"id": np.arange(n), "old": old, "region": np.array(list("NES"))[rng.integers(0, 3, n)]}
        ),
        "visits": pa.table(
            {
                "visit": np.arange(len(owner)),
                "person": owner,
                "day": day,
                "ward": np.array(["er", "icu", "ob"])[ward],
            }
        ),
        "tests": pa.table({"visit": tested, "result": rng.random(len(tested)) < 0.3}),
    }


METHOD = Linked(epsilon=3, delta="1e-6", particles=8000)


@pytest.fixture(scope="module")
def data() -> dict[str, pa.Table]:
    return clinic()


@pytest.fixture(scope="module")
def release(data: dict[str, pa.Table], tmp_path_factory: pytest.TempPathFactory) -> Release:
    folder = tmp_path_factory.mktemp("linked") / "out"
    return publish_linked(data, SCHEMA, METHOD, out=folder, noise=SeededNoise(shifted(11)))


def test_keys_fit_and_never_dangle(release: Release) -> None:
    """Each foreign key exists; each parent has the stated number of rows, at most the bound."""
    persons, visits, tests = (release.table(name) for name in SCHEMA.tables)
    ids = persons["id"].to_pylist()
    assert len(set(ids)) == len(ids) > 2000
    numbers = visits["visit"].to_pylist()
    assert len(set(numbers)) == len(numbers)
    for parents, key, children, held, told, most in (
        (persons, "id", visits, "person", "n_visits", 4),
        (visits, "visit", tests, "visit", "n_tests", 2),
    ):
        sizes = Counter(children[held].to_pylist())
        assert set(sizes) <= set(parents[key].to_pylist())
        assert max(sizes.values()) == most
        expected = {k: min(n, most) for k, n in zip(
            parents[key].to_pylist(), parents[told].to_pylist(), strict=True)}  # fmt: skip
        assert expected == {k: sizes[k] for k in expected}


def test_facts_hold_and_rows_are_in_order(release: Release) -> None:
    persons, visits = release.table("persons"), release.table("visits").to_pandas()
    for fact, holds in (("any_icu", visits.ward == "icu"), ("any_late", visits.day >= 80)):
        have = set(visits.person[holds])
        found = [i in have for i in persons["id"].to_pylist()]
        assert found == persons[fact].to_pylist()
        assert 0 < sum(found) < len(found)
    assert (visits.groupby("person").day.diff().dropna() >= 0).all()


def test_what_is_drawn_looks_like_what_was_there(
    release: Release, data: dict[str, pa.Table]
) -> None:
    """Within a table, across the key and between visits; without pairs across the key, .1 off."""
    real, drawn = (
        _joined(data["persons"], data["visits"]),
        _joined(release.table("persons"), release.table("visits")),
    )
    for one, two, off in (("ward", "old", 0.07), ("ward", "before", 0.09), ("n", "old", 0.06)):
        shares = [t.groupby([one, two]).size() / len(t) for t in (real, drawn)]
        both = shares[0].subtract(shares[1], fill_value=0)
        assert both.abs().sum() / 2 < off, (one, two, both.abs().sum() / 2)


def _joined(persons: pa.Table, visits: pa.Table) -> Any:
    frame = visits.to_pandas().sort_values(["person", "day"], kind="stable")
    sizes = frame.groupby("person").ward.transform("size").clip(upper=4)
    frame = frame.assign(before=frame.groupby("person").ward.shift().fillna("none"), n=sizes)
    return frame.merge(persons.to_pandas(), left_on="person", right_on="id")


def test_answers(release: Release, data: dict[str, pa.Table]) -> None:
    """Intervals three times as wide (about 1 - 1e-6) cover the truth, and are informative."""
    persons, visits, tests = (data[name].to_pandas() for name in SCHEMA.tables)
    visits["before"] = visits.groupby("person").ward.shift()
    kept = visits[visits.groupby("person").cumcount() < 4]
    joined = visits.merge(persons, left_on="person", right_on="id")
    icu = persons.id.isin(visits.person[visits.ward == "icu"])
    n = visits.groupby("person").size().reindex(persons.id).fillna(0).to_numpy()
    dropped = len(visits) - len(kept)
    for where, truth, slack in (
        ("persons.old AND EXISTS visits.ward = 'icu'", (persons.old & icu).sum(), 0),
        ("NOT EXISTS (SELECT 1 FROM visits WHERE ward = 'icu')", (~icu).sum(), 0),
        ("region = 'N' and n_visits >= 2", ((persons.region == "N") & (n >= 2)).sum(), 0),
        ("visits.ward = 'icu'", (visits.ward == "icu").sum(), dropped),
        ("visits.ward = 'icu' AND persons.old", (joined[joined.old].ward == "icu").sum(), dropped),
        ("visits.ward = 'icu' and previous.ward = 'icu'",
         ((visits.ward == "icu") & (visits.before == "icu")).sum(), dropped),
        ("tests.result AND visits.ward = 'icu'", tests.result.sum(), dropped),
    ):  # fmt: skip
        answer = release.count(where)
        room = 3 * (answer.high - answer.low) / 2 + slack
        assert abs(answer.value - truth) < room + 1, (where, answer, truth)
        assert answer.high - answer.low < 3000, (where, answer)
    mean = release.mean("n_visits")
    assert abs(mean.value - np.minimum(n, 5).mean()) < 3 * (mean.high - mean.low)


@pytest.mark.parametrize(
    ("where", "error", "said"),
    [
        ("EXISTS visits.ward = 'er'", Refused, "this release has no answer"),
        ("EXISTS tests.result", Refused, "facts declared in the schema (none)"),
        ("EXISTS persons.old", PredicateError, "persons has no parent table"),
        ("visits.ward = 'er' AND region = 'N'", PredicateError, "needs a table name"),
        ("wards.x = 1", PredicateError, "there is no table 'wards'"),
        ("previous.ward = 'er'", PredicateError, "have no order in the schema"),
        ("tests.result AND previous.ward = 'er'", PredicateError, "have no order in the schema"),
        ("visits.ward = 'er' AND previous.day = 1", Refused, "each column separately"),
        ("visits.ward = previous.ward AND persons.old", Refused, "also uses other tables"),
        ("visits.wart = 'er'", PredicateError, "there is no column 'wart'"),
        ("EXISTS (visits.ward = 'er' AND visits.day > 3)", SchemaError, "one column"),
        ("age >=", PredicateError, "cannot be parsed"),
    ],
)
def test_questions_that_are_refused_say_why(
    release: Release, where: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error) as caught:
        release.count(where)
    assert said in str(caught.value)


def test_exists_across_levels_counts_the_rows_that_are_named() -> None:
    """EXISTS selects rows of the lowest table outside of it: by default, persons."""
    plain = SCHEMA.to_dict()
    plain["tables"]["tests"]["facts"] = {"any_found": "result = true"}
    schema = LinkedSchema.from_dict(plain)
    facts = facts_of(schema)
    for where, base, clause in (
        ("persons.old AND EXISTS tests.result = true", "persons", '"any_found"'),
        ("EXISTS tests.result = true", "persons", '"any_found"'),
        ("visits.ward = 'icu' AND EXISTS tests.result = true", "visits", '"any_found"'),
        ("tests.result AND EXISTS visits.ward = 'icu'", "tests", '"persons.any_icu"'),
        ("tests.result AND EXISTS tests.result = true", "tests", '"visits.any_found"'),
    ):
        counted, said, _ = read_question(where, schema, facts)
        assert counted == base
        assert clause in said


def test_questions_about_the_rows_of_a_child_table(
    release: Release, data: dict[str, pa.Table]
) -> None:
    """Means and counts of visits are those of an ordinary release of joined rows."""
    visits = release.of("visits")
    day = data["visits"]["day"].to_numpy()
    mean = visits.mean("day", by="ward")
    assert len(mean.estimates) == 3
    overall = visits.mean("day")
    assert overall.low - 5 <= day.mean() <= overall.high + 5
    asked = visits.count("ward = 'icu' AND \"persons.old\"")
    assert asked.value == release.count("visits.ward = 'icu' AND persons.old").value
    assert "persons.old" in visits.frame().column_names
    with pytest.raises(ParameterError, match="choose one of persons, visits, tests"):
        release.of("nothing")


def test_all_tables_are_exported_with_matching_keys(release: Release, tmp_path: Path) -> None:
    release.export(tmp_path / "seeded-tables")
    read = {path.stem: pa_csv.read_csv(path) for path in (tmp_path / "seeded-tables").iterdir()}
    assert set(read) == {"persons", "visits", "tests"}
    assert set(read["visits"]["person"].to_pylist()) <= set(read["persons"]["id"].to_pylist())
    with pytest.raises(ReleaseError, match="cannot create"):
        release.export(tmp_path / "seeded-tables")


def test_the_statement_reports_associations_of_all_tables(release: Release) -> None:
    kept = {frozenset(one["columns"]) for one in release.statement.estimator["association_kept"]}
    assert any("visits.ward" in pair for pair in kept)


def test_exists_without_parentheses() -> None:
    for given, read in (
        ("EXISTS v.w = 'and or' OR x = 1", "EXISTS (v.w = 'and or') OR x = 1"),
        ("(NOT EXISTS v.w = 1) AND x", "(NOT EXISTS (v.w = 1)) AND x"),
        ("exists v.w IN (1, 2)", "exists (v.w IN (1, 2))"),
        ("EXISTS (v.w = 1) AND EXISTS v.w between 1 and 2", "EXISTS (v.w = 1) AND EXISTS (v.w "
         "between 1 and 2)"),
    ):  # fmt: skip
        assert with_parentheses(given) == read


def test_the_statement_tells_the_promise_and_the_bounds(release: Release) -> None:
    text = (release.folder / "STATEMENT.md").read_text()
    assert "At most 4 rows of `visits` were used per row" in text
    assert "without a parent in `persons` were not used" in text
    assert "Keys of visits" in text
    assert set(SCHEMA.tables) <= set(release.statement.tables)
    assert release.frame().column_names[:2] == ["id", "old"]
    assert release.schema.unit == Unit(kind="person", column="id", max_rows=1 + 4 + 8)


def test_one_charge_for_all_tables(data: dict[str, pa.Table], tmp_path: Path) -> None:
    """The ledger has one entry; the account adds up tables, each with its rows per person."""
    book = Ledger.create(tmp_path / "ledger.db", epsilon=3, delta="1e-6", unit=SCHEMA.unit)
    few = {name: table.slice(0, 200) for name, table in data.items()}
    publish_linked(
        few, SCHEMA, Linked(epsilon=3, delta="1e-6", particles=1000), out=tmp_path / "out",
        ledger=book, anyway=True,
    )  # fmt: skip
    assert len(book.entries()) == 1
    assert Release.load(tmp_path / "out").statement.ledger is not None
    with pytest.raises(Refused):
        publish_linked(few, SCHEMA, METHOD, out=tmp_path / "again", ledger=book, anyway=True)
    assert not (tmp_path / "again").exists()


def test_prices_follow_from_the_rows_of_a_person(data: dict[str, pa.Table]) -> None:
    plan = METHOD.plan(SCHEMA)
    few = {name: table.slice(0, 300) for name, table in data.items()}
    run = plan.accounted(open_linked(few, SCHEMA).connect(SCHEMA), SeededNoise(shifted(3)))
    booked = {opening.sensitivity.rows for opening in run.account.records}
    assert booked == {1, 4, 8}
    promise = plan.promise
    assert promise is not None
    assert promise.mu is not None
    assert 0.5 * promise.mu**2 < run.account.spent().mu_squared <= promise.mu**2
    spent = run.released.settings["quilts"]
    assert set(spent) == set(SCHEMA.tables)


def test_a_copy_with_a_dangling_key_is_refused(release: Release) -> None:
    estimator = release.estimator
    tables = dict(estimator.tables)
    tables["visits"] = tables["visits"].set_column(
        1, "person", pa.array(np.full(tables["visits"].num_rows, 10**9))
    )
    broken = type(estimator)(estimator.schema, estimator.parameters, estimator.settings, tables)
    with pytest.raises(ReleaseError, match="has no parent in 'persons'"):
        broken.count("visits.ward = 'icu'")
