"""Loops over the rows of a tree's regions: scoring and applying splits.

Rows are cells of the frequency table. They are ordered by region: a region is a range of the order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import Bools, Integers
from hushtable.extras import needing
from hushtable.kernels import EVEN, POINTS, TELLING

with needing("publish"):
    from numba import njit

# ruff: noqa: PLR0917 - numba compiles positional parameters

Places = NDArray[np.int32]
Positions = NDArray[np.int16] | NDArray[np.int32]


@njit(cache=True)  # type: ignore[untyped-decorator]
def telling(left: Integers, whole: Integers) -> int:  # pragma: no cover - compiled
    """Return the score `TELLING`: rows of a side in excess of independence of side and class.

    This is `POINTS` times the sum over classes c of max(0, x_c - r1 C_c / n), rounded down. Here
    x_c is the number of rows of class c on the left side, r1 that of all rows on the left side,
    C_c that of rows of class c, and n that of all rows. The expression is nearly exact in floats.
    """
    n_left, n = 0, 0
    for c in range(len(whole)):
        n_left += left[c]
        n += whole[c]
    if n == 0:
        return 0
    beyond = 0.0
    for c in range(len(whole)):
        x, y = float(left[c]), float(whole[c] - left[c])
        # n times the difference: both products are positive, and small if the excess is small.
        beyond += max(0.0, x * (n - n_left - y) - y * (n_left - x))
    return int(np.floor(POINTS * beyond / n))


@njit(cache=True)  # type: ignore[untyped-decorator]
def split_score(
    left: Integers, whole: Integers, quality: int
) -> int:  # pragma: no cover - compiled
    """Score a split: twice quality (2) or (3) of the paper (``partition.md``), or `telling`."""
    if quality == TELLING:
        points: int = telling(left, whole)
        return points
    n_left = n_right = 0
    # The best and second-best class of each side, to find the best pair of different classes.
    best_left = next_left = best_right = next_right = 0
    at_left = at_right = -1
    for c in range(len(whole)):
        x, y = left[c], whole[c] - left[c]
        n_left += x
        n_right += y
        if at_left < 0 or x > best_left:
            next_left, best_left, at_left = best_left, x, c
        elif x > next_left:
            next_left = x
        if at_right < 0 or y > best_right:
            next_right, best_right, at_right = best_right, y, c
        elif y > next_right:
            next_right = y
    smaller = min(n_left, n_right)
    if quality == EVEN:
        return smaller
    if at_left != at_right:
        apart = best_left + best_right
    else:
        apart = max(best_left + next_right, next_left + best_right)
    return 2 * smaller + apart


@njit(cache=True)  # type: ignore[untyped-decorator]
def score_interval(
    order: Places,
    positions: Positions,
    counts: Integers,
    classes: Places,
    whole: Integers,
    first: int,
    last: int,
    quality: int,
    scores: Integers,
    ways: Integers,
    starts: Integers,
) -> int:  # pragma: no cover - compiled
    """Score all cuts of an interval; cuts between the same two occupied positions are one run.

    A cut is identified by the first position of the right half. Run i has ways[i] cuts from
    starts[i] on. Returns the number of runs. Every cut from `first` + 1 to `last` is in one of
    them, wherever rows are: the number and identity of cuts are public.
    """
    n_runs, place, start = 0, 0, first + 1
    left = np.zeros(len(whole), np.int64)
    while start <= last:
        position = positions[order[place]] if place < len(order) else last
        if position >= start:
            scores[n_runs] = split_score(left, whole, quality)
            ways[n_runs] = min(position, last) - start + 1
            starts[n_runs] = start
            n_runs += 1
        if place == len(order):
            break
        while place < len(order) and positions[order[place]] == position:
            left[classes[order[place]]] += counts[order[place]]
            place += 1
        start = max(start, position + 1)
    return n_runs


@njit(cache=True)  # type: ignore[untyped-decorator]
def score_subsets(
    order: Places,
    positions: Positions,
    counts: Integers,
    classes: Places,
    whole: Integers,
    mask: int,
    quality: int,
    scores: Integers,
    ways: Integers,
    starts: Integers,
) -> int:  # pragma: no cover - compiled
    """Score all splits of a set in two, identified by the side with the lowest position."""
    # Loops instead of array expressions throughout: the latter take seconds to compile.
    inside, at = np.zeros(64, np.int64), np.zeros(64, np.int64)
    n_inside = 0
    for p in range(63):
        if mask >> p & 1:
            inside[n_inside], at[p] = p, n_inside
            n_inside += 1
    table = np.zeros((n_inside, len(whole)), np.int64)
    for cell in order:
        table[at[positions[cell]], classes[cell]] += counts[cell]
    left = np.zeros(len(whole), np.int64)
    n_splits = (1 << (n_inside - 1)) - 1
    for split in range(n_splits):
        # The lowest position is always on the identifying side, with any proper subset of others.
        side = np.int64(1) << inside[0]
        for c in range(len(whole)):
            left[c] = table[0, c]
        for i in range(1, n_inside):
            if split >> (i - 1) & 1:
                side |= np.int64(1) << inside[i]
                for c in range(len(whole)):
                    left[c] += table[i, c]
        scores[split] = split_score(left, whole, quality)
        ways[split] = 1
        starts[split] = side
    return n_splits


@njit(cache=True)  # type: ignore[untyped-decorator]
def class_counts(
    order: Places, counts: Integers, classes: Places, begins: Integers, ends: Integers, n: int
) -> Integers:  # pragma: no cover - compiled
    """Return the number of rows of each region by class."""
    out = np.zeros((len(begins), n), np.int64)
    for region in range(len(begins)):
        for place in range(begins[region], ends[region]):
            out[region, classes[order[place]]] += counts[order[place]]
    return out


@njit(cache=True)  # type: ignore[untyped-decorator]
def tabulate(
    order: Places,
    positions: Positions,
    counts: Integers,
    classes: Places,
    first: int,
    n_positions: int,
    n_classes: int,
) -> Integers:  # pragma: no cover - compiled
    """Return the number of rows by position, from `first` on, and class, as a flat array."""
    table = np.zeros(n_positions * n_classes, np.int64)
    for cell in order:
        table[(positions[cell] - first) * n_classes + classes[cell]] += counts[cell]
    return table


@njit(cache=True)  # type: ignore[untyped-decorator]
def divide(
    order: Places,
    positions: Positions,
    begins: Integers,
    ends: Integers,
    axes: Integers,
    subsets: Bools,
    cuts: Integers,
) -> Integers:  # pragma: no cover - compiled
    """Put the left half of each region before the right one; return where it ends."""
    middles = begins.copy()
    later = np.empty(len(order), np.int32)
    for region in range(len(begins)):
        axis, cut = axes[region], cuts[region]
        to, n_later = begins[region], 0
        for place in range(begins[region], ends[region]):
            cell = order[place]
            position = positions[axis, cell]
            if (not cut >> position & 1) if subsets[axis] else position >= cut:
                later[n_later] = cell
                n_later += 1
            else:
                order[to] = cell
                to += 1
        for place in range(n_later):
            order[to + place] = later[place]
        middles[region] = to
    return middles
