"""How close pairs of yes-and-no columns could come: ``python -m benchmarks.yes_no_floor``.

For tables whose columns all have two values (acs and nltcs of ``benchmarks.peers``) the errors of a
publisher that no method can be: it spends all of its budget on every pair once, and it knows how
associations are distributed in the private table itself. Of each pair it takes the median of what
the association may be, given its noisy table and that distribution; of each column the mean of all
noisy tables that it is part of. What is left is noise. It has no model: where columns tell about
each other through third ones, a method may still do better.
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
    """Mean total variation over all pairs: as told apart, by medians, and for columns alone."""
    rows = table.train.astype(np.float64)
    yes, pairs = rows.mean(axis=0), np.array(list(combinations(range(rows.shape[1]), 2)))
    first, second = yes[pairs[:, 0]], yes[pairs[:, 1]]
    both = (rows.T @ rows / len(rows))[pairs[:, 0], pairs[:, 1]]
    # Yes and no of both columns: one number moves all four cells, two up and two down.
    tie = both - first * second
    purse = Quilt(epsilon=epsilon, delta=DELTA).plan(table.schema).budget()
    std = purse.count_noise(Fraction(1 - ROWS_SHARE, len(pairs))).std / len(rows)
    of_tie = std / 2
    # A column's share of yes, by half the difference of yes and no in each of its tables.
    of_column = std / np.sqrt(rows.shape[1] - 1)
    draw = np.random.default_rng(0)
    found: dict[str, list[float]] = {"as measured": [], "by medians": [], "columns": []}
    for _ in range(n_draws):
        told = yes + of_column * draw.standard_normal(len(yes))
        noisy = tie + of_tie * draw.standard_normal(len(tie))
        found["columns"].append(float(np.abs(told - yes).mean()))
        product = told[pairs[:, 0]] * told[pairs[:, 1]]
        for name, guess in (("as measured", noisy), ("by medians", _medians(noisy, tie, of_tie))):
            gaps = [product + guess - both]
            gaps.append(told[pairs[:, 0]] - first - gaps[0])
            gaps.append(told[pairs[:, 1]] - second - gaps[0])
            gaps.append(-gaps[0] - gaps[1] - gaps[2])
            found[name].append(float(np.abs(gaps).sum(axis=0).mean() / 2))
    return {name: float(np.mean(values)) for name, values in found.items()}


def _medians(noisy: Floats, values: Floats, std: float) -> Floats:
    """Return the median of each noisy value's origin, if origins are drawn from these values."""
    ordered = np.sort(values)
    chances = np.cumsum(np.exp(-0.5 * ((noisy[:, None] - ordered) / std) ** 2), axis=1)
    medians: Floats = ordered[(chances < chances[:, -1:] / 2).sum(axis=1)]
    return medians


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.yes_no_floor", description=__doc__)
    parser.add_argument("--data", type=Path, default=SHARED, help="folder that holds the tables")
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
