"""Raw values to codes, inside the engine that holds them.

There is one definition of a code, written as ibis expressions, so that every engine gives the same
answer. A value becomes

- missing, if it is NULL, NaN, or a text among the schema's ``missing_values`` (and, in a numeric
  column, the text ``nan``);
- for a categorical column: the position of its text in the list. Texts must be equal, letter by
  letter. A number is written as text without a fraction if it has none (a frame with gaps turns 3
  into 3.0), a truth value as ``true`` or ``false``, a date as ``2024-12-31``;
- for an integer column: the whole number it is, minus ``low``. ``3.0`` and ``3e0`` are 3; a
  fraction is unreadable; whole numbers of any length are compared, never wrapped;
- for a number column: ``floor((x - low) / step + 0.5)`` in double precision, so a value that
  rounds to a grid point is inside. Infinities are outside (and can be clipped).

What breaks a rule gets a negative code, see `hushtable.engine.base`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import numpy as np
import pyarrow as pa

from hushtable.engine.base import MISSING, OUTSIDE, UNREADABLE
from hushtable.recoding import Intervals, Recoding
from hushtable.schema import Categorical, Column, Integer, Number, Schema

Expression = Any  # ibis has no types that a checker could follow

# Spelled out, because engines differ in what else they take for a number (1_000, 0x1F, 1d).
WHOLE = r"^ *[+-]?[0-9]+ *$"
NUMBER = r"^ *[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)? *$"
NOT_A_NUMBER = r"^ *[+-]?[nN][aA][nN] *$"
ABOVE_ALL = r"^ *\+?[iI][nN][fF]([iI][nN][iI][tT][yY])? *$"
BELOW_ALL = r"^ *-[iI][nN][fF]([iI][nN][iI][tT][yY])? *$"

INT64_LOW, INT64_HIGH = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Reading:
    """Hold what a raw column says as a number: expressions over the same rows.

    Parameters
    ----------
    missing : boolean expression
        Whether there is no value.
    real : float64 expression
        The value in double precision; NULL where there is no value or it is unreadable.
    whole : int64 expression
        The value where it is a whole number of 64 bits, else NULL.
    """

    missing: Expression
    real: Expression
    whole: Expression


def is_missing(raw: Expression, missing_values: Sequence[str]) -> Expression:
    """Say whether a raw value is no value."""
    kind = raw.type()
    if kind.is_string() and missing_values:
        return raw.isnull() | raw.isin(list(missing_values))
    if kind.is_floating():
        return raw.isnull() | raw.isnan()
    return raw.isnull()


def as_text(raw: Expression) -> Expression:
    """Write a raw value as text; NaN is NULL."""
    kind = raw.type()
    if kind.is_string():
        return raw
    if kind.is_floating():
        whole = raw.try_cast("int64")
        is_whole = whole.cast(kind) == raw
        text = is_whole.ifelse(whole.cast("string"), raw.cast("string"))
        return raw.isnan().ifelse(ibis.null("string"), text)
    if kind.is_boolean():
        return raw.ifelse("true", "false")
    return raw.cast("string")


def read_number(raw: Expression, missing_values: Sequence[str]) -> Reading:
    """Read a raw value as a number."""
    kind, missing = raw.type(), is_missing(raw, missing_values)
    if kind.is_null():
        return Reading(missing, raw.cast("float64"), raw.cast("int64"))
    if kind.is_string():
        text = raw.strip()
        by_name = ibis.cases(
            (raw.re_search(ABOVE_ALL), float("inf")), (raw.re_search(BELOW_ALL), float("-inf"))
        )
        real = raw.re_search(NUMBER).ifelse(text.try_cast("float64"), by_name)
        # Digits are read as digits: a double would round whole numbers beyond 2**53.
        whole = raw.re_search(WHOLE).ifelse(text.try_cast("int64"), _whole(real))
        unsaid = raw.re_search(NOT_A_NUMBER)
        return Reading(missing | unsaid.fill_null(False), missing.ifelse(_NO_REAL, real), whole)
    if kind.is_integer() or kind.is_boolean():
        # Beyond 64 bits (unsigned, huge) the cast gives NULL and the double decides the side.
        return Reading(missing, raw.cast("float64"), raw.try_cast("int64"))
    real = raw.cast("float64")
    if kind.is_floating():
        real = missing.ifelse(_NO_REAL, real)
    return Reading(missing, real, _whole(real))


_NO_REAL = ibis.null("float64")


def _whole(real: Expression) -> Expression:
    whole = real.try_cast("int64")
    return (whole.cast("float64") == real).ifelse(whole, ibis.null("int64"))


def _by_rules(column: Column, reading: Reading, codes: Mapping[str, Expression]) -> Expression:
    """Choose between the code inside, the ends where outside is clipped, and the rules' codes."""
    last = column.n_values - 1
    no_value = MISSING if column.missing_code is None else column.missing_code
    unreadable, below, above = {
        "refuse": (UNREADABLE, OUTSIDE, OUTSIDE),
        "clip": (UNREADABLE, 0, last),
        "missing": (no_value, no_value, no_value),
    }[column.outside]
    return ibis.cases(
        (reading.missing, no_value),
        (codes["inside"].notnull(), codes["inside"]),
        (codes["below"], below),
        (codes["above"], above),
        else_=unreadable,
    ).cast("int64")


