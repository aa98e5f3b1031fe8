"""The workbench, screen by screen: from a table to a charged release, and every error."""

from __future__ import annotations

import ast
import contextlib
import html
import io
import json
import re
import shlex
import sqlite3
import subprocess
import sys
import zipfile
from itertools import product
from pathlib import Path

import openpyxl
import pytest

from hushtable.datasets import sample, sample_schema
from hushtable.drafting.schema_check import out_of_domain
from hushtable.evaluation import simulation
from hushtable.methods import METHODS, Method, Partition
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.publishing.publish import publish
from hushtable.publishing.surrogate import make_surrogate, surrogate_schema
from hushtable.release.release import Release
from hushtable.schema import Schema
from hushtable.web import words
from hushtable.web.forms import fields_of, make_method, options, read_parameters
from hushtable.web.pages.plan import QUESTIONS, advise
from hushtable.web.workbench import next_step

from .workbench_client import WorkbenchClient, problems

PLAN = {
    "method": "noisy-counts", "epsilon": "1", "delta": "0.000001", "k": "10",
    "generalize:age": "20", "rows": "12000",
}  # fmt: skip


def test_from_a_table_to_a_release(workbench: WorkbenchClient) -> None:
    bench = workbench.app.state.bench
    assert workbench.post("/projects", name="visits").url.path == "/p/visits/data"
    project = bench.project("visits")
    assert next_step(project) == "data"
    workbench.post("/p/visits/data", path=str(workbench.folder / "visits.csv"))
    header = workbench.get("/p/visits/data").text
    assert all(name in header for name in sample().column_names)
    assert "old town" not in header  # a value; no row is shown
    assert workbench.finish(workbench.post("/p/visits/draft")) == "done"
    assert next_step(project) == "schema"
    refusal = workbench.publish("visits", "visits-1")
    assert any("came from the data" in problem for problem in problems(refusal))
    workbench.confirm_all("visits")
    assert next_step(project) == "ledger"
    workbench.post("/p/visits/ledger", epsilon="1.5", delta="0.00001")
    assert next_step(project) == "plan"
    workbench.post("/p/visits/plan", **PLAN)
    assert next_step(project) == "publish"
    answer = workbench.publish("visits", "visits-1", purpose="yearly table")
    assert workbench.finish(answer) == "done"
    assert next_step(project) == "report"
    assert re.search(r"The release has [0-9,]+ rows\.", workbench.get(answer.url.path).text)

    entry = Ledger.open(project.ledger_path).entries()[-1]
    assert (entry.status, entry.purpose, entry.cost.epsilon) == ("released", "yearly table", 1)
    ledger = workbench.get("/p/visits/ledger").text
    assert entry.receipt[:16] in ledger
    assert "yearly table" in ledger
    packed = workbench.get("/p/visits/releases/visits-1.zip")
    with zipfile.ZipFile(io.BytesIO(packed.content)) as bundle:
        bundle.extractall(workbench.folder.parent / "handed-out")
    release = Release.load(workbench.folder.parent / "handed-out" / "visits-1")
    assert release.statement.ledger is not None
    assert release.statement.ledger.receipt == entry.receipt
    assert (workbench.folder.parent / "handed-out" / "visits-1" / "STATEMENT.md").exists()
    # The remaining budget is not enough for another release, and nothing is charged.
    again = workbench.publish("visits", "visits-2")
    assert any("remains" in problem for problem in problems(again))
    assert len(Ledger.open(project.ledger_path).entries()) == 1


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"typed": "visits-2"}, "nothing was charged"),
        ({"typed": ""}, "nothing was charged"),
        ({"seen": "0" * 64}, "changed after this page was opened"),
        ({"name": "../x", "typed": "../x"}, "the release name"),
    ],
)
def test_publishing_needs_confirmation(
    project: WorkbenchClient, fields: dict[str, str], told: str
) -> None:
    answer = project.publish("visits", "visits-1", **fields)
    assert answer.status_code == 400
    assert any(told in problem for problem in problems(answer))
    assert not Ledger.open(project.folder / "visits" / "table.ledger").entries()


