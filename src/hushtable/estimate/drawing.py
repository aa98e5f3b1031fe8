"""Where values that are drawn from a release come from.

A release is public, so what is drawn from it protects nobody: any generator will do, and with one
of their own analysts repeat a draw. Noise that keeps a promise is `hushtable.privacy.noise`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hushtable.estimate.simplex import on_simplex
from hushtable.recoding import Intervals, Recoding

Generator: TypeAlias = "np.random.Generator"  # by name: no other answer needs that module

_STICKS = 40  # pieces of a Dirichlet process; what is left after them is a part in 10^12


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


def redrawn_cells(
    codes: Mapping[str, NDArray[np.int64]],
    counts: NDArray[Any],
    variance: float,
    recode: Mapping[str, Recoding],
    rng: Generator,
) -> dict[str, NDArray[np.int64]]:
    """Draw rows from noisy cells, whose counts are drawn anew from their uncertainty.

    Parameters
    ----------
    codes : mapping of str to int array
        The code of each cell in each column.
    counts : array
        The noisy count of each cell.
    variance : float
        Of the noise of a count.
    recode : mapping of str to Recoding
        Columns whose codes are generalized. Where inside its rows are is not known, so a draw of a
        Dirichlet process around the even spread says it, the same for all cells, with the weight of
        half an observation: rows pile up at an end more often than one would think.
    rng : Generator
        Where the draws come from.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> rows = redrawn_cells({"x": np.array([0, 1])}, np.array([90.0, 10.0]), 1.0, {}, rng)
    >>> len(rows["x"]), bool(rows["x"].mean() < 0.5)
    (100, True)
    """
    total = max(1.0, float(counts.sum()))
    drawn = counts + rng.normal(0.0, variance**0.5, len(counts))
    weights = on_simplex(drawn, total)
    rows = rng.choice(len(weights), round(total), p=weights / weights.sum())
    found = {name: own[rows] for name, own in codes.items()}
    piece = rng.choice(_STICKS, len(rows), p=_broken_stick(rng))
    for name in recode:
        if name in found:
            found[name] = place_inside(recode[name], found[name], rng.random(_STICKS)[piece])
    return found


def _broken_stick(rng: Generator) -> NDArray[np.float64]:
    """Draw the weights of a Dirichlet process of weight 1/2 (Sethuraman 1994).

    Examples
    --------
    >>> draws = np.array([_broken_stick(np.random.default_rng(seed)) for seed in range(2000)])
    >>> bool(np.allclose(draws.sum(axis=1), 1)), round(float((draws**2).sum(axis=1).mean()), 1)
    (True, 0.7)
    """
    parts = np.append(1 - rng.random(_STICKS - 1) ** 2, 1.0)  # the last has the rest
    return np.asarray(parts * np.concatenate([[1.0], np.cumprod(1 - parts[:-1])]))
