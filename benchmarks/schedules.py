"""Accuracy of noise schedules over waves, computed without data and without sampling noise.

``python -m benchmarks.schedules [--waves N] [--rows N] [--change S] [--share S] [--epsilon E]
[--delta D] [--horizon K]``

The true count is a random walk over the waves, as in ``series.md``. Measurements up to a wave are
combined by precision weighting. All schedules have the same rho for a person who may be counted in
every wave:

- *equal*: each wave gets an equal share;
- *decaying*: the shares of a series without an end;
- *doubling*: half of the budget over the first K waves, a sixth over the next 2 K, a twelfth over
  the next 4 K, and so on, equal within each;
- *tree of changes*: the binary mechanism. For every power of two, m, that divides t, wave t
  measures the change of the count over the last m waves (or the count, if that is before the first
  wave). A person who joins and leaves changes every node by one;
- *tree of sums*: the same nodes measure sums over their waves. One person changes a node of m waves
  by m.

Both trees divide rho equally among levels. The output is the standard deviation, in rows, of a
level, of a change since the previous wave and of a trend, each right after its wave.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from hushtable.series import SeriesPlan
from hushtable.series.plan import slope_weights

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Rows = list[tuple[int, Floats, float]]  # wave, weights and variance of each measurement


def direct(shares: Callable[[int], Fraction], n: int, rho: float) -> Rows:
    return [(t, np.eye(n)[t], 1 / (2 * float(shares(t + 1)) * rho)) for t in range(n)]


def doubling(k: int) -> Callable[[int], Fraction]:
    def share(place: int) -> Fraction:
        epoch = 0
        while place > k * (2 ** (epoch + 1) - 1):
            epoch += 1
        return Fraction(1, (epoch + 1) * (epoch + 2) * k * 2**epoch)

    return share


def tree(n: int, rho: float, *, of_sums: bool) -> Rows:
    levels = n.bit_length()
    found: Rows = []
    for t in range(1, n + 1):
        for level in range(levels):
            span = 2**level
            if t % span:
                continue
            weights = np.zeros(n)
            if of_sums:
                weights[t - span : t] = 1.0
            else:
                weights[t - 1] = 1.0
                if t > span:
                    weights[t - 1 - span] = -1.0
            # A level has n / span nodes, which share its rho.
            moved = span if of_sums else 1
            found.append((t - 1, weights, moved**2 * (n // span) * levels / (2 * rho)))
    return found


def errors(measured: Rows, n: int, step: float) -> tuple[float, float, float]:
    """Return root mean variances of levels, changes and trends, each right after its wave."""
    level, change, trend = [], [], []
    for t in range(2, n):
        precision = np.zeros((t + 1, t + 1))
        for i in range(t):
            precision[i : i + 2, i : i + 2] += np.array([[1, -1], [-1, 1]]) / step
        for when, weights, variance in measured:
            if when <= t:
                row = weights[: t + 1]
                precision += np.outer(row, row) / variance
        covariance = np.linalg.inv(precision)
        last = np.eye(t + 1)[-1]
        moved = last - np.eye(t + 1)[-2]
        slope = slope_weights(tuple(range(1, t + 2)))
        for found, weights in ((level, last), (change, moved), (trend, slope)):
            found.append(float(weights @ covariance @ weights))
    return tuple(float(np.sqrt(np.mean(v))) for v in (level, change, trend))  # type: ignore[return-value]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--waves", type=int, default=24)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--change", type=float, default=0.03)
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--epsilon", default="2")
    parser.add_argument("--delta", default="1e-6")
    parser.add_argument("--horizon", type=int, default=12)
    given = parser.parse_args()
    open_ended = SeriesPlan(epsilon=given.epsilon, delta=given.delta, horizon=given.horizon)
    n, rho = given.waves, float(open_ended.rho)
    step = 2 * given.change * given.rows * given.share * (1 - given.share) + 1
    schedules = {
        "equal": direct(lambda _: Fraction(1, n), n, rho),
        "decaying": direct(open_ended.share, n, rho),
        "doubling": direct(doubling(given.horizon), n, rho),
        "tree of changes": tree(n, rho, of_sums=False),
        "tree of sums": tree(n, rho, of_sums=True),
    }
    print(f"{n} waves, rho {rho:.4f}, a step of {step**0.5:.1f} rows")
    print("| schedule | level | change | trend |\n| --- | --- | --- | --- |")
    for name, measured in schedules.items():
        print(f"| {name} | {' | '.join(f'{e:.3g}' for e in errors(measured, n, step))} |")


if __name__ == "__main__":
    main()
