"""Conversion of frames of any library to Arrow tables."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pyarrow as pa

from hushtable.engine.sources.header import Data, is_ibis_table, is_in_spark
from hushtable.errors import DataError


def as_arrow(data: Data) -> Data:
    """Convert a frame to an Arrow table; return paths and tables of engines unchanged."""
    if isinstance(data, pa.Table):
        return data
    if is_ibis_table(data) or is_in_spark(data):
        return data
    if type(data).__name__ == "LazyFrame" and hasattr(data, "collect"):
        data = data.collect()
    if type(data).__name__ == "DuckDBPyRelation":
        data = data.to_arrow_table()
    if not hasattr(data, "__arrow_c_stream__"):
        return data
    try:
        table = _with_own_digits(pa.table(data), data)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise DataError(_frame_problems(data)) from None  # the conversion's message quotes values
    # A pandas index without a name is not a column.
    unnamed = [name for name in table.column_names if re.fullmatch(r"__index_level_\d+__", name)]
    return table.drop_columns(unnamed)


def _with_own_digits(table: pa.Table, frame: Any) -> pa.Table:
    """Convert pandas columns of decimal objects to text.

    Arrow would use the scale of the longest number, so one row could change the text of others.
    """
    if type(frame).__module__.split(".")[0] != "pandas":
        return table
    for place, field in enumerate(table.schema):
        if (
            pa.types.is_decimal(field.type)
            and field.name in frame
            and frame[field.name].dtype == "O"
        ):
            texts = pa.array(map(_digits, frame[field.name]), pa.string())
            table = table.set_column(place, field.name, texts)
    return table


def _digits(number: Any) -> str | None:
    if number is None or number != number:  # noqa: PLR0124 - NaN
        return None
    return f"{number:f}" if isinstance(number, Decimal) else str(number)


def _frame_problems(frame: Any) -> list[str]:
    """Return the reasons why a frame cannot be converted to an Arrow table."""
    names = list(getattr(frame, "columns", ()))
    if not names:
        return [f"data is a {type(frame).__name__}, not a table; give a frame with named columns."]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    problems = [f"column {name!r} occurs more than once in the data." for name in twice]
    for name in (name for name in names if name not in twice):
        try:
            pa.array(frame[name])
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            problems.append(f"column {name!r} mixes types; convert it to one type first.")
    return problems or ["the frame cannot be read as a table; convert its columns to plain types."]
