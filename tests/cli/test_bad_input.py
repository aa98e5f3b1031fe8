"""Bad input to each command: one clear message, exit code 1 or 2, nothing written or charged."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from .conftest import Run

HEADER = "visit,age,sex,region,smoker,diagnosis"
ROW = "v1,30,F,bay,yes,asthma"
OPTIONS = {"--epsilon": "1", "--delta": "1e-6", "--k": "10"}

# name: (bytes of the file, part of the message)
DATA = {
    "empty file": (b"", "empty"),
    "not csv": (bytes(range(256)) * 8, ""),
    "not utf-8": (f"{HEADER}\nv1,30,F,caf\xe9,yes,asthma\n".encode("latin-1"), "UTF-8"),
    "unknown column": (f"{HEADER},salary\n{ROW},3\n".encode(), "'salary'"),
    "missing column": (b"visit,age,sex\nv1,30,F\n", "'region'"),
    "column twice": (f"{HEADER},age\n{ROW},31\n".encode(), "'age'"),
    "wrong case": (f"{HEADER.replace('age', 'AGE')}\n{ROW}\n".encode(), "'AGE'"),
}
# Rows that can be read but are out of the schema's domain.
ROWS = {
    "wrong type": (f"{HEADER}\nv1,old,F,bay,yes,asthma\n".encode(), "column 'age': 1 rows"),
    "outside": (f"{HEADER}\nv1,200,F,bay,yes,asthma\n".encode(), "column 'age': 1 rows"),
    "huge integer": (f"{HEADER}\nv1,{10**30},F,bay,yes,asthma\n".encode(), "column 'age': 1 rows"),
    "NaN": (f"{HEADER}\nv1,NaN,F,bay,yes,asthma\n".encode(), "column 'age': 1 rows"),
    "infinity": (f"{HEADER}\nv1,inf,F,bay,yes,asthma\n".encode(), "column 'age': 1 rows"),
    "fraction": (f"{HEADER}\nv1,30.5,F,bay,yes,asthma\n".encode(), "column 'age': 1 rows"),
    "missing value": (f"{HEADER}\nv1,30,,bay,yes,asthma\n".encode(), "column 'sex': 1 rows"),
    "unknown value": (f"{HEADER}\nv1,30,Q,bay,yes,asthma\n".encode(), "column 'sex': 1 rows"),
    "all missing": (f"{HEADER}\n,,,,,\n".encode(), "column 'sex': 1 rows"),
}
HEADER_PROBLEMS = {
    "empty file", "not csv", "unknown column", "missing column", "column twice", "wrong case",
}  # fmt: skip


def publish(run: Run, folder: Path, **changes: str | None):
    options = {**OPTIONS, "--out": str(folder / "out"), "--ledger": str(folder / "ledger")}
    data = changes.pop("data", None) or str(folder / "data.csv")
    schema = changes.pop("schema", None) or str(folder / "schema.yaml")
    options |= {f"--{name.replace('_', '-')}": value for name, value in changes.items()}
    words = [word for pair in options.items() if pair[1] is not None for word in pair]
    return run("publish", "noisy-counts", data, schema, *words)


@pytest.fixture
def place(run: Run, files: Path) -> Path:
    assert run("ledger", "init", files / "ledger", "--epsilon", "5", "--delta", "1e-4").code == 0
    return files


def assert_refused(run: Run, place: Path, done, said: str, *, charged: bool = False) -> None:
    assert done.code in (1, 2), done
    assert said in done.err.replace("\n", " "), done.err
    assert "Traceback" not in done.err
    assert "internal error" not in done.err
    # The forecast is printed before the charge; a run that fails earlier prints nothing.
    assert done.out.startswith("Expected\n") if charged else done.out == ""
    assert not (place / "out").exists()
    assert not list(place.glob(".out-part*"))
    spent = json.loads(run("ledger", "show", place / "ledger", "--json").out)["spent"]["epsilon"]
    assert (spent != "0") == charged


def make_strict(place: Path) -> None:
    """Make the schema refuse out-of-domain values."""
    text = (place / "schema.yaml").read_text()
    text = re.sub(r"missing: \w+", "missing: forbid", text)
    (place / "schema.yaml").write_text(re.sub(r"outside: \w+", "outside: refuse", text))


@pytest.mark.parametrize("name", DATA | ROWS)
def test_publish_refuses_bad_data(name: str, run: Run, place: Path) -> None:
    content, said = (DATA | ROWS)[name]
    (place / "data.csv").write_bytes(content)
    make_strict(place)
    done = publish(run, place)
    # Rows are read after the charge; problems in the header are refused before it.
    assert done.code in (1, 2)
    charged = name not in HEADER_PROBLEMS
    if name == "not utf-8":  # found wherever the reader first reads the bytes
        spent = json.loads(run("ledger", "show", place / "ledger", "--json").out)["spent"]
        charged = spent["epsilon"] != "0"
    assert_refused(run, place, done, said, charged=charged)


@pytest.mark.parametrize("name", ROWS)
def test_by_default_every_row_is_published(name: str, run: Run, place: Path) -> None:
    """Failure of a release must not reveal whether an out-of-domain row is present."""
    content, _ = ROWS[name]
    (place / "data.csv").write_bytes(content)
    done = publish(run, place)
    assert done.code == 0, done.err
    assert done.err == ""
    (place / "neighbor.csv").write_text(f"{HEADER}\n")
    neighbor = publish(run, place, data=str(place / "neighbor.csv"), out=str(place / "again"))
    assert (neighbor.code, neighbor.err) == (0, "")
    one, two = (
        json.loads((place / out / "statement.json").read_text()) for out in ("out", "again")
    )
    for statement in (one, two):
        statement.pop("ledger")
        statement["tables"]["data"].pop("sha256")
    assert one == two  # neither publishes rows


@pytest.mark.parametrize("name", ROWS)
def test_check_counts_what_does_not_fit(name: str, run: Run, place: Path) -> None:
    content, said = ROWS[name]
    (place / "data.csv").write_bytes(content)
    done = run("schema", "check", place / "schema.yaml", place / "data.csv")
    assert done.code == 0
    assert said in done.out
    assert "and count as" in done.out
    assert "do not publish them" in done.out
    found = json.loads(
        run("schema", "check", place / "schema.yaml", place / "data.csv", "--json").out
    )
    assert [misfit["refused"] for misfit in found["misfits"]] == [False] * len(found["misfits"])
    assert found["misfits"]


def test_plan_and_check_say_what_refusing_means(run: Run, place: Path) -> None:
    words = ["noisy-counts", place / "schema.yaml", *(w for pair in OPTIONS.items() for w in pair)]
    assert "rows all match" not in run("plan", *words).out
    assert json.loads(run("plan", *words, "--json").out)["conditions"] == []
    make_strict(place)
    for done in (run("plan", *words),
                 run("schema", "check", place / "schema.yaml", place / "data.csv")):  # fmt: skip
        said = " ".join(done.out.split())
        assert "The promise holds for tables whose rows all match" in said
    (place / "data.csv").write_text(f"{HEADER}\n{ROW}\n")
    assert publish(run, place).code == 0
    text = (place / "out" / "STATEMENT.md").read_text()
    assert "Tables with out-of-domain values. Each of the columns 'age', 'sex'" in text
    assert "empty cells were not allowed" in text
    left_out = json.loads((place / "out" / "statement.json").read_text())["unprotected"]
    assert any("The promise holds for tables whose rows all match" in said for said in left_out)


def test_check_accepts_its_two_files_in_either_order(run: Run, place: Path) -> None:
    (place / "data.csv").write_text(f"{HEADER}\n{ROW}\n")
    files = (place / "data.csv", place / "schema.yaml")
    one, two = run("schema", "check", *files), run("schema", "check", *files[::-1])
    assert (one.code, one.out) == (two.code, two.out) == (0, two.out)


@pytest.mark.parametrize("name", DATA | ROWS)
def test_check_reports_problems_and_writes_nothing(name: str, run: Run, place: Path) -> None:
    content, said = (DATA | ROWS)[name]
    (place / "data.csv").write_bytes(content)
    make_strict(place)
    done = run("schema", "check", place / "schema.yaml", place / "data.csv")
    assert done.code == 1
    assert "widen" not in done.out
    assert said in (done.out + done.err).replace("\n", " ")
    for value in ("caf", "salary,3", "200", "1000000"):
        assert value not in done.out


@pytest.mark.parametrize("rows", [[], [ROW], [ROW] * 3, ["v1,30,F,bay,,asthma"]])
def test_small_tables_are_published(rows: list[str], run: Run, place: Path) -> None:
    (place / "data.csv").write_text("\n".join([HEADER, *rows]) + "\n")
    assert publish(run, place).code == 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"epsilon": "0"}, "epsilon is 0"),
        ({"epsilon": "-1"}, "epsilon is -1"),
        ({"epsilon": "nan"}, "epsilon"),
        ({"epsilon": "inf"}, "epsilon"),
        ({"epsilon": "1000"}, "epsilon is 1000"),
        ({"epsilon": "lots"}, "epsilon"),
        ({"epsilon": None}, "--epsilon"),
        ({"delta": "0"}, "delta is 0"),
        ({"delta": "0.5"}, "delta is 0.5"),
        ({"delta": None}, "delta is missing"),
        ({"k": "0"}, "k is 0"),
        ({"k": "ten"}, "--k"),
        ({"mechanism": "loud"}, "--mechanism"),
        ({"mechanism": "pure"}, "omit it"),
        ({"generalize": "age"}, "COLUMN=LEVEL"),
        ({"generalize": "salary=3"}, "'salary'"),
        ({"generalize": "sex=1"}, "needs a taxonomy"),
        ({"row_count_share": "1"}, "row_count_share"),
        ({"engine": "abacus"}, "--engine"),
        ({"noise": "loud"}, "--noise"),
        ({"data": "absent.csv"}, "absent.csv"),
        ({"data": "table.xlsx"}, "table.xlsx"),
        ({"schema": "absent.yaml"}, "absent.yaml"),
        ({"ledger": "absent.ledger"}, "absent.ledger"),
        ({"out": "no/such/folder/out"}, "no/such/folder"),
        ({"out": None}, "--out"),
    ],
)
def test_publish_refuses_bad_parameters(
    changes: dict[str, str | None], said: str, run: Run, place: Path
) -> None:
    (place / "table.xlsx").write_bytes(b"PK")
    assert_refused(run, place, publish(run, place, **changes), said)


def test_a_column_given_twice_is_refused_with_all_that_is_wrong(run: Run, place: Path) -> None:
    rules = ("age=10", "region=1", "age=20", "=3", "diagnosis", "diagnosis=1")
    done = run(
        "publish", "noisy-counts", place / "data.csv", place / "schema.yaml", "--out",
        place / "out", "--ledger", place / "ledger", *(w for o in OPTIONS.items() for w in o),
        *(word for rule in rules for word in ("--generalize", rule)),
    )  # fmt: skip
    assert_refused(run, place, done, "column 'age' is given 2 times; give each column once")
    assert "'=3' is not COLUMN=LEVEL" in done.err
    assert "'diagnosis' is not COLUMN=LEVEL" in done.err
    assert "region" not in done.err


def test_tables_of_a_query_are_refused_together(run: Run, place: Path) -> None:
    assert publish(run, place).code == 0
    (place / "own.csv").write_text("age\n30\n")
    own = place / "own.csv"
    tables = (f"mine={own}", f"mine={own}", f"={own}", "other=absent.csv")
    given = [word for table in tables for word in ("--table", table)]
    done = run("query", place / "out", "age IN (SELECT age FROM mine)", *given)
    assert (done.code, done.out) == (2, "")
    for words in ("table 'mine' is given twice", "is not NAME=FILE", "'absent.csv'"):
        assert words in done.err
    assert run("query", place / "out", "age IN (SELECT age FROM mine)", *given[:2]).code == 0


def test_publish_overwrites_nothing(run: Run, place: Path) -> None:
    (place / "mine").mkdir()
    (place / "mine" / "letter.txt").write_text("keep")
    done = publish(run, place, out=str(place / "mine"))
    assert_refused(run, place, done, "exists")
    assert (place / "mine" / "letter.txt").read_text() == "keep"


def test_unknown_method_is_wrong_usage(run: Run, place: Path) -> None:
    done = run("publish", "magic", place / "data.csv", place / "schema.yaml", "--out", "x")
    assert done.code == 2
    assert "magic" in done.err


@pytest.mark.parametrize("command", ["show", "query", "export"])
def test_folders_that_are_no_releases(command: str, run: Run, place: Path) -> None:
    more = {"query": ["TRUE"], "export": ["--out", place / "x.csv"]}.get(command, [])
    assert publish(run, place).code == 0
    statement = place / "out" / "statement.json"
    for target in ("absent", "data.csv", "."):
        done = run(command, place / target, *more)
        assert (done.code, done.out) == (1, "")
        assert "is not a release" in done.err
    text = statement.read_text()
    for broken in ("{", "[]", text.replace('"format": 2', '"format": 1'), "\xff"):
        statement.write_text(broken, encoding="latin-1")
        done = run(command, place / "out", *more)
        assert (done.code, done.out) == (1, "")
        assert "not valid" in done.err or "is not a release" in done.err
    statement.write_text(text.replace('"data.parquet"', '"../data.csv"'))
    assert run(command, place / "out", *more).code == 1
    statement.write_text(text)
    data = place / "out" / "data.parquet"
    whole = data.read_bytes()
    data.write_bytes(whole[:-7])
    assert "was changed" in run(command, place / "out", *more).err
    data.unlink()
    assert "incomplete" in run(command, place / "out", *more).err


@pytest.mark.parametrize(
    "where", ["", "salary > 1", "age >", "visit = 'v1'", "sex = 'Q'", "age IN (SELECT 1)",
              "read_csv('x') = 1", "age > 1; DROP TABLE x", "sex + 1 > 2"],
)  # fmt: skip
def test_queries_that_are_refused(where: str, run: Run, place: Path) -> None:
    assert publish(run, place).code == 0
    done = run("query", place / "out", where, "--json")
    assert (done.code, done.out) == (1, "")
    assert "internal error" not in done.err


def test_export_refuses_what_is_there_or_unknown(run: Run, place: Path) -> None:
    assert publish(run, place).code == 0
    for target, said in (
        ("data.csv", "exists"),
        ("rows.xlsx", ".csv or .parquet"),
        ("a/b.csv", ""),
    ):
        done = run("export", place / "out", "--out", place / target)
        assert done.code == 1
        assert said in done.err
        assert "internal error" not in done.err


def test_ledgers_that_are_refused(run: Run, place: Path) -> None:
    assert run("ledger", "init", place / "ledger", "--epsilon", "1").code == 1  # exists
    for epsilon in ("0", "-1", "nan", "x"):
        assert run("ledger", "init", place / "new", "--epsilon", epsilon).code in (1, 2)
        assert not (place / "new").exists()
    for command in ("show", "verify"):
        for target in ("absent", "data.csv"):
            done = run("ledger", command, place / target)
            assert done.code == 1
            assert "internal error" not in done.err
    assert run("ledger", "void", place / "ledger", "7", "--reason", "x").code in (1, 2)
    done = run("ledger", "reserve", place / "ledger", "--epsilon", "99", "--purpose", "x")
    assert done.code == 1


@pytest.mark.parametrize("content", [b"", b"\x00\x01", b"caf\xe9\n"])
def test_draft_refuses_files_that_are_not_tables(content: bytes, run: Run, place: Path) -> None:
    (place / "odd.csv").write_bytes(content)
    done = run("schema", "draft", place / "odd.csv", "-o", place / "new.yaml")
    assert done.code in (1, 2)
    assert "internal error" not in done.err
    assert not (place / "new.yaml").exists()
