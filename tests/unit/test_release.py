"""Releases are self-contained: they load without private modules, and tampering is refused."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from hushtable.datasets import sample, sample_schema
from hushtable.engine.sources.header import stored_rows
from hushtable.errors import ReleaseError, TooLarge
from hushtable.methods import NoisyCounts
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.publishing.publish import publish
from hushtable.release.release import Release
from hushtable.schema import Schema
from seeds import shifted

METHOD = NoisyCounts(epsilon=1, delta="1e-6", k=10, generalize={"age": 20, "diagnosis": 1})

ALONE = """
import sys


class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"opendp", "pyspark", "pandas", "polars", "sklearn"}:
            raise ModuleNotFoundError(name)


sys.meta_path.insert(0, Absent())
from hushtable import Release
print(Release.load(sys.argv[1]).count("sex = 'F'").value > 0)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    publish(sample(), sample_schema(), METHOD, out=tmp_path / "r")
    return tmp_path / "r"


def test_loading_needs_no_optional_package(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ALONE, folder], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "True", done.stderr


def test_the_folder_holds_what_the_statement_says_and_nothing_else(folder: Path) -> None:
    assert sorted(p.name for p in folder.iterdir()) == [
        "STATEMENT.md", "data.parquet", "statement.json",
    ]  # fmt: skip
    statement = json.loads((folder / "statement.json").read_text())
    assert statement["format"] == 2
    assert statement["guarantees"][0]["epsilon"] == "1"
    assert statement["guarantees"][0]["neighbors"] == "add-remove"
    assert statement["ledger"] is None
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


def test_a_seeded_release_cannot_pass_for_a_private_one(tmp_path: Path) -> None:
    publish(sample(), sample_schema(), METHOD, out=tmp_path / "r", noise=SeededNoise(shifted(1)))
    path = tmp_path / "r" / "statement.json"
    statement = json.loads(path.read_text())
    assert statement["guarantee"] == "none (seeded)"
    statement["guarantees"] = [{"family": "threshold", "k": 10}]
    path.write_text(json.dumps(statement))
    with pytest.raises(ReleaseError, match="also states a guarantee"):
        Release.load(tmp_path / "r")


def test_unknown_estimators_and_tables_are_named(folder: Path) -> None:
    path = folder / "statement.json"
    statement = json.loads(path.read_text())
    statement["estimator"]["kind"] = "crystal ball"
    path.write_text(json.dumps(statement))
    release = Release.load(folder)
    with pytest.raises(ReleaseError, match="crystal ball"):
        release.count("TRUE")
    with pytest.raises(ReleaseError, match="no table 'other'"):
        release.table("other")


@pytest.mark.parametrize("change", [('"smoker"', '"smoket"'), ('"M"', '"W"')])
def test_a_statement_about_other_columns_or_values_is_refused(
    folder: Path, change: tuple[str, str]
) -> None:
    path = folder / "statement.json"
    text = path.read_text()
    assert change[0] in text
    path.write_text(text.replace(*change))
    with pytest.raises(ReleaseError, match=r"do not match|not in its schema"):
        Release.load(folder).count("age >= 40")


@pytest.mark.parametrize(("count", "error"), [(2**62, TooLarge), (-1, ReleaseError)])
def test_counts_that_stand_for_too_many_rows_are_refused(
    folder: Path, count: int, error: type[Exception]
) -> None:
    table = pq.read_table(folder / "data.parquet")
    counts = pa.array([count, *table["count"].to_pylist()[1:]], pa.int64())
    pq.write_table(
        table.set_column(table.num_columns - 1, "count", counts), folder / "data.parquet"
    )
    path = folder / "statement.json"
    statement = json.loads(path.read_text())
    digest = hashlib.sha256((folder / "data.parquet").read_bytes()).hexdigest()
    statement["tables"]["data"]["sha256"] = digest
    path.write_text(json.dumps(statement))
    with pytest.raises(error, match="counts of the release"):
        Release.load(folder).frame()


