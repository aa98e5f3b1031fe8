"""The release explorer: it gives the answers of `hushtable query`, and addresses repeat queries."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from hushtable.cli.app import app
from hushtable.datasets import sample_schema
from hushtable.errors import ParameterError
from hushtable.methods import NoisyCounts
from hushtable.privacy.values import brief as number
from hushtable.publishing.publish import publish
from hushtable.query.answers import Estimate
from hushtable.release.release import Release
from hushtable.schema import Schema
from hushtable.web import words
from hushtable.web.app import make_release_explorer
from hushtable.web.charts import Bar, BarScale
from hushtable.web.questions import (
    MAX_CELLS,
    AnswerCache,
    AnswerCell,
    PageAnswer,
    PageQuestion,
    ValueGroup,
    answer_question,
    parts_of,
)
from hushtable.web.security import POLICY


@pytest.fixture(scope="module")
def page(release: Release) -> Iterator[TestClient]:
    with TestClient(make_release_explorer(release)) as client:
        yield client


def test_it_shows_the_promise_and_its_limits(page: TestClient, release: Release) -> None:
    text = html.unescape(page.get("/").text)
    for promise in release.statement.guarantees:
        assert promise.explain() in text
    for sentence in release.statement.unprotected:
        assert sentence in text
    assert "Limits of interpretation" in text


@pytest.mark.parametrize(
    ("query", "clause"),
    [
        ("", "TRUE"),
        ("from:age=40&in:sex=F", "age >= 40 AND sex = 'F'"),
        ("in:region=bay&in:region=hills", "region IN ('bay', 'hills')"),
        ("none:smoker=1", "smoker IS NULL"),
        (
            "in:smoker=yes&none:smoker=1&to:age=19",
            "age <= 19 AND (smoker = 'yes' OR smoker IS NULL)",
        ),
        ("where=age < 20 OR age >= 60&in:sex=M", "sex = 'M' AND (age < 20 OR age >= 60)"),
    ],
)
def test_an_answer_equals_that_of_the_release(
    page: TestClient, release: Release, query: str, clause: str
) -> None:
    text = html.unescape(page.get(f"/answer?{query}").text)
    answer = release.count(clause)
    shown = words.OF_ALL_ROWS if clause == "TRUE" else f"<code>{clause}</code>"
    assert shown in text
    assert f"<b>{number(answer.value)}</b>" in text
    assert f"{number(answer.low)} to {number(answer.high)}" in text
    assert f"hushtable query clinic {_quoted(clause)}" in text


def _quoted(clause: str) -> str:
    return clause if clause == "TRUE" else f'"{clause}"' if "'" in clause else f"'{clause}'"


def test_the_link_repeats_the_query(page: TestClient) -> None:
    asked = "from:age=20&in:sex=F&where=region+%3D+%27bay%27&by=diagnosis"
    first = page.get(f"/answer?{asked}").text
    link = html.unescape(re.search(r'href="(/\?[^"]*)#ask"', first)[1])  # type: ignore[index]
    again = page.get(link.replace("/?", "/answer?")).text
    assert again == first
    whole = page.get(link).text
    assert first.strip() in whole  # the page also answers without scripts


def test_groups_and_cross_tables_add_up(page: TestClient, release: Release) -> None:
    rows = list(csv.DictReader(io.StringIO(page.get("/answer.csv?by=region&by=sex").text)))
    assert len(rows) == 10
    for row in rows:
        clause = f"region = '{row['region']}' AND sex = '{row['sex']}'"
        assert row["where"] == clause
        answer = release.count(clause)
        assert float(row["count"]) == pytest.approx(answer.value, rel=1e-4)
        assert float(row["low"]) <= float(row["count"]) <= float(row["high"])
    total = sum(float(row["count"]) for row in rows)
    assert total == pytest.approx(release.count("TRUE").value, rel=1e-4)
    text = page.get("/answer?by=region&by=sex").text
    assert text.count('<td class="n">') == 10


@pytest.mark.parametrize(
    "query",
    [
        "by=region&by=sex",
        "from:age=20&to:age=59&by=diagnosis",
        "figure=mean&of=age",
        "figure=mean&of=age&by=sex&in:region=bay",
        "figure=median&of=age&by=region",
        "regress=age+~+C(sex)&where=age+%3E%3D+20",
        "regress=sex+~+age&logistic=1",
    ],
)
def test_the_displayed_command_gives_the_same_numbers(
    page: TestClient, release: Release, query: str
) -> None:
    text = html.unescape(page.get(f"/answer?{query}").text)
    shown = re.search(r"<pre[^>]*>hushtable (.*)</pre>", text)
    assert shown is not None, text
    query_word, folder, *words = shlex.split(shown[1])
    assert (query_word, folder) == ("query", "clinic")
    asked = CliRunner().invoke(app, ["query", str(release.folder), *words, "--json"])
    assert asked.exit_code == 0, asked.output
    told = json.loads(asked.stdout)
    told = told if isinstance(told, list) else [told]
    rows = list(csv.DictReader(io.StringIO(page.get(f"/answer.csv?{query}").text)))
    assert len(rows) == len(told)
    name = next(name for name in rows[0] if name == "count" or name.startswith(("m", "coef")))
    for row, answer in zip(rows, told, strict=True):
        for column, figure in ((name, "value"), ("low", "low"), ("high", "high")):
            expected = float("nan") if answer[figure] is None else answer[figure]
            assert float(row[column]) == pytest.approx(expected, rel=1e-4, abs=1e-9, nan_ok=True)
        keys = [row[key] for key in row if key in {"region", "sex", "diagnosis", "term"}]
        assert keys == [str(answer[key]) for key in answer if key in row and key in
                        {"region", "sex", "diagnosis", "term"}]  # fmt: skip
    drawing = page.get(f"/answer.svg?{query}").text
    assert drawing.count('class="whisker"') == len(rows)


def test_a_statistic_can_be_grouped_by_ranges(page: TestClient, release: Release) -> None:
    rows = list(csv.DictReader(io.StringIO(page.get("/answer.csv?figure=mean&of=age&by=age").text)))
    assert len(rows) == 10
    for row in rows:
        answer = release.mean("age", row["where"])
        assert float(row["mean of age"]) == pytest.approx(answer.value, rel=1e-4)


@pytest.mark.parametrize("name", list(sample_schema().attributes))
def test_cells_of_a_cross_table_have_the_right_labels(release: Release, name: str) -> None:
    asked = PageQuestion(by=(name,))
    if not asked.lists_values(release.schema):
        assert name == "age"
        return
    table = release.crosstab(name)
    labels = [parts[0].label for parts, _ in asked.cells(release.schema)]
    assert labels == ["(missing)" if key is None else str(key) for (key,) in table.keys]


def test_bars_have_one_scale_and_unknown_values_no_bar() -> None:
    def cell(value: float, low: float, high: float, what: str = "mean of x") -> AnswerCell:
        return AnswerCell((), "", Estimate(
            value=value, low=low, high=high, privacy_std=1, model_std=0, what=what,
        ))  # fmt: skip

    nan, inf = float("nan"), float("inf")
    cells = [cell(-10, -20, 0), cell(40, 30, 80), cell(nan, -inf, inf), cell(5, -inf, inf)]
    reach = BarScale(cells)
    assert reach.along(cells[0].estimate) == Bar(start=10, length=10, low=0, high=20)
    assert reach.along(cells[1].estimate) == Bar(start=20, length=40, low=50, high=100)
    assert reach.along(cells[2].estimate) is None
    assert reach.along(cells[3].estimate) == Bar(start=20, length=5, low=0, high=100)
    counts = [cell(0.5, -3, 0.9, "rows")]
    assert BarScale(counts).along(counts[0].estimate) == Bar(start=0, length=50, low=0, high=90)


def test_downloads_equal_those_of_export(page: TestClient, release: Release) -> None:
    rows = pa_csv.read_csv(io.BytesIO(page.get("/rows.csv").content))
    assert rows.num_rows == release.frame().num_rows
    packed = pq.read_table(io.BytesIO(page.get("/rows.parquet").content))
    assert packed.equals(release.frame())
    assert page.get("/statement.md").text == (release.folder / "STATEMENT.md").read_text()
    drawing = page.get("/answer.svg?by=sex")
    assert drawing.headers["content-type"].startswith("image/svg+xml")
    assert drawing.text.count('class="bar"') == 2
    for path in ("/rows.exe", "/statement.yaml", "/column/99", "/nothing"):
        assert page.get(path).status_code == 404


def test_every_column_has_its_distribution(page: TestClient) -> None:
    for place, (name, column) in enumerate(sample_schema().attributes.items()):
        text = page.get(f"/column/{place}").text
        assert text.count('<th scope="row">') == len(parts_of(name, column))


@pytest.mark.parametrize(
    "query",
    [
        "where=age+%3D",
        "in:sex=X",
        "from:age=old",
        "by=nothing",
        "in:nobody=1",
        "to:sex=3",
        "figure=mean&of=sex",
        "figure=mode&of=age",
        "figure=mean",
        "figure=mean&of=nobody",
        "regress=age",
        "regress=age+~+C(sex)&by=sex",
        f"regress={'a' * 2001}",
    ],
)
def test_unanswerable_queries_say_why(page: TestClient, query: str) -> None:
    for path in ("/answer", "/"):
        answer = page.get(f"{path}?{query}")
        assert answer.status_code == 200
        assert 'role="alert"' in answer.text
    assert page.get(f"/answer.csv?{query}").status_code == 400


def test_too_many_cells_are_refused() -> None:
    wide = Schema.from_dict({"name": "t", "columns": {
        name: {"type": "categorical", "values": [str(n) for n in range(50)]} for name in "ab"
    }})  # fmt: skip
    with pytest.raises(ParameterError, match=f"2,500 cells; the limit is {MAX_CELLS}"):
        PageQuestion(by=("a", "b")).cells(wide)


def test_names_and_values_cannot_break_out_of_a_clause(tmp_path: str) -> None:
    odd = {"name": "t", "columns": {
        "o'dd \"name\"": {"type": "categorical", "values": ["it's", "b"]},
        "select": {"type": "integer", "low": 0, "high": 3},
    }}  # fmt: skip
    schema = Schema.from_dict(odd)
    items = parse_qsl("in:o'dd \"name\"=it's&from:select=2")
    clause = PageQuestion.read(items, schema).clause(schema)
    assert clause == '"o\'dd ""name""" = \'it\'\'s\' AND "select" >= 2'
    from hushtable.query.where.syntax import syntax_tree

    assert syntax_tree(clause) is not None


