"""Mutants: each fix of row encoding, undone alone, fails a check of row independence."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from contract.test_row_independence import (
    FAULTS,
    OF_PERSONS,
    PERSONS,
    PLAIN,
    _with_beside,
    check_codes,
)
from hushtable.engine import coded_rows, encode_arrow, sql_counting
from hushtable.engine.sources import duckdb_files
from hushtable.errors import InternalError
from raw_values import PERSON, ROW, RawTable


def _in_the_file(patch: pytest.MonkeyPatch) -> None:
    """Encode a Parquet file in DuckDB, with its statistics."""

    def in_duckdb(rows: Any) -> Any:
        return duckdb_files.open_in_duckdb(rows.data, rows.header).coded(rows.schema)

    patch.setattr(duckdb_files, "_disable_optimizers", lambda connection: None)
    patch.setattr(coded_rows.EncodedRows, "in_duckdb", in_duckdb)


def _coarser(column: pa.ChunkedArray, *_: Any) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_decimal256(kind):
        return column.cast(pa.float64())
    if getattr(kind, "unit", None) == "ns":
        coarse = {pa.time64("ns"): pa.time64("us"), pa.duration("ns"): pa.duration("us")}
        return column.cast(coarse.get(kind, pa.timestamp("us")), safe=False)
    return column


def _as_doubles_and_microseconds(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(coded_rows, "identities", _coarser)


def _keys_as_doubles_and_microseconds(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(duckdb_files, "plain_column", _coarser)
    patch.setattr(duckdb_files, "is_long_decimal", lambda kind: False)


def _rounded(patch: pytest.MonkeyPatch) -> None:
    """Round instants from half a second on."""
    exact = encode_arrow._as_whole

    def rounded(column: pa.ChunkedArray) -> pa.ChunkedArray:
        half = {"ms": 500, "us": 500_000, "ns": 500_000_000}.get(
            getattr(column.type, "unit", "s"), 0
        )
        return pa.chunked_array([pa.array([n if n is None else n + half for n in c.to_pylist()],
                                          c.type) for c in exact(column).chunks])  # fmt: skip

    patch.setattr(encode_arrow, "_as_whole", rounded)


def _without_guard(patch: pytest.MonkeyPatch) -> None:
    for module in (coded_rows, sql_counting):
        patch.setattr(module, "spot_check", lambda *_: None)
    patch.setattr(coded_rows, "check_identities", lambda *_: None)


Mutant = Callable[[pytest.MonkeyPatch], None]


def _codes(fault: str, folder: Path) -> None:
    raw = _with_beside(*FAULTS[fault], "x1")
    check_codes(raw, PLAIN["parquet"], "duckdb", folder, random.Random(0))  # noqa: S311


def _persons(kind: str, check: str, folder: Path) -> None:
    column = PERSONS[kind]
    raw = RawTable(pa.table({ROW: pa.array(range(len(column))), PERSON: column}), {})
    OF_PERSONS[check](raw, PLAIN["parquet"], "duckdb", folder, random.Random(0))  # noqa: S311


def test_statistics_change_codes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _codes("nan", tmp_path)
    _without_guard(monkeypatch)
    _in_the_file(monkeypatch)
    with pytest.raises(AssertionError):
        _codes("nan", tmp_path)


@pytest.mark.parametrize("fault", ["instants", "timestamps", "microseconds"])
def test_rounding_changes_codes(
    monkeypatch: pytest.MonkeyPatch, fault: str, tmp_path: Path
) -> None:
    _rounded(monkeypatch)
    with pytest.raises(InternalError, match="encoded otherwise"):
        _codes(fault, tmp_path)
    _without_guard(monkeypatch)
    with pytest.raises(AssertionError):
        _codes(fault, tmp_path)


@pytest.mark.parametrize("kind", ["long decimals", "instants", "timestamps", "times", "lengths"])
def test_a_coarser_type_confuses_persons(
    monkeypatch: pytest.MonkeyPatch, kind: str, tmp_path: Path
) -> None:
    _as_doubles_and_microseconds(monkeypatch)
    _without_guard(monkeypatch)
    with pytest.raises(AssertionError):
        _persons(kind, "persons", tmp_path)


@pytest.mark.parametrize("kind", ["long decimals", "instants", "timestamps", "times"])
def test_a_coarser_type_confuses_keys(
    monkeypatch: pytest.MonkeyPatch, kind: str, tmp_path: Path
) -> None:
    _keys_as_doubles_and_microseconds(monkeypatch)
    _without_guard(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        _persons(kind, "linked tables", tmp_path)