def test_a_plan_changed_in_another_window_is_not_published(project: WorkbenchClient) -> None:
    other = project.new_browser()
    page = project.get("/p/visits/publish?name=one").text
    seen = re.search(r'name="seen" value="(\w+)"', page)[1]  # type: ignore[index]
    project.post("/p/visits/plan", browser=other, **{**PLAN, "epsilon": "1.5"})
    answer = project.post("/p/visits/publish", name="one", typed="one", seen=seen)
    assert "changed after this page was opened" in problems(answer)[0]
    assert not Ledger.open(project.folder / "visits" / "table.ledger").entries()


def test_two_browsers_on_one_ledger_never_overspend(project: WorkbenchClient) -> None:
    other = project.new_browser()
    answers = []
    for browser, name in ((None, "one"), (other, "two")):
        page = project.get(f"/p/visits/publish?name={name}", browser=browser).text
        seen = re.search(r'name="seen" value="(\w+)"', page)[1]  # type: ignore[index]
        answers.append((browser, name, seen))  # both pages say that the budget is sufficient
    sent = [
        project.post("/p/visits/publish", browser=browser, name=name, typed=name, seen=seen)
        for browser, name, seen in answers
    ]
    statuses = [
        project.finish(answer) if "/jobs/" in answer.url.path else "refused" for answer in sent
    ]
    assert sorted(statuses) == ["done", "refused"]
    assert len(Ledger.open(project.folder / "visits" / "table.ledger").entries()) == 1


def test_a_charge_is_voided_only_with_a_reason(project: WorkbenchClient) -> None:
    book = Ledger.open(project.folder / "visits" / "table.ledger")
    promise = make_method("quilt", {"epsilon": "1/2"}).guarantee(sample_schema())
    entry = book.charge(promise, purpose="failed run", schema=sample_schema())
    assert project.post("/p/visits/ledger/void", entry=entry.id, reason="").status_code == 400
    assert book.entries()[-1].status == "charged"
    project.post("/p/visits/ledger/void", entry=entry.id, reason="the machine stopped")
    assert book.entries()[-1].status == "void"
    assert "the machine stopped" in project.get("/p/visits/ledger").text


