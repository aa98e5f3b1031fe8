"""A first schema from the data, for the custodian's eyes.

A schema is public, and what was taken from private data is not: one row can change the type or the
role of a column, whether it has missing values, which words mean that, and of course bounds and
lists. So all of a draft but the names in it is marked ``confirm``, each part by its name, and
nothing is published before a person has checked that it is public (see `Schema.require_confirmed`).
"""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import ibis

from hushtable.engine import door
from hushtable.engine.header import Data
from hushtable.engine.silence import silenced
from hushtable.engine.source import Source
from hushtable.engine.sql.encode import Expression, as_text, read_number
from hushtable.errors import DataError
from hushtable.schema import MAX_COLUMN_SIZE, Schema

MISSING_WORDS = ("", "?", "NA", "N/A", "NaN", "nan", "NULL", "null")  # usual signs for no value

_MAX_VALUES = 100  # a longer list of texts is taken for an identifier
_FEW_ROWS = 20  # in a shorter table, texts that all differ may still be a list
_MANY_ROWS = 100  # in a longer table, whole numbers that all differ number the rows
_GRID_POINTS = 1000  # about the finest grid that is proposed
_MAX_DECIMALS = 6


@silenced
def draft(data: Data, *, name: str | None = None) -> Schema:
    """Propose a schema for a table, marking what came from the data as ``confirm``.

    That is everything but the names: for two tables that differ in one row, whatever differs
    between their drafts stands under a mark in both.

    Whole numbers become ``integer``, other numbers ``number`` on a grid of a power of ten, a short
    list of texts ``categorical``. Texts that are many, and numbers that all differ, are taken for
    identifiers, which are never published.

    Parameters
    ----------
    data : path, frame or ibis table
        See `hushtable.engine.connect`.
    name : str, optional
        Name of the table; by default that of the file.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"age": [41, 7, 58], "sex": ["F", "M", None]})
    >>> age, sex = draft(table, name="clinic").attributes.values()
    >>> age.type, age.low, age.high, age.confirm
    ('integer', 7, 58, ('role', 'type', 'low', 'high', 'missing', 'outside'))
    >>> sex.values, sex.missing, sex.outside
    (('F', 'M'), 'category', 'missing')
    """
    table = door.open(data)
    source, header = table.source(), table.header
    unnamed = [n for n, column in enumerate(header.names, 1) if not column]
    if unnamed:
        raise DataError([f"column number {n} of the data has no name." for n in unnamed])
    if name is None:
        name = _stem(header.files[0]) if header.files else "table"
    source = source.here(header.names)
    rows = source.select({f"c{i}": column for i, column in enumerate(header.names)})
    n_rows = int(source.fetch(rows.agg(n=ibis._.count()))["n"][0].as_py())
    if n_rows == 0:
        raise DataError("the data has no rows to draft a schema from.")

    columns, words = {}, {""}
    for position, column in enumerate(header.names):
        raw = rows.select(value=rows[f"c{position}"])
        proposal, found = _propose(source, raw, n_rows)
        columns[column] = {**proposal, "confirm": list(dict.fromkeys(["role", *proposal]))}
        words |= found
    content = {
        "name": name,
        "missing_values": [word for word in MISSING_WORDS if word in words],
        "confirm": ["missing_values"],
        "columns": columns,
    }
    if all(column.get("role") == "identifier" for column in columns.values()):
        raise DataError("every column looks like an identifier; write the schema by hand.")
    return Schema.from_dict(content)


def _stem(file: Path) -> str:
    return file.name.split(".")[0] or "table"


def _propose(source: Source, raw: Expression, n_rows: int) -> tuple[dict[str, Any], set[str]]:
    """Propose one column, and say which words for "no value" it holds."""
    kind = raw.value.type()
    if not (kind.is_string() or kind.is_numeric() or kind.is_boolean() or kind.is_null()
            or kind.is_temporal() or kind.is_uuid()):  # fmt: skip
        return {"role": "identifier"}, set()  # nested values cannot be published
    words: set[str] = set()
    if kind.is_string():
        used = raw.filter(raw.value.isin(MISSING_WORDS)).distinct()
        words = set(source.fetch(used)["value"].to_pylist())
    numeric = not (kind.is_boolean() or kind.is_temporal() or kind.is_uuid())
    if kind.is_string():
        # 00501 is a code and not a number: zeros in front of it would be lost.
        numeric = not source.fetch(raw.filter(raw.value.re_search(r"^ *0[0-9]")).limit(1)).num_rows
    facts = _numeric_facts(source, raw) if numeric else _text_facts(source, raw)
    n_missing = facts["n_missing"] or 0
    n_values = n_rows - n_missing
    if n_values == 0:
        return {"role": "identifier"}, words  # nothing to describe
    all_differ = facts["n_distinct"] == n_values
    if numeric and facts["n_numbers"] == n_values:
        column = _numeric(facts, dense=all_differ and n_values >= _MANY_ROWS)
    else:
        column = _listed(source, raw, facts, all_differ=all_differ and n_values >= _FEW_ROWS)
    if column.get("role") != "identifier":
        column["missing"] = "category" if n_missing else "other"
        listed = "missing" if n_missing else "other"
        column["outside"] = listed if column["type"] == "categorical" else "clip"
    return column, words


