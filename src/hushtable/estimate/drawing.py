"""Where values that are drawn from a release come from.

A release is public, so what is drawn from it protects nobody: any generator will do, and with one
of their own analysts repeat a draw. Noise that keeps a promise is `hushtable.privacy.noise`.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hushtable.recoding import Intervals, Recoding

Generator: TypeAlias = "np.random.Generator"  # by name: no other answer needs that module


def fresh() -> Generator:
    """Make a generator that starts anywhere."""
    return np.random.default_rng()


def draw_inside(recoding: Recoding, codes: NDArray[np.int64], rng: Generator) -> NDArray[np.int64]:
    """Draw a value of the original column for each generalized one, evenly.

    Examples
    --------
    >>> halves = Intervals(("low", "high"), 10, False, (0, 5))
    >>> drawn = draw_inside(halves, np.array([0, 1, 1]), fresh())
    >>> (drawn >= 5).tolist()
    [False, True, True]
    """
    return place_inside(recoding, codes, rng.random(len(codes)))


def place_inside(
    recoding: Recoding, codes: NDArray[np.int64], places: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Give the value of the original column at a place, from 0 to 1, inside each generalized one.

    Examples
    --------
    >>> halves = Intervals(("low", "high"), 10, False, (0, 5))
    >>> place_inside(halves, np.array([0, 1]), np.array([0.5, 0.0])).tolist()
    [2, 5]
    """
    picks = (places * recoding.widths[codes]).astype(np.int64)
    if isinstance(recoding, Intervals):
        apart = recoding.n_values + np.arange(recoding.n_apart)
        starts = np.append(recoding.starts, apart)
        return np.asarray(starts[codes] + picks)
    members, starts = members_of(recoding)
    return np.asarray(members[starts[codes] + picks])


def members_of(recoding: Recoding) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """List the old codes by their new one, and say where those of each begin."""
    new = recoding.apply(np.arange(recoding.n_values + recoding.n_apart))
    members = np.argsort(new, kind="stable")
    return members, np.searchsorted(new[members], np.arange(recoding.size))
