"""Compiled loops: exact samplers, histograms, sums over pairs.

Importing numba takes longer than most queries of a release, so modules are imported when one of
their loops first runs. Code that may not need them writes ``from hushtable import kernels`` and
``kernels.samplers.fill_below``.

The quality functions of splits (`hushtable.kernels.split_scores`) are constants here, so that they
can be named without numba.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

EVEN, EVEN_UNORDERED, TELLING = 0, 1, 2
"""Scores of splits: even halves; even halves with different classes; association with the class."""

POINTS = 64
"""Number of points of `TELLING` per row."""

MOVES = {EVEN: 1, EVEN_UNORDERED: 3, TELLING: 2 * (POINTS + 1)}
"""Largest change of score differences by one row (``partition.md``, "Scores")."""
