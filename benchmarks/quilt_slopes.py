"""Accuracy of slopes and covariances in the rows of quilt.

Run it with ``python -m benchmarks.quilt_slopes [--runs N] [TOY ROWS EPSILON ...]``; the default are
the settings reported in ``quilt.md``. Each generated table also has an independent column:

- ``plain``: y = x / 2 + z + noise, all normal, 100 values per column;
- ``tied``: a is skewed, b depends on a, and y on a, b and c, with heavy-tailed noise; 150 values;
- ``wide``: as plain, with 400 values; the outer three quarters of them do not occur.

For each table, the output compares published with private rows: relative errors of both regression
slopes of y, and ratios of the covariances of y with both predictors and of the three variances.
They are means over seeded releases, with standard errors.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.engine import connect
from hushtable.methods.quilt.quilt import Quilt
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.schema import Schema

Numbers = NDArray[np.int64]
DELTA = "1e-9"
USUAL = (("plain", 40_000, "1"), ("plain", 4000, "2"), ("tied", 30_000, "1"), ("wide", 40_000, "1"))
FIGURES = ("slope 1", "slope 2", "cov 1", "cov 2", "var 1", "var 2", "var y")


def _grid(values: NDArray[np.float64], low: float, high: float, size: int) -> Numbers:
    places = np.round((values - low) / (high - low) * (size - 1))
    return np.clip(places, 0, size - 1).astype(np.int64)


def plain(n: int, *, size: int = 100, reach: float = 5.0) -> tuple[Numbers, int]:
    """Generate y = x / 2 + z + noise."""
    draw = np.random.default_rng(5)
    x, z = draw.normal(size=n), draw.normal(size=n)
    y = 0.5 * x + z + draw.normal(size=n)
    return np.stack([_grid(v, -reach, reach, size) for v in (x, z, y)], axis=1), size


def tied(n: int) -> tuple[Numbers, int]:
    """Generate dependent columns with skewness and heavy tails."""
    draw = np.random.default_rng(6)
    a = draw.gamma(4, size=n)
    b = 0.6 * (a - 4) / 2 + 0.8 * draw.normal(size=n)
    c = draw.integers(0, 3, n)
    y = -0.4 * (a - 4) / 2 + 0.9 * b + 0.5 * (c == 2) + draw.standard_t(5, size=n)
    ranges = ((a, 0, 15), (b, -4, 6), (y, -8, 8))
    return np.stack([_grid(v, low, high, 150) for v, low, high in ranges], axis=1), 150


TOYS: dict[str, Callable[[int], tuple[Numbers, int]]] = {
    "plain": plain,
    "tied": tied,
    "wide": lambda n: plain(n, size=400, reach=20.0),
}


def figures(rows: Numbers, truth: Numbers) -> list[float]:
    """Return relative errors of slopes, and ratios of covariances and variances."""
    slopes = [_slopes(of) for of in (rows, truth)]
    ours, theirs = (np.cov(of.T.astype(np.float64)) for of in (rows, truth))
    parts = ours / theirs
    return [*(slopes[0] / slopes[1] - 1), parts[0, 2], parts[1, 2], *np.diag(parts)]


def _slopes(rows: Numbers) -> NDArray[np.float64]:
    design = np.column_stack([np.ones(len(rows)), rows[:, :2]])
    return np.asarray(np.linalg.lstsq(design, rows[:, 2], rcond=None)[0][1:])


def measure(toy: str, n: int, epsilon: str, n_runs: int) -> None:
    """Publish several times, and print the means and standard errors of `figures`."""
    truth, size = TOYS[toy](n)
    number = {"type": "integer", "low": 0, "high": size - 1}
    beside = {"type": "categorical", "values": list("01234")}
    schema = Schema.from_dict(
        {"name": toy, "columns": {"x": number, "z": number, "y": number, "g": beside}}
    )
    table = pa.table(dict(zip("xzy", truth.T, strict=True))).append_column(
        "g", pa.array(np.random.default_rng(7).integers(0, 5, n).astype(str))
    )
    found = []
    for seed in range(n_runs):
        noise = SeededNoise(seed)
        made = Quilt(epsilon=epsilon, delta=DELTA).run(
            connect(table, schema, engine="memory", noise=noise), noise
        )
        rows = np.stack([made.tables["data"].column(name).to_numpy() for name in "xzy"], axis=1)
        found.append(figures(rows, truth))
    means = np.mean(found, axis=0)
    errors = np.std(found, axis=0, ddof=1) / np.sqrt(n_runs)
    figured = zip(FIGURES, means, errors, strict=True)
    cells = [f"{name} {mean:+.3f} ± {error:.3f}" for name, mean, error in figured]
    print(f"{toy} {n} {epsilon} ({n_runs} runs): {', '.join(cells)}", flush=True)


def main() -> None:
    """Measure the settings of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quilt_slopes")
    parser.add_argument("asked", nargs="*", help="toy, rows and epsilon; may be repeated")
    parser.add_argument("--runs", type=int, default=8)
    given = parser.parse_args()
    threes = [given.asked[at : at + 3] for at in range(0, len(given.asked), 3)]
    for toy, rows, epsilon in threes or USUAL:
        measure(toy, int(rows), epsilon, given.runs)


if __name__ == "__main__":
    main()
