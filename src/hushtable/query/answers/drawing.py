"""Sampling of values from a release.

A release is public, so sampling from it needs no secure randomness: any generator is fine, and
analysts can pass a seeded one to reproduce a sample. `hushtable.privacy.noise.noise` has the noise
that protects people.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hushtable.schema.recoding import Intervals, Recoding

Generator: TypeAlias = "np.random.Generator"  # a string: numpy.random is loaded on demand


def fresh() -> Generator:
    """Return a generator with an unpredictable seed."""
    return np.random.default_rng()


def draw_inside(recoding: Recoding, codes: NDArray[np.int64], rng: Generator) -> NDArray[np.int64]:
    """Sample a value of the original column uniformly from inside each generalized value.

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
    """Return the original value at a relative position (0 to 1) inside each generalized value.

    Examples
    --------
    >>> halves = Intervals(("low", "high"), 10, False, (0, 5))
    >>> place_inside(halves, np.array([0, 1]), np.array([0.5, 0.0])).tolist()
    [2, 5]
    """
    picks = (places * recoding.widths[codes]).astype(np.int64)
    if isinstance(recoding, Intervals):
        apart = recoding.n_values + np.arange(recoding.n_special)
        starts = np.append(recoding.starts, apart)
        return np.asarray(starts[codes] + picks)
    members, starts = members_of(recoding)
    return np.asarray(members[starts[codes] + picks])


def members_of(recoding: Recoding) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the old codes sorted by new code, and the start of each new code among them."""
    new = recoding.apply(np.arange(recoding.n_values + recoding.n_special))
    members = np.argsort(new, kind="stable")
    return members, np.searchsorted(new[members], np.arange(recoding.size))
