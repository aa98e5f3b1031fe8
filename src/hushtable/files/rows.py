"""Writing of published rows from their values alone.

An Arrow table contains more than its values: metadata of the table, of columns and of nested
fields, dictionaries with values that no row has, chunk boundaries, and nullability flags. Any of
these may come from the private table. All rows are therefore written from a normal form that
contains only the values of each row.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from hushtable.errors import ReleaseError
from hushtable.extras import needing
from hushtable.files.writing import Scratch, sync, write_failures_as

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


# Escaping of texts that a spreadsheet would run as formulas.

_NUMBER = r"[+-]?[0-9]+([.,][0-9]+)?"
_PLAIN_NUMBER = re.compile(rf"{_NUMBER}( to {_NUMBER})?( or missing)?")  # or label of an interval
_SIGNS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")  # with their full-width forms


def no_formula(text: str) -> str:
    """Put a quote before a text that a spreadsheet would run as a formula.

    Examples
    --------
    >>> no_formula("=1+1"), no_formula("-5"), no_formula("plain")
    ("'=1+1", '-5', 'plain')
    """
    runs = text.lstrip(" ").startswith(_SIGNS) and not _PLAIN_NUMBER.fullmatch(text)
    return "'" + text if runs else text


def formula_safe(frame: pa.Table) -> pa.Table:
    """Put a quote before texts and column names that a spreadsheet would run as a formula."""
    for position, field in enumerate(frame.schema):
        if not (pa.types.is_string(field.type) or pa.types.is_large_string(field.type)):
            continue
        values = [value and no_formula(value) for value in frame.column(position).to_pylist()]
        frame = frame.set_column(position, field.name, pa.array(values, field.type))
    return frame.rename_columns([no_formula(name) for name in frame.column_names])


# Export of rows to a new CSV, Parquet, Stata or SPSS file.

EXPORTS = (".csv", ".parquet", ".dta", ".sav")


def export_rows(rows: Callable[[], pa.Table], path: Path, schema: Schema) -> None:
    """Write rows to a new file of one of `EXPORTS`; call `rows` only if the path is valid."""
    if path.suffix not in EXPORTS:
        raise ReleaseError(
            f"cannot export to {path.name!r}: use a .csv or .parquet file, or .dta (Stata) or .sav "
            "(SPSS)."
        )
    if path.exists():
        raise ReleaseError(f"{str(path)!r} exists; choose another name or remove it.")
    frame = rows()
    with _whole_file(path) as part:
        if path.suffix == ".parquet":
            write_parquet(frame, part, schema)
        elif path.suffix == ".csv":
            pa_csv.write_csv(formula_safe(frame), part)
        else:
            _write_labeled(frame, part, schema)


_NAME, _TEXT = 32, 80  # characters of a name, and of a label of a column, in Stata


def _write_labeled(frame: pa.Table, path: Path, schema: Schema) -> None:
    """Write rows to a Stata or SPSS file: texts as numbers with value labels, columns with labels.

    Values that are whole numbers keep them; otherwise, values are numbered from 1.
    """
    with needing("files", "a Stata or SPSS file"):
        import pyreadstat  # noqa: PLC0415 - optional
    names: list[str] = []
    titles, labels = [], {}
    for place, field in enumerate(frame.schema):
        column = schema.attributes.get(field.name)
        name = _stata_name(field.name, names)
        names.append(name)
        titles.append((column.label if column and column.label else field.name)[:_TEXT])
        special = getattr(column, "special_codes", {})
        known = column.labels if column else {}
        if pa.types.is_timestamp(field.type):
            values = frame.column(place).cast(pa.timestamp("ns"))  # pyreadstat misreads seconds
            frame = frame.set_column(place, name, values)
        elif not _is_text(field.type):
            labels[name] = {key: known.get(said, said) for key, said in special.items()}
        else:
            texts = frame.column(place).to_pylist()
            if pa.types.is_boolean(field.type):  # written as in a schema
                texts = [None if value is None else str(value).lower() for value in texts]
            listed = getattr(column, "values", ())
            listed = [*listed, *sorted({*texts} - {*listed, None})]
            numbers = _numbers(listed)
            labels[name] = {n: known.get(text, text) for text, n in numbers.items()}
            coded = [None if text is None else numbers[text] for text in texts]
            frame = frame.set_column(place, name, pa.array(coded, pa.int32()))
    write = pyreadstat.write_dta if path.suffix == ".dta" else pyreadstat.write_sav
    given = {name: found for name, found in labels.items() if found}
    try:
        rows = with_floats(frame).rename_columns(names).to_pandas()
    except ModuleNotFoundError:
        raise ReleaseError("a Stata or SPSS file needs pandas: run pip install pandas.") from None
    write(rows, path, column_labels=titles, variable_value_labels=given)


def with_floats(frame: pa.Table) -> pa.Table:
    """Convert decimal columns to floating point, which other tools compute with."""
    for place, field in enumerate(frame.schema):
        if pa.types.is_decimal(field.type):
            frame = frame.set_column(place, field.name, frame.column(place).cast(pa.float64()))
    return frame


def _is_text(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string,
                                       pa.types.is_dictionary, pa.types.is_boolean))  # fmt: skip


def _numbers(texts: Sequence[str]) -> dict[str, int]:
    """Return a number for each text: its own if all are short whole numbers, else its place."""
    if all(re.fullmatch(r"0|-?[1-9][0-9]{0,8}", text) for text in texts):
        return {text: int(text) for text in texts}
    return {text: place for place, text in enumerate(texts, 1)}


def _stata_name(name: str, taken: Sequence[str]) -> str:
    """Return a name that Stata and SPSS allow, different from those taken."""
    plain = re.sub(r"^(?![a-zA-Z])", "v", re.sub(r"[^a-zA-Z0-9_]", "_", name))[:_NAME]
    made, number = plain, 1
    while made.lower() in map(str.lower, taken):
        number += 1
        made = f"{plain[: _NAME - 6]}_{number}"
    return made


_MOST_ROWS = 1_048_575  # of a sheet, without the header
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")  # characters that a sheet cannot have


def write_workbook(path: str | Path, sheets: Mapping[str, pa.Table]) -> None:
    """Write tables to a new ``.xlsx`` file, one sheet each; texts are never formulas."""
    path = Path(path)
    with needing("files", "an Excel file"):
        from openpyxl import Workbook  # noqa: PLC0415 - optional
        from openpyxl.cell import WriteOnlyCell  # noqa: PLC0415
        from openpyxl.utils import get_column_letter  # noqa: PLC0415
    if path.suffix != ".xlsx":
        raise ReleaseError(f"cannot write Excel to {path.name!r}: use an .xlsx file.")
    if path.exists():
        raise ReleaseError(f"{str(path)!r} exists; choose another name or remove it.")
    for name, table in sheets.items():
        if table.num_rows > _MOST_ROWS:
            raise ReleaseError(
                f"{name} has {table.num_rows:,} rows; a sheet has at most {_MOST_ROWS:,}. Export a "
                ".csv or .parquet file, or fewer rows."
            )
    book = Workbook(write_only=True)
    for name, table in sheets.items():
        sheet = book.create_sheet(name)
        sheet.freeze_panes = "A2"
        for place, title in enumerate(table.column_names, 1):
            longest = max((len(str(v)) for v in table[title][:1000].to_pylist()), default=0)
            width = min(max(longest, len(title)) + 2, 100)
            sheet.column_dimensions[get_column_letter(place)].width = width
        for row in (table.column_names, *zip(*(c.to_pylist() for c in table.columns), strict=True)):
            cells = []
            for value in row:
                text = isinstance(value, str)
                if isinstance(value, float) and not math.isfinite(value):
                    value = None  # noqa: PLW2901 - a sheet has no such number
                cell = WriteOnlyCell(sheet, _CONTROL.sub("", value) if text else value)
                if text:
                    cell.data_type = "s"
                cells.append(cell)
            sheet.append(cells)
    with _whole_file(path) as part:
        book.save(part)


@contextmanager
def _whole_file(path: Path) -> Iterator[Path]:
    """Write to a temporary file and rename it, so that no partial file appears."""
    with write_failures_as(ReleaseError, f"cannot write {str(path)!r}"):
        scratch = Scratch(path.parent, f".{path.name}-part-")
        try:
            part = scratch.folder / path.name
            yield part
            sync(part)
            part.rename(path)
        finally:
            scratch.close()


# Number of rows that reading a Parquet file allocates.


def stored_rows(file: pq.ParquetFile) -> int:
    """Return the sum of rows over row groups: reading allocates memory for this many."""
    parts = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
    return sum(part.num_rows for part in parts)