def _numeric_facts(source: Source, raw: Expression) -> dict[str, Any]:
    reading = read_number(raw.value, MISSING_WORDS)
    finite = (reading.real > float("-inf")) & (reading.real < float("inf"))
    numbers = raw.select(
        text=as_text(raw.value),
        missing=reading.missing,
        whole=reading.whole,
        readable=reading.real.notnull(),
        real=finite.ifelse(reading.real, ibis.null("float64")),
    )
    scaled = {}
    for n_decimals in range(1, _MAX_DECIMALS + 1):
        moved = numbers.real * 10.0**n_decimals
        moved = (moved.abs() >= 2.0**53).ifelse(0.0, moved)  # a larger double is whole in any case
        scaled[f"at_{n_decimals}"] = ((moved - moved.round()).abs() < 1e-6).sum()
    present = ~numbers.missing
    return _row(
        source,
        numbers.agg(
            n_missing=numbers.missing.cast("int64").sum(),
            n_distinct=numbers.text.nunique(where=present),
            n_numbers=(present & numbers.readable).cast("int64").sum(),
            n_finite=(present & numbers.real.notnull()).cast("int64").sum(),
            n_whole=(present & numbers.whole.notnull()).cast("int64").sum(),
            whole_low=numbers.whole.min(where=present),
            whole_high=numbers.whole.max(where=present),
            low=numbers.real.min(where=present),
            high=numbers.real.max(where=present),
            **scaled,
        ),
    )


def _text_facts(source: Source, raw: Expression) -> dict[str, Any]:
    texts = raw.select(text=as_text(raw.value))
    return _row(
        source,
        texts.agg(n_missing=texts.text.isnull().sum(), n_distinct=texts.text.nunique()),
    )


def _row(source: Source, query: Expression) -> dict[str, Any]:
    facts: dict[str, Any] = source.fetch(query).to_pylist()[0]
    return facts


def _numeric(facts: dict[str, Any], *, dense: bool) -> dict[str, Any]:
    if not facts["n_finite"]:
        return {"role": "identifier"}  # no bounds to propose
    if facts["n_whole"] == facts["n_finite"]:
        low, high = facts["whole_low"], facts["whole_high"]
        if dense:
            return {"role": "identifier"}
        if high - low < MAX_COLUMN_SIZE:
            return {"type": "integer", "low": low, "high": high}
    low, high = facts["low"], facts["high"]
    exact = next(
        (n for n in range(1, _MAX_DECIMALS + 1) if facts[f"at_{n}"] == facts["n_finite"]),
        _MAX_DECIMALS,
    )
    span = high - low
    fits = math.ceil(math.log10(span / _GRID_POINTS)) if span > 0 else -exact
    step = Decimal(1).scaleb(max(fits, -exact))
    # Rounded outward, so that the grid covers what was seen.
    first = (Decimal(low) / step).to_integral_value("ROUND_FLOOR") * step
    last = (Decimal(high) / step).to_integral_value("ROUND_CEILING") * step
    return {
        "type": "number",
        "low": float(first),
        "high": float(last),
        "step": float(step),
    }


def _listed(
    source: Source, raw: Expression, facts: dict[str, Any], *, all_differ: bool
) -> dict[str, Any]:
    if all_differ or facts["n_distinct"] > _MAX_VALUES:
        return {"role": "identifier"}
    texts = raw.select(text=as_text(raw.value))
    used = texts.filter(texts.text.notnull()).distinct()
    values = set(source.fetch(used)["text"].to_pylist()) - set(MISSING_WORDS)
    return {"type": "categorical", "values": sorted(values)}
