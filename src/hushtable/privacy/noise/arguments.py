"""Checks of the arguments of samplers; each returns a problem in words, or None."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtable.errors import ParameterError


def refuse_if(*problems: str | None) -> None:
    """Raise `ParameterError` with all problems, if there are any."""
    found = [problem for problem in problems if problem]
    if found:
        raise ParameterError(found)


def not_whole(
    name: str, value: object, *, low: int | None = 0, high: int | None = None
) -> str | None:
    """Return what is wrong with an integer, or None."""
    if isinstance(value, bool) or not isinstance(value, int):
        return f"{name}: {value!r} is not a Python integer."
    if low is not None and value < low:
        return f"{name}: {value} is below {low}."
    if high is not None and value > high:
        return f"{name}: {value} is above {high}."
    return None


def not_fraction(
    name: str, value: object, *, positive: bool = False, high: int | None = None
) -> str | None:
    """Return what is wrong with a fraction, or None."""
    if isinstance(value, bool) or not isinstance(value, int | Fraction):
        return f"{name}: {value!r} is not a Fraction. Use rational.as_rational to make one."
    if value < 0 or (positive and value == 0):
        return f"{name}: {value} must be {'above' if positive else 'at least'} 0."
    if high is not None and value > high:
        return f"{name}: {value} is above {high}."
    return None


def as_integers(name: str, values: NDArray[Any] | Sequence[int]) -> NDArray[Any]:
    """Return an int64 array, or an array of Python integers if one does not fit."""
    array = np.asarray(values)
    if array.ndim == 1 and array.dtype.kind in "iu" and array.dtype != np.uint64:
        return array.astype(np.int64)
    exact = np.array(values, object)
    if exact.ndim != 1 or any(
        isinstance(v, bool) or not isinstance(v, int) for v in exact.tolist()
    ):
        raise ParameterError(f"{name}: must be a one-dimensional array or sequence of integers.")
    return exact


def as_weights(name: str, weights: Sequence[int]) -> list[int]:
    """Return Python integers of at least 0, not all 0; raise `ParameterError` otherwise."""
    values = [int(w) for w in as_integers(name, weights).tolist()]
    if not values or min(values) < 0 or not any(values):
        raise ParameterError(f"{name}: all must be at least 0, and at least one above 0.")
    return values
