"""Files that are read as a whole: Excel, JSON lines, Feather, Stata, SPSS and SAS.

Column names are read from the first line or the metadata of the file. Rows are read into memory
when an engine is connected, after the charge.

In Excel and JSON lines, cells have types and columns do not, so each cell is read as text
(`texts_of`).
"""

from __future__ import annotations

import csv
import datetime
import gzip
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from hushtable.errors import DataError, HushtableError, ParameterError
from hushtable.schema.file_format import FileFormat

# Conversion of cells to text, for tables whose columns have no type.
#
# In Excel, JSON lines and SQLite, every cell has its own type. With a common column type, or that
# of the first cell, one row could change how all other rows are read, which the noise does not
# cover.

_EDGE = 2.0**63


def texts_of(cells: Iterable[Any]) -> pa.Array:
    """Convert cells to text in the spelling of `hushtable.engine.encode`.

    Examples
    --------
    >>> import datetime
    >>> texts_of([3.0, 0.5, True, None, "3.0", datetime.timedelta(hours=1)]).to_pylist()
    ['3', '0.5', 'true', None, '3.0', '3600000000 us']
    """
    return pa.array(map(_text, cells), pa.string())


def _text(cell: Any) -> str | None:  # noqa: PLR0911 - one for each type
    if cell is None or isinstance(cell, str):
        # JSON can contain unpaired surrogates, which are not valid text.
        return cell and cell.encode("utf-8", "replace").decode()
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, int):
        return str(cell)
    if isinstance(cell, float):
        if math.isnan(cell):
            return None
        return str(int(cell)) if cell.is_integer() and abs(cell) < _EDGE else str(cell)
    if isinstance(cell, datetime.datetime):
        return cell.isoformat(" ")
    if isinstance(cell, datetime.date | datetime.time):
        return cell.isoformat()
    if isinstance(cell, datetime.timedelta):
        return f"{cell // datetime.timedelta(microseconds=1)} us"
    return f"x{cell.hex()}" if isinstance(cell, bytes) else json.dumps(cell)


# Value labels of Stata and SPSS files, such as 1 for "male", 2 for "female", -9 for "refused".
#
# The labels are in the file's metadata. A schema lists the columns whose values are replaced by
# their labels (``reading: {labels: [sex]}``), so that the code of a cell does not depend on other
# rows.

Labels = Mapping[float | str, str]
"""The label of each value of a column; numbers in ascending order."""


def labels_of(meta: Any) -> dict[str, Labels]:
    """Return the labels of each column from the metadata that pyreadstat returns.

    Values that the file declares as missing are read as missing, so their labels are omitted, as
    are those of Stata's extended missing values (``.a``).
    """
    texts = {name for name, kind in meta.readstat_variable_types.items() if kind == "string"}
    found: dict[str, Labels] = {}
    for name, labels in meta.variable_value_labels.items():
        ranges = meta.missing_ranges.get(name, [])
        kept = {
            value: str(label).strip()
            for value, label in labels.items()
            if isinstance(value, str) == (name in texts)
            and not any(part["lo"] <= value <= part["hi"] for part in ranges)
        }
        if kept:
            found[name] = dict(sorted(kept.items()))
    return found


def require_labels(wanted: Sequence[str], known: Mapping[str, Labels]) -> None:
    """Raise an error if the schema asks for labels that the file does not have."""
    without = [name for name in wanted if name not in known]
    if without:
        listed = ", ".join(map(repr, known)) or "none"
        raise DataError(
            f"reading: labels lists {', '.join(map(repr, without))}, but the file has no labels "
            f"for their values; columns with labels: {listed}."
        )


def by_label(values: Sequence[Any], labels: Labels) -> list[str | None]:
    """Return the label of each value, or its text if it has none.

    Examples
    --------
    >>> by_label([1.0, 2.0, 7.0, None], {1: "male", 2: "female"})
    ['male', 'female', '7', None]
    """
    return [None if value is None else labels.get(value) or _label_text(value) for value in values]


def _label_text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


@dataclass(frozen=True, eq=False)
class WholeFile:
    """Column names and value labels of one or several files, and a function that reads the rows."""

    file: Path
    names: tuple[str, ...]
    load: Callable[[], pa.Table]
    labels: Mapping[str, Labels] = field(default_factory=dict)


