"""Types of arrays, declared once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

Codes16 = NDArray[np.int16]
Codes32 = NDArray[np.int32]
Codes64 = NDArray[np.int64]
ColumnCodes = Mapping[str, NDArray[np.int64]]
"""The codes of some columns, by name."""
