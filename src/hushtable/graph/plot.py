"""Plots of degree distributions on log-log scales."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hushtable.errors import ParameterError
from hushtable.files.svg import GRAY, Band, DrawnLine, draw_lines
from hushtable.files.whole_file import write_whole
from hushtable.release.release import Release


def plot_degrees(
    release: Release, path: str | Path, *, original: NDArray[np.int64] | None = None
) -> None:
    """Plot the share of nodes with at least each degree to a new ``.svg`` file.

    With the private degrees, the plot is internal and is labeled so.

    Parameters
    ----------
    release : Release
        A release of method degrees.
    path : path
        The file to write.
    original : int array, optional
        Degrees of the private graph.
    """
    path = Path(path)
    if path.suffix != ".svg":
        raise ParameterError(f"cannot draw to {path.name!r}: use a .svg file.")
    table = release.table()
    lines = [DrawnLine(_survival(table.column("nodes").to_numpy()), label="release")]
    note = "share of nodes with at least this degree"
    if original is not None:
        private = _survival(np.bincount(original))
        lines.insert(0, DrawnLine(private, color=GRAY, label="original (private)", width=4))
        note += "; internal: shows the private graph, do not publish"
    drawing = draw_lines(
        release.statement.public_schema["name"],
        note,
        "degree",
        [line for line in lines if line.points],
        band=_band(release),
        upright=release.statement.estimator["max_degree"],
    )
    write_whole(path, drawing)


def _survival(histogram: NDArray[np.int64]) -> list[tuple[float, float]]:
    """Return degrees from 1 on that some node has or exceeds, with the share of such nodes."""
    at_least = np.cumsum(histogram[::-1])[::-1]
    total = max(int(histogram.sum()), 1)
    return [(float(d), float(at_least[d]) / total) for d in np.flatnonzero(at_least > 0) if d > 0]


def _band(release: Release) -> Band:
    """Return the 95% band of the cumulative counts."""
    table = release.table()
    cumulative = table.column("nodes_up_to_degree").to_numpy()
    std = np.hypot(table.column("privacy_std").to_numpy(), table.column("model_std").to_numpy())
    total = max(float(cumulative[-1]), 1.0)
    above, reach = (total - cumulative) / total, 1.96 * std / total
    least = 0.5 / total  # half a node, because a log axis has no zero
    low, high = (
        [(float(degree), max(float(share), least)) for degree, share in enumerate(ends[:-1], 1)]
        for ends in (above - reach, above + reach)
    )
    return Band(low, high, "95% interval")