def test_a_plan_is_live_and_reads_no_data(
    project: WorkbenchClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reads(*_: object, **__: object) -> None:
        raise AssertionError("the table was opened")

    monkeypatch.setattr("hushtable.engine.open_table.open", reads)
    monkeypatch.setattr("hushtable.engine.sources.header.read_header", reads)
    query = "method=quilt&epsilon=0.5&delta=0.000001&rows=12000&within=200&share=1"
    text = project.get(f"/p/visits/plan/live?{query}").text
    assert "epsilon = 0.5" in text
    assert words.NO_DATA_READ in text
    assert "This requires epsilon" in text
    assert "--epsilon 0.5 --delta 0.000001 --rows 12000" in text
    wrong = project.get("/p/visits/plan/live?method=quilt&epsilon=-1")
    assert "epsilon" in problems(wrong)[0]
    unknown = project.get("/p/visits/plan/live?method=nothing")
    assert "is not a method" in problems(unknown)[0]


@pytest.mark.parametrize("name", list(METHODS))
def test_every_method_has_its_form(name: str) -> None:
    schema = sample_schema()
    fields = fields_of(name, {}, schema)
    assert fields
    filled = {field.name: field.value for field in fields if field.value}
    read = read_parameters(name, filled, schema)
    assert set(read) <= {field.name for field in fields}
    if name != "columns":  # this needs a separate choice
        method = make_method(name, read)
        assert make_method(name, method.parameters()) == method


def test_a_field_that_was_left_empty_stays_empty(project: WorkbenchClient) -> None:
    pure = {"method": "noisy-counts", "epsilon": "1", "mechanism": "pure", "generalize:age": "20"}
    assert "delta" in project.get("/p/visits/plan?method=noisy-counts").text
    project.post("/p/visits/plan", **pure)
    page = project.get("/p/visits/plan").text
    assert re.search(r'name="delta" value=""', page)
    assert not problems(project.get("/p/visits/plan"))
    fresh = project.get("/p/visits/plan?method=quilt").text
    assert re.search(r'name="delta" value="0.000001"', fresh)


def test_every_slider_position_is_a_valid_value() -> None:
    """An integer slider gives integers; the method accepts its ends."""
    schema = sample_schema()
    seen = set()
    for name in METHODS:
        for field in fields_of(name, {}, schema):
            if field.slider is None:
                continue
            seen.add(field.name)
            for end in field.slider:
                number = 10**end
                given = str(round(number)) if field.whole else f"{number:.12f}"
                filled = {one.name: one.value for one in fields_of(name, {}, schema) if one.value}
                if name == "columns":
                    filled["clusters"] = "2"
                if field.name == "d":
                    filled["gamma"] = "0.9"  # which d must stay below
                elif field.name == "gamma":
                    filled["d"] = "0.0001"
                make_method(name, read_parameters(name, filled | {field.name: given}, schema))
    assert seen >= {"epsilon", "delta", "k", "gamma", "d", "retention", "rate"}


def test_options_are_those_of_the_command_line() -> None:
    given = {
        "epsilon": "1/2",
        "delta": "1e-6",
        "k": 5,
        "generalize": {"age": [18, 40], "region": 1},
    }
    method = make_method("noisy-counts", given)
    assert options(method) == [
        "--epsilon", "0.5", "--delta", "0.000001", "--k", "5",
        "--generalize", "age=18,40", "--generalize", "region=1",
    ]  # fmt: skip
    assert "--consistent" in options(Partition(epsilon=1, consistent=True))


def test_the_displayed_command_makes_the_same_plan(project: WorkbenchClient) -> None:
    page = project.get("/p/visits/plan").text
    shown = html.unescape(re.findall(r"<pre[^>]*>(.*?)</pre>", page, re.DOTALL)[-1])
    change, command = shown.splitlines()
    folder, words_of = shlex.split(change)[1], shlex.split(command)
    done = subprocess.run(
        [sys.executable, "-m", "hushtable.cli.app", *words_of[1:], "--json"],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["parameters"]["generalize"] == {"age": 20}


def all_answers() -> list[dict[str, str]]:
    names = list(QUESTIONS)
    choices = [QUESTIONS[name] or ("", "500", "1000000") for name in names]
    return [dict(zip(names, picked, strict=True)) for picked in product(*choices)]


def test_every_advice_can_be_planned() -> None:
    numbers = Schema.from_dict({"name": "n", "columns": {
        name: {"type": "integer", "low": 0, "high": 9} for name in "xy"
    }})  # fmt: skip
    for schema in (sample_schema(), numbers):
        for answers in all_answers():
            advice = advise(answers, schema)
            assert all(reason in words.REASONS for reason in advice.reasons)
            assert all(name in METHODS for name in advice.others)
            method = make_method(advice.method, advice.parameters)
            assert method.guarantee(schema)
    assert advise({"use": "counts"}, numbers).method == "noisy-counts"
    assert advise({"use": "numbers", "formal": "no"}, numbers).method == "uncertain"


def test_simulated_errors_rank_the_methods(
    project: WorkbenchClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    typical = {"quilt": 30.0, "partition": 20.0, "diffgen": 40.0}

    def known(method: Method, *_: object) -> simulation.Simulation:
        if method.name not in typical:
            return simulation.Simulation(method.name, 500, "made up", problems=("refused.",))
        found = simulation.SimulatedError(typical[method.name], 99.0, 9)
        errors = dict.fromkeys(simulation.KINDS, found)
        return simulation.Simulation(method.name, 500, "made-up rows", errors)

    monkeypatch.setattr(simulation, "_simulated", known)
    query = "method=quilt&epsilon=1&delta=0.000001&rows=500"
    before = project.get(f"/p/visits/plan/live?{query}").text
    assert "/p/visits/plan/simulated?" in before
    found = project.get(f"/p/visits/plan/simulated?{query}").text
    assert re.findall(r'scope="row">(\S+)</th>', found) == ["partition", "quilt", "diffgen"]
    assert "30 rows (99)" in found  # as `Simulation.in_words` and the command line say
    assert "noisy-counts is refused: refused." in found
    after = project.get(f"/p/visits/plan/live?{query}").text
    assert "30 rows (99)" in after
    advice = project.get("/p/visits/advisor?use=counts&who=public&rows=500").text
    assert "Use partition" in advice
    assert "noisy-counts" not in advice.partition("Alternatives:")[2].partition("</p>")[0]


def test_every_screen_has_texts() -> None:
    for name, choices in QUESTIONS.items():
        assert name in words.QUESTIONS
        assert set(choices) == set(words.CHOICES.get(name, {}))


WEB = Path(words.__file__).parent


def test_every_text_is_used_and_every_used_text_exists() -> None:
    python = "".join(path.read_text() for path in WEB.rglob("*.py"))
    templates = "".join(path.read_text() for path in WEB.rglob("*.html"))
    used = {*re.findall(r"\bwords\.([A-Z]\w+)", python), *re.findall(r"\bt\.([A-Z]\w+)", templates)}
    assert used == set(words.TEXTS)


@pytest.mark.parametrize("path", sorted((WEB / "pages").glob("*.py")), ids=lambda path: path.stem)
def test_no_screen_contains_hard_coded_sentences(path: Path) -> None:
    tree = ast.parse(path.read_text())
    documents = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)
        and isinstance(node.body[0], ast.Expr)
    } | {id(node.value) for node in tree.body if isinstance(node, ast.Expr)}
    said = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        and id(node) not in documents and re.search(r"\w+ \w+ \w+", node.value)
    ]  # fmt: skip
    assert said == []


