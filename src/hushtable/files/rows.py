"""Writing of published rows from their values alone.

An Arrow table contains more than its values: metadata of the table, of columns and of nested
fields, dictionaries with values that no row has, chunk boundaries, and nullability flags. Any of
these may come from the private table. All rows are therefore written from a normal form that
contains only the values of each row.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from hushtable.schema import Schema


def without_metadata(table: pa.Table, schema: Schema | None = None) -> pa.Table:
    """Return the same values in normal form: without metadata, chunks or nullability flags.

    A dictionary is kept only if it equals the schema's list of values, which is public.

    Examples
    --------
    >>> field = pa.field("sex", pa.dictionary(pa.int8(), pa.string()), False, {"source": "ward 7"})
    >>> coded = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int8()), ["F", "a name"])
    >>> without_metadata(pa.table([coded], schema=pa.schema([field], {"pandas": "{}"}))).schema
    sex: string
    """
    listed = {} if schema is None else _lists_of(schema)
    columns, fields = [], []
    for field, column in zip(table.schema, table.columns, strict=True):
        kind = _type_without_metadata(field.type)
        if field.name in listed and _has_dictionary(column, listed[field.name]):
            kind = pa.dictionary(pa.int32(), kind)
        columns.append(_in_one(column.cast(kind)))
        fields.append(pa.field(field.name, kind))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def write_parquet(table: pa.Table, path: Path, schema: Schema | None = None) -> None:
    """Write rows to a Parquet file that depends only on their values and order."""
    pq.write_table(without_metadata(table, schema), path, compression="zstd")


def _lists_of(schema: Schema) -> dict[str, pa.Array]:
    return {
        name: pa.array(column.values, pa.string())
        for name, column in schema.attributes.items()
        if column.type == "categorical"
    }


def _has_dictionary(column: pa.ChunkedArray, values: pa.Array) -> bool:
    return pa.types.is_dictionary(column.type) and all(
        chunk.dictionary.equals(values) for chunk in column.chunks
    )


def _type_without_metadata(kind: pa.DataType) -> pa.DataType:
    """Return the type of the same values without dictionaries, extension types and metadata."""
    while isinstance(kind, pa.BaseExtensionType) or pa.types.is_dictionary(kind):
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind.storage_type
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(part.name, _type_without_metadata(part.type)) for part in kind])
    if pa.types.is_map(kind):
        return pa.map_(
            _type_without_metadata(kind.key_type), _type_without_metadata(kind.item_type)
        )
    if pa.types.is_large_list(kind):
        return pa.large_list(_type_without_metadata(kind.value_type))
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        size = kind.list_size if pa.types.is_fixed_size_list(kind) else -1
        return pa.list_(_type_without_metadata(kind.value_type), size)
    return kind


def _in_one(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Combine all chunks, so that page boundaries do not reveal them."""
    whole = column.combine_chunks()
    return whole if isinstance(whole, pa.ChunkedArray) else pa.chunked_array([whole])
