"""Escaping of texts that a spreadsheet would run as formulas."""

from __future__ import annotations

import re

import pyarrow as pa

_NUMBER = r"[+-]?[0-9]+([.,][0-9]+)?"
_PLAIN_NUMBER = re.compile(rf"{_NUMBER}( to {_NUMBER})?( or missing)?")  # and labels of intervals
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
    """Quote texts and column names that a spreadsheet would run as a formula."""
    for position, field in enumerate(frame.schema):
        if not (pa.types.is_string(field.type) or pa.types.is_large_string(field.type)):
            continue
        values = [value and no_formula(value) for value in frame.column(position).to_pylist()]
        frame = frame.set_column(position, field.name, pa.array(values, field.type))
    return frame.rename_columns([no_formula(name) for name in frame.column_names])