def test_a_surrogate_table_fits_the_schema_without_private_rows() -> None:
    schema = surrogate_schema(sample_schema())
    table = make_surrogate(schema, 3000)
    assert table.num_rows == 3000
    found = [misfit for misfit in out_of_domain(table, schema) if misfit.kind != "missing"]
    assert not found
    assert "surrogate" in schema.name
    assert schema.digest != sample_schema().digest  # no ledger accepts it as the table


def test_a_dry_run_refuses_the_private_table(project: WorkbenchClient) -> None:
    private = str(project.folder / "visits.csv")
    answer = project.post("/p/visits/dry-run", rows="100", table=private)
    assert words.NOT_THE_PRIVATE_TABLE in problems(answer)
    outside = project.post("/p/visits/dry-run", rows="100", table="/etc/passwd")
    assert "outside of the allowed folders" in problems(outside)[0]
    assert project.post("/p/visits/dry-run", rows="0").status_code == 400


def test_a_table_of_a_database_is_drafted_and_published(workbench: WorkbenchClient) -> None:
    folder = workbench.folder
    with contextlib.closing(sqlite3.connect(folder / "people.db")) as book, book:
        book.execute("CREATE TABLE visits (age INTEGER, sex TEXT)")
        book.executemany(
            "INSERT INTO visits VALUES (?, ?)", [(n % 90, "FM"[n % 2]) for n in range(500)]
        )
    workbench.post("/projects", name="base")
    answer = workbench.post("/p/base/data", other=f"sqlite:///{folder}/people.db?table=visits")
    assert not problems(answer)
    assert all(f'<th scope="row">{name}</th>' in answer.text for name in ("age", "sex"))
    assert workbench.finish(workbench.post("/p/base/draft")) == "done"
    workbench.confirm_all("base")
    workbench.post("/p/base/ledger", epsilon="2")
    plan = {"method": "noisy-counts", "epsilon": "1", "mechanism": "pure", "rows": "500"}
    workbench.post("/p/base/plan", **plan)
    assert workbench.finish(workbench.publish("base", "base-1")) == "done"
    release = Release.load(folder / "base" / "releases" / "base-1")
    assert release.count("sex = 'F'").value == pytest.approx(250, abs=60)


def test_a_codebook_comes_before_the_data(workbench: WorkbenchClient) -> None:
    book = workbench.folder / "book.csv"
    book.write_text("name,type,low,high\nage,integer,0,110\n")
    workbench.post("/projects", name="visits")
    workbench.post("/p/visits/data", path=str(workbench.folder / "visits.csv"))
    refused = workbench.post("/p/visits/draft", codebook="/etc/passwd")
    assert "outside of the allowed folders" in problems(refused)[0]
    assert workbench.finish(workbench.post("/p/visits/draft", codebook=str(book))) == "done"
    age = workbench.app.state.bench.project("visits").schema().columns["age"]
    assert (age.low, age.high, age.confirm) == (0, 110, ())


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("sqlite:////etc/people.db?table=visits", "outside of the allowed folders"),
        ("duckdb:///../../people.db?table=visits", "outside of the allowed folders"),
        ("duckdb:///people.db?query=SELECT * FROM read_csv('/etc/passwd')", "name of a table"),
        ("sqlite:///people.db?table=visits&mode=rwc", "name of a table"),
        ("postgres://me:secret@host/base?table=visits", "~/.pgpass"),
        ("https://example.org/people.csv?table=visits", "must start with"),
        ("file:///etc/passwd?table=visits", "must start with"),
    ],
)
def test_addresses_of_tables_are_checked(
    workbench: WorkbenchClient, address: str, reason: str
) -> None:
    workbench.post("/projects", name="base")
    answer = workbench.post("/p/base/data", other=address)
    assert reason in " ".join(problems(answer))
    assert workbench.app.state.bench.project("base").data is None


