"""Observable features of a release: a flat mapping of names to numbers.

A row of a published table is identified by its values in the schema's columns; its multiplicity and
its other numbers are features. A table without any of these columns is read by position. Settings
are features named by their path. A text becomes a feature ``path=text``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from numbers import Integral
from typing import Any

import pyarrow as pa

from hushtable.methods.base import Released

Features = dict[str, float]

_WHOLE = 2**53
"""Largest integer up to which floats represent all integers."""

_HUGE = 2**1000

_PROSE = {"notes"}  # sentences derived from other published values
_NAMES = {"column", "view"}  # numbers that identify rows, like the schema's columns


def features(released: Released, attributes: Collection[str]) -> Features:
    """Return the features of a release; `attributes` are the columns that identify rows.

    Examples
    --------
    >>> table = pa.table({"sex": ["F", "M"], "count": [3, 1]})
    >>> features(Released({"data": table}, {"total": 4}), {"sex"})  # doctest: +NORMALIZE_WHITESPACE
    {'data rows': 2.0, 'data[F]': 1.0, 'data[F].count': 3.0, 'data[M]': 1.0, 'data[M].count': 1.0,
     'data sum of count': 4.0, 'total': 4.0}
    """
    found: Features = {}
    for name, table in released.tables.items():
        _read_table(name, table, attributes, found)
    for name, value in released.settings.items():
        if name not in _PROSE:
            _read_setting(name, value, found)
    return found


def _read_table(name: str, table: pa.Table, attributes: Collection[str], found: Features) -> None:
    columns = table.to_pydict()
    keys = [column for column in columns if column in attributes]
    keys += [column for column in columns if keys and column in _NAMES]
    found[f"{name} rows"] = float(table.num_rows)
    for row in range(table.num_rows):
        shown = ",".join(str(columns[key][row]) for key in keys) if keys else str(row)
        place = f"{name}[{shown}]"
        if keys:
            found[place] = found.get(place, 0.0) + 1.0
        for column, values in columns.items():
            if column not in keys:
                read_value(f"{place}.{column}", values[row], found)
    for column, values in columns.items():
        if column not in keys and pa.types.is_integer(table.schema.field(column).type):
            found[f"{name} sum of {column}"] = as_float(sum(v for v in values if v is not None))


def read_value(path: str, value: Any, found: Features) -> None:
    """Add the features of a single value.

    Examples
    --------
    >>> found: Features = {}
    >>> read_value("total", 2**60 + 1, found)
    >>> read_value("made", "today", found)
    >>> list(found)
    ['total=1152921504606846977', 'total, last bits', 'total', 'made=today']
    """
    is_whole = isinstance(value, (int, Integral)) and not isinstance(value, bool)
    if not is_whole and (not isinstance(value, float) or math.isnan(value)):
        found[f"{path}={value}"] = 1.0
        return
    if is_whole and abs(value) > _WHOLE:
        # A float cannot represent all digits.
        found[f"{path}={value}"] = 1.0
        found[f"{path}, last bits"] = float(value % _WHOLE)
    found[path] = found.get(path, 0.0) + as_float(value)
    if isinstance(value, float) and math.isfinite(value):
        # The set of reachable doubles reveals the starting point of a float sampler.
        found[f"{path}, lowest bit"] = _lowest_bit(value)


def as_float(value: Any) -> float:
    """Convert a number of any size to a float."""
    if isinstance(value, (int, Integral)):
        return float(max(-_HUGE, min(int(value), _HUGE)))
    return float(value)


def _lowest_bit(value: float) -> float:
    """Return the exponent of the lowest set bit, 0 for 0.

    Examples
    --------
    >>> _lowest_bit(12.0), _lowest_bit(0.75), _lowest_bit(0.1)
    (2.0, -2.0, -55.0)
    """
    numerator, denominator = value.as_integer_ratio()
    if denominator > 1:
        return float(1 - denominator.bit_length())
    return float((numerator & -numerator).bit_length() - 1) if numerator else 0.0


def _read_setting(path: str, value: Any, found: Features) -> None:
    if isinstance(value, Mapping):
        for name, part in value.items():
            _read_setting(f"{path}.{name}", part, found)
    elif isinstance(value, list):
        found[f"length of {path}"] = float(len(value))
        if value and all(type(part) is int for part in value):
            found[f"largest of {path}"] = as_float(max(value))
            found[f"sum of {path}"] = as_float(sum(value))
        elif value:
            found[f"{path}={json.dumps(value)}"] = 1.0
        for place, part in enumerate(value):
            _read_setting(f"{path}[{place}]", part, found)
    else:
        read_value(path, value, found)
