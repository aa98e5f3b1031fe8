"""Synthetic graphs from a published degree sequence: post-processing, without private data."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from hushtable.arrays import Integers
from hushtable.errors import ParameterError, ReleaseError
from hushtable.files.rows import write_parquet
from hushtable.files.svg import Band, DrawnLine, draw_lines
from hushtable.files.writing import require_new, write_failures_as, write_whole
from hushtable.kernels.graph_edges import realize
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.sources import SecureNoise
from hushtable.release.release import Release

Model = Literal["configuration", "exact"]
EdgeArray = Integers


def generate_graph(
    release: Release, *, model: Model = "configuration", noise: Noise | None = None
) -> pa.Table:
    """Generate an edge list with the degrees of a release.

    Parameters
    ----------
    release : Release
        A release of method degrees.
    model : {"configuration", "exact"}
        ``configuration`` matches ends of edges at random and removes loops and repeated edges, so
        that large degrees become slightly smaller. ``exact`` builds one graph with exactly these
        degrees, if there is one (Havel and Hakimi); it is not random. If the sum of degrees is odd,
        one node loses an edge.
    noise : Noise, optional
        Source of randomness; secure by default.

    Returns
    -------
    Arrow table
        Columns ``source`` and ``target``; nodes are numbered from 0, largest degree first.
    """
    if release.statement.estimator.get("kind") != "degrees":
        raise ReleaseError(
            f"this release was made by {release.statement.method!r}; a graph needs one of the "
            "method 'degrees'."
        )
    degrees = release.frame().column("degree").to_numpy()
    if model == "configuration":
        pairs = configuration(degrees, noise or SecureNoise())
    elif model == "exact":
        pairs = exact(degrees)
    else:
        raise ParameterError(f"model is {model!r}; it must be {' or '.join(get_args(Model))}.")
    return pa.table({"source": pairs[:, 0], "target": pairs[:, 1]})


def configuration(degrees: Integers, noise: Noise) -> EdgeArray:
    """Match the ends of edges at random, then remove loops and repeated edges.

    Examples
    --------
    >>> len(configuration(np.array([1, 1, 0]), SecureNoise()))
    1
    """
    ends = np.repeat(np.arange(len(degrees)), degrees)
    order = noise.permutation(len(ends))
    shuffled = ends[order[: len(ends) // 2 * 2]]  # an odd number of ends leaves one unmatched
    pairs = np.sort(shuffled.reshape(-1, 2), axis=1)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    keys = np.sort(pairs[:, 0] * len(degrees) + pairs[:, 1])
    first = np.ones(len(keys), np.bool_)
    first[1:] = keys[1:] != keys[:-1]
    return np.stack(np.divmod(keys[first], max(len(degrees), 1)), axis=1)


def exact(degrees: Integers) -> EdgeArray:
    """Return a simple graph with exactly these degrees; raise `ReleaseError` if there is none.

    If the sum of degrees is odd, one node of the smallest degree above 0 loses an edge.

    Examples
    --------
    >>> exact(np.array([2, 2, 2])).tolist()
    [[0, 1], [0, 2], [1, 2]]
    >>> exact(np.array([3, 1]))
    Traceback (most recent call last):
    ...
    hushtable.errors.ReleaseError: no simple graph has these degrees (Erdos and Gallai); use the \
model 'configuration'.
    """
    falling = np.sort(degrees)[::-1].astype(np.int64)
    if falling.sum() % 2:
        falling[np.count_nonzero(falling) - 1] -= 1
    if not is_graphical(falling):
        raise ReleaseError(
            "no simple graph has these degrees (Erdos and Gallai); use the model 'configuration'."
        )
    source, target = realize(falling)
    pairs = np.stack((source, target), axis=1).astype(np.int64)
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def is_graphical(falling: Integers) -> bool:
    """Return whether a simple graph has these degrees, in descending order (Erdos and Gallai).

    Examples
    --------
    >>> is_graphical(np.array([2, 1, 1])), is_graphical(np.array([2, 2, 0]))
    (True, False)
    """
    total = int(falling.sum())
    if len(falling) == 0 or total == 0:
        return True
    if total % 2 or falling[0] >= len(falling) or falling[-1] < 0:
        return False
    ranks = np.arange(1, len(falling) + 1)
    sums = np.cumsum(falling)
    # Sum over i > k of min(d_i, k): each degree above k contributes k, and these come first.
    n_above = np.searchsorted(-falling, -ranks, side="left")
    split = np.maximum(n_above, ranks)
    rest = (split - ranks) * ranks + total - sums[split - 1]
    return bool((sums <= ranks * (ranks - 1) + rest).all())


def write_edges(edges: pa.Table, path: str | Path) -> None:
    """Write an edge list to a new file: ``.parquet``, ``.csv`` with a header, else plain text."""
    path = require_new(path)
    with write_failures_as(ReleaseError, f"cannot write {str(path)!r}"):
        if path.suffix == ".parquet":
            write_parquet(edges, path)
        elif path.suffix == ".csv":
            pa_csv.write_csv(edges, path)
        else:
            options = pa_csv.WriteOptions(include_header=False, delimiter=" ")
            pa_csv.write_csv(edges, path, write_options=options)


# Plots of degree distributions on log-log scales.


def plot_degrees(release: Release, path: str | Path, *, original: Integers | None = None) -> None:
    """Plot the share of nodes with at least each degree to a new ``.svg`` file.

    If `original` is given, the plot shows private degrees and is labeled as internal.

    Parameters
    ----------
    release : Release
        A release of method degrees.
    path : path
        The file to write.
    original : int array, optional
        Degrees of the private graph.
    """
    path = require_new(path, ".svg")
    table = release.table()
    lines = [DrawnLine(_survival(table.column("nodes").to_numpy()), label="release")]
    note = "share of nodes with at least this degree"
    if original is not None:
        private = _survival(np.bincount(original))
        lines.insert(0, DrawnLine(private, label="original (private)", class_="original"))
        note += " (internal: do not publish)"
    drawing = draw_lines(
        release.statement.public_schema["name"],
        note,
        "degree",
        [line for line in lines if line.points],
        behind=_band(release),
        limit=release.statement.estimator["max_degree"],
    )
    write_whole(path, drawing)


def _survival(histogram: Integers) -> list[tuple[float, float]]:
    """Return each degree from 1 to the largest, with the share of nodes that have at least it."""
    at_least = np.cumsum(histogram[::-1])[::-1]
    total = max(int(histogram.sum()), 1)
    return [(float(d), float(at_least[d]) / total) for d in np.flatnonzero(at_least > 0) if d > 0]


def _band(release: Release) -> Band:
    """Return the 95% band of the share of nodes with at least each degree."""
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
