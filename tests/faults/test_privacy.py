"""Private values appear in no output, message, traceback, statement or temporary file."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import traceback
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushtable import NoisyCounts, Release, Schema, SeededNoise, publish
from hushtable.errors import HushtableError, ReleaseError
from hushtable.release.release import SeededReleaseWarning
from seeds import shifted

from .scene import MARK, Commands, Scene, marked_files

NUMBER = "7340033"  # a private number, outside every bound
METHOD = NoisyCounts(epsilon="1/100", delta="1e-9", k=2)
HEADER = "id,age,town\n"
GOOD = f"{MARK}1,30,Ayre\n" * 20

# Problems of rows; each table has the mark in every column.
BAD_ROWS = {
    "text for a number": f"{MARK}2,{MARK}old,Ayre\n".encode(),
    "number outside": f"{MARK}2,{NUMBER},Ayre\n".encode(),
    "huge number": f"{MARK}2,{NUMBER * 20},{MARK}\n".encode(),
    "fraction": f"{MARK}2,{NUMBER}.5,{MARK}\n".encode(),
    "missing": f"{MARK}2,,{MARK}\n".encode(),
    "too many fields": f"{MARK}2,30,Ayre,{MARK},{NUMBER}\n".encode(),
    "too few fields": f"{MARK}2\n".encode(),
    "open quote": f'{MARK}2,"30,{MARK}\n{MARK},{NUMBER}'.encode(),
    "quote inside": f'{MARK}2,3"0{MARK},"Ay"re{MARK}"\n'.encode(),
    "not UTF-8": f"{MARK}2,30,caf\xe9{MARK}\n".encode("latin-1"),
    "zero bytes": f"{MARK}2,30\x00{MARK},{NUMBER}\n".encode(),
    "line ends": f"{MARK}2,30\r{MARK},{NUMBER}\n".encode(),
}
BAD_FRAMES = {
    "texts for numbers": pa.table(
        {"id": [MARK], "age": [f"{MARK}{NUMBER}"], "town": [f"{MARK}-town"]}
    ),
    "doubles": pa.table({"id": [1.5], "age": [float(NUMBER) + 0.5], "town": [MARK]}),
    "bytes": pa.table({"id": [MARK], "age": [int(NUMBER)], "town": [MARK.encode() + b"\xff"]}),
    "lists": pa.table({"id": [MARK], "age": [[int(NUMBER)]], "town": [{"a": MARK}]}),
    "wide numbers": pa.table(
        {"id": [MARK], "age": pa.array([2**63 + 7340033], pa.uint64()), "town": [MARK]}
    ),
}


def assert_silent(*texts: str) -> None:
    for text in texts:
        assert MARK not in text
        assert NUMBER not in text


@pytest.mark.parametrize("rows", BAD_ROWS)
def test_bad_rows_are_not_quoted(rows: str, commands: Commands, scene: Scene) -> None:
    """In memory and in DuckDB, with which `schema check` reads files."""
    (scene.private / "data.csv").write_bytes(HEADER.encode() + GOOD.encode() + BAD_ROWS[rows])
    check = [
        "schema", "check", str(scene.private / "schema.yaml"), str(scene.private / "data.csv"),
    ]  # fmt: skip
    for words in (scene.publish(engine="memory"), check):
        done = commands.run(scene, ["--debug", *words])
        assert done.code in (0, 1), done
        assert "internal error" not in done.err
        assert_silent(done.out, done.err)
    scene.check()


@pytest.mark.parametrize("frame", BAD_FRAMES)
@pytest.mark.parametrize("kind", ["arrow", "parquet", "pandas"])
def test_bad_frames_are_not_quoted(
    frame: str, kind: str, scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """The whole chain of causes is checked: a traceback or an error tracker shows it."""
    data: object = BAD_FRAMES[frame]
    if kind == "parquet":
        pq.write_table(data, scene.private / "bad.parquet")
        data = scene.private / "bad.parquet"
    elif kind == "pandas":
        data = BAD_FRAMES[frame].to_pandas()
    caplog.set_level(logging.DEBUG)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises(HushtableError) as raised:
            publish(data, Schema.load(scene.private / "schema.yaml"),
                    METHOD,
                    out=scene.releases / "r", ledger=scene.ledger)  # fmt: skip
    shown = "".join(traceback.format_exception(raised.value))
    assert_silent(shown, caplog.text, *(str(warning.message) for warning in warned))
    scene.check()


def test_a_mixed_pandas_column_is_not_quoted(scene: Scene) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"id": [1, MARK], "age": [3, f"{MARK}{NUMBER}"], "town": ["Ayre", 4]})
    with pytest.raises(HushtableError) as raised:
        publish(frame, Schema.load(scene.private / "schema.yaml"),
                METHOD, out=scene.releases / "r")  # fmt: skip
    assert_silent("".join(traceback.format_exception(raised.value)))


def test_debug_shows_places_and_no_values(commands: Commands, scene: Scene) -> None:
    """The message of an unexpected error may contain anything, so it is not shown."""
    script = f"""
