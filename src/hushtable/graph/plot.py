"""Draw degree distributions, log-log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtable.errors import ParameterError
from hushtable.release import Release

ORIGINAL, RELEASED = "#8a8a8a", "#0b5cad"


def plot_degrees(
    release: Release, path: str | Path, *, original: NDArray[np.int64] | None = None
) -> None:
    """Draw the share of nodes with at least each degree to a ``.png``, ``.svg`` or ``.pdf`` file.

    With the private degrees the picture is for the custodian alone, and says so.

    Parameters
    ----------
    release : Release
        A release of degrees.
    path : path
        The file to write.
    original : int array, optional
        The degrees of the private graph.
    """
    path = Path(path)
    if path.suffix not in {".png", ".svg", ".pdf"}:
        raise ParameterError(f"cannot draw to {path.name!r}: use a .png, .svg or .pdf file.")
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import, and optional
    except ImportError as error:
        raise ParameterError(
            "drawing needs matplotlib; install hushtable[eval], or leave the plot out."
        ) from error
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    if original is not None:
        degrees, shares = _survival(np.bincount(original))
        axes.plot(degrees, shares, color=ORIGINAL, linewidth=3, label="original (private)")
    table = release.table()
    nodes = table.column("nodes").to_numpy()
    degrees, shares = _survival(nodes)
    axes.plot(degrees, shares, color=RELEASED, linewidth=1.5, label="release")
    _draw_band(axes, release)
    axes.set(
        xscale="log", yscale="log", xlabel="degree", ylabel="share of nodes with at least it",
        title=release.statement.public_schema["name"],
    )  # fmt: skip
    axes.axvline(
        release.statement.estimator["max_degree"], color="black", linewidth=0.6, linestyle=":"
    )
    axes.set_ylim(bottom=0.5 / max(int(nodes.sum()), 1), top=1.5)
    axes.grid(which="major", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower left")
    if original is not None:
        figure.suptitle(
            "internal: shows the private graph, do not publish", fontsize=8, color="red"
        )
    figure.savefig(path, dpi=150)


def _survival(histogram: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Give degrees from 1 on that some node reaches, and the share of nodes that reach them."""
    at_least = np.cumsum(histogram[::-1])[::-1]
    degrees = np.flatnonzero(at_least > 0)
    degrees = degrees[degrees > 0]
    return degrees, at_least[degrees] / max(int(histogram.sum()), 1)


def _draw_band(axes: Any, release: Release) -> None:
    """Shade the 95 % interval of the cumulative counts."""
    table = release.table()
    cumulative = table.column("nodes_up_to_degree").to_numpy()
    std = np.hypot(table.column("privacy_std").to_numpy(), table.column("model_std").to_numpy())
    total = max(float(cumulative[-1]), 1.0)
    above, reach = (total - cumulative) / total, 1.96 * std / total
    axes.fill_between(
        np.arange(1, len(above)),
        np.maximum(above - reach, 1e-12)[:-1],
        np.maximum(above + reach, 1e-12)[:-1],
        color=RELEASED, alpha=0.15, linewidth=0, label="95 % interval",
    )  # fmt: skip
