"""The distribution of DiffGen's cuts on a small table, by enumeration.

Written from the definitions, on rows and sets of values, independently of the tested code: no
histograms, no runs of values, every split separately.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from hushtable.schema import Schema

Row = tuple[str, int, str]  # job, age, class
Part = str | tuple[int, int]
Outcome = tuple[tuple[Part, int | None], ...]  # split column, and the first age of the right side
Cut = tuple[Part, ...]

TREE = {"Any": ("Pro", "Art"), "Pro": ("E", "L"), "Art": ("D", "W")}
LEAVES = {"Any": "ELDW", "Pro": "EL", "Art": "DW", "E": "E", "L": "L", "D": "D", "W": "W"}
OLDEST = 3
SCHEMA = Schema.from_dict(
    {
        "name": "t",
        "columns": {
            "job": {
                "type": "categorical",
                "values": list("ELDW"),
                "taxonomy": {"Any": {"Pro": ["E", "L"], "Art": ["D", "W"]}},
            },
            "age": {"type": "integer", "low": 0, "high": OLDEST},
            "class": {"type": "categorical", "values": ["Y", "N"], "role": "target"},
        },
    }
)
ROWS: list[Row] = [("E", 0, "Y"), ("L", 1, "Y"), ("D", 2, "N"), ("D", 1, "N"), ("W", 2, "Y")]

Score = Callable[[Sequence[Sequence[int]]], float]


def max_score(children: Sequence[Sequence[int]]) -> float:
    """Return the sum of majorities."""
    return sum(max(child) for child in children)


def total_variation(children: Sequence[Sequence[int]]) -> float:
    """Return the sum of absolute deviations from independence, rounded down."""
    n = sum(map(sum, children))
    classes = [sum(child[j] for child in children) for j in range(2)]
    off = [abs(n * c[j] - sum(c) * classes[j]) for c in children for j in range(2)]
    return sum(off) // n if n else 0


def ways(part: Part) -> list[tuple[int | None, list[Part]]]:
    """List the ways to split a part: position and resulting parts."""
    if isinstance(part, str):
        return [(None, list(TREE[part]))] if part in TREE else []
    low, high = part
    return [(at, [(low, at - 1), (at, high)]) for at in range(low + 1, high + 1)]


def counts(rows: Sequence[Row], part: Part) -> list[int]:
    """Count the classes of the rows in a part."""
    found = [0, 0]
    for job, age, cls in rows:
        inside = job in LEAVES[part] if isinstance(part, str) else part[0] <= age <= part[1]
        found["YN".index(cls)] += inside
    return found


def tight(rows: Sequence[Row], *, rounds: int, eta: float, score: Score) -> dict[Outcome, float]:
    """Return the probability of every sequence of joint choices; eta per point of the score."""

    def grow(cut: Cut, left: int) -> dict[Outcome, float]:
        if left == 0:
            return {(): 1.0}
        candidates = [(part, way) for part in cut for way in ways(part)]
        n_parts = {
            kind: len({part for part, _ in candidates if type(part) is kind})
            for kind in (str, tuple)
        }
        weights = [
            math.exp(eta * score([counts(rows, child) for child in way[1]]))
            / (n_parts[type(part)] * len(ways(part)))
            for part, way in candidates
        ]
        result: dict[Outcome, float] = {}
        for (part, (at, children)), weight in zip(candidates, weights, strict=True):
            after = tuple(p for p in cut if p != part) + tuple(children)
            for rest, chance in grow(after, left - 1).items():
                outcome = ((part, at), *rest)
                result[outcome] = result.get(outcome, 0.0) + weight / sum(weights) * chance
        return result

    return grow(("Any", (0, OLDEST)), rounds)


def paper(rows: Sequence[Row], *, rounds: int, eta: float, score: Score) -> dict[Outcome, float]:
    """Return the probability of every sequence of Algorithm 1; eta per point of the score."""

    def weight(way: tuple[int | None, list[Part]]) -> float:
        return math.exp(eta * score([counts(rows, child) for child in way[1]]))

    def grow(pending: dict[Part, tuple[int | None, list[Part]]], left: int) -> dict[Outcome, float]:
        if left == 0:
            return {(): 1.0}
        weights = {part: weight(way) for part, way in pending.items()}
        result: dict[Outcome, float] = {}
        for part, (at, children) in pending.items():
            for more, chance in settle([child for child in children if ways(child)]):
                after = {p: w for p, w in pending.items() if p != part} | more
                for rest, further in grow(after, left - 1).items():
                    outcome = ((part, at), *rest)
                    total = weights[part] / sum(weights.values()) * chance * further
                    result[outcome] = result.get(outcome, 0.0) + total
        return result

    def settle(parts: list[Part]) -> list[tuple[dict[Part, tuple[int | None, list[Part]]], float]]:
        """Return a split for each new part, with its probability (lines 4 and 9)."""
        if not parts:
            return [({}, 1.0)]
        first, *others = parts
        total = sum(map(weight, ways(first)))
        return [
            ({first: way} | more, weight(way) / total * chance)
            for way in ways(first)
            for more, chance in settle(others)
        ]

    result: dict[Outcome, float] = {}
    for pending, chance in settle(["Any", (0, OLDEST)]):
        for outcome, further in grow(pending, rounds).items():
            result[outcome] = result.get(outcome, 0.0) + chance * further
    return result
