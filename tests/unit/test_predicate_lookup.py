"""Lookups in public tables of the analyst, and their refusals."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hushtable import sample, sample_schema
from hushtable.errors import PredicateError
from hushtable.methods import AlphaBeta
from hushtable.publishing.publish import publish
from hushtable.query.where import parse
from hushtable.query.where.lookup import look_up

SCHEMA = sample_schema()
REGIONS = pa.table(
    {
        "name": ["harbor", "old town", "valley", "hills", "bay", "moon", None],
        "beds": [120, 40, 0, 8, 300, 1, 5],
        "minimum_age": [18, 18, 0, 40, 65, 99, 3],
    }
)
TABLES = {"regions": REGIONS}


@pytest.mark.parametrize(
    ("where", "same"),
    [
        ("region IN (SELECT name FROM regions WHERE beds > 50)", "region IN ('harbor', 'bay')"),
        (
            "age >= 40 AND REGION IN (SELECT name FROM Regions WHERE beds < 50 AND beds > 0)",
            "age >= 40 AND region IN ('old town', 'hills', NULL)",
        ),
        ("age IN (SELECT minimum_age FROM regions)", "age IN (0, 3, 18, 40, 65, 99)"),
        ("region IN (SELECT name FROM regions WHERE name = 'moon')", "FALSE"),
        ("region IN (SELECT name FROM regions WHERE beds < 0)", "FALSE"),
        ("NOT region IN (SELECT name FROM regions WHERE beds < 0)", "TRUE"),
        ("sex NOT IN (SELECT name FROM regions WHERE beds > 50)", "sex IS NOT NULL"),
        ("region NOT IN (SELECT name FROM regions WHERE beds > 200)", "region <> 'bay'"),
        ("region NOT IN (SELECT name FROM regions)", "FALSE"),  # a NULL among them
        ("smoker NOT IN (SELECT name FROM regions WHERE name = 'moon')", "smoker IS NOT NULL"),
        ("smoker NOT IN (SELECT name FROM regions WHERE beds < 0)", "TRUE"),
        ("age > 3", "age > 3"),
    ],
)  # fmt: skip
def test_lookups_mean_the_list_they_find(where: str, same: str) -> None:
    assert parse(look_up(where, SCHEMA, TABLES), SCHEMA).count() == parse(same, SCHEMA).count()


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("region IN (SELECT name FROM people)", "no lookup table 'people'; given tables: regions"),
        ("region IN (SELECT name, beds FROM regions)", "cannot be looked up"),
        ("region IN (SELECT * FROM regions)", "cannot be looked up"),
        ("region IN (SELECT upper(name) FROM regions)", "cannot be looked up"),
        ("region IN (SELECT name FROM regions LIMIT 1)", "cannot be looked up"),
        ("region IN (SELECT name FROM regions, regions r)", "cannot be looked up"),
        ("region IN (SELECT name FROM regions UNION SELECT 'x')", "cannot be looked up"),
        ("region IN (SELECT name FROM read_csv('/etc/passwd'))", "looked up|no lookup table"),
        ("region IN (SELECT name FROM other.regions)", "no lookup table"),
        ("region IN (SELECT name FROM regions WHERE abs(beds) > 1)", "not allowed in a clause"),
        ("region IN (SELECT name FROM regions WHERE doctors > 1)", "cannot be looked up"),
        ("region || 'x' IN (SELECT name FROM regions)", "is not a column"),
        ("planet IN (SELECT name FROM regions)", "planet"),
        ("age IN (SELECT name FROM regions)", "list of numbers"),
        ("age > (SELECT beds FROM regions)", "not allowed in a clause"),
        ("EXISTS (SELECT name FROM regions)", "not allowed in a clause"),
        (
            "region IN (SELECT name FROM regions WHERE beds IN (SELECT beds FROM regions))",
            "cannot be looked up",
        ),
    ],
)
def test_other_subqueries_are_refused(where: str, message: str) -> None:
    with pytest.raises(PredicateError, match=message):
        parse(look_up(where, SCHEMA, TABLES), SCHEMA)


def test_release_answers_with_a_table_of_the_analyst(tmp_path: Path) -> None:
    release = publish(
        sample(), SCHEMA, AlphaBeta(d="3/10", n_public=6000, gamma="1/2"), out=tmp_path / "r"
    )
    where = "age < 30 AND region IN (SELECT name FROM regions WHERE beds > 50)"
    listed = release.count("age < 30 AND region IN ('harbor', 'bay')")
    assert release.count(where, tables=TABLES) == listed
    with pytest.raises(PredicateError):
        release.count(where)
