"""What splits of a region are valued by, and how far one row moves that.

Plain numbers, for compiled loops and for those who pay for a look at what they give.
"""

from __future__ import annotations

EVEN, EVEN_AND_APART, TELLING = 0, 1, 2
"""Even halves; these, and classes apart; or what the side of a row tells of its class."""

POINTS = 64
"""How many points `TELLING` gives for one row."""

MOVES = {EVEN: 1, EVEN_AND_APART: 3, TELLING: 2 * (POINTS + 1)}
"""How far one row moves the scores of splits against each other (``partition.md``, "Scores")."""
