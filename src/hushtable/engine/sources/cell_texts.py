"""Conversion of cells to text, for tables whose columns have no type.

In Excel, JSON lines and SQLite, every cell has its own type. With a common column type, or that of
the first cell, one row could change how all other rows are read, which the noise does not cover.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

_EDGE = 2.0**63


def texts_of(cells: Iterable[Any]) -> pa.Array:
    """Convert cells to text in the spelling of `hushtable.engine.encode`.

    Examples
    --------
    >>> import datetime
    >>> texts_of([3.0, 0.5, True, None, "3.0", datetime.timedelta(hours=1)]).to_pylist()
    ['3', '0.5', 'true', None, '3.0', '3600000000 us']
    """
    return pa.array(map(_text, cells), pa.string())


def _text(cell: Any) -> str | None:  # noqa: PLR0911 - one for each type
    if cell is None or isinstance(cell, str):
        # JSON can contain unpaired surrogates, which are not valid text.
        return cell and cell.encode("utf-8", "replace").decode()
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, int):
        return str(cell)
    if isinstance(cell, float):
        if math.isnan(cell):
            return None
        return str(int(cell)) if cell.is_integer() and abs(cell) < _EDGE else str(cell)
    if isinstance(cell, datetime.datetime):
        return cell.isoformat(" ")
    if isinstance(cell, datetime.date | datetime.time):
        return cell.isoformat()
    if isinstance(cell, datetime.timedelta):
        return f"{cell // datetime.timedelta(microseconds=1)} us"
    return f"x{cell.hex()}" if isinstance(cell, bytes) else json.dumps(cell)
