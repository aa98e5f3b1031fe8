"""Thousands separators, decimal commas and orders of dates: the same codes from all engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from hushtable.engine import connect
from hushtable.schema import Schema
from hushtable.schema.file_format import FileFormat

CONTENT: dict[str, Any] = {
    "name": "t",
    "reading": {"decimal": ",", "thousands": ".", "dates": "day-month-year"},
    "columns": {
        "d": {"type": "date", "low": "1970-01-01", "high": "2000-12-31", "missing": "category"},
        "x": {
            "type": "number", "low": 0, "high": 2_000_000, "step": 0.5, "missing": "category",
            "outside": "missing",
        },
    },
}  # fmt: skip
DAYS = {
    "31.12.1980": "1980-12-31", "1/2/1990": "1990-02-01", "1990-02-01": "1990-02-01",
    " 3-4-1999 ": "1999-04-03", "2.3.1999 18:30": "1999-03-02", "31.2.1999": None,
    "12.31.1999": None, "9.9.99": None, "1.1.1990\n": None, "": None,
}  # fmt: skip
NUMBERS = {
    "1.234,56": 1234.5, "7,5": 7.5, "12.34": 12.5, "1.234.567": 1_234_567, "1,234.5": None,
    "1.23.456": None, " 2.000 ": 2000, "-1.000": None, "+1.000,0": 1000, "": None,
}  # fmt: skip


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_cells_are_rewritten_one_by_one(engine: Any) -> None:
    """A text of another spelling stays as it is, so that it is read or unreadable as before."""
    schema = Schema.from_dict(CONTENT)
    table = pa.table({"d": list(DAYS), "x": list(NUMBERS)})
    counts = connect(table, schema, engine=engine).histograms(["d", "x"])
    for name, cells in (("d", DAYS), ("x", NUMBERS)):
        column: Any = schema.attributes[name]
        codes = [column.code_of(value) for value in cells.values()]
        assert counts[name].tolist() == np.bincount(codes, minlength=column.size).tolist()


@pytest.mark.parametrize("layout", [{"thousands": "x"}, {"thousands": "."}, {"dates": "dmy"}])
def test_other_spellings_are_refused(layout: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        FileFormat(**layout)  # type: ignore[arg-type]