def test_exports_do_not_run_as_formulas(tmp_path: Path) -> None:
    schema = sample_schema().to_dict()
    schema["columns"] = {"note": {"type": "categorical", "values": ["=1+1", "@x", "plain"]}}
    table = pa.table({"note": ["=1+1", "@x", "plain"] * 100})
    release = publish(
        table,
        type(sample_schema()).from_dict(schema),
        NoisyCounts(epsilon=1, delta="1e-6", k=10),
        out=tmp_path / "r",
    )
    release.export(tmp_path / "rows.csv")
    values = set(pa_csv.read_csv(tmp_path / "rows.csv")["note"].to_pylist())
    assert values == {"'=1+1", "'@x", "plain"}


@pytest.mark.parametrize("file", ["statement.json", "data.parquet"])
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_only_regular_files_of_the_folder_are_read(file: str, kind: str, folder: Path) -> None:
    path = folder / file
    if kind == "link":
        path.rename(folder.parent / "elsewhere")
        path.symlink_to(folder.parent / "elsewhere")
    else:
        path.unlink()
        os.mkfifo(path) if kind == "pipe" else path.mkdir()
    with pytest.raises(ReleaseError):
        Release.load(folder)


def test_a_table_that_memory_cannot_hold_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hushtable.files.memory.physical_memory", lambda: 100)
    with pytest.raises(TooLarge, match="this machine has"):
        Release.load(folder).table()


def test_rows_are_counted_as_reading_makes_room_for_them(tmp_path: Path) -> None:
    """A damaged file may claim 12,345 rows in total, and a million in its only row group."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": np.zeros(12_345, np.int64)}), path)
    content = path.read_bytes()
    written, larger = b"\xf2\xc0\x01", b"\xfe\xff\x7f"  # the two numbers as encoded in the footer
    place = content.rindex(written)
    path.write_bytes(content[:place] + larger + content[place + 3 :])
    with pq.ParquetFile(path) as damaged:
        assert damaged.metadata.num_rows == 12_345
        assert stored_rows(damaged) == 1_048_575


def test_exported_texts_and_names_do_not_run_as_formulas(tmp_path: Path) -> None:
    """Characters that start a formula are quoted, also after spaces; plain numbers are not."""
    runs = ["=1+1", "+x", "-x", "@x", "\tx", "\rx", " =x", "\uff1dx", "-1+2", "+1-cmd"]
    plain = ["-5", "+3.5", "x=1", "a-b", "1"]
    column = {"type": "categorical", "values": runs + plain}
    schema = Schema.from_dict({"name": "t", "columns": {"=cmd()": column, "-5": column}})
    table = pa.table(dict.fromkeys(schema.columns, (runs + plain) * 40))
    method = NoisyCounts(epsilon=5, delta="1e-3", k=1)
    publish(table, schema, method, out=tmp_path / "r").export(tmp_path / "rows.csv")
    text = (tmp_path / "rows.csv").read_text(encoding="utf-8")
    assert text.splitlines()[0] == '"\'=cmd()","-5"'
    values = set(pa_csv.read_csv(
        tmp_path / "rows.csv", parse_options=pa_csv.ParseOptions(newlines_in_values=True),
        convert_options=pa_csv.ConvertOptions(column_types={"-5": pa.string()}),
    )["-5"].to_pylist())  # fmt: skip
    assert {f"'{value}" for value in runs} <= values
    assert set(plain) <= values
    assert not any(value in values for value in runs)


def test_the_statement_writes_every_rule_down(folder: Path) -> None:
    statement = json.loads((folder / "statement.json").read_text())
    for column in statement["schema"]["columns"].values():
        assert column.get("role") == "identifier" or {"missing", "outside"} <= column.keys()
    assert Release.load(folder).schema == sample_schema()


def test_statements_of_another_format_are_refused(folder: Path) -> None:
    path = folder / "statement.json"
    path.write_text(path.read_text().replace('"format": 2', '"format": 1'))
    with pytest.raises(ReleaseError, match="format 1; this version of hushtable reads only"):
        Release.load(folder)