import sys
from hushtable.engine import PrivateTable
from hushtable.cli import app as cli

def fail(*arguments, **options):
    message = "could not convert " + "{MARK}" + "{NUMBER}"
    raise ValueError(message)  # a line that may be quoted: Python 3.13 knows the source of "-c"

PrivateTable.connect = fail
sys.argv = ["hushtable", "--debug", *{scene.publish()!r}]
cli.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False,
        env={**os.environ, "TMPDIR": str(scene.temporary)},
    )  # fmt: skip
    assert done.returncode == 1
    assert "internal error (ValueError)" in done.stderr
    assert "Entry 1 of the ledger was charged" in done.stderr
    assert "publishing/run.py" in done.stderr  # where it happened
    assert "could not convert" not in done.stderr
    assert_silent(done.stdout, done.stderr)
    scene.check()


def test_a_release_and_its_surroundings_hold_no_private_text(
    commands: Commands, scene: Scene
) -> None:
    done = commands.run(scene, scene.publish())
    assert done.code == 0, done
    assert_silent(done.out, done.err)
    assert marked_files(scene.releases, (MARK.encode(), NUMBER.encode())) == []
    for words in (["show", "--json"], ["show"], ["query", "age > 3"]):
        done = commands.run(scene, [words[0], str(scene.releases / "r"), *words[1:]])
        assert done.code == 0, done
        assert_silent(done.out, done.err)
    scene.check()


UMASK = """
import os, sys
os.umask(0)
from hushtable.cli import app as cli
from hushtable import engine
import stat

for words in {commands!r}:
    sys.argv = ["hushtable", *words]
    try:
        cli.main()
    except SystemExit as stop:
        assert not stop.code, (words, stop.code)
source = engine.open({data!r}).source()
for folder, folders, files in os.walk({temporary!r}):
    for name in folders + files:
        print(oct(stat.S_IMODE(os.lstat(os.path.join(folder, name)).st_mode)), name)
"""


def test_what_is_private_is_the_owners_alone_under_any_umask(scene: Scene) -> None:
    draft, book = scene.private / "draft.yaml", scene.releases / "other.ledger"
    script = UMASK.format(
        commands=[
            scene.publish(),
            ["schema", "draft", str(scene.private / "data.csv"), "-o", str(draft)],
            ["ledger", "init", str(book), "--epsilon", "1"],
        ],
        data=str(scene.private / "data.csv"), temporary=str(scene.temporary),
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True,
        env={**os.environ, "TMPDIR": str(scene.temporary)},
    )  # fmt: skip
    modes = re.findall(r"^(0o\d+) ", done.stdout, re.MULTILINE)
    assert modes
    assert set(modes) <= {"0o700", "0o600"}
    for path in (draft, book):
        assert path.stat().st_mode & 0o777 == 0o600
    # All users may read a release; only its owner may write it.
    for path in (scene.releases / "r").rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644)
    book.unlink()
    scene.check()


