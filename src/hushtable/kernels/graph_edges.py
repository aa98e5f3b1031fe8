"""Loops over edges: parsing, ordering, bounding degrees, realizing degree sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import Codes32, Integers
from hushtable.extras import needing

with needing("publish"):
    from numba import njit

Bytes = NDArray[np.uint8]
Hashes = NDArray[np.uint64]

_NEWLINE, _RETURN, _TAB, _SPACE, _COMMA, _SHARP, _PERCENT = 10, 13, 9, 32, 44, 35, 37


@njit(cache=True)  # type: ignore[untyped-decorator]
def split_pairs(
    text: Bytes, per_line: int, kept: Bytes, ends: Integers
) -> tuple[int, int, int]:  # pragma: no cover - compiled
    """Copy the words of all lines into `kept` and record where each ends.

    Words are separated by spaces, tabs or a comma; a line that starts with ``#`` or ``%`` is a
    comment. Empty lines and comments are skipped. Lines with another number of words than
    `per_line`, or with `per_line` or more commas, are skipped and counted as bad.

    Returns
    -------
    n_words, n_bad_lines, first_bad_line
        The line number counts from 1; it is 0 if all lines are valid.
    """
    n_words = n_bad = first_bad = 0
    size, place, line = 0, 0, 0
    while place < len(text):
        line += 1
        start_size, start_words, words, commas = size, n_words, 0, 0
        in_word, comment, first = False, False, True
        while place < len(text) and text[place] != _NEWLINE:
            byte = text[place]
            place += 1
            if comment:
                continue
            if byte in (_SPACE, _TAB, _RETURN, _COMMA):
                in_word = False
                commas += byte == _COMMA
                continue
            if first and byte in (_SHARP, _PERCENT):
                comment = True
                continue
            first = False
            if not in_word:
                in_word = True
                words += 1
                if words <= per_line:
                    n_words += 1
            kept[size] = byte
            size += 1
            ends[n_words - 1] = size
        place += 1
        if words != per_line or commas >= per_line:
            size, n_words = start_size, start_words
            if words or commas:
                n_bad += 1
                first_bad = first_bad or line
    return n_words, n_bad, first_bad


@njit(cache=True)  # type: ignore[untyped-decorator]
def _mixed(word: np.uint64) -> np.uint64:  # pragma: no cover - compiled
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@njit(cache=True)  # type: ignore[untyped-decorator]
def hash_texts(text: Bytes, offsets: Integers, key: np.uint64) -> Hashes:  # pragma: no cover
    """Hash each text text[offsets[i]:offsets[i + 1]] with a key."""
    out = np.empty(len(offsets) - 1, np.uint64)
    for i in range(len(out)):
        state = key
        for place in range(offsets[i], offsets[i + 1]):
            state = (state ^ np.uint64(text[place])) * np.uint64(0x100000001B3)
        out[i] = _mixed(state ^ np.uint64(offsets[i + 1] - offsets[i]))
    return out


@njit(cache=True)  # type: ignore[untyped-decorator]
def hash_pairs(hashes: Hashes, source: Codes32, target: Codes32) -> Hashes:  # pragma: no cover
    """Hash each edge from the hashes of its two ends."""
    out = np.empty(len(source), np.uint64)
    for i in range(len(out)):
        out[i] = _mixed(hashes[source[i]] + _mixed(hashes[target[i]]))
    return out


@njit(cache=True)  # type: ignore[untyped-decorator]
def projected_degrees(
    source: Codes32, target: Codes32, n_nodes: int, max_degree: int
) -> Integers:  # pragma: no cover - compiled
    """Return degrees after adding edges in order, each only if both ends are below the bound."""
    degree = np.zeros(n_nodes, np.int64)
    for i in range(len(source)):
        one, two = source[i], target[i]
        if degree[one] < max_degree and degree[two] < max_degree:
            degree[one] += 1
            degree[two] += 1
    return degree


@njit(cache=True)  # type: ignore[untyped-decorator]
def realize(degrees: Integers) -> tuple[Codes32, Codes32]:  # pragma: no cover - compiled
    """Build a simple graph with these degrees by the algorithm of Havel and Hakimi.

    The degrees must be decreasing and graphical. The node with the largest degree is joined to
    those with the next largest ones. If the last of these are in a block of equal degrees, the
    nodes at the end of that block are used instead, so that the degrees stay sorted.
    """
    left = degrees.copy()
    n_edges = left.sum() // 2
    source, target = np.empty(n_edges, np.int32), np.empty(n_edges, np.int32)
    at = 0
    for node in range(len(left)):
        wanted = left[node]
        if wanted == 0:
            break
        last = node + wanted
        value = left[last]
        begin = _first_at_most(left, node + 1, value)
        end = _first_at_most(left, last, value - 1)
        n_in_block = last - begin + 1
        for other in range(node + 1, begin):
            left[other] -= 1
            source[at], target[at] = node, other
            at += 1
        for other in range(end - n_in_block, end):
            left[other] -= 1
            source[at], target[at] = node, other
            at += 1
        left[node] = 0
    return source, target


@njit(cache=True)  # type: ignore[untyped-decorator]
def _first_at_most(values: Any, start: int, bound: int) -> int:  # pragma: no cover - compiled
    """Find the first position from `start` on whose value is at most `bound`; values decrease."""
    low, high = start, len(values)
    while low < high:
        middle = (low + high) // 2
        if values[middle] <= bound:
            high = middle
        else:
            low = middle + 1
    return low
