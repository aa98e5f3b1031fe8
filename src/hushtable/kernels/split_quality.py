"""Quality functions of splits of a region, and their sensitivities.

Plain constants, for compiled loops and for mechanisms that compute the cost of a query.
"""

from __future__ import annotations

EVEN, EVEN_UNORDERED, TELLING = 0, 1, 2
"""Even halves; even halves and different classes; association of the side with the class."""

POINTS = 64
"""Number of points of `TELLING` per row."""

MOVES = {EVEN: 1, EVEN_UNORDERED: 3, TELLING: 2 * (POINTS + 1)}
"""Largest change of score differences by one row (``partition.md``, "Scores")."""
