"""Raw values that are hard to read, and ways to write them, for tests of row independence.

A *raw column* is an Arrow type, values of it, and a column of a schema that may read the type. A
*writer* turns an Arrow table into an input of `hushtable.engine.open`, and returns the
table whose cells the file or frame then contains: a CSV file contains texts, whatever was written.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from hushtable.schema import Schema

NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
DAY = 86_400
MISSING_VALUES = ("", "?", "999")

# --- columns of schemas ---------------------------------------------------------------------------

_AROUND_53 = {"type": "integer", "low": 2**53 - 4, "high": 2**53 + 4}
_LOWEST = {"type": "integer", "low": -(2**63), "high": -(2**63) + 4}
_HIGHEST = {"type": "integer", "low": 2**63 - 4, "high": 2**63 - 1}
_SMALL_WHOLE = {"type": "integer", "low": -2, "high": 9}
_SPECIAL_WHOLE = {**_SMALL_WHOLE, "special": {999: "never", -1: "unknown", 2**53 + 1: "far"}}
_HALVES = {"type": "number", "low": 0.0, "high": 5.0, "step": 0.5}
_TENTHS = {"type": "number", "low": -1.0, "high": 1.0, "step": 0.1, "special": {999: "never"}}
_CENTS = {"type": "decimal", "low": 0.0, "high": 2.0, "step": 0.05, "special": {-0.5: "debt"}}
_TRUTH = {"type": "boolean"}
NUMBER_RULES: tuple[dict[str, Any], ...] = (
    _SMALL_WHOLE, _SPECIAL_WHOLE, _AROUND_53, _LOWEST, _HIGHEST, _HALVES, _TENTHS, _CENTS, _TRUTH,
    {"type": "duration", "low": -2, "high": 9, "step": "hour", "special": {999: "never"}},
)  # fmt: skip
_LISTED = (
    "0", "1", "-1", "3", "3.0", "0.5", "1.50", "0.1", "1e-05", "5e-324", "1e+20", "inf", "true",
    "false", "9007199254740993", "18446744073709551615", "a", "A", "a ", "é", "e\u0301",
    "1970-01-01", "1969-12-31", "1969-12-31 23:59:59", "1969-12-31 23:59:59.5",
    "1969-12-31 23:59:59.000000001", "23:59:59", "23:59:59.5", "00:00:00.000000001", "nul\0",
)  # fmt: skip
LIST_RULES: tuple[dict[str, Any], ...] = ({"type": "categorical", "values": list(_LISTED)},)
DATE_RULES: tuple[dict[str, Any], ...] = (
    *(
        {"type": "date", "low": "1969-12-01", "high": "1970-02-01", "step": step}
        for step in ("day", "week", "month")
    ),
    {"type": "date", "low": "1600-01-01", "high": "2400-12-31", "step": "year"},
    {
        "type": "timestamp", "low": "1969-12-31 23:59:50", "high": "1970-01-01 00:00:09",
        "step": "second", "special": {"1970-01-01 00:00:01": "start"},
    },
    {"type": "timestamp", "low": "2021-10-30 00:00", "high": "2021-11-08 00:00", "step": "hour"},
    {"type": "timestamp", "low": "1900-01-01", "high": "2100-01-01", "step": "quarter"},
)  # fmt: skip
TIME_RULES: tuple[dict[str, Any], ...] = (
    {"type": "time", "step": "second", "special": {"23:59:59": "end"}},
    {"type": "time", "low": "06:00", "high": "21:00", "step": "hour"},
)
LENGTH_RULES: tuple[dict[str, Any], ...] = (
    {"type": "duration", "low": -5, "high": 20, "step": "second"},
    {"type": "duration", "low": -5, "high": 20, "step": "week", "special": {999: "never"}},
)
TEXT_RULES = (*NUMBER_RULES, *LIST_RULES, *DATE_RULES, *TIME_RULES, *LENGTH_RULES)


def rules_for(kind: pa.DataType) -> tuple[dict[str, Any], ...]:  # noqa: PLR0911
    """List the columns of schemas that may read an Arrow type."""
    of = pa.types
    if of.is_dictionary(kind) or of.is_run_end_encoded(kind):
        return rules_for(kind.value_type)
    if of.is_date(kind):
        return (*DATE_RULES, *LIST_RULES)
    if of.is_timestamp(kind):
        return (*DATE_RULES, *TIME_RULES, *(() if kind.tz else LIST_RULES))
    if of.is_time(kind):
        return (*TIME_RULES, *LIST_RULES)
    if of.is_duration(kind):
        return LENGTH_RULES
    if of.is_null(kind) or is_text(kind):
        return TEXT_RULES
    return (*NUMBER_RULES, *LIST_RULES)


def is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view()


def with_policy(rules: dict[str, Any], missing: str, outside: str) -> dict[str, Any]:
    """Add rules for missing and out-of-domain values, if the column type supports them."""
    listed = rules["type"] in ("categorical", "boolean")
    if (outside == "clip" and listed) or (outside == "missing" and missing != "category"):
        outside = "other"
    return {**rules, "missing": missing, "outside": outside}


# --- values ---------------------------------------------------------------------------------------

WHOLES = sorted(
    {
        *range(-3, 12), 999, -999, 127, 128, 255, 256, 2**15, 2**31 - 1, 2**31, -(2**31) - 1,
        *(sign * 2**53 + shift for sign in (1, -1) for shift in (-1, 0, 1, 2)),
        *(sign * 2**63 + shift for sign in (1, -1) for shift in (-1025, -2, -1, 0, 1)),
        2**64 - 1, 2**64 - 2048,
    }
)  # fmt: skip
DOUBLES = [
    0.0, -0.0, 1.0, 3.0, -1.0, -2.0, 9.0, 0.5, 1.5, 0.25, 0.75, 0.1, 0.05, 0.15, 0.025, -0.5, 1e-5,
    math.nextafter(0.25, 0), math.nextafter(0.25, 1), math.nextafter(-0.25, -1),
    math.nextafter(5.25, 0), 5.25, math.nextafter(0.5, 0), math.nextafter(1.0, 2.0),
    999.0, 5e-324, -5e-324, 2.2e-308, 1e-45, -1e-40, 6e-8, 6.1e-05, 1e20, 1e300, -1e300,
    1.7976931348623157e308,
    2.0**53, 2.0**53 + 2, 2.0**63, -(2.0**63), 2.0**63 - 1024, 2.0**64, 16777217.0,
    math.inf, -math.inf, math.nan,
]  # fmt: skip
NANS = [0x7FF8000000000000, 0xFFF8000000000000, 0x7FF0000000000001, 0x7FFFFFFFFFFFFFFF]
NEAR = [0, 1, 2, 3, 5, 9, 10, 25, 49, 50, 51, 52, 525, 999, -1, -2]
BYTES = [b"", b"a", b"A", b"a ", b"a\0", b"\xff", b"\\", b"\\x00", "é".encode(), "e\u0301".encode()]
TEXTS = [
    "", "?", "a", "A", "a ", " a", "é", "e\u0301", "É", "ß", "ss", "ı", "nul\0", "nul", "\0",
    "true", "TRUE", "Yes", "yEs", "t", "0", "1", "-0", "+1", "3", " 3 ", "3.0", "3e0", "03", "3\n",
    "\u0663", "0.5", ".5", "5.", "1.50", "0.1", "1e-05", "1e-400", "1e400", "-1e400", "1e+20",
    "inf", "-Infinity", "+inf", "INF", "\u0131nf", "nan", "NaN", "-nan", " nan ", "nan\n", "1_000",
    "0x1F", "1d", "1f", "999", " 999", "999.0", "never", "start", "end", "-1", "unknown",
    "9007199254740993", "9007199254740993.0", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "-9223372036854775809", "-9223372036854775808.0",
    "18446744073709551615", "0" * 450 + "7", "7" * 450, "3.00000000000000000001",
    "1970-01-01", "1969-12-31", " 1970-01-01 ", "1970-1-1", "1970-02-30", "0000-01-01",
    "0001-01-01", "9999-12-31", "10000-01-01", "1600-02-29", "1970-01-01T00:00:01",
    "1970-01-01 00:00:01Z", "1969-12-31 23:59:59.999999999", "1970-01-01 24:00:00",
    "1970-01-01 00:00:60", "1970-01-01 00:00:01+01:00", "1970-01-01 00:00:01.", "1970-01-01Z",
    "23:59:59", "23:59:59.9999999", "24:00:00", "06:00", "6:00", "12:60", "12:00:00Z",
    "36 hours", "36hours", "-1 s", "1 second", "1 seconds", "1 ss", "1 S", "90 minutes", "1.5 hour",
    "1 month", "-1 ns", "1 us", "1 mss", "9223372036854775807 ns", "9223372036854775808 ns",
    "999999999999 week", "1000000000000 s", "-604800000001 us", "1 weeks ",
]  # fmt: skip
SECONDS = [
    0, 1, -1, -2, 9, 10, 59, 60, -60, 3599, 3600, DAY - 1, DAY, -DAY, -DAY - 1, 31 * DAY, -31 * DAY,
    951_782_400, 951_868_799, -11_676_096_000, -11_673_590_400, 13_569_465_600,
    1_635_638_399, 1_635_638_400, 1_635_640_200, 1_635_643_800, 1_636_263_000, 1_636_266_600,
    4_102_444_800, -2_208_988_800, -2_208_988_801, 253_402_300_799, -62_135_596_800,
]  # fmt: skip
FRACTIONS = [0, 1, 999, 1000, 499_999_999, 500_000_000, 500_000_001, 999_999_000, 999_999_999]
LENGTHS = [*SECONDS, 604_800, -604_800, 604_799, 12 * 604_800, 3 * 10**11, -3 * 10**11]


def _ticks(seconds: Iterable[int], unit: str) -> list[int]:
    """List numbers of a unit, near whole and half seconds."""
    chosen = {
        (second * 10**9 + sign * fraction) // NANOSECONDS[unit]
        for second in seconds
        for fraction in FRACTIONS
        for sign in (1, -1)
    }
    return sorted(tick for tick in chosen if abs(tick) < 2**63)


def _decimals(kind: pa.DataType) -> list[Decimal]:
    edge, scale = 10**kind.precision - 1, kind.scale
    near = [n * 10**k for n in NEAR for k in range(kind.precision)]
    digits = {whole * 10 ** max(0, scale) for whole in WHOLES}
    # Next to halves and grid points, with all digits of the type.
    digits |= {n + shift for n in near for shift in (-1, 0, 1)}
    digits |= {edge, -edge, edge - 1}
    return [scaled(digit, scale) for digit in sorted(digits) if abs(digit) <= edge]


def scaled(digits: int, scale: int) -> Decimal:
    """Return a decimal with all of its digits."""
    with localcontext() as context:
        context.prec = 100
        return Decimal(digits).scaleb(-scale)


def hard_values(kind: pa.DataType) -> list[Any]:  # noqa: PLR0911 - each type
    """List values that are hard to read: integers for dates, times and lengths, bits for floats."""
    of = pa.types
    if of.is_null(kind):
        return [None]
    if of.is_dictionary(kind) or of.is_run_end_encoded(kind):
        return hard_values(kind.value_type)
    if is_text(kind):
        return TEXTS
    if is_bytes(kind):
        width = kind.byte_width if of.is_fixed_size_binary(kind) else None
        return [text.ljust(width or 0, b" ")[:width] for text in BYTES]
    if of.is_boolean(kind):
        return [False, True]
    if of.is_integer(kind):
        low, high = _range(kind)
        return [low, high, *(whole for whole in WHOLES if low <= whole <= high)]
    if of.is_floating(kind):
        return [*(struct.unpack("<Q", struct.pack("<d", double))[0] for double in DOUBLES), *NANS]
    if of.is_decimal(kind):
        return _decimals(kind)
    if of.is_date32(kind):
        return sorted({second // DAY for second in SECONDS})
    if of.is_date64(kind):
        return sorted({second // DAY * DAY * 1000 for second in SECONDS})
    if of.is_time(kind):
        last = DAY * 10**9 // NANOSECONDS[kind.unit]
        ticks = _ticks({second % DAY for second in SECONDS}, kind.unit)
        return [tick for tick in ticks if 0 <= tick < last]
    return _ticks(LENGTHS if of.is_duration(kind) else SECONDS, kind.unit)


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Draw values of a type, most of them hard to read; sometimes NULL."""
    hard = st.sampled_from(hard_values(kind))
    any_value: st.SearchStrategy[Any] = st.none()
    if is_text(kind):
        any_value = st.text(st.characters(codec="utf-8"), max_size=6)
    elif pa.types.is_integer(kind):
        any_value = st.integers(*_range(kind))
    elif kind == pa.float64():
        any_value = st.integers(0, 2**64 - 1)
    return st.one_of(hard, hard, hard, any_value, st.none())


