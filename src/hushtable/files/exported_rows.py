"""Export of rows to a new CSV or Parquet file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv as pa_csv

from hushtable.errors import ReleaseError
from hushtable.files.no_formula import formula_safe
from hushtable.files.rows import write_parquet
from hushtable.files.whole_file import sync
from hushtable.files.writing import Scratch, why_not_written

if TYPE_CHECKING:
    from hushtable.schema import Schema


def export_rows(rows: Callable[[], pa.Table], path: Path, schema: Schema) -> None:
    """Write rows to a new ``.csv`` or ``.parquet`` file; call `rows` only if the path is valid."""
    if path.suffix not in {".csv", ".parquet"}:
        raise ReleaseError(f"cannot export to {path.name!r}: use a .csv or .parquet file.")
    if path.exists():
        raise ReleaseError(f"{str(path)!r} exists; choose another name or remove it.")
    frame = rows()
    with _whole_file(path) as part:
        if path.suffix == ".parquet":
            write_parquet(frame, part, schema)
        else:
            pa_csv.write_csv(formula_safe(frame), part)


@contextmanager
def _whole_file(path: Path) -> Iterator[Path]:
    """Write to a temporary file and rename it, so that no partial file appears."""
    try:
        scratch = Scratch(path.parent, f".{path.name}-part-")
        try:
            part = scratch.folder / path.name
            yield part
            sync(part)
            part.rename(path)
        finally:
            scratch.close()
    except OSError as error:
        raise ReleaseError(f"cannot write {str(path)!r}: {why_not_written(error)}.") from error
