"""Releases in the workbench: exploring, evaluating and comparing them."""

from __future__ import annotations

import html
import io
import json
import re
import shlex
import zipfile
from pathlib import Path

import pyarrow.csv as pa_csv
import pytest
from typer.testing import CliRunner

from hushtable.cli.app import app
from hushtable.datasets import sample, sample_schema
from hushtable.methods import NoisyCounts
from hushtable.publishing.publish import publish
from hushtable.release.release import Release
from hushtable.schema import Schema
from hushtable.web import words
from hushtable.web.jobs import Jobs
from hushtable.web.pages.explore import ReleaseCache

from .workbench_client import WorkbenchClient, problems

COLUMNS = ("sex", "region")  # few, so that evaluations are fast
LOOK = "/p/visits/releases/first/look"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> WorkbenchClient:
    """A workbench with a small table and two releases of it."""
    folder = tmp_path_factory.mktemp("workbench")
    table = sample().slice(0, 300).select(list(COLUMNS))
    whole = sample_schema().to_dict()
    columns = {name: whole["columns"][name] for name in COLUMNS}
    schema = Schema.from_dict({"name": "visits", "columns": columns})
    pa_csv.write_csv(table, folder / "visits.csv")
    workbench = WorkbenchClient(folder)
    workbench.post("/projects", name="visits")
    workbench.post("/p/visits/data", path=str(folder / "visits.csv"))
    (folder / "visits" / "schema.yaml").write_text(schema.to_yaml())
    rooms = workbench.app.state.bench.project("visits").subfolder("releases")
    for name, epsilon in (("first", 2), ("second", 4)):
        method = NoisyCounts(epsilon=epsilon, mechanism="pure")
        publish(table, schema, method, out=rooms / name)
    return workbench


def test_a_release_opens_in_the_explorer(published: WorkbenchClient) -> None:
    assert f'href="{LOOK}/"' in published.get("/p/visits/report").text
    page = published.get(f"{LOOK}/")
    assert "connect-src 'self'" in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"
    text = re.findall(r'id="content">(.*?)</script>', page.text)[0]
    shown, release = (
        json.loads(text), published.app.state.bench.project("visits").release("first")
    )  # fmt: skip
    assert shown["promises"] == [release.statement.guarantees[0].explain()]
    assert (shown["folder"], shown["back"]) == ("releases/first", "/p/visits/report")
    answer = published.get(f"{LOOK}/answer?where=sex = 'F'").json()
    assert answer["rows"][0][2][0] == release.count("sex = 'F'").figures()[0]
    assert published.get(f"{LOOK}/rows.csv").text.count("\n") == release.frame().num_rows + 1


@pytest.mark.parametrize("name", ["third", "..", "first%2F..%2Fsecond"])
def test_only_releases_of_the_project_open(published: WorkbenchClient, name: str) -> None:
    assert published.get(f"/p/visits/releases/{name}/look/").status_code in {400, 404}


def test_the_explorer_requires_the_cookie(published: WorkbenchClient) -> None:
    stranger = published.new_browser()
    stranger.cookies.clear()
    assert stranger.get(f"{LOOK}/").status_code == 403
    assert stranger.get(f"{LOOK}/rows.csv").status_code == 403


def test_a_replaced_release_is_read_again(published: WorkbenchClient) -> None:
    first = published.get(f"{LOOK}/answer").text
    assert published.get(f"{LOOK}/answer").text == first
    folder = published.folder / "visits" / "releases"
    folder.joinpath("first").rename(folder / "kept")
    folder.joinpath("second").rename(folder / "first")
    try:
        assert published.get(f"{LOOK}/answer").text != first
    finally:
        folder.joinpath("first").rename(folder / "second")
        folder.joinpath("kept").rename(folder / "first")


def test_the_cache_keeps_few_releases(published: WorkbenchClient) -> None:
    shelf, folder = ReleaseCache(), published.folder / "visits" / "releases"
    project = published.app.state.bench.project("visits")
    names = [f"copy-{n}" for n in range(6)]
    for name in names:
        (folder / name).mkdir()
        for path in (folder / "first").iterdir():
            if path.is_file():
                (folder / name / path.name).write_bytes(path.read_bytes())
    try:
        held = [shelf.open(project, name) for name in names]
        assert shelf.open(project, names[-1]) is held[-1]
        assert shelf.open(project, names[0]) is not held[0]
        shelf.close()
        assert shelf.open(project, names[-1]) is not held[-1]
    finally:
        for name in names:
            for path in (folder / name).iterdir():
                path.unlink()
            (folder / name).rmdir()


def test_other_files_in_a_release_folder_are_not_downloaded(
    published: WorkbenchClient, tmp_path: Path
) -> None:
    folder = published.folder / "visits" / "releases" / "first"
    (folder / "report.html").write_text("INTERNAL")
    (tmp_path / "outside.csv").write_text("PRIVATE")
    (folder / "link.csv").symlink_to(tmp_path / "outside.csv")
    try:
        answer = published.get("/p/visits/releases/first.zip")
    finally:
        (folder / "report.html").unlink()
        (folder / "link.csv").unlink()
    assert answer.headers["content-disposition"] == 'attachment; filename="first.zip"'
    with zipfile.ZipFile(io.BytesIO(answer.content)) as bundle:
        assert sorted(bundle.namelist()) == [
            "first/STATEMENT.md", "first/data.parquet", "first/statement.json",
        ]  # fmt: skip
        bundle.extractall(tmp_path)
    assert Release.load(tmp_path / "first").statement == Release.load(folder).statement


