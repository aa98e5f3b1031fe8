"""The explorer on a server: it answers as the library does, and as the page in a file."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

from hushtable.datasets import sample_schema
from hushtable.errors import ParameterError
from hushtable.methods import NoisyCounts
from hushtable.publishing.publish import publish
from hushtable.release.release import Release
from hushtable.schema import Schema
from hushtable.web.app import make_release_explorer
from hushtable.web.questions import (
    MAX_CELLS,
    AnswerCache,
    PageQuestion,
    answer_question,
    parts_of,
    quoted_name,
)


@pytest.fixture(scope="module")
def page(release: Release) -> Iterator[TestClient]:
    with TestClient(make_release_explorer(release)) as client:
        yield client


def content(page: TestClient) -> dict[str, Any]:
    text = page.get("/").text
    found = re.findall(r'<script type="application/json" id="content">(.*?)</script>', text)[0]
    return dict(json.loads(found))


def test_it_shows_the_promise_and_its_limits(page: TestClient, release: Release) -> None:
    shown, text = content(page), page.get("/").text
    assert shown["promises"] == [promise.explain() for promise in release.statement.guarantees]
    assert shown["unprotected"] == list(release.statement.unprotected)
    assert "Limits of interpretation" in text
    assert str(release.folder.parent) not in text
    assert "counts" not in shown, "the page of a server asks for its answers"


def test_the_policy_allows_the_page_and_its_server_only(page: TestClient) -> None:
    answer = page.get("/")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "connect-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert policy.removesuffix("; frame-ancestors 'none'") in answer.text


@pytest.mark.parametrize(
    ("query", "ask"),
    [
        ("", lambda release: [release.count()]),
        (
            "where=age >= 40 AND sex = 'F'",
            lambda release: [release.count("age >= 40 AND sex = 'F'")],
        ),
        (
            "what=mean&of=age&by=sex&where=age < 20 OR age >= 60",
            lambda release: [
                release.mean("age", f"(age < 20 OR age >= 60) AND sex = '{sex}'") for sex in "FM"
            ],
        ),
        (
            "what=median&of=age&by=smoker",
            lambda release: [
                release.median("age", f"smoker {value}")
                for value in ("= 'yes'", "= 'no'", "IS NULL")
            ],
        ),
        (
            "by=region&by=sex",
            lambda release: [
                release.count(f"region = '{region}' AND sex = '{sex}'")
                for region in sample_schema().attributes["region"].values for sex in "FM"
            ],
        ),
        (
            "what=regression&of=age ~ C(sex)&where=age >= 20",
            lambda release: release.regression("age ~ C(sex)", "age >= 20").estimates,
        ),
        (
            "what=logistic&of=sex ~ age",
            lambda release: release.regression("sex ~ age", logistic=True).estimates,
        ),
    ],
)  # fmt: skip
def test_an_answer_equals_that_of_the_release(
    page: TestClient, release: Release, query: str, ask: Any
) -> None:
    found = page.get(f"/answer?{query}").json()
    expected = list(ask(release))
    assert len(found["rows"]) == len(expected)
    for (_, _, answer), one in zip(found["rows"], expected, strict=True):
        assert tuple(answer[:3]) == one.figures()
        assert answer[3:6] == pytest.approx([one.value, one.low, one.high], rel=1e-8)
        assert [found["notes"][place] for place in answer[6]] == list(one.notes)


def test_each_row_has_its_labels_and_its_clause(page: TestClient, release: Release) -> None:
    for labels, clause, answer in page.get("/answer?by=region&by=smoker").json()["rows"]:
        region, smoker = labels
        own = "smoker IS NULL" if smoker == "(missing)" else f"smoker = '{smoker}'"
        assert clause == f"region = '{region}' AND {own}"
        assert answer[0] == release.count(clause).figures()[0]
    rows = page.get("/answer?where=sex = 'F'").json()["rows"]
    assert [row[:2] for row in rows] == [[["sex = 'F'"], "sex = 'F'"]]


@pytest.mark.parametrize("name", list(sample_schema().attributes))
def test_groups_of_a_column_cover_it_once(name: str, release: Release) -> None:
    rows = answer_question(release, PageQuestion(by=(name,)))["rows"]
    assert len(rows) == len(parts_of(name, release.schema.attributes[name]))
    whole = release.count("TRUE").value
    assert sum(answer[3] for _, _, answer in rows) == pytest.approx(whole, rel=1e-6)


def test_downloads_equal_those_of_export(page: TestClient, release: Release) -> None:
    rows = pa_csv.read_csv(io.BytesIO(page.get("/rows.csv").content))
    assert rows.num_rows == release.frame().num_rows
    packed = pq.read_table(io.BytesIO(page.get("/rows.parquet").content))
    assert packed.equals(release.frame())
    assert page.get("/statement.md").text == (release.folder / "STATEMENT.md").read_text()
    assert page.get("/statement.json").json()["method"] == "noisy-counts"
    for path in ("/rows.exe", "/statement.yaml", "/nothing"):
        assert page.get(path).status_code == 404


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("where=age+%3D", "WHERE"),
        ("where=nobody = 1&by=sex", "nobody"),
        ("by=nothing", "no such column"),
        ("by=age&by=sex&by=region", "at most two"),
        ("what=mean&of=sex", "sex"),
        ("what=mode&of=age", "must be one of"),
        ("what=mean", "no such column"),
        ("what=regression&of=age", "~"),
        ("what=regression&of=age+~+C(sex)&by=sex", "write C(column)"),
        (f"where={'a' * 10_001}", "too long"),
    ],
)
def test_unanswerable_questions_say_why(page: TestClient, query: str, reason: str) -> None:
    answer = page.get(f"/answer?{query}")
    assert answer.status_code == 200
    assert reason.lower() in " ".join(answer.json()["problems"]).lower()


def test_too_many_cells_are_refused() -> None:
    wide = Schema.from_dict({"name": "t", "columns": {
        name: {"type": "categorical", "values": [str(n) for n in range(50)]} for name in "ab"
    }})  # fmt: skip
    with pytest.raises(ParameterError, match=f"2,500 cells; the limit is {MAX_CELLS}"):
        list(PageQuestion(by=("a", "b")).cells(wide))


def test_names_and_values_cannot_break_out_of_a_clause() -> None:
    odd = {"name": "t", "columns": {
        "o'dd \"name\"": {"type": "categorical", "values": ["it's", "b"]},
        "select": {"type": "integer", "low": 0, "high": 3},
    }}  # fmt: skip
    schema = Schema.from_dict(odd)
    (first, second), clauses = schema.attributes, []
    for name in (first, second):
        clauses.append(parts_of(name, schema.attributes[name])[0].clause)
    assert clauses == ['"o\'dd ""name""" = \'it\'\'s\'', '"select" = 0']
    assert quoted_name("age") == "age"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[PageQuestion]:
    """Answer queries in this process, and return those that were computed."""
    found = []

    class Pool:
        def __init__(self, folder: Path, answer: Any) -> None:
            self.release, self.answer = Release.load(folder), answer

        def ask(self, question: PageQuestion) -> dict[str, Any]:
            found.append(question)
            return self.answer(self.release, question)

        def close(self) -> None:
            pass

    monkeypatch.setattr("hushtable.web.questions.AnswerPool", Pool)
    return found