def test_a_chosen_sheet_is_drafted(workbench: WorkbenchClient) -> None:
    book = openpyxl.Workbook()
    for title, head in (("notes", "remark"), ("people", "age")):
        sheet = book.create_sheet(title)
        for row in ([head], *([n] for n in range(50))):
            sheet.append(row)
    book.remove(book.worksheets[0])
    path = workbench.folder / "two.xlsx"
    book.save(path)
    workbench.post("/projects", name="two")
    workbench.post("/p/two/data", path=str(path))
    shown = workbench.post("/p/two/data", path=str(path), sheet="people").text
    assert '<th scope="row">age</th>' in shown
    assert workbench.finish(workbench.post("/p/two/draft", sheet="people")) == "done"
    assert list(workbench.app.state.bench.project("two").schema().columns) == ["age"]


def test_the_schema_is_checked_after_each_edit(project: WorkbenchClient) -> None:
    answer = project.post("/p/visits/schema/column", column="age", low="50", high="10")
    assert "low 50 is above high 10" in problems(answer)[0]
    project.post("/p/visits/schema/column", column="age", high="49")
    checked = project.get("/p/visits/schema/check").text
    assert "outside 0 to 49" in checked
    assert "Internal." in checked
    project.post("/p/visits/schema/undo")
    assert "outside" not in project.get("/p/visits/schema/check").text


def test_nothing_is_confirmed_unseen(workbench: WorkbenchClient) -> None:
    (workbench.folder / "odd.csv").write_text(
        "id;pay;mood\n"
        + "".join(f"{n};{n % 90},5;{-9 if n % 7 == 0 else n % 5}\n" for n in range(900))
    )
    workbench.post("/projects", name="odd")
    workbench.post("/p/odd/data", path=str(workbench.folder / "odd.csv"))
    assert workbench.finish(workbench.post("/p/odd/draft")) == "done"
    schema = Schema.load(workbench.folder / "odd" / "schema.yaml")
    assert {"reading", "missing_values"} <= set(schema.confirm)
    text = html.unescape(workbench.get("/p/odd/schema").text)
    assert "missing: (empty); file: decimal ," in text
    assert "Internal note: not published: its 900 whole numbers all differ" in text
    assert "special" in schema.attributes["mood"].confirm
    assert "integer 0 to 4; special: -9 = code -9" in text
    assert '<textarea name="special"' in workbench.get("/p/odd/schema?edit=mood").text
    workbench.post("/p/odd/schema/confirm", column="pay", reason="the public pay scale")
    assert '<option value="the public pay scale">' in workbench.get("/p/odd/schema").text
    workbench.post("/p/odd/schema/confirm", column="mood", act="round")
    assert Schema.load(workbench.folder / "odd" / "schema.yaml").attributes["mood"].confirm
    refused = workbench.post("/p/odd/schema/confirm", column="mood", reason="")
    assert "public source is missing" in problems(refused)[0]
    workbench.post("/p/odd/schema/confirm", column="mood", act="leave", reason="not needed")
    assert Schema.load(workbench.folder / "odd" / "schema.yaml").columns["mood"].role == "left out"
    workbench.confirm_all("odd")
    assert "Everything is confirmed." in workbench.get("/p/odd/schema").text


def test_an_uninformative_release_is_announced_before_the_charge(project: WorkbenchClient) -> None:
    ledger = project.folder / "visits" / "table.ledger"
    project.post("/p/visits/plan", **{**PLAN, "rows": "50"})
    live = project.get("/p/visits/plan").text
    assert "would be empty" in live
    page = project.get("/p/visits/publish?name=one").text
    assert "would be empty" in page
    assert "--rows 50 --anyway" in page
    answer = project.publish("visits", "one")
    assert "Nothing is charged until then" in problems(answer)[0]
    assert not Ledger.open(ledger).entries()
    answer = project.publish("visits", "one", anyway="1")
    assert project.finish(answer) == "done"
    assert len(Ledger.open(ledger).entries()) == 1


