"""Each command does its job, and --json writes JSON and nothing else."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import hushtable
from hushtable.methods.degrees.degrees import Degrees
from hushtable.methods.registry import specs
from hushtable.schema import Schema

from .conftest import Run

OPTIONS = ("--epsilon", "1", "--delta", "1e-6", "--k", "10")
COARSE = ("--generalize", "age=20", "--generalize", "region=1", "--generalize", "diagnosis=1")


@pytest.fixture
def release(run: Run, files: Path) -> Path:
    done = run(
        "publish", "noisy-counts", files / "data.csv", files / "schema.yaml",
        "--out", files / "release", *OPTIONS, *COARSE, "--row-count-share", "0.05",
    )  # fmt: skip
    assert done.code == 0, done.err
    return files / "release"


def test_the_installed_command_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    command = Path(sys.executable).with_name("hushtable")
    done = subprocess.run(
        [command, "demo"], cwd=tmp_path, capture_output=True, text=True, check=False,
        env=os.environ | {"COLUMNS": "200"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "demo-release/release" in done.stdout
    assert (tmp_path / "demo-release" / "release" / "STATEMENT.md").is_file()
    page = done.stdout.split()[-1]  # the last line of output
    assert "<svg" in (tmp_path / page).read_text()


def test_help_and_methods(run: Run) -> None:
    assert "Usage" in run("--help").out
    assert "noisy-counts" in run("methods").out
    assert "noisy-counts" in json.loads(run("methods", "--json").out)
    assert "--row-count-share" in run("publish", "noisy-counts", "--help").out


def test_methods_lists_the_whole_registry(run: Run) -> None:
    listed = json.loads(run("methods", "--json").out)
    assert list(listed) == list(specs())
    for key, names in (
        ("baseline", {name for name, listing in specs().items() if listing.baseline}),
        ("publishes", set(specs()) - {"dp-c45", "hay-degrees"}),
    ):
        assert {name for name in listed if listed[name][key]} == names
    graphs = {name for name in listed if listed[name]["takes"] == "graph"}
    assert graphs == {"degrees", "hay-degrees"}
    assert all(entry["summary"] and entry["paper"] for entry in listed.values())
    told = run("methods").out
    assert all(name in told for name in listed)
    assert "without releases: dp-c45, hay-degrees." in told


def test_another_graph_method_is_published_by_its_name(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = dataclasses.replace(specs()["degrees"], name="other")
    known = {**specs(), "other": other}
    monkeypatch.setattr("hushtable.methods.registry.specs", lambda: known)
    listed = run("graph", "--help").out.split()
    assert {"publish", "publish-other", "generate"} <= set(listed)
    for command in ("publish", "publish-other"):
        told = " ".join(run("graph", command, "--help").out.replace("│", " ").split())
        for field in dataclasses.fields(Degrees):
            assert f"--{field.name.replace('_', '-')} " in told
        assert "listed with --nodes" in told


def test_there_is_one_console_for_output_and_one_for_errors() -> None:
    files = Path(hushtable.__file__).parent.joinpath("cli").glob("*.py")
    made = {file.name: file.read_text().count("Console(") for file in files}
    assert {name: number for name, number in made.items() if number} == {"screen.py": 2}


def test_the_version_is_the_package_s(run: Run) -> None:
    told = run("--version")
    assert (told.code, told.out) == (0, f"hushtable {hushtable.__version__}\n")
    assert "--version" in run("--help").out


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["ledger", "--help"], ["evaluate", "--help"]]
)
def test_what_needs_no_library_imports_none(arguments: list[str]) -> None:
    """Help must appear at once: only commands that need a slow module import it."""
    code = (
        "import sys\nfrom hushtable.cli.app import main\n"
        f"sys.argv[1:] = {arguments}\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "sys.stderr.write(' '.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    slow = {"duckdb", "hushtable.engine", "hushtable.methods", "ibis", "numba", "numpy", "pyarrow",
            "scipy", "sqlglot"}  # fmt: skip
    assert "hushtable.cli.app" in done.stderr.split()
    assert not slow & set(done.stderr.split())


def test_a_method_s_command_imports_no_other_method() -> None:
    code = (
        "import sys\nfrom hushtable.cli.app import main\n"
        "sys.argv[1:] = ['plan', 'frapp', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "sys.stderr.write(' '.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--retention" in done.stdout
    assert "hushtable.methods.quilt.quilt" not in done.stderr.split()


@pytest.mark.parametrize("group", ["plan", "publish", "audit", "graph"])
def test_groups_list_and_suggest_their_commands(group: str, run: Run) -> None:
    listed = run(group, "--help").out
    known = {"graph": "generate"}.get(group, "noisy-counts")
    assert known in listed
    assert "degrees" in run("audit", "--help").out
    mistyped = run(group, known[:-1])
    assert mistyped.code == 2
    assert f"'{known}'" in mistyped.err


def test_plan_reads_no_data(run: Run, files: Path) -> None:
    (files / "data.csv").unlink()
    told = run("plan", "noisy-counts", files / "schema.yaml", "--rows", "6000", *OPTIONS, *COARSE)
    assert told.code == 0, told.err
    assert "Adding or removing one row" in told.out.replace("\n", " ")
    plan = json.loads(
        run("plan", "noisy-counts", files / "schema.yaml", "--json", *OPTIONS, *COARSE).out
    )
    assert plan["split"] == {"tuples": "1"}
    assert plan["guarantees"][0]["epsilon"] == "1"


def test_publish_show_query_export(run: Run, release: Path, files: Path) -> None:
    shown = run("show", release)
    assert "What the promise does not cover" in shown.out
    assert json.loads(run("show", release, "--json").out)["method"] == "noisy-counts"
    answer = json.loads(run("query", release, "sex = 'F'", "--json").out)
    assert answer["low"] <= answer["value"] <= answer["high"]
    assert "95% interval" in run("query", release, "age >= 40").out
    for name, read in (("rows.csv", pa_csv.read_csv), ("rows.parquet", pq.read_table)):
        assert run("export", release, "--out", files / name).code == 0
        assert read(files / name).column_names == ["age", "sex", "region", "smoker", "diagnosis"]


def test_ledger_pays_and_refuses(run: Run, files: Path) -> None:
    ledger = files / "ledger"
    assert run("ledger", "init", ledger, "--epsilon", "1.5", "--delta", "1e-5").code == 0
    for number, code in ((1, 0), (2, 1)):
        done = run(
            "publish", "noisy-counts", files / "data.csv", files / "schema.yaml", "--out",
            files / f"r{number}", "--ledger", ledger, *OPTIONS, *COARSE,
        )  # fmt: skip
        assert done.code == code, done.err
    assert "epsilon" in done.err
    assert not (files / "r2").exists()
    book = json.loads(run("ledger", "show", ledger, "--json").out)
    assert book["spent"]["epsilon"] == "1"
    assert run("ledger", "verify", ledger).code == 0
    assert run("ledger", "void", ledger, "1", "--reason", "x").code == 1  # it was released
    assert run("ledger", "reserve", ledger, "--epsilon", "0.4", "--purpose", "later").code == 0
    book = json.loads(run("ledger", "show", ledger, "--json").out)
    assert book["reserved"]["epsilon"] == "2/5"


def test_a_charge_without_a_release_can_be_voided_by_a_person(run: Run, files: Path) -> None:
    ledger = files / "ledger"
    run("ledger", "init", ledger, "--epsilon", "1", "--delta", "1e-5")
    (files / "bad.csv").write_text(
        "visit,age,sex,region,smoker,diagnosis\nv1,3000,F,bay,yes,asthma\n"
    )
    text = (files / "schema.yaml").read_text()
    (files / "schema.yaml").write_text(text.replace("outside: clip", "outside: refuse"))
    done = run(
        "publish", "noisy-counts", files / "bad.csv", files / "schema.yaml", "--out", files / "r",
        "--ledger", ledger, *OPTIONS,
    )  # fmt: skip
    assert done.code == 1
    assert "column 'age': 1 rows" in done.err
    assert "3000" not in done.err
    assert "charge" in done.err
    book = json.loads(run("ledger", "show", ledger, "--json").out)
    assert book["spent"]["epsilon"] == "1"
    assert run("ledger", "void", ledger, "1", "--reason", "wrong file, nothing came out").code == 0
    assert json.loads(run("ledger", "show", ledger, "--json").out)["spent"]["epsilon"] == "0"


def test_draft_check_and_confirm(run: Run, files: Path) -> None:
    drafted = files / "draft.yaml"
    assert run("schema", "draft", files / "data.csv", "-o", drafted).code == 0
    assert run("schema", "draft", files / "data.csv", "-o", drafted).code == 2  # it exists now
    assert run("schema", "draft", files / "data.csv", "-o", drafted, "--force").code == 0
    refused = run(
        "publish", "noisy-counts", files / "data.csv", drafted, "--out", files / "r", *OPTIONS
    )
    assert refused.code == 1
    assert "confirm" in refused.err
    checked = run("schema", "check", files / "data.csv", drafted)
    assert checked.code == 1
    assert "Not confirmed yet" in checked.out
    assert run("schema", "check", files / "data.csv", files / "schema.yaml").code == 0
    assert json.loads(run("schema", "spec").out) == Schema.model_json_schema()


def test_interruption_and_unknown_failures_show_no_values(
    run: Run, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = str(4711 * 2)  # not in the source, which --debug may quote

    def explode(*args: object, **kwargs: object) -> None:
        raise RuntimeError(secret)

    monkeypatch.setattr("hushtable.engine.open_table.PrivateTable.connect", explode)
    arguments = (
        "publish", "noisy-counts", files / "data.csv", files / "schema.yaml", "--out", files / "r",
        *OPTIONS,
    )  # fmt: skip
    for extra in ((), ("--debug",)):
        done = run(*arguments, *extra)
        assert done.code == 1
        assert "internal error (RuntimeError)" in done.err
        assert secret not in done.err + done.out

    def interrupt(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hushtable.engine.open_table.PrivateTable.connect", interrupt)
    assert run(*arguments).code == 130
    assert not (files / "r").exists()
    assert not list(files.glob(".r-part*"))


def test_columns_are_generalized_by_the_calendar_and_by_powers_of_ten(
    run: Run, tmp_path: Path
) -> None:
    lines = ["called,amount", *(f"2024-{1 + i % 12:02}-15,{7 ** (i % 5)}" for i in range(400))]
    (tmp_path / "calls.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "calls.yaml").write_text(
        "name: calls\ncolumns:\n"
        "  called: {type: date, low: 2024-01-01, high: 2024-12-31}\n"
        "  amount: {type: integer, low: 1, high: 9999}\n"
    )
    result = run(
        "publish", "generalize-suppress", tmp_path / "calls.csv", tmp_path / "calls.yaml", "--k", 3,
        "--generalize", "called=quarter", "--generalize", "amount=log", "--out", tmp_path / "calls",
    )  # fmt: skip
    assert result.code == 0, result.err
    rows = hushtable.Release.load(tmp_path / "calls").frame().to_pydict()
    assert sorted(set(rows["called"])) == ["2024-Q1", "2024-Q2", "2024-Q3", "2024-Q4"]
    assert "2000 to 4999" in rows["amount"]
    assert run(
        "plan", "generalize-suppress", tmp_path / "calls.yaml", "--k", 3, "--generalize",
        "called=fortnight",
    ).code == 2  # fmt: skip
