"""Conversion of published columns between codes, values and Arrow arrays.

Arrow arrays are converted to and from NumPy without importing pandas. ``pa.array``, ``pa.scalar``
and ``to_numpy`` import pandas if it is installed, which takes longer than counting a small table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.arrays import Bools, Floats, Integers
from hushtable.errors import ReleaseError, TooLarge
from hushtable.files.memory import physical_memory
from hushtable.schema import Boolean, Categorical, Column, Decimal, Numeric, Schema, Value
from hushtable.schema.recoding import Recoding

UNKNOWN = -1
"""Code of a value that the schema does not list, where such rows are accepted."""

_MOST_STEPS = 2.0**40  # largest distance from zero, in steps, at which doubles yield exact codes
_SHORT = 20_000  # below this many values, a Python loop is faster than importing Arrow's functions
_SMALL = 1 << 16  # columns with at most this many codes get a table of all values


def to_values(column: Column, codes: Integers) -> pa.Array:
    """Convert codes to values; missing is null.

    Categorical columns are dictionary-encoded, which is compact and fast to write.

    Examples
    --------
    >>> from hushtable.schema import Integer
    >>> age = Integer(type="integer", low=18, high=99, missing="category")
    >>> to_values(age, np.array([0, 82, 3])).to_pylist()
    [18, None, 21]
    """
    if isinstance(column, Categorical) and not isinstance(column, Boolean):
        missing = None if column.missing_code is None else codes == column.missing_code
        places = numbers(codes.astype(np.int32), missing)
        return pa.DictionaryArray.from_arrays(places, texts(column.values))
    present, place = np.arange(column.size), codes
    if column.size > _SMALL:
        present, place = np.unique(codes, return_inverse=True)
    kind = arrow_type(column)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return typed(column, [column.value(int(code)) for code in present]).take(pa.array(place))
    missing = present == column.missing_code
    values = np.array([column.value(int(code)) or 0 for code in present], numpy_type(kind))
    return numbers(values[place], missing[place])


def arrow_type(column: Column) -> pa.DataType:
    """Return the Arrow type in which a column is published.

    Examples
    --------
    >>> from hushtable.schema import Date
    >>> arrow_type(Date(type="date", low="2024-01-01", high="2024-12-31"))
    DataType(date32[day])
    """
    if isinstance(column, Decimal):
        return pa.decimal128(38, column.n_digits)
    return pa.type_for_alias(column.arrow_name)


def typed(column: Column, values: Iterable[Value]) -> pa.Array:
    """Convert values of a column to an Arrow array of the type in which it is published.

    Examples
    --------
    >>> typed(Boolean(type="boolean"), ["true", None]).to_pylist()
    [True, None]
    """
    stored = [None if value is None else column.stored(value) for value in values]
    return pa.array(stored, arrow_type(column))


def nearest_codes(column: Numeric, real: Floats) -> Integers:
    """Return the code of the grid point nearest to each number; clip to the bounds.

    Examples
    --------
    >>> from hushtable.schema import Integer
    >>> age = Integer(type="integer", low=18, high=99)
    >>> nearest_codes(age, np.array([-7.2, 20.5, 20.4, 1e9])).tolist()
    [0, 3, 2, 81]
    """
    places: Floats = np.clip(np.floor(column.place(real)), 0, column.n_values - 1)
    return places.astype(np.int64)


def plain(table: pa.Table) -> pa.Table:
    """Decode dictionary-encoded columns, for tools that do not support them."""
    for position, kind in enumerate(table.schema):
        if pa.types.is_dictionary(kind.type):
            values = table.column(position).cast(kind.type.value_type)
            table = table.set_column(position, kind.name, values)
    return table


def to_labels(column: Column, codes: Integers, recoding: Recoding | None = None) -> pa.Array:
    """Convert codes, recoded or not, to published values; missing and -1 are null.

    Examples
    --------
    >>> from hushtable.schema.recoding import recode
    >>> from hushtable.schema import Integer
    >>> age = Integer(type="integer", low=0, high=99)
    >>> to_labels(age, np.array([0, 2, -1]), recode("age", age, [18, 65])).to_pylist()
    ['0 to 17', '65 to 99', None]
    """
    present, place = np.unique(codes, return_inverse=True)
    name: Callable[[int], Value] = column.value if recoding is None else recoding.label
    named = [None if code < 0 else name(int(code)) for code in present]
    values = typed(column, named) if recoding is None else pa.array(named, pa.string())
    return values.take(pa.array(place))


def with_labels(table: pa.Table, schema: Schema) -> pa.Table:
    """Replace values by their labels, in columns of texts and truth values."""
    for place, field in enumerate(table.schema):
        column = schema.attributes.get(field.name)
        numeric = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        if column is None or not column.labels or numeric:
            continue
        values, places = _distinct(table.column(place))
        named = [column.labels.get(text, text) for text in map(str, map(_text, values))]
        labels = pa.array([*named, None], pa.string()).take(pa.array(places))
        table = table.set_column(place, field.name, labels)
    return table


def to_codes(column: Column, values: pa.ChunkedArray, recoding: Recoding | None = None) -> Integers:
    """Convert published values or labels back to codes.

    Examples
    --------
    >>> from hushtable.schema import Integer
    >>> age = Integer(type="integer", low=18, high=99, missing="category")
    >>> to_codes(age, pa.chunked_array([[18, None, 21]])).tolist()
    [0, 82, 3]
    """
    missing_code = (recoding or column).missing_code or 0
    if recoding is None and isinstance(column, Numeric) and _is_number(values.type):
        real, missing = with_missing(values)
        real[missing] = 0
        if _is_short(column, real):
            return np.where(missing, missing_code, _rounded(column, real))
    labels, places = _distinct(values)
    if recoding is not None:
        known = _places(labels, recoding.names)
    elif isinstance(column, Categorical):
        known = _places([_text(label) for label in labels], column.values)
    else:
        known = [column.code_of(label) for label in labels]
    table = np.array([*known, missing_code], np.int64)
    codes: Integers = table[places]
    return codes


def _distinct(values: pa.ChunkedArray) -> tuple[list[Any], Integers]:
    """Return the distinct values and the position of each value among them; null comes last."""
    if len(values) < _SHORT and not pa.types.is_dictionary(values.type):
        each = values.to_pylist()
        there = dict.fromkeys(value for value in each if value is not None)
        place_of = {value: place for place, value in enumerate(there)}
        places = [place_of.get(value, len(place_of)) for value in each]
        return list(place_of), np.array(places, np.int64)
    encoded = values.unify_dictionaries().combine_chunks()
    if not pa.types.is_dictionary(encoded.type):
        encoded = encoded.dictionary_encode()
    labels = encoded.dictionary.to_pylist()
    return labels, as_numpy(encoded.indices, null=len(labels))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_int64(kind) or pa.types.is_float64(kind))


def _is_short(column: Numeric, real: NDArray[Any]) -> bool:
    """Return whether all numbers are finite and near enough to zero, in steps, for exact rounding.

    A grid point and its distance from the lowest one, in steps, are then wrong by less than 2^-10
    in double precision, so the nearest integer is the code.
    """
    most = np.abs(real.astype(np.float64)).max(initial=abs(float(column.exact_low)))
    return bool(most / float(column.exact_step) < _MOST_STEPS)  # False for NaN


def _rounded(column: Numeric, real: NDArray[Any]) -> Integers:
    """Return the code of the nearest grid point, or of a special value."""
    steps = (real - float(column.exact_low)) / float(column.exact_step)
    codes: Integers = np.rint(steps).astype(np.int64)
    for key, code in column.special_places.items():
        codes[real == float(key)] = code
    return codes


def _text(label: Any) -> Any:
    return str(label).lower() if isinstance(label, bool) else label


def _places(labels: Sequence[Value], among: Sequence[Value]) -> list[int]:
    place_of = {label: place for place, label in enumerate(among)}
    return [place_of[label] for label in labels]


def repeated(counts: Integers) -> Integers:
    """Repeat the position of each count as often as the count says.

    Raise `TooLarge` if the result exceeds the machine's memory: counts may come from a forged
    release, in which a few bytes describe many rows.

    Examples
    --------
    >>> repeated(np.array([2, 0, 1])).tolist()
    [0, 0, 2]
    """
    if counts.dtype.kind not in "iu" or counts.min(initial=0) < 0:
        raise ReleaseError("counts of the release must be integers of at least 0.")
    needed, there = 8 * float(counts.astype(np.float64).sum()), physical_memory()
    if needed > there:
        raise TooLarge(
            f"the counts of the release describe {needed / 8:,.0f} rows, which need more than the "
            f"{there / 2**30:,.0f} GB of memory of this machine; query counts instead."
        )
    return np.repeat(np.arange(len(counts)), counts)


# --- Arrow and NumPy ------------------------------------------------------------------------------


def numbers(values: NDArray[Any], missing: Bools | None = None) -> pa.Array:
    """Convert numbers to an Arrow array of their type, null where they are missing.

    Examples
    --------
    >>> numbers(np.array([4, 5], np.int32), np.array([False, True])).to_pylist()
    [4, None]
    """
    there = None
    if missing is not None:
        there = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    kind = pa.from_numpy_dtype(values.dtype)
    content = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, len(values), [there, content])


def below_each_other(tables: Sequence[Integers]) -> pa.Table:
    """Concatenate tables of counts: number of the table, number of the cell in C order, count.

    Examples
    --------
    >>> below_each_other([np.array([7, 8]), np.array([[9]])]).to_pydict()
    {'table': [0, 0, 1], 'cell': [0, 1, 0], 'count': [7, 8, 9]}
    """
    sizes = [counts.size for counts in tables]
    return pa.table(
        {
            "table": numbers(np.repeat(np.arange(len(tables), dtype=np.int32), sizes)),
            "cell": numbers(np.concatenate([np.arange(n, dtype=np.int32) for n in sizes])),
            "count": numbers(np.concatenate([counts.ravel() for counts in tables])),
        }
    )


def texts(values: Iterable[str]) -> pa.Array:
    """Convert texts to an Arrow array.

    Examples
    --------
    >>> texts(["no", "", "jamais vu"]).to_pylist()
    ['no', '', 'jamais vu']
    """
    written = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, written)], dtype=np.int64).astype(np.int32)
    content = pa.py_buffer(b"".join(written))
    return pa.StringArray.from_buffers(len(written), pa.py_buffer(ends), content)


def numpy_type(kind: pa.DataType) -> np.dtype[Any]:
    """Return the NumPy type of an Arrow integer or float; older pyarrow would import pandas for it.

    Examples
    --------
    >>> numpy_type(pa.uint8()), numpy_type(pa.float32())
    (dtype('uint8'), dtype('float32'))
    """
    letter = (
        "f" if pa.types.is_floating(kind) else "u" if pa.types.is_unsigned_integer(kind) else "i"
    )
    return np.dtype(f"{letter}{kind.bit_width // 8}")


def with_missing(column: pa.ChunkedArray | pa.Array) -> tuple[NDArray[Any], Bools]:
    """Return numbers as a NumPy array, undefined where null, and a mask of nulls.

    Examples
    --------
    >>> values, missing = with_missing(pa.chunked_array([[1, None], [3]]))
    >>> values[~missing].tolist(), missing.tolist()
    ([1, 3], [False, True, False])
    """
    values = [np.empty(0, numpy_type(column.type))]
    missing = [np.empty(0, np.bool_)]
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        there, content = chunk.buffers()
        inside = slice(chunk.offset, chunk.offset + len(chunk))
        if len(chunk):
            values.append(np.frombuffer(content, values[0].dtype)[inside])
        if there is None:
            missing.append(np.zeros(len(chunk), np.bool_))
        else:
            bits = np.unpackbits(np.frombuffer(there, np.uint8), bitorder="little")
            missing.append(bits[inside] == 0)
    return np.concatenate(values), np.concatenate(missing)


def as_numpy(column: pa.ChunkedArray | pa.Array, *, null: float | None = None) -> NDArray[Any]:
    """Return numbers as a NumPy array, with `null` in place of missing ones.

    Raise `ReleaseError` if the column is not numeric, or if a number is missing and `null` is None.

    Examples
    --------
    >>> as_numpy(pa.chunked_array([[1, None], [3]]), null=-1).tolist()
    [1, -1, 3]
    """
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise ReleaseError(f"the release has {column.type} where numbers are expected.")
    values, missing = with_missing(column)
    if not missing.any():
        return values
    if null is None:
        raise ReleaseError("the release has an empty cell where a number is expected.")
    return np.where(missing, null, values)


# Tuples as published columns.


def written_tuples(schema: Schema, codes: Integers) -> dict[str, pa.Array]:
    """Return tuples, one row of codes each, as published columns."""
    return {
        name: to_values(column, codes[:, position])
        for position, (name, column) in enumerate(schema.attributes.items())
    }