@pytest.mark.parametrize("name", list(sample_schema().attributes))
def test_parts_of_a_column_cover_it_once(name: str, release: Release) -> None:
    cells = answer_question(release, PageQuestion(by=(name,))).cells
    whole = release.count("TRUE").value
    assert sum(cell.estimate.value for cell in cells) == pytest.approx(whole, rel=1e-6)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[PageQuestion]:
    """Answer queries in this process, and return those that were computed."""
    found = []

    class Pool:
        def __init__(self, folder: Path, answer: Any) -> None:
            self.release, self.answer = Release.load(folder), answer

        def ask(self, question: PageQuestion) -> PageAnswer:
            found.append(question)
            return self.answer(self.release, question)

        def close(self) -> None:
            pass

    monkeypatch.setattr("hushtable.web.questions.AnswerPool", Pool)
    return found


def test_an_answer_is_computed_once(release: Release, asked: list[PageQuestion]) -> None:
    answers = AnswerCache(release)
    questions = [PageQuestion(by=("sex",)), PageQuestion(by=("sex",), figure="mean", of="age")]
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
            sizes = [1 + len(known.cells) for known in answers._known.values()]
            assert answers._n_known == sum(sizes) <= 14
    assert len(asked) == 3 * len(release.schema.attributes)


def test_a_note_states_how_many_numbers_it_applies_to() -> None:
    def estimate(*notes: str) -> Estimate:
        return Estimate(value=1, low=0, high=2, privacy_std=1, model_std=0, notes=notes)

    cells = tuple(AnswerCell((), "", estimate(*notes)) for notes in (("all", "some"), ("all",)))
    answer = PageAnswer(PageQuestion(), "TRUE", estimate("all"), cells)
    assert answer.notes == ["all", words.SOME_NUMBERS.format(n=1, all=3, note="some")]