def test_a_plan_without_rows_asks_for_them(project: WorkbenchClient) -> None:
    live = project.get("/p/visits/plan/live?method=quilt&epsilon=1&delta=0.000001").text
    assert "Enter the approximate number of rows" in live
    assert "<svg" not in live
    live = project.get("/p/visits/plan/live?method=quilt&epsilon=1&delta=0.000001&rows=500").text
    assert "Enter the approximate number of rows" not in live
    assert "<svg" in live
    assert "e+0" not in live  # errors are percentages that people read


def test_a_tree_is_edited_by_moves(project: WorkbenchClient) -> None:
    schema = project.folder / "visits" / "schema.yaml"
    answer = project.post(
        "/p/visits/schema/tree", column="smoker", act="group", members=["0", "1"], label="known"
    )
    assert not problems(answer)
    column = Schema.load(schema).attributes["smoker"]
    assert column.taxonomy.to_nested() == {"any": [{"known": ["yes", "no"]}]}  # type: ignore[union-attr]
    wrong = project.post("/p/visits/schema/tree", column="smoker", act="move", node="0", to="0.0")
    assert problems(wrong)
    project.post("/p/visits/schema/tree", column="smoker", act="drop")
    assert Schema.load(schema).attributes["smoker"].taxonomy is None  # type: ignore[union-attr]


def test_a_schema_changed_after_the_ledger_needs_a_reason(project: WorkbenchClient) -> None:
    book = project.folder / "visits" / "table.ledger"
    assert 'name="same_people"' not in project.get("/p/visits/publish").text
    project.post("/p/visits/schema/table", name="visits to clinics")
    assert words.NOT_AFFORDED not in project.get("/p/visits/plan").text
    page = project.get("/p/visits/publish?name=one").text
    assert 'name="same_people"' in page
    assert "--same-people REASON" in page
    refused = project.publish("visits", "one")
    assert problems(refused) == [words.SAY_SAME_PEOPLE]
    assert not Ledger.open(book).entries()
    answer = project.publish("visits", "one", same_people="only its name is new")
    assert project.finish(answer) == "done", problems(project.get(answer.url.path))
    assert [bound.reason for bound in Ledger.open(book).tables()] == ["", "only its name is new"]


def test_a_report_runs_nothing(project: WorkbenchClient) -> None:
    reports = project.folder / "visits" / "reports"
    (reports / "one.html").write_text("<style>p{}</style><p>INTERNAL</p>")
    answer = project.get("/p/visits/reports/one.html")
    assert "sandbox" in answer.headers["content-security-policy"]
    assert "script-src" not in answer.headers["content-security-policy"]
    assert "internal" in project.get("/p/visits/report").text.lower()
    for name in ("..%2Fproject.json", "two.html", "one.txt"):
        assert project.get(f"/p/visits/reports/{name}").status_code in {400, 404}


def test_project_files_are_private_to_the_owner(project: WorkbenchClient) -> None:
    for path in (project.folder / "visits").rglob("*"):
        if path.name not in {"schema.yaml"}:  # written by the test itself
            assert path.stat().st_mode & 0o077 == 0, path


def test_project_files_work_with_the_command_line(project: WorkbenchClient) -> None:
    folder: Path = project.folder / "visits"
    assert Ledger.open(folder / "table.ledger").tables()[0].name == sample_schema().name
    assert Schema.load(folder / "schema.yaml") == sample_schema()


def test_a_dossier_is_written(project: WorkbenchClient) -> None:
    out = project.folder / "visits" / "releases" / "one"
    book = project.folder / "visits" / "table.ledger"
    publish(sample(), sample_schema(), make_method("quilt", {"epsilon": 1}), out=out, ledger=book)
    assert project.post("/p/visits/dossier").status_code == 400
    answer = project.post("/p/visits/dossier", release=["one"])
    assert project.finish(answer) == "done"
    dossier = project.get("/p/visits/reports/dossier.html")
    assert dossier.status_code == 200
    assert sample_schema().name in dossier.text