def integer_code(column: Integer, reading: Reading) -> Expression:
    """Give the code of a whole number."""
    whole, real = reading.whole, reading.real
    low, high = (ibis.literal(bound, "int64") for bound in (column.low, column.high))
    # Clamped before the subtraction, so that it cannot overflow in rows that are outside.
    offset = ibis.least(ibis.greatest(whole, low), high) - low
    edge = float(2**63)
    return _by_rules(
        column,
        reading,
        {
            "inside": whole.between(low, high).ifelse(offset, ibis.null("int64")),
            "below": (whole < low) | (whole.isnull() & (real <= -edge)),
            "above": (whole > high) | (whole.isnull() & (real >= edge)),
        },
    )


def number_code(column: Number, reading: Reading) -> Expression:
    """Give the code of the nearest grid point."""
    low, step = float(column.low), float(column.step)
    place = (reading.real - low) / step + 0.5
    n_values = float(column.n_values)
    # Clamped before it becomes an integer: the cast of a huge double is an error in some engines.
    rounded = ibis.least(ibis.greatest(place, 0.0), n_values).floor().cast("int64")
    return _by_rules(
        column,
        reading,
        {
            "inside": ((place >= 0.0) & (place < n_values)).ifelse(rounded, ibis.null("int64")),
            "below": place < 0.0,
            "above": place >= n_values,
        },
    )


def _recoded(code: Expression, recoding: Recoding) -> Expression:
    """Map codes by halving: few comparisons per row, however many intervals there are."""
    if isinstance(recoding, Intervals):
        starts, values = list(recoding.starts), list(range(len(recoding.starts)))
    else:
        mapped = recoding.apply(np.arange(recoding.n_values, dtype=np.int64))
        runs = np.append(0, np.flatnonzero(np.diff(mapped)) + 1)
        starts, values = runs.tolist(), mapped[runs].tolist()

    def halve(first: int, stop: int) -> Expression:
        if stop - first == 1:
            return ibis.literal(values[first], "int64")
        middle = (first + stop) // 2
        return (code < starts[middle]).ifelse(halve(first, middle), halve(middle, stop))

    branches = [(code < 0, code)]
    if recoding.has_missing:
        branches.append((code == recoding.n_values, ibis.literal(recoding.missing_code, "int64")))
    return ibis.cases(*branches, else_=halve(0, len(starts)))


def _lookup(
    column: Categorical, missing_values: Sequence[str], recoding: Recoding | None
) -> tuple[pa.Table, int, int]:
    """Give the table from text to code, the code of NULL, and the code of any other text."""
    codes = np.arange(column.size, dtype=np.int64)
    if recoding is not None:
        codes = recoding.apply(codes)
    no_value = MISSING if column.missing_code is None else int(codes[column.missing_code])
    places = dict.fromkeys(missing_values, no_value)
    places.update(zip(column.values, codes.tolist(), strict=False))  # a listed value is a value
    table = pa.table(
        {"text": pa.array(places, pa.string()), "code": pa.array(places.values(), pa.int64())}
    )
    return table, no_value, no_value if column.outside == "missing" else OUTSIDE


def encode(
    rows: Expression,
    schema: Schema,
    columns: Mapping[str, str],
    *,
    recode: Mapping[str, Recoding] | None = None,
) -> Expression:
    """Replace raw columns by their codes and keep the other columns.

    Parameters
    ----------
    rows : ibis table
        Raw values; its column names are plain words, see `columns`.
    schema : Schema
        The rules.
    columns : mapping of str to str
        Column of `rows` to column of the schema.
    recode : mapping of str to Recoding, optional
        Recodings of columns of the schema.
    """
    recode = recode or {}
    others = [name for name in rows.columns if name not in columns]
    # A list of texts becomes a table to join with: a hash lookup, however long the list.
    texts = {
        place: as_text(rows[place])
        for place, name in columns.items()
        if isinstance(schema.attributes[name], Categorical)
    }
    joined = rows.mutate(**texts) if texts else rows
    ends: dict[str, tuple[int, int]] = {}
    for place in texts:
        column = schema.attributes[columns[place]]
        assert isinstance(column, Categorical)  # noqa: S101 - as chosen above
        table, *ends[place] = _lookup(
            column, schema.missing_values, recode.get(columns[place])
        )
        lookup = ibis.memtable(
            table.rename_columns([f"{place}_text", f"{place}_code"]),
        )
        joined = joined.left_join(lookup, [(place, f"{place}_text")])

    codes = {}
    for place, name in columns.items():
        column = schema.attributes[name]
        if isinstance(column, Categorical):
            code, (no_value, unlisted) = joined[f"{place}_code"], ends[place]
            codes[place] = ibis.cases(
                (joined[place].isnull(), no_value), (code.isnull(), unlisted), else_=code
            ).cast("int64")
            continue
        reading = read_number(joined[place], schema.missing_values)
        code = (
            integer_code(column, reading)
            if isinstance(column, Integer)
            else number_code(column, reading)
        )
        codes[place] = _recoded(code, recode[name]) if name in recode else code
    return joined.select(*others, **codes)


def encodes_cheaply(raw: dt.DataType, column: Column) -> bool:
    """Say whether a code is plain arithmetic, so that rows are encoded before they are grouped.

    Texts are grouped as they are and only the groups are encoded.
    """
    return not isinstance(column, Categorical) and not raw.is_string()