def _range(kind: pa.DataType) -> tuple[int, int]:
    signed = pa.types.is_signed_integer(kind)
    return -(2 ** (kind.bit_width - 1)) if signed else 0, 2 ** (kind.bit_width - signed) - 1


def is_bytes(kind: pa.DataType) -> bool:
    of = pa.types
    return (
        of.is_binary(kind)
        or of.is_large_binary(kind)
        or of.is_fixed_size_binary(kind)
        or kind == pa.binary_view()
    )


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Build an array from drawn values; None is NULL."""
    of = pa.types
    if of.is_dictionary(kind):
        return _dictionary(values, kind)
    if of.is_run_end_encoded(kind):
        ends = pa.array(range(1, len(values) + 1), kind.run_end_type)
        return pa.RunEndEncodedArray.from_arrays(ends, array_of(values, kind.value_type))
    if of.is_floating(kind):
        bits = np.array([value or 0 for value in values], np.uint64)
        with np.errstate(over="ignore", invalid="ignore"):
            floats = bits.view(np.float64).astype(kind.to_pandas_dtype())
        missing = np.array([value is None for value in values], bool)
        return pa.array(floats, kind, mask=missing)
    if of.is_temporal(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array(values, width).view(kind)
    return pa.array(values, kind)


def _dictionary(values: Sequence[Any], kind: pa.DictionaryType) -> pa.Array:
    """Build a dictionary whose entries are partly unused, repeated and NULL."""
    entries = [*values[::-1], None, *values]
    n = len(values)
    # Odd rows use the second copy of their entry; NULLs are alternately entries and indexes.
    places = [n + 1 + row if row % 2 else n - 1 - row for row in range(n)]
    indices = [
        (None if row % 2 else n) if value is None else place
        for row, (value, place) in enumerate(zip(values, places, strict=True))
    ]
    return pa.DictionaryArray.from_arrays(
        pa.array(indices, kind.index_type), array_of(entries, kind.value_type)
    )


def _decimal_types() -> tuple[pa.DataType, ...]:
    """List decimals of every width, with few and many digits before and after the point."""
    makers = {pa.decimal32: 9, pa.decimal64: 18, pa.decimal128: 38, pa.decimal256: 76}
    kinds = {
        maker(digits, scale)
        for maker, most in makers.items()
        for digits in (1, 2, 5, 7, most // 2, most - 1, most)
        for scale in (0, 1, 2, digits // 2, digits - 1, digits)
        if scale <= digits
    }
    negative = {pa.decimal128(5, -2), pa.decimal256(40, -3)}
    return tuple(sorted(kinds | negative, key=str))


ZONES = ("UTC", "America/New_York", "Europe/Berlin", "Asia/Kathmandu", "+05:30")
UNITS = ("s", "ms", "us", "ns")
KINDS: dict[str, tuple[pa.DataType, ...]] = {
    "whole": (
        pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(),
        pa.uint64(), pa.bool_(),
    ),
    "float": (pa.float16(), pa.float32(), pa.float64(), pa.float64()),
    "decimal": _decimal_types(),
    "date": (pa.date32(), pa.date64()),
    "time": (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    "timestamp": tuple(pa.timestamp(unit) for unit in UNITS),
    "instant": tuple(pa.timestamp(unit, zone) for unit in UNITS for zone in ZONES),
    "duration": tuple(pa.duration(unit) for unit in UNITS),
    "text": (pa.string(), pa.string(), pa.large_string(), pa.string_view()),
    "bytes": (pa.binary(), pa.large_binary(), pa.binary(4)),
    "nothing": (pa.null(),),
    "encoded": (
        pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.large_string()),
        pa.dictionary(pa.int32(), pa.string_view()), pa.dictionary(pa.int16(), pa.int64()),
        pa.dictionary(pa.uint8(), pa.float64()), pa.dictionary(pa.int32(), pa.timestamp("ns")),
        pa.dictionary(pa.int32(), pa.timestamp("us", "Europe/Berlin")),
        pa.dictionary(pa.int32(), pa.decimal128(18, 2)), pa.dictionary(pa.int8(), pa.bool_()),
        pa.dictionary(pa.int8(), pa.uint64()),
    ),
    "refused": (
        pa.run_end_encoded(pa.int32(), pa.string()), pa.run_end_encoded(pa.int16(), pa.int64()),
        pa.run_end_encoded(pa.int64(), pa.float64()),
        pa.run_end_encoded(pa.int32(), pa.timestamp("ns", "UTC")),
        pa.binary(), pa.large_binary(), pa.binary(4), pa.binary_view(),
    ),
}  # fmt: skip
"""Arrow types by family."""


# --- tables ---------------------------------------------------------------------------------------

ROW = "row"
PERSON = "person"


@dataclass(frozen=True)
class RawTable:
    """A table with a column that numbers its rows, and the schema that reads it."""

    table: pa.Table
    columns: dict[str, dict[str, Any]]
    missing_values: tuple[str, ...] = MISSING_VALUES

    def schema(self, *, person: bool = False) -> Schema:
        """Return the schema; with `person`, one row of each person counts."""
        numbered = {"type": "integer", "low": 0, "high": max(self.table.num_rows - 1, 0)}
        described: dict[str, Any] = {
            "name": "raw",
            "missing_values": list(self.missing_values),
            "columns": {ROW: numbered, **self.columns},
        }
        if PERSON in self.table.column_names:
            described["columns"][PERSON] = {"role": "identifier"}
        if person:
            described["unit"] = {"kind": "person", "column": PERSON, "max_rows": 1}
        return Schema.from_dict(described)