def test_names_with_quotes_and_semicolons(scene: Scene) -> None:
    """Column names reach the engine as names, whatever they contain."""
    hostile = ['a"; DROP TABLE x; --', "b' OR 1=1 --", "c]/*", "read_csv('x')", "[/bold]", "%s{}"]
    schema = Schema.from_dict(
        {
            "name": "[/bold]", "columns": {
                **{name: {"type": "integer", "low": 0, "high": 1} for name in hostile},
                "v'; --": {"type": "categorical", "values": ["x'; DROP TABLE y; --", 'q"']},
            },
        }
    )  # fmt: skip
    table = pa.table(
        {name: [0, 1] * 10 for name in hostile} | {"v'; --": ["x'; DROP TABLE y; --", 'q"'] * 10}
    )
    pq.write_table(table, scene.private / "names.parquet")
    for number, data in enumerate((table, scene.private / "names.parquet")):
        for engine in ("memory", "duckdb"):
            release = publish(
                data, schema, NoisyCounts(epsilon=5, delta="1e-3", k=1), engine=engine,
                out=scene.releases / f"names-{number}-{engine}",
            )  # fmt: skip
            assert release.count("\"v'; --\" = 'x''; DROP TABLE y; --'").value >= 0
            assert release.count('"a""; DROP TABLE x; --" = 1').value >= 0


def test_commands_print_hostile_names(commands: Commands, scene: Scene) -> None:
    """Square brackets are names here, not styles."""
    text = (scene.private / "schema.yaml").read_text()
    (scene.private / "schema.yaml").write_text(
        text.replace("town:", '"[/town]":').replace("marked people", "'[/x] :smile:'")
    )
    data = (scene.private / "data.csv").read_text()
    (scene.private / "data.csv").write_text(data.replace('"town"', '"[/town]"', 1))
    same = ["--same-people", "[/x] has other names for the same columns"]
    for words in (
        ["schema", "check", str(scene.private / "schema.yaml"), str(scene.private / "data.csv")],
        ["plan", "noisy-counts", str(scene.private / "schema.yaml"), "--epsilon", "1",
         "--delta", "1e-6", "--k", "2"],
        [*scene.publish("[red] r"), *same],
        ["show", str(scene.releases / "[red] r")],
        ["query", str(scene.releases / "[red] r"), "\"[/town]\" = 'Ayre'"],
        ["export", str(scene.releases / "[red] r"), "--out", str(scene.releases / "[b].csv")],
    ):  # fmt: skip
        done = commands.run(scene, words)
        assert done.code == 0, (words, done.err)


# --- seeded noise ----------------------------------------------------------------------------


@pytest.fixture
def seeded(scene: Scene) -> Path:
    publish(
        scene.private / "data.csv", Schema.load(scene.private / "schema.yaml"),
        NoisyCounts(epsilon=1, delta="1e-6", k=2), out=scene.releases / "s",
        noise=SeededNoise(shifted(1)),
    )  # fmt: skip
    return scene.releases / "s"


def test_a_seeded_release_says_so_everywhere(
    seeded: Path, commands: Commands, scene: Scene
) -> None:
    assert [path.name for path in seeded.glob("*.parquet")] == ["seeded-data.parquet"]
    assert "not private" in (seeded / "STATEMENT.md").read_text()
    with pytest.warns(SeededReleaseWarning, match="not private"):
        release = Release.load(seeded)
    assert release.statement.seeded
    assert [g.family for g in release.statement.guarantees] == ["none"]
    with pytest.raises(ReleaseError, match=r"'seeded-rows\.csv'"):
        release.export(scene.releases / "rows.csv")
    release.export(scene.releases / "seeded-rows.csv")
    for words in (["show"], ["show", "--json"], ["query", "age > 3", "--json"]):
        done = commands.run(scene, [words[0], str(seeded), *words[1:]])
        assert done.code == 0
        assert "not private" in done.err, words
    done = commands.run(scene, ["export", str(seeded), "--out", str(scene.releases / "x.csv")])
    assert "seeded" in done.refused().err


def test_a_private_release_does_not(scene: Scene, commands: Commands) -> None:
    assert commands.run(scene, scene.publish()).code == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not Release.load(scene.releases / "r").statement.seeded
    assert commands.run(scene, ["show", str(scene.releases / "r")]).err == ""


def test_the_marks_of_a_seeded_release_cannot_be_taken_off_one_by_one(seeded: Path) -> None:
    statement = seeded / "statement.json"
    text = statement.read_text()
    statement.write_text(text.replace("none (seeded)", "differential privacy"))
    with pytest.raises(ReleaseError, match="disagree"):
        Release.load(seeded)
    statement.write_text(text.replace("seeded-data", "data"))
    (seeded / "seeded-data.parquet").rename(seeded / "data.parquet")
    with pytest.raises(ReleaseError, match="disagree"):
        Release.load(seeded)
