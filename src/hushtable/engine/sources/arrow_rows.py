"""Rows of frames and Parquet files as Arrow tables, batch by batch, in types that lose nothing.

Arrow reads the rows. No database evaluates an expression over a file: it may answer from the file's
statistics, and then the code of one row depends on other rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hushtable.engine.sources.header import Data, Header
from hushtable.engine.sources.source import BATCH_ROWS

_MAX_DIGITS = 38  # of a decimal of DuckDB


def read_batches(data: Data, header: Header, names: Sequence[str]) -> Iterator[pa.Table]:
    """Read some columns of an Arrow table or of Parquet files; at least one batch."""
    arrow = header.arrow
    assert arrow is not None  # noqa: S101 - frames and Parquet files have one
    places = [header.names.index(name) for name in names]
    if not header.files:
        table = data.select(places).rename_columns(list(names))
        for start in range(0, max(table.num_rows, 1), BATCH_ROWS):
            yield table.slice(start, BATCH_ROWS)
        return
    stored = [arrow.field(place).name for place in places]
    texts = [name for name, at in zip(stored, places, strict=True) if is_text(arrow.field(at).type)]
    empty = True
    for file in header.files:
        # With pre_buffer, which is the default, Arrow would keep all that it has read of the file.
        with pq.ParquetFile(
            file,
            read_dictionary=_stored_as_dictionary(file, texts),
            buffer_size=1 << 16,
            pre_buffer=False,
        ) as opened:
            # One thread: encoding takes longer than reading, and each thread keeps freed memory.
            for batch in opened.iter_batches(BATCH_ROWS, columns=stored, use_threads=False):
                table = pa.Table.from_batches([batch]).select(stored)
                yield table.rename_columns(list(names))
                empty = False
    if empty:
        fields = [arrow.field(place).with_name(name) for place, name in zip(places, names)]  # noqa: B905
        yield pa.schema(fields).empty_table()


def _stored_as_dictionary(file: Any, names: Sequence[str]) -> list[str]:
    """Return the text columns that Arrow can read as dictionaries, which is quicker."""
    metadata = pq.read_metadata(file)
    plain = set(names)
    for group in range(metadata.num_row_groups):
        for place in range(metadata.num_columns):
            column = metadata.row_group(group).column(place)
            if any(encoding.startswith("DELTA") for encoding in column.encodings):
                plain.discard(column.path_in_schema)
    return [name for name in names if name in plain]


def is_text(kind: pa.DataType) -> bool:
    """Return whether a type is a text type."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def plain_column(column: pa.ChunkedArray) -> pa.ChunkedArray:  # noqa: PLR0911 - one for each type
    """Return a column in a type that DuckDB reads without loss of what a code depends on.

    Instants become timestamps in UTC. Durations, decimals of more than 38 digits, and times and
    timestamps in nanoseconds become texts.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        return plain_column(decoded(column))
    if kind == pa.string_view():
        return column.cast(pa.large_string())
    if pa.types.is_float16(kind):
        return column.cast(pa.float32())
    if pa.types.is_decimal(kind):
        return _plain_decimal(column)
    if pa.types.is_timestamp(kind) and kind.tz:
        return plain_column(column.cast(pa.timestamp(kind.unit)))
    if kind in (pa.time64("ns"), pa.timestamp("ns")):  # DuckDB or ibis would round them
        return _compute().replace_substring_regex(column.cast(pa.string()), r"\.?0+$", "")
    if pa.types.is_duration(kind):
        ticks = column.cast(pa.int64()).cast(pa.string())
        return _compute().binary_join_element_wise(ticks, pa.scalar(kind.unit), " ")
    return column


def without_nanoseconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times and timestamps in whole microseconds, rounded down; other columns unchanged.

    The periods of a calendar column are longer, so its codes stay the same.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        return without_nanoseconds(decoded(column))
    if kind == pa.time64("ns"):
        return column.cast(pa.time64("us"), safe=False)
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        plain = column.cast(pa.timestamp("ns"))  # an instant becomes a timestamp in UTC
        return _compute().floor_temporal(plain, unit="microsecond").cast(pa.timestamp("us"))
    return column


def identities(column: pa.ChunkedArray, missing_values: Sequence[str]) -> pa.ChunkedArray:
    """Return persons or keys in a type whose equality identifies them; null if there is none.

    Two values are the same person if they are the same number, the same instant, or the same text,
    byte by byte. NaN and texts among `missing_values` identify nobody; -0.0 is 0.0.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        return identities(decoded(column), missing_values)
    if pa.types.is_floating(kind):
        return _chunked(column, _real_identity)
    if pa.types.is_temporal(kind):
        return column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    if pa.types.is_fixed_size_binary(kind):
        return column.cast(pa.binary())
    plain = plain_column(column)
    if missing_values and (is_text(kind) or kind == pa.string_view()):
        unnamed = pa.array(missing_values, plain.type)
        return _chunked(plain, lambda part: _without(part, unnamed))
    return plain


def _real_identity(part: pa.Array) -> pa.Array:
    values = part.cast(pa.float64())
    pc = _compute()
    values = pc.add(values, 0.0)  # -0.0 becomes 0.0
    return pc.if_else(pc.is_nan(values), pa.scalar(None, pa.float64()), values)


def _without(part: pa.Array, unnamed: pa.Array) -> pa.Array:
    pc = _compute()
    return pc.if_else(pc.is_in(part, unnamed), pa.scalar(None, part.type), part)


def decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the plain values of a dictionary-encoded column."""
    kind = column.type.value_type
    if kind == pa.string_view():  # Arrow cannot look up values in this type
        kind = pa.large_string()
    parts = [
        chunk.dictionary.cast(kind).take(chunk.indices.cast(pa.int64())) for chunk in column.chunks
    ]
    return pa.chunked_array(parts, kind)


def _plain_decimal(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return decimals of at most 38 digits as decimals, and longer ones as texts."""
    kind = column.type
    if (digits := _digits(kind)) <= _MAX_DIGITS:
        return column.cast(pa.decimal128(digits, max(kind.scale, 0)))
    texts = [None if value is None else f"{value:f}" for value in column.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.string())])


def _digits(kind: pa.DataType) -> int:
    return int(max(kind.precision - min(kind.scale, 0), kind.scale))


def is_long_decimal(kind: pa.DataType) -> bool:
    """Return whether a type is a decimal that is too long for DuckDB."""
    return bool(pa.types.is_decimal(kind)) and _digits(kind) > _MAX_DIGITS


def _chunked(column: pa.ChunkedArray, convert: Any) -> pa.ChunkedArray:
    parts = [convert(chunk) for chunk in column.chunks]
    return pa.chunked_array(parts or [convert(pa.array([], column.type))])


def _compute() -> Any:
    import pyarrow.compute  # noqa: PLC0415 - slow to import

    return pyarrow.compute