@pytest.mark.parametrize("name", ["first%22", "first%0d%0aSet-Cookie:x=1", "first%2f..%2fsecond"])
def test_names_cannot_inject_headers(published: WorkbenchClient, name: str) -> None:
    answer = published.get(f"/p/visits/releases/{name}.zip")
    assert answer.status_code in {400, 404}
    assert "content-disposition" not in answer.headers
    assert "set-cookie" not in answer.headers


def report_of(workbench: WorkbenchClient, path: str) -> str:
    job = Jobs().all(workbench.app.state.bench.project("visits"))[-1]
    name = job.state["report"]
    assert f"/p/visits/reports/{name}" in workbench.get(path).text
    assert f"/p/visits/reports/{name}" in workbench.get("/p/visits/report").text
    report = workbench.get(f"/p/visits/reports/{name}")
    assert "script-src" not in report.headers["content-security-policy"].replace(
        "script-src 'none'", ""
    )
    return html.unescape(report.text)


def test_a_dry_run_shows_the_full_report_without_the_private_table(
    published: WorkbenchClient,
) -> None:
    plan = {"method": "noisy-counts", "epsilon": "2", "mechanism": "pure", "rows": "300"}
    assert not problems(published.post("/p/visits/plan", **plan))
    table = published.folder / "visits.csv"
    table.rename(published.folder / "elsewhere.csv")  # so that nothing can read it
    before = set((published.folder / "visits" / "releases").iterdir())
    try:
        answer = published.post("/p/visits/dry-run", rows="200")
        assert published.finish(answer) == "done", problems(published.get(answer.url.path))
    finally:
        (published.folder / "elsewhere.csv").rename(table)
    report = published.get("/p/visits/dry-runs/001")
    assert "sandbox" in report.headers["content-security-policy"]
    text = html.unescape(report.text)
    assert words.REPORT_OF_DRY_RUN in text
    assert "with the private table" not in text
    assert set((published.folder / "visits" / "releases").iterdir()) == before
    assert "/p/visits/dry-runs/001" in published.get("/p/visits/dry-run").text


def test_the_displayed_commands_are_equivalent(
    published: WorkbenchClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = {"method": "noisy-counts", "epsilon": "2", "mechanism": "pure", "rows": "300"}
    published.post("/p/visits/plan", **plan)
    monkeypatch.chdir(published.folder / "visits")
    said = {}
    for screen in ("report", "dry-run"):
        page = html.unescape(published.get(f"/p/visits/{screen}").text)
        (shown,) = re.findall(r"<pre[^>]*>(.*?)</pre>", page, re.DOTALL)
        assert shown.startswith(f"cd {published.folder / 'visits'}\n")
        for line in shown.splitlines()[1:]:
            words_of = shlex.split(line)
            said[words_of[1]] = words_of[1:]
    assert list(said) == ["serve", "evaluate", "dossier", "compare", "plan"]
    for name in ("dossier", "plan"):  # the others are those of the jobs below
        done = CliRunner().invoke(app, said[name])
        assert done.exit_code == 0, done.output
    assert (published.folder / "visits" / said["dossier"][-1]).is_file()
    assert "Dry run on" in done.output


def test_a_release_is_evaluated(published: WorkbenchClient) -> None:
    answer = published.post("/p/visits/evaluate", release="first")
    assert published.finish(answer) == "done", problems(published.get(answer.url.path))
    report = report_of(published, answer.url.path)
    assert "Internal." in report
    assert "hushtable evaluate releases/first" in report
    assert "Internal." in published.get("/p/visits/report").text


def test_releases_are_compared(published: WorkbenchClient) -> None:
    assert "at least two" in problems(published.post("/p/visits/compare", release=["first"]))[0]
    answer = published.post("/p/visits/compare", release=["first", "second"])
    assert published.finish(answer) == "done", problems(published.get(answer.url.path))
    report = report_of(published, answer.url.path)
    assert "first" in report
    assert "second" in report
    assert "Internal." in report
    assert "hushtable compare" in report


def test_a_missing_table_is_refused(published: WorkbenchClient) -> None:
    table = published.folder / "visits.csv"
    table.rename(published.folder / "elsewhere.csv")
    try:
        for act in ("evaluate", "compare"):
            answer = published.post(f"/p/visits/{act}", release=["first", "second"])
            assert answer.status_code == 400
            assert "no table is available" in problems(answer)[0]
    finally:
        (published.folder / "elsewhere.csv").rename(table)


def test_a_damaged_release_is_reported_and_not_downloaded(published: WorkbenchClient) -> None:
    path = published.folder / "visits" / "releases" / "second" / "statement.json"
    before = path.read_bytes()
    content = json.loads(before)
    content["tables"]["data"]["sha256"] = "0" * 64
    path.write_text(json.dumps(content))
    try:
        assert published.get("/p/visits/releases/second.zip").status_code == 400
        assert published.get("/p/visits/releases/second/look/").status_code == 400
        assert 'role="alert"' in published.get("/p/visits/report").text
        assert Path(path).exists()
    finally:
        path.write_bytes(before)
