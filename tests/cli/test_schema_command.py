"""Review and confirmation of a draft on the command line."""

from __future__ import annotations

import gzip
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path

import openpyxl
import pytest
from typer.testing import CliRunner

from hushtable.cli.app import app
from hushtable.drafting import drafted
from hushtable.drafting.review import review_groups
from hushtable.engine import connect
from hushtable.errors import DataError
from hushtable.schema import Schema

from .conftest import Run

N = 300


@pytest.fixture
def draft(tmp_path: Path, run: Run) -> Path:
    """A draft with one group of each kind."""
    lines = [
        f"{i},{20 + i % 60},{'FM'[i % 2]},{i % 70 * 10},town {i % 3},2020-0{1 + i % 9}-11,note {i}"
        for i in range(N)
    ]
    (tmp_path / "t.csv").write_text("id,age,sex,pay,town,day,text\n" + "\n".join(lines) + "\n")
    done = run("schema", "draft", tmp_path / "t.csv", "-o", tmp_path / "s.yaml")
    assert done.code == 0
    assert "hushtable schema review" in done.out.replace("\n", " ")
    return tmp_path / "s.yaml"


def answered(draft: Path, answers: Sequence[str]) -> tuple[int, str]:
    text = "".join(f"{answer}\n" for answer in answers)
    done = CliRunner().invoke(app, ["schema", "review", str(draft)], input=text)
    return done.exit_code, done.output


def test_a_draft_is_confirmed_group_by_group(draft: Path) -> None:
    titles = [group.title for group in review_groups(Schema.load(draft))]
    assert len(titles) == 6
    code, shown = answered(
        draft,
        ["a", "as collected", "a", "", "a", "", "a", "the questionnaire",
         "r", "a", "", "e", "2020-01-01 2020-12-31", "a", "the survey period"],
    )  # fmt: skip
    assert code == 0, shown
    schema = Schema.load(draft)
    schema.require_confirmed()
    pay, day = schema.attributes["pay"], schema.attributes["day"]
    assert (pay.low, pay.high) == (0, 700)  # type: ignore[union-attr]
    assert (day.low, day.high) == ("2020-01-01", "2020-12-31")  # type: ignore[union-attr]
    said = re.findall(r"# confirmed \d{4}-\d\d-\d\d by [^:]+: (.+)", draft.read_text())
    assert len(said) == 1 + len(schema.columns)
    assert any(line.startswith("recognized. age in completed years: ") for line in said)
    assert any(line.endswith("values, missing, outside. the questionnaire") for line in said)
    assert "town 0, town 1, town 2" in shown
    assert "Are the bounds public?" in shown


def test_columns_are_left_out_and_the_rest_is_skipped(draft: Path) -> None:
    code, shown = answered(draft, ["s", "s", "s", "l", "tow*", "s", "q"])
    schema = Schema.load(draft)
    assert code == 1
    assert schema.columns["town"].role == "left out"
    assert schema.columns["town"].confirm == ()
    assert {"schema", "column 'pay'"} <= schema.unconfirmed.keys()
    code, shown = answered(draft, ["s", "s", "l", "nothing*", "q"])
    assert "'nothing*' is none of the columns to confirm: id, text" in shown


def test_confirm_takes_columns_and_one_reason(draft: Path, run: Run) -> None:
    reason = ["--because", "the public codebook"]
    assert run("schema", "confirm", draft, *reason).code == 2
    assert run("schema", "confirm", draft, "--columns", "nope", *reason).code == 2
    assert run("schema", "confirm", draft, "--columns", "town", "--because", "x").code == 2
    done = run("schema", "confirm", draft, "--columns", "a*,town", "--table", *reason)
    assert done.out == "Confirmed 3; 5 left.\n"
    schema = Schema.load(draft)
    assert not schema.confirm
    assert not schema.columns["age"].confirm
    assert schema.columns["sex"].confirm
    assert draft.read_text().count("the public codebook") == 3
    checked = run("schema", "check", draft.parent / "t.csv", draft)
    assert checked.code == 1
    said = checked.out.replace("\n", " ")
    assert "Not published: id (identifier), text (identifier)." in said
    assert "Not confirmed yet: column 'id'" in said
    assert run("schema", "confirm", draft, "--columns", "*", *reason).code == 0
    assert run("schema", "check", draft.parent / "t.csv", draft).code == 0


GERMAN = "Geburtsdatum;Betrag;Größe\n" + "31.12.1980;1.234,56;klein\n1.2.1990;7,5;groß\n" * 20


@pytest.mark.parametrize("encoding", ["cp1252", "utf-8"])
@pytest.mark.parametrize("name", ["t.csv", "t.zip", "t.csv.gz", "t.data"])
def test_german_files_are_read_as_they_are(name: str, encoding: str, tmp_path: Path) -> None:
    """Encoding, thousands, decimal commas and dates are detected, stated and read."""
    raw, file = GERMAN.encode(encoding), tmp_path / name
    if name.endswith(".zip"):
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("inner/t.csv", raw)
    else:
        file.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    made = drafted(file)
    reading = made.schema.reading
    assert (reading.decimal, reading.thousands, reading.dates) == (",", ".", "day-month-year")
    assert reading.encoding == encoding
    born, paid, size = made.schema.attributes.values()
    assert (born.type, born.confirm) == ("date", ("recognized",))
    assert (paid.type, size.values) == ("number", ("groß", "klein"))  # type: ignore[union-attr]
    assert {"unit", "missing_values", "reading"} == set(made.schema.confirm)
    for engine in ("memory", "duckdb"):
        counts = connect(file, made.schema, engine=engine).histograms([*made.schema.attributes])  # type: ignore[arg-type]
        codes = [born.code_of("1980-12-31"), born.code_of("1990-02-01")]  # type: ignore[union-attr]
        assert counts["Geburtsdatum"][codes].tolist() == [20, 20]
        assert sorted(counts["Betrag"][counts["Betrag"] > 0].tolist()) == [20, 20]
        assert counts["Größe"].tolist()[:2] == [20, 20]


def test_the_sheet_of_a_workbook_is_asked_for(tmp_path: Path, run: Run) -> None:
    book = openpyxl.Workbook()
    for title in ("notes", "people"):
        sheet = book.active if title == "notes" else book.create_sheet()
        sheet.title = title
        for row in (["town", "age"], *([f"t{i % 3}", 20 + i % 50] for i in range(50))):
            sheet.append(row)
    book.save(tmp_path / "b.xlsx")
    done = run("schema", "draft", tmp_path / "b.xlsx")
    assert done.code == 2
    assert "has the sheets 'notes', 'people'; choose one" in done.err.replace("\n", " ")
    done = run("schema", "draft", tmp_path / "b.xlsx", "--sheet", "people")
    assert "sheet: people" in done.out


def test_an_archive_must_contain_one_table(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("a.csv", "x\n1\n")
        archive.writestr("b.csv", "x\n1\n")
    with pytest.raises(DataError, match="contains 2 tables"):
        drafted(tmp_path / "t.zip")
    (tmp_path / "t.zip").write_bytes(b"PK")
    with pytest.raises(DataError, match="not a zip archive"):
        drafted(tmp_path / "t.zip")
