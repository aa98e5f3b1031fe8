"""Files that change or are truncated during a run; a clock that is set back."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from hushtable import NoisyCounts, Schema, publish
from hushtable.errors import CompositionError, DataError, HushtableError
from hushtable.privacy.guarantee import PureDP, Unit
from hushtable.privacy.ledger import ledger as ledger_module
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.release.release import Release

from .scene import MARK, Commands, Scene, marked_rows

METHOD = NoisyCounts(epsilon="1/100", delta="1e-9", k=2)


def try_to_publish(scene: Scene, data: str) -> str:
    """Return the refusal, or None."""
    try:
        publish_here(scene, data)
    except HushtableError as error:
        assert not (scene.releases / "r").exists()
        return str(error)
    return ""


def publish_here(scene: Scene, data: str = "data.parquet", schema: Schema | None = None) -> Release:
    return publish(
        scene.private / data,
        schema or Schema.load(scene.private / "schema.yaml"),
        METHOD,
        out=scene.releases / "r",
        ledger=scene.ledger,
    )


@pytest.mark.parametrize("part", [0.0, 0.001, 0.3, 0.7, 0.999])
@pytest.mark.parametrize("data", ["data.parquet", "data.csv"])
def test_file_cut_short(part: float, data: str, scene: Scene) -> None:
    path = scene.private / data
    content = path.read_bytes()
    path.write_bytes(content[: int(part * len(content))])
    said = try_to_publish(scene, data)
    assert MARK not in said
    if said:
        assert "Entry" in said or Ledger.open(scene.ledger).entries() == ()
    else:
        assert data == "data.csv", "a Parquet file without its end is none"
    assert scene.left_behind() == []
    scene.check()


def test_parquet_with_holes_in_its_pages(scene: Scene) -> None:
    """The end of the file, with the columns, is intact: the damage is found after the charge."""
    path = scene.private / "data.parquet"
    content = bytearray(path.read_bytes())
    content[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
    path.write_bytes(content)
    with pytest.raises(HushtableError, match=r"(?s)data.*Entry 1 .*void") as raised:
        publish_here(scene)
    assert MARK not in str(raised.value)
    assert len(Ledger.open(scene.ledger).entries()) == 1
    scene.check()


@pytest.mark.parametrize("data", ["data.parquet", "data.csv"])
@pytest.mark.parametrize("change", ["cut", "gone", "other columns", "folder"])
def test_table_changes_between_charge_and_reading(
    data: str, change: str, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, charge = scene.private / data, Ledger.charge

    def charge_and_change(book: Ledger, *arguments: object, **options: object) -> object:
        entry = charge(book, *arguments, **options)  # type: ignore[arg-type]
        content = path.read_bytes()
        path.unlink()
        if change == "cut":
            path.write_bytes(content[: len(content) // 2])
        elif change == "other columns":
            table = marked_rows(5).rename_columns([f"{MARK}-column", "age", "town"])
            (pq.write_table if path.suffix == ".parquet" else pa_csv.write_csv)(table, path)
        elif change == "folder":
            path.mkdir()
        return entry

    monkeypatch.setattr(Ledger, "charge", charge_and_change)
    said = try_to_publish(scene, data)
    if said:
        assert "Entry 1 " in said
        assert change == "other columns" or MARK not in said  # names of columns are not private
    else:
        assert (data, change) == ("data.csv", "cut"), "lines of text may end anywhere"
    assert len(Ledger.open(scene.ledger).entries()) == 1
    scene.check()


def test_schema_changes_between_plan_and_publish(commands: Commands, scene: Scene) -> None:
    schema = scene.private / "schema.yaml"
    text = schema.read_text()
    plan = ["plan", "noisy-counts", str(schema), "--epsilon", "0.01", "--delta", "1e-9", "--k", "2"]
    assert commands.run(scene, plan).code == 0
    changed = {
        "another column": (text.replace("  age:", "  height:"), "'height'"),
        "another name": (text.replace("town:", "city:"), "'city'"),
        "another unit": (
            text + "unit: {kind: person, column: id, max_rows: 2}\n", "or another ledger"
        ),
        "half written": (text[: len(text) // 2], ""),
        "empty": ("", "mapping"),
    }  # fmt: skip
    for name, (content, said) in changed.items():
        schema.write_text(content)
        done = commands.run(scene, scene.publish()).refused()
        assert said in done.err, (name, done.err)
        assert Ledger.open(scene.ledger).entries() == (), name
        assert not (scene.releases / "r").exists()
    schema.unlink()
    commands.run(scene, scene.publish()).refused()
    scene.check()


def test_schema_changes_while_publishing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The schema is read once: the statement contains the schema behind the promise."""
    charge = Ledger.charge

    def charge_and_change(book: Ledger, *arguments: object, **options: object) -> object:
        (scene.private / "schema.yaml").write_text("name: other\ncolumns: {x: {}}\n")
        return charge(book, *arguments, **options)  # type: ignore[arg-type]

    schema = Schema.load(scene.private / "schema.yaml")
    monkeypatch.setattr(Ledger, "charge", charge_and_change)
    assert publish_here(scene, schema=schema).schema == schema
    assert Release.load(scene.releases / "r").schema == schema
    scene.check()


def test_clock_goes_back(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are recorded for people only; order and amounts come from the chain."""
    ticks = itertools.count()
    start = datetime(2030, 1, 1, tzinfo=UTC)

    class Backwards(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return start - timedelta(days=400 * next(ticks))

    monkeypatch.setattr(ledger_module, "datetime", Backwards)
    publish_here(scene)
    row = {"unit": Unit(kind="row"), "neighbors": "add-remove"}
    book = Ledger.open(scene.ledger)
    held = book.reserve([PureDP(epsilon="1/50", **row)], purpose="later")
    (scene.releases / "r").rename(scene.releases / "first")
    publish_here(scene)
    book.release_reservation(held)
    entries = book.entries()
    assert [entry.time for entry in entries] == sorted(
        (entry.time for entry in entries), reverse=True
    )
    assert [entry.id for entry in entries] == sorted(entry.id for entry in entries)
    assert scene.check() == 2
    with pytest.raises(CompositionError):
        book.charge([PureDP(epsilon=1, unit=Unit(kind="node"), neighbors="add-remove")],
                    purpose="x")  # fmt: skip


def test_data_is_a_link_that_goes_nowhere(scene: Scene) -> None:
    path = scene.private / "data.parquet"
    path.unlink()
    path.symlink_to(Path("nowhere.parquet"))
    with pytest.raises(DataError, match="does not exist"):
        publish_here(scene)
    assert Ledger.open(scene.ledger).entries() == ()
