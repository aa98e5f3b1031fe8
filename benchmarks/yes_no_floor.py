"""Idealized error of pairs of binary columns: ``python -m benchmarks.yes_no_floor``.

It computes the errors of an ideal publisher for tables of binary columns (acs and nltcs of
``benchmarks.peers``). This publisher measures every pair once and spends all of its budget on that.
It knows the distribution of associations in the private table, which no method can know. For each
pair it estimates the association by its posterior median, given the noisy table and that
distribution; for each column, by the mean of all noisy tables that contain it. The remaining error
is noise. The publisher has no model of three or more columns, so a method may still do better if
columns are related through others.
"""

from __future__ import annotations

import argparse
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.__main__ import DELTA, EPSILONS, SHARED
from benchmarks.peers.data import Table, load
from hushtable.methods.quilt.budget import ROWS_SHARE
from hushtable.methods.quilt.quilt import Quilt

Floats = NDArray[np.float64]


def distances(table: Table, epsilon: str, n_draws: int) -> dict[str, float]:
    """Return mean total variation distances, of pairs (as measured, by medians) and of columns."""
    rows = table.train.astype(np.float64)
    yes, pairs = rows.mean(axis=0), np.array(list(combinations(range(rows.shape[1]), 2)))
    first, second = yes[pairs[:, 0]], yes[pairs[:, 1]]
    both = (rows.T @ rows / len(rows))[pairs[:, 0], pairs[:, 1]]
    # A 2x2 table with given margins has one free number, which moves two cells up and two down.
    tie = both - first * second
    budget = Quilt(epsilon=epsilon, delta=DELTA).plan(table.schema).budget()
    std = budget.count_noise(Fraction(1 - ROWS_SHARE, len(pairs))).std / len(rows)
    of_tie = std / 2
    # Each table of a column yields its share of yes as half the difference of yes and no.
    of_column = std / np.sqrt(rows.shape[1] - 1)
    draw = np.random.default_rng(0)
    found: dict[str, list[float]] = {"as measured": [], "by medians": [], "columns": []}
    for _ in range(n_draws):
        shares = yes + of_column * draw.standard_normal(len(yes))
        noisy = tie + of_tie * draw.standard_normal(len(tie))
        found["columns"].append(float(np.abs(shares - yes).mean()))
        product = shares[pairs[:, 0]] * shares[pairs[:, 1]]
        for name, guess in (("as measured", noisy), ("by medians", _medians(noisy, tie, of_tie))):
            gaps = [product + guess - both]
            gaps.append(shares[pairs[:, 0]] - first - gaps[0])
            gaps.append(shares[pairs[:, 1]] - second - gaps[0])
            gaps.append(-gaps[0] - gaps[1] - gaps[2])
            found[name].append(float(np.abs(gaps).sum(axis=0).mean() / 2))
    return {name: float(np.mean(values)) for name, values in found.items()}


def _medians(noisy: Floats, values: Floats, std: float) -> Floats:
    """Return the posterior median of each noisy value, with `values` as the prior sample."""
    ordered = np.sort(values)
    chances = np.cumsum(np.exp(-0.5 * ((noisy[:, None] - ordered) / std) ** 2), axis=1)
    medians: Floats = ordered[(chances < chances[:, -1:] / 2).sum(axis=1)]
    return medians


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.yes_no_floor", description=__doc__)
    parser.add_argument("--data", type=Path, default=SHARED, help="folder of the tables")
    parser.add_argument("--draws", type=int, default=40, help="draws of noise")
    given = parser.parse_args()
    print("| table | epsilon | columns | pairs as measured | pairs by medians |")
    print("| --- | --- | --- | --- | --- |")
    for name in ("acs", "nltcs"):
        table = load(name, given.data)
        for epsilon in EPSILONS:
            off = distances(table, epsilon, given.draws)
            cells = [f"{off[what]:.4f}" for what in ("columns", "as measured", "by medians")]
            print(f"| {name} | {epsilon} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
