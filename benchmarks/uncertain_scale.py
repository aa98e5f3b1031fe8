"""Time of `uncertain`, compared with one pass over all pairs of records, and its growth.

Run ``python -m benchmarks.uncertain_scale [rows ...]``.
"""

from __future__ import annotations

import math
import sys
import time
from typing import Any

import numpy as np
from numba import njit, prange

from benchmarks.__main__ import peak_mb
from hushtable.kernels.anonymity_sets import gaussian_scales, uniform_scales
from hushtable.methods.uncertain.uncertain import Uncertain
from hushtable.privacy.noise.sources import SecureNoise
from hushtable.schema import Schema


@njit(parallel=True)
def all_pairs(points: Any, nearest: Any) -> None:
    """Compute each record's distance to its nearest neighbor, over all ordered pairs."""
    n, d = points.shape
    for i in prange(n):
        best = np.inf
        for j in range(n):
            square = 0.0
            for column in range(d):
                step = points[i, column] - points[j, column]
                square += step * step
            if j != i and square < best:
                best = square
        nearest[i] = math.sqrt(best)


def seconds(function: Any, *arguments: Any) -> float:
    started = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - started


def ratios(n: int, repeats: int = 5) -> dict[str, float]:
    """Return the times of one pass and of both solvers, the minimum of several repeats."""
    points = np.random.default_rng(0).random((n, 5)) * math.sqrt(12)
    k, nearest = np.full(n, 10.0), np.empty(n)
    for function in (gaussian_scales, uniform_scales):
        function(points[:100], k[:100])
    all_pairs(points[:100], nearest)
    tasks = {
        "pass": (all_pairs, points, nearest),
        "gaussian": (gaussian_scales, points, k),
        "uniform": (uniform_scales, points, k),
    }
    best = dict.fromkeys(tasks, math.inf)
    for _ in range(repeats):  # alternate, so that other load affects all of them
        for name, (function, *arguments) in tasks.items():
            best[name] = min(best[name], seconds(function, *arguments))
    return best


def safe(n: int, model: Any) -> float:
    """Return the time of a whole run with safe levels."""
    column = {"type": "number", "low": 0.0, "high": 0.999, "step": 0.001}
    schema = Schema.from_dict({"name": "u", "columns": {f"x{i}": column for i in range(5)}})
    values = np.random.default_rng(0).integers(0, 1000, (n, 5)) / 1000
    plan = Uncertain(k=10, model=model, edges="wrap").plan(schema)
    return seconds(plan.perturb, values, SecureNoise())


def main() -> None:
    sizes = [int(argument) for argument in sys.argv[1:] if argument.isdigit()] or [10_000]
    for n in sizes:
        times = ratios(n, repeats=5 if n <= 20_000 else 1)
        print(
            f"{n:>8,} records: pass {times['pass']:.2f} s, gaussian x"
            f"{times['gaussian'] / times['pass']:.2f}, uniform x"
            f"{times['uniform'] / times['pass']:.2f}, peak {peak_mb():.0f} MB",
            flush=True,
        )
        if "safe" in sys.argv:
            for model in ("uniform", "gaussian"):
                took = safe(n, model)
                print(
                    f"{n:>8,} records: safe {model} {took:.0f} s, peak {peak_mb():.0f} MB",
                    flush=True,
                )


if __name__ == "__main__":
    main()
