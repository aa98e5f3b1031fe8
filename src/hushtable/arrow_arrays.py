"""Arrow arrays from NumPy and back, without importing pandas.

``pa.array``, ``pa.scalar`` and ``to_numpy`` import pandas wherever it is installed, to see whether
it is in use. That takes longer than to count a small table.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def numbers(values: NDArray[Any], missing: NDArray[np.bool_] | None = None) -> pa.Array:
    """Give the numbers as an Arrow array of their type, null where they are missing.

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


def texts(values: Iterable[str]) -> pa.Array:
    """Give the texts as an Arrow array.

    Examples
    --------
    >>> texts(["no", "", "jamais vu"]).to_pylist()
    ['no', '', 'jamais vu']
    """
    written = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, written)], dtype=np.int64).astype(np.int32)
    content = pa.py_buffer(b"".join(written))
    return pa.StringArray.from_buffers(len(written), pa.py_buffer(ends), content)


def with_missing(column: pa.ChunkedArray | pa.Array) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Give numbers as a NumPy array, and which of them are null: there they mean nothing.

    Examples
    --------
    >>> values, missing = with_missing(pa.chunked_array([[1, None], [3]]))
    >>> values[~missing].tolist(), missing.tolist()
    ([1, 3], [False, True, False])
    """
    values = [np.empty(0, column.type.to_pandas_dtype())]
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