def deferred_all(given: str | Path, files: Sequence[Path], layout: FileFormat) -> WholeFile | None:
    """Open files that are read as a whole and append their rows; None for other types."""
    opened = [one for file in files if (one := deferred(file, layout)) is not None]
    problems = [
        f"file {str(one.file)!r} does not have the same columns as {str(opened[0].file)!r}."
        for one in opened
        if one.names != opened[0].names
    ]
    DataError.raise_if_any(problems)
    if len(opened) <= 1:
        return opened[0] if opened else None
    return WholeFile(
        Path(given), opened[0].names, lambda: pa.concat_tables([one.load() for one in opened])
    )


def deferred(file: Path, layout: FileFormat) -> WholeFile | None:
    """Open a file that is read as a whole; return None for other types."""
    kind = file.suffix.lower()
    opener = _OPENERS.get(kind)
    inner = Path(file.stem).suffix.lower() if kind == ".gz" else kind
    if inner in _TEXTS and not layout.is_utf8:
        kind, opener = "text", _csv
    if opener is None:
        return None
    with _explained(file, kind):
        opened = opener(file, layout)
    return replace(opened, load=lambda: _load(opened, kind))


def _load(opened: WholeFile, kind: str) -> pa.Table:
    with _explained(opened.file, kind):
        table = opened.load()
    if tuple(table.column_names) != opened.names:
        raise DataError("the columns of the data have changed since it was opened; try again.")
    return table


@contextmanager
def _explained(file: Path, kind: str) -> Iterator[None]:
    """Replace a reader's errors by our own messages, since theirs may quote values."""
    try:
        yield
    except HushtableError:
        raise
    except ModuleNotFoundError as error:
        raise ParameterError(
            f"reading {kind} files needs {error.name}, which is not installed: run pip install "
            "'hushtable[files]'."
        ) from None
    except UnicodeDecodeError:
        raise DataError(
            f"file {str(file)!r} is not text in the given encoding (reading: encoding)."
        ) from None
    except Exception as error:  # readers raise any type
        raise DataError(
            f"file {str(file)!r} cannot be read as a {kind} file ({type(error).__name__})."
        ) from None


# --- text in another encoding ---------------------------------------------------------------------


def _csv(file: Path, layout: FileFormat) -> WholeFile:
    read: Any = partial(gzip.open if file.suffix.lower() == ".gz" else open, file, "rt")
    with read(encoding=layout.encoding, newline="") as text:
        first = text.readline()
    delimiter = layout.delimiter or max((",", ";", "\t", "|"), key=first.count)
    names = tuple(next(csv.reader([first], delimiter=delimiter), []))

    def load() -> pa.Table:
        with read(encoding=layout.encoding, newline="") as text, _long_fields():
            rows = list(csv.reader(text, delimiter=delimiter))[1:]
        odd = sum(len(row) != len(names) for row in rows)
        if odd:
            raise DataError(f"{odd} lines of {str(file)!r} have other fields than the first.")
        columns = [[row[place] for row in rows] for place in range(len(names))]
        return pa.Table.from_arrays([pa.array(c, pa.string()) for c in columns], list(names))

    return WholeFile(file, names, load)


@contextmanager
def _long_fields() -> Iterator[None]:
    """Raise the field size limit of Python's CSV reader."""
    before = csv.field_size_limit(_LONGEST_FIELD)
    try:
        yield
    finally:
        csv.field_size_limit(before)


_LONGEST_FIELD = 2**31 - 1


# --- workbooks ------------------------------------------------------------------------------------


def sheets_of(file: Path) -> list[str]:
    """Return the names of the sheets of a workbook; empty for other files."""
    if file.suffix.lower() != ".xlsx":
        return []
    with _explained(file, ".xlsx"):
        import openpyxl  # noqa: PLC0415 - an extra

        book = openpyxl.load_workbook(file, read_only=True)
        try:
            return [sheet.title for sheet in book.worksheets]
        finally:
            book.close()


