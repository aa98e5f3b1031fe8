"""Spellings of numbers and dates in files, rewritten cell by cell before cells are encoded.

A number loses its thousands separators, if all groups between them have three digits, and gets a
point for a decimal comma. A date such as 31.12.2023 or 12/31/2023, in the order of its parts that
the schema states, becomes 2023-12-31. Other texts stay as they are.
"""

from __future__ import annotations

import re
from typing import Any

import lazy_loader
import pyarrow as pa

from hushtable.engine.sources.arrow_rows import is_text, plain_column
from hushtable.schema import CalendarColumn, Categorical, Column, Time
from hushtable.schema.file_format import DATE_ORDERS, FileFormat

ibis = lazy_loader.load("ibis")  # a small table is counted without it


def is_rewritten(column: Column, layout: FileFormat) -> bool:
    """Return whether texts of a column are rewritten."""
    if isinstance(column, CalendarColumn):
        return layout.dates != "iso" and not isinstance(column, Time)
    return not isinstance(column, Categorical) and (layout.decimal, layout.thousands) != (".", "")


def groups_pattern(layout: FileFormat) -> str:
    """Return the pattern of a number with thousands separators."""
    mark, point = layout.thousands, layout.decimal
    return rf"^ *[+-]?[0-9]{{1,3}}([{mark}][0-9]{{3}})+([{point}][0-9]+)? *$"


def date_pattern(order: str) -> str:
    """Return the pattern of a date with its parts in an order, and possibly a time."""
    part = {"day": "([0-9]{1,2})", "month": "([0-9]{1,2})", "year": "([0-9]{4})"}
    return f"^ *{'[./ -]'.join(part[name] for name in order.split('-'))}([T ].*)?$"


def rewrite(text: str, column: Column, layout: FileFormat) -> str:
    """Return the text of one cell as the engines read it.

    Examples
    --------
    >>> from hushtable.schema import Date, Number
    >>> paid = Number(type="number", low=0, high=9999, step=0.01)
    >>> born = Date(type="date", low="1900-01-01", high="2030-12-31")
    >>> layout = FileFormat(decimal=",", thousands=".", dates="day-month-year")
    >>> rewrite("1.234,5", paid, layout), rewrite("2/3/1999", born, layout)
    ('1234.5', '1999-03-02')
    """
    if isinstance(column, CalendarColumn):
        found = re.fullmatch(date_pattern(layout.dates), text)
        if found is None:
            return text
        year, month, day = (found[at] for at in DATE_ORDERS[layout.dates])
        return f"{year}-{month:0>2}-{day:0>2}{found[4] or ''}"
    if layout.thousands and re.fullmatch(groups_pattern(layout), text):
        text = text.replace(layout.thousands, "")
    return text if layout.decimal == "." else text.replace(",", ".")


def rewritten(values: pa.ChunkedArray, column: Column, layout: FileFormat) -> pa.ChunkedArray:
    """Return the texts of a column as the engines read them; other types stay as they are."""
    values = plain_column(values)
    if not is_text(values.type):
        return values
    known: dict[str | None, str | None] = {None: None}

    def one(text: str | None) -> str | None:
        if text not in known:
            known[text] = rewrite(str(text), column, layout)
        return known[text]

    return pa.chunked_array(
        [pa.array(map(one, chunk.to_pylist()), pa.string()) for chunk in values.chunks], pa.string()
    )


def rewritten_expression(raw: Any, column: Column, layout: FileFormat) -> Any:
    """Return the text of a column as the engines read it, as an expression."""
    if isinstance(column, CalendarColumn):
        pattern = date_pattern(layout.dates)
        year, month, day = (raw.re_extract(pattern, at) for at in DATE_ORDERS[layout.dates])
        iso = year + "-" + month.lpad(2, "0") + "-" + day.lpad(2, "0")
        return raw.re_search(pattern).ifelse(iso + raw.re_extract(pattern, 4), raw)
    if layout.thousands:
        grouped = raw.re_search(groups_pattern(layout))
        raw = grouped.ifelse(raw.replace(layout.thousands, ""), raw)
    return raw if layout.decimal == "." else raw.replace(",", ".")
