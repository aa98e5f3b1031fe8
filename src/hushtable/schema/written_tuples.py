"""Tuples as published columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.schema import Schema
from hushtable.schema.codes import to_values


def written_tuples(schema: Schema, codes: NDArray[np.int64]) -> dict[str, pa.Array]:
    """Return tuples, one row of codes each, as published columns."""
    return {
        name: to_values(column, codes[:, position])
        for position, (name, column) in enumerate(schema.attributes.items())
    }