@pytest.mark.parametrize("text", ["=1+1", " =1+1", "\n=1+1", "\uff1d1+1", "@SUM(A1)", "-1+cmd"])
def test_downloads_contain_no_formula(text: str) -> None:
    estimate = Estimate(value=-1, low=-2.96, high=0.96, privacy_std=1, model_std=0, what=text)
    question = PageQuestion(by=(text,), figure="mean", of="x")
    answer = PageAnswer(
        question, text, estimate, (AnswerCell((ValueGroup(text, ""),), text, estimate),)
    )
    names, row = csv.reader(io.StringIO(answer.to_csv()))
    assert [*names[:1], names[2], *row[:2]] == [f"'{text}"] * 4
    assert row[2:] == ["-1", "-2.96", "0.96", "1.00002", "measured"]


def test_it_works_behind_a_proxy(release: Release) -> None:
    client = TestClient(make_release_explorer(release), root_path="/clinic")
    text = client.get("/clinic/").text
    assert 'href="/clinic/static/style.css"' in text
    assert client.get("/clinic/static/style.css").status_code == 200
    assert 'hx-get="/clinic/answer"' in text


def test_the_page_does_not_show_the_path_of_the_release(page: TestClient, release: Release) -> None:
    assert str(release.folder.parent) not in page.get("/?by=sex").text


def test_dates_booleans_and_special_values_can_be_queried(tmp_path: Path) -> None:
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
    client = TestClient(
        make_release_explorer(publish(rows, schema, method, out=tmp_path / "stays"))
    )  # fmt: skip
    for query, clause in (
        ("from:admission=2020-07-01", "admission >= '2020-07-01'"),
        ("in:pregnant=true", "pregnant = true"),
        ("in:last=never", "\"last\" = 'never'"),
    ):
        text = html.unescape(client.get(f"/answer?{query}").text)
        assert f"<code>{clause}</code>" in text.replace("<code>last =", '<code>"last" ='), text
        assert 'role="alert"' not in text
    for place, name in enumerate(schema.attributes):
        assert client.get(f"/column/{place}").status_code == 200, name
        assert 'role="alert"' not in client.get(f"/answer?by={name}").text
    assert client.get("/").status_code == 200
    assert 'role="alert"' in client.get("/answer?from:admission=soon").text


def test_a_cached_page_is_the_same_compressed_or_not(page: TestClient) -> None:
    for path in ("/?in:sex=F", "/answer?by=region", "/column/1"):
        packed = page.get(path, headers={"accept-encoding": "gzip"})
        plain = page.get(path, headers={"accept-encoding": "identity"})
        again = page.get(path, headers={"accept-encoding": "gzip"})
        assert "content-encoding" not in plain.headers
        assert packed.text == plain.text == again.text
        assert plain.headers["content-security-policy"] == POLICY
    assert page.get("/answer?by=sex").text != page.get("/answer?by=region").text
