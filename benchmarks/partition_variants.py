"""Two variants of the RPS paper that `partition` does not use, compared with the one it uses.

``python -m benchmarks.partition_variants [--runs N]`` partitions 10,000 normal points on a line of
301 values, as in figure 1 of the paper. It prints the earth mover's distance (W1) of points sampled
from the leaves, mean and standard error, for three kinds of splits and two kinds of counts:

- splits by the exponential mechanism (`partition`); by the median with noise calibrated to its
  smooth sensitivity (mentioned in section 3 of the paper); and in the middle of a region, which
  costs no budget;
- noisy counts of leaves with half of epsilon; and N/2^d for a leaf of depth d, for which N must be
  public (errata qardaji-2012-6). The latter spends nothing on counts, so splits get all of epsilon.
  But then neighbors differ by the replacement of a row, which leaves one path and enters another,
  so each path gets half of epsilon.

The smooth sensitivity of the median of sorted x in [low, high] is that of Nissim, Raskhodnikova and
Smith (2007): max over k of exp(-beta k) max over t of x[m + t] - x[m + t - k - 1], beta =
epsilon/6, with Cauchy noise of scale 6 S/epsilon. It uses floats, so it has no guarantee.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

LOW, HIGH, N_POINTS = -100, 200, 10_000

Points = np.ndarray
Cut = Callable[[Points, int, int, float, np.random.Generator], int]


def exponential(
    points: Points, low: int, high: int, epsilon: float, rng: np.random.Generator
) -> int:
    """Return a random split, with probability proportional to exp(epsilon min(r1, r2))."""
    cuts = np.arange(low + 1, high + 1)
    left = np.searchsorted(points, cuts)
    score = epsilon * np.minimum(left, len(points) - left)
    weights = np.exp(score - score.max())
    return int(rng.choice(cuts, p=weights / weights.sum()))


def smooth_sensitivity(points: Points, low: int, high: int, beta: float) -> float:
    """Return the smooth sensitivity of the median, exactly.

    Examples
    --------
    >>> round(smooth_sensitivity(np.array([5, 5, 5]), 0, 10, 100.0), 6)
    0.0
    """
    n = len(points)
    padded = np.concatenate((np.full(n + 2, low), points, np.full(n + 2, high)))
    middle = n + 2 + n // 2
    best = 0.0
    for k in range(n + 1):
        if np.exp(-beta * k) * (high - low) <= best:
            break
        t = np.arange(k + 2)
        gaps = padded[middle + t] - padded[middle + t - k - 1]
        best = max(best, float(np.exp(-beta * k) * gaps.max()))
    return best


def smooth_median(
    points: Points, low: int, high: int, epsilon: float, rng: np.random.Generator
) -> int:
    """Split at the median plus Cauchy noise, scaled to its smooth sensitivity."""
    median = float(points[len(points) // 2]) if len(points) else (low + high) / 2
    scale = 6 * smooth_sensitivity(points, low, high, epsilon / 6) / epsilon
    return int(np.clip(round(median + scale * rng.standard_cauchy()), low + 1, high))


def middle(points: Points, low: int, high: int, epsilon: float, rng: np.random.Generator) -> int:
    """Split in the middle, without access to the data."""
    return low + (high - low) // 2 + 1


def made(
    points: Points, cut: Cut, epsilon: float, depth: int, *, counted: bool, rng: np.random.Generator
) -> Points:
    """Partition, count, and sample points from the leaves."""
    per_path = epsilon if counted else epsilon / 2
    for_cuts = per_path / 2 if counted else per_path
    if cut is middle:
        for_cuts = 0.0
    regions = [(np.sort(points), LOW, HIGH, 0)]
    leaves = []
    while regions:
        inside, low, high, level = regions.pop()
        if level == depth or low == high:
            leaves.append((inside, low, high, level))
            continue
        at = cut(inside, low, high, for_cuts / depth, rng)
        split = int(np.searchsorted(inside, at))
        regions += [(inside[:split], low, at - 1, level + 1), (inside[split:], at, high, level + 1)]
    found = []
    for inside, low, high, level in leaves:
        n = len(points) / 2**level
        if counted:
            rate = per_path - for_cuts
            n = max(0.0, len(inside) + rng.laplace(0, 1 / rate))
        found.append(rng.integers(low, high + 1, round(n)))
    return np.concatenate(found)


def w1(one: Points, two: Points) -> float:
    """Return W1: the area between the distribution functions."""
    grid = np.arange(LOW, HIGH + 1)
    shares = [np.searchsorted(np.sort(x), grid, "right") / max(len(x), 1) for x in (one, two)]
    return float(np.abs(shares[0] - shares[1]).sum())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.partition_variants")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.05, 0.1, 0.5, 1.0])
    given = parser.parse_args()
    print("| cuts | counts | " + " | ".join(f"epsilon {e:g}" for e in given.epsilons) + " |")
    print("|" + " --- |" * (2 + len(given.epsilons)))
    kinds: dict[str, Cut] = {
        "exponential": exponential, "smooth median": smooth_median, "middle": middle,
    }  # fmt: skip
    for name, cut in kinds.items():
        for counted in (True, False):
            cells = []
            for epsilon in given.epsilons:
                off = []
                for run in range(given.runs):
                    rng = np.random.default_rng(run)
                    points = np.clip(rng.normal(50, 25, N_POINTS).round(), LOW, HIGH).astype(int)
                    copied = made(points, cut, epsilon, given.depth, counted=counted, rng=rng)
                    off.append(w1(points, copied))
                error = np.std(off, ddof=1) / len(off) ** 0.5
                cells.append(f"{np.mean(off):.2f} ± {error:.2f}")
            print(f"| {name} | {'noisy' if counted else 'N/2^d'} | " + " | ".join(cells) + " |",
                  flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
