"""``hushtable evaluate --check``: the result in words and as an exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from .conftest import Run

TABLE = pa.table(
    {
        "age": ["20-29"] * 5 + ["30-39"] * 6,
        "sex": ["F"] * 11,
        "ill": ["flu", "cold"] * 5 + ["flu"],
    }
)


@pytest.fixture(params=["csv", "parquet"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"table.{request.param}"
    if request.param == "csv":
        pa_csv.write_csv(TABLE, path)
    else:
        pq.write_table(TABLE, path)
    return path


def test_a_table_that_is_k_anonymous(run: Run, table: Path) -> None:
    result = run("evaluate", "--check", "k=5", table, "--quasi", "age", "--quasi", "sex")
    assert result.code == 0
    assert "k=5: true (smallest group: 5 rows)" in result.out


def test_one_that_is_not(run: Run, table: Path) -> None:
    result = run("evaluate", table, "--check", "k=6", "--sensitive", "ill")
    assert result.code == 1
    assert "k=6: false (smallest group: 5 rows)" in result.out
    everything = run("evaluate", table, "--check", "k=2")
    assert everything.code == 0
    assert "with equal age, sex, ill" in everything.out


def test_markup_in_a_name_is_escaped(run: Run, tmp_path: Path) -> None:
    pa_csv.write_csv(TABLE.rename_columns(["[/x]age", "[bold]", "ill"]), tmp_path / "table.csv")
    result = run("evaluate", tmp_path / "table.csv", "--check", "k=5", "--sensitive", "ill")
    assert (result.code, result.err) == (0, "")
    assert "with equal [/x]age, [bold]." in result.out


def test_several_requirements_at_once(run: Run, table: Path) -> None:
    result = run(
        "evaluate", table, "--check", "k=5,l=2", "--check", "t=0.2", "--sensitive", "ill",
        "--json", "-",
    )  # fmt: skip
    assert result.code == 0
    found = json.loads(result.out)
    assert found["holds"] is True
    assert [one["requirement"] for one in found["verdicts"]] == ["k=5", "l=2", "t=0.2"]
    strict = run("evaluate", table, "--check", "k=5,l=3", "--sensitive", "ill")
    assert strict.code == 1


def test_a_release_is_checked_with_its_own_schema(run: Run, files: Path) -> None:
    made = run(
        "publish", "generalize-suppress", files / "data.csv", files / "schema.yaml", "--out",
        files / "release", "--k", 5, "--generalize", "age=20", "--generalize", "region=1",
    )  # fmt: skip
    assert made.code == 0
    assert run("evaluate", files / "release", "--check", "k=5").code == 0
    assert run("evaluate", files / "release", "--check", "k=5,l=7").code == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--check", "k=zero"), "k"),
        (("--check", "l=2"), "--sensitive"),
        (("--check", "k=2", "--quasi", "zip"), "zip"),
        (("--check", "l=2", "--quasi", "ill", "--sensitive", "ill"), "either"),
        ((), "DATA"),
    ],
)
def test_wrong_usage_is_reported(
    run: Run, table: Path, options: tuple[str, ...], message: str
) -> None:
    result = run("evaluate", table, *options)
    assert result.code == 2
    assert message in result.err


def test_a_file_that_is_not_a_table_is_reported_without_quoting_it(
    run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "broken.parquet"
    path.write_text("Ada Lovelace, 36")
    result = run("evaluate", path, "--check", "k=2")
    assert result.code == 1
    assert "Lovelace" not in result.err
    assert run("evaluate", tmp_path / "absent.csv", "--check", "k=2").code == 1
