"""A release depends only on the values of the private rows, not on the form of their table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from contract.examples import COARSE
from hushtable import Release, publish
from hushtable.datasets import sample, sample_schema
from hushtable.files.rows import without_metadata, write_parquet
from hushtable.methods import (
    AlphaBeta,
    Columns,
    ContingencyTable,
    DiffGen,
    Frapp,
    GeneralizeSuppress,
    Method,
    NoisyCounts,
    Partition,
    Quilt,
    TopDownSpecialization,
)
from hushtable.methods.base import Released
from hushtable.methods.counts.noisy_counts import NoisyCountsPlan
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.release.release import SeededReleaseWarning
from hushtable.schema import Schema

MARK = b"CANARY"
TABLE, SCHEMA = sample().slice(0, 3000), sample_schema()


# --- one table in other forms ---------------------------------------------------------------------


def chunked(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table.slice(start, 700) for start in range(0, len(table), 700)])


def with_dictionaries(table: pa.Table) -> pa.Table:
    """Return chunks with their own dictionaries, each with a value that no row has."""
    columns = {}
    for name in table.column_names:
        column = table.column(name)
        if pa.types.is_string(column.type):
            parts = []
            for chunk in chunked(table.select([name])).column(0).chunks:
                coded = chunk.dictionary_encode()
                unused = pa.concat_arrays([pa.array([MARK.decode()]), coded.dictionary])
                places = pc.add(coded.indices, pa.scalar(1, pa.int32()))
                parts.append(pa.DictionaryArray.from_arrays(places, unused))
            columns[name] = pa.chunked_array(parts)
        else:
            columns[name] = column
    return pa.table(columns)


def with_metadata(table: pa.Table) -> pa.Table:
    fields = [field.with_metadata({"source": MARK, "PARQUET:field_id": "77"}) for field in
              table.schema]  # fmt: skip
    named = pa.schema(fields, {"pandas": MARK, "CANARY": "1"})
    return pa.Table.from_arrays(table.columns, schema=named)


def in_another_order(table: pa.Table) -> pa.Table:
    return table.take(pa.array(np.random.default_rng(1).permutation(len(table))))


def with_columns_turned(table: pa.Table) -> pa.Table:
    return table.select(table.column_names[::-1])


def never_null(table: pa.Table) -> pa.Table:
    fields = [
        field.with_nullable(table.column(field.name).null_count > 0) for field in table.schema
    ]
    return pa.Table.from_arrays(table.columns, schema=pa.schema(fields))


FORMS: list[Callable[[pa.Table], pa.Table]] = [
    chunked, with_dictionaries, with_metadata, in_another_order, with_columns_turned, never_null,
    lambda table: with_metadata(with_dictionaries(in_another_order(table))),
]  # fmt: skip
COUNTED: list[Method] = [
    NoisyCounts(epsilon=1, delta="1e-6", k=10, generalize=COARSE),
    NoisyCounts(epsilon=1, mechanism="pure", generalize=COARSE),
    DiffGen(epsilon=1, specializations=4),
    Partition(epsilon=1, max_depth=5),
    AlphaBeta(alpha="9/20", beta="1/20"),
    Columns(
        epsilon=2, delta="1e-6", k=10, max_columns=2, generalize=COARSE,
        columns=[["age", "sex", "region"], ["region", "smoker", "diagnosis"]],
    ),
    Quilt(epsilon=1, delta="1e-9", particles=2000),
    GeneralizeSuppress(k=10, generalize=COARSE),
    ContingencyTable(epsilon=1),
    TopDownSpecialization(k=10),
]  # fmt: skip
"""Methods that see counts; those that draw for each row draw others for rows in another order."""


def folder_of(data: Any, method: Method, out: Path, engine: Any) -> dict[str, bytes]:
    publish(data, SCHEMA, method, out=out, noise=SeededNoise(7), engine=engine)
    return {
        str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("method", COUNTED, ids=lambda method: f"{method.name}")
def test_the_form_of_the_private_table_does_not_reach_the_release(
    method: Method, tmp_path: Path
) -> None:
    plain = folder_of(TABLE, method, tmp_path / "plain", "memory")
    for number, form in enumerate(FORMS):
        table = form(TABLE)
        given: list[tuple[Any, str]] = [(table, "memory")]
        if number in (1, 6):
            pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=100 + number)
            given += [(table, "duckdb"), (tmp_path / f"{number}.parquet", "memory")]
        for at, (data, engine) in enumerate(given):
            found = folder_of(data, method, tmp_path / f"{number}-{at}", engine)
            assert found == plain, (number, engine)
    assert not any(MARK in content for content in plain.values())


@pytest.mark.parametrize("method", [Frapp(retention="1/5")], ids=lambda method: f"{method.name}")
def test_the_form_of_a_table_in_the_same_order(method: Method, tmp_path: Path) -> None:
    """Methods that draw for each row."""
    plain = folder_of(TABLE, method, tmp_path / "plain", "memory")
    for number, form in enumerate((chunked, with_dictionaries, with_metadata, never_null)):
        assert folder_of(form(TABLE), method, tmp_path / str(number), "memory") == plain


# --- results of methods ---------------------------------------------------------------------------


def laden() -> pa.Table:
    """Return rows with a marker in everything except their values."""
    coded = pa.DictionaryArray.from_arrays(pa.array([1, 1], pa.int8()), ["CANARY", "F"])
    inner = pa.field("part", pa.int64(), metadata={"CANARY": "2"})
    nested = pa.array([{"part": 1}, {"part": 2}], pa.struct([inner]))
    listed_type = pa.list_(pa.field("CANARY", pa.string(), metadata={"CANARY": "3"}))
    listed = pa.array([["a"], ["b"]], listed_type)
    fields = [
        pa.field("sex", coded.type, metadata={"CANARY": "4"}),
        pa.field("nested", nested.type, metadata={"CANARY": "5"}),
        pa.field("listed", listed_type, False),
    ]
    schema = pa.schema(fields, {"pandas": "CANARY", "CANARY": "6"})
    return pa.table([coded, nested, listed], schema=schema)


def test_only_values_are_written(tmp_path: Path) -> None:
    write_parquet(laden(), tmp_path / "rows.parquet")
    assert MARK not in (tmp_path / "rows.parquet").read_bytes()
    read = pq.read_table(tmp_path / "rows.parquet")
    assert read.to_pylist() == laden().to_pylist()
    assert read.schema.metadata is None
    assert str(read.schema.field("sex").type) == "string"
    found = pq.read_metadata(tmp_path / "rows.parquet")
    assert set(found.metadata) == {b"ARROW:schema"}  # types and names, as read above


def test_the_same_rows_are_the_same_bytes(tmp_path: Path) -> None:
    table = TABLE.select(["sex", "age", "diagnosis"])
    write_parquet(table, tmp_path / "plain.parquet")
    for number, form in enumerate((chunked, with_dictionaries, with_metadata, never_null)):
        write_parquet(form(table), tmp_path / f"{number}.parquet")
        assert (tmp_path / f"{number}.parquet").read_bytes() == (
            tmp_path / "plain.parquet"
        ).read_bytes()


def test_a_dictionary_is_the_schemas_or_none() -> None:
    schema = Schema.parse("name: t\ncolumns:\n  sex: {type: categorical, values: [F, M]}\n")
    for values, stays in ((["F", "M"], True), (["F"], False), (["M", "F"], False)):
        coded = pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.array(values))
        kept = without_metadata(pa.table({"sex": coded}), schema).schema.field("sex").type
        assert pa.types.is_dictionary(kept) is stays
        other = without_metadata(pa.table({"other": coded}), schema).schema.field("other").type
        assert not pa.types.is_dictionary(other)


def test_what_a_method_hands_out_is_stripped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the folder and in exports."""
    real = NoisyCountsPlan.release

    def release(self: NoisyCountsPlan, source: Any, noise: Any) -> Released:
        released = real(self, source, noise)
        return Released(
            {"data": with_metadata(released.tables["data"])},
            released.settings, released.attachments,
        )  # fmt: skip

    monkeypatch.setattr(NoisyCountsPlan, "release", release)
    found = folder_of(TABLE, COUNTED[0], tmp_path / "out", "memory")
    assert not any(MARK in content for content in found.values())
    with pytest.warns(SeededReleaseWarning):
        release = Release.load(tmp_path / "out")
    release.export(tmp_path / "seeded-rows.parquet")
    assert MARK not in (tmp_path / "seeded-rows.parquet").read_bytes()
    found = pq.read_metadata(tmp_path / "seeded-rows.parquet").metadata
    assert set(found) == {b"ARROW:schema"}