def _workbook(file: Path, layout: FileFormat) -> WholeFile:
    def rows(most: int | None = None) -> list[tuple[Any, ...]]:
        import openpyxl  # noqa: PLC0415 - an extra

        book = openpyxl.load_workbook(file, read_only=True, data_only=True)
        try:
            if layout.sheet is not None and layout.sheet not in book.sheetnames:
                listed = ", ".join(map(repr, book.sheetnames))
                raise DataError(
                    f"file {str(file)!r} has no sheet {layout.sheet!r}; it has {listed}."
                )
            sheet = book[layout.sheet] if layout.sheet else book.worksheets[0]
            return list(sheet.iter_rows(max_row=most, values_only=True))
        finally:
            book.close()

    head = rows(1)
    names = tuple("" if cell is None else str(cell) for cell in head[0]) if head else ()
    if not names:
        raise DataError(f"file {str(file)!r} is empty.")

    def load() -> pa.Table:
        # A row of a workbook may be shorter than the header.
        cells = [(*row, *(None,) * len(names))[: len(names)] for row in rows()[1:]]
        cells = [row for row in cells if any(cell is not None for cell in row)]
        columns = [texts_of(row[place] for row in cells) for place in range(len(names))]
        return pa.Table.from_arrays(columns, list(names))

    return WholeFile(file, names, load)


# --- JSON lines and Feather -----------------------------------------------------------------------


def _json_lines(file: Path, _: FileFormat) -> WholeFile:
    with file.open(encoding="utf-8") as text:
        first = json.loads(text.readline(), parse_int=_digits)
    if not isinstance(first, dict) or not first:
        raise DataError(f"the first line of {str(file)!r} is not a JSON object with columns.")
    names = tuple(map(str, first))

    def load() -> pa.Table:
        with file.open(encoding="utf-8") as text:
            records = [json.loads(line, parse_int=_digits) for line in text if line.strip()]
        more = {key for record in records for key in record} - set(names)
        if more:
            raise DataError(
                f"{len(more)} columns of {str(file)!r} are not in its first line; every line must "
                "have the keys of the first, or fewer."
            )
        return pa.Table.from_arrays(
            [texts_of(record.get(name) for record in records) for name in names], list(names)
        )

    return WholeFile(file, names, load)


def _digits(text: str) -> int | str:
    """Parse an integer; keep a text of more than 400 characters, since Python limits the length."""
    return int(text) if len(text) <= _LONG else text


_LONG = 400


def _feather(file: Path, _: FileFormat) -> WholeFile:
    with pa.memory_map(str(file)) as mapped:
        names = tuple(pa.ipc.open_file(mapped).schema.names)

    def load() -> pa.Table:
        with pa.memory_map(str(file)) as mapped:
            return pa.ipc.open_file(mapped).read_all()

    return WholeFile(file, names, load)


# --- Stata, SPSS, SAS -----------------------------------------------------------------------------


def _statistical(reader: str, file: Path, layout: FileFormat) -> WholeFile:
    import pyreadstat  # noqa: PLC0415 - an extra

    read = getattr(pyreadstat, reader)
    # SPSS files declare missing values; with this option, the metadata lists them.
    options = {"user_missing": True} if reader == "read_sav" else {}
    _, meta = read(file, metadataonly=True, output_format="dict", **options)
    labels = labels_of(meta)
    require_labels(layout.labels, labels)

    def load() -> pa.Table:
        columns, _ = read(file, output_format="dict")
        read_cells = {name: _plain(columns[name]) for name in meta.column_names}
        # Column types come from the file's metadata, not from the rows.
        return pa.table(
            {
                name: pa.array(by_label(cells, labels[name]), pa.string())
                if name in layout.labels
                else pa.array(cells)
                for name, cells in read_cells.items()
            }
        )

    return WholeFile(file, tuple(meta.column_names), load, labels)


def _plain(values: Any) -> list[Any]:
    """Replace NaN, by which pyreadstat marks missing numbers, by None."""
    listed = values.tolist() if hasattr(values, "tolist") else list(values)
    return [None if isinstance(value, float) and value != value else value for value in listed]  # noqa: PLR0124 - NaN


_TEXTS = (".csv", ".tsv", ".txt", ".data")
_OPENERS: Mapping[str, Callable[[Path, FileFormat], WholeFile]] = {
    ".xlsx": _workbook,
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".feather": _feather,
    ".arrow": _feather,
    ".dta": partial(_statistical, "read_dta"),
    ".sav": partial(_statistical, "read_sav"),
    ".zsav": partial(_statistical, "read_sav"),
    ".por": partial(_statistical, "read_por"),
    ".sas7bdat": partial(_statistical, "read_sas7bdat"),
    ".xpt": partial(_statistical, "read_xport"),
}
WHOLE_FILES = tuple(_OPENERS)
"""File name extensions of files that are read as a whole."""