def test_an_answer_is_computed_once(release: Release, asked: list[PageQuestion]) -> None:
    answers = AnswerCache(release)
    questions = [PageQuestion(by=("sex",)), PageQuestion(by=("sex",), what="mean", of="age")]
    for question in questions:
        assert answers.ask(question) == answers.ask(question)
    assert asked == questions


def test_the_cache_is_bounded(
    release: Release, asked: list[PageQuestion], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hushtable.web.questions._REMEMBERED", 14)
    answers = AnswerCache(release)
    for _ in range(3):
        for name in release.schema.attributes:
            answers.ask(PageQuestion(by=(name,)))
            sizes = [1 + len(known["rows"]) for known in answers._known.values()]
            assert answers._n_known == sum(sizes) <= 14
    assert len(asked) == 3 * len(release.schema.attributes)


def test_it_works_behind_a_proxy(release: Release) -> None:
    with TestClient(make_release_explorer(release), root_path="/clinic") as client:
        assert "fetch(" in client.get("/clinic/").text
        assert client.get("/clinic/answer?by=sex").json()["rows"]


def test_dates_booleans_and_special_values_have_groups(tmp_path: Path) -> None:
    schema = Schema.parse("""
name: stays
columns:
  admission: {type: date, low: 2020-01-01, high: 2020-12-31}
  pregnant: {type: boolean}
  last: {type: integer, low: 0, high: 30, special: {999: never}}
""")
    rows = pa.table({
        "admission": ["2020-02-03"] * 400 + ["2020-08-09"] * 300,
        "pregnant": ["true"] * 500 + ["false"] * 200,
        "last": [7] * 600 + [999] * 100,
    })  # fmt: skip
    method = NoisyCounts(
        epsilon=8, mechanism="pure", generalize={"admission": "quarter", "last": 10}
    )
    with TestClient(make_release_explorer(publish(rows, schema, method, out=tmp_path / "s"))) as c:
        for name in schema.attributes:
            found = c.get(f"/answer?by={name}").json()
            assert "problems" not in found, name
        assert found["rows"][-2][:2] == [["never"], "last = 'never'"]


def test_an_answer_is_the_same_compressed_or_not(page: TestClient) -> None:
    for path in ("/", "/answer?by=region"):
        packed = page.get(path, headers={"accept-encoding": "gzip"})
        plain = page.get(path, headers={"accept-encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert packed.text == plain.text
