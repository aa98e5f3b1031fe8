"""Choice among several draws of child rows, so that counts match the model given the parents.

Counts of independently drawn rows vary by chance, by the square root of each count, which is as
large as the noise of a table if rows are few. So each row is drawn several times, and one of these
draws is picked: counts of pairs of its own columns, and of these with its parent's, come close to
the model's expectation. Every draw was made for this parent.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

import numpy as np

from hushtable.arrays import Codes16
from hushtable.kernels import picking
from hushtable.methods.quilt import particles
from hushtable.methods.quilt.model import LogLinearModel

N_DRAWS = 4
"""Draws of each row."""

MANY = 1_000_000
"""If there are more rows, chance matters less than noise: they are drawn once."""

_N_SWEEPS = 3


def n_draws(n_rows: int) -> int:
    """Return the number of draws of each row."""
    return N_DRAWS if 0 < n_rows <= MANY else 1


def balanced(field: LogLinearModel, draws: Sequence[Codes16], own: Sequence[int]) -> Codes16:
    """Pick one of several draws for each row.

    Parameters
    ----------
    field : LogLinearModel
        The model.
    draws : sequence of int arrays (row, column)
        They differ only in the columns `own`.
    own : sequence of int
        The rows' own columns; the others are the parents'.
    """
    above = [column for column in range(len(field.sizes)) if column not in own]
    pairs = [*combinations(own, 2), *product(own, above)]
    if len(draws) == 1 or not pairs:
        return draws[0]
    found = particles.tables_of(draws[0], np.ones(len(draws[0])), field.sizes, pairs)
    wanted = []
    for pair, seen, expected in zip(pairs, found, field.answers(pairs), strict=True):
        if pair[1] in own:
            wanted.append(expected * (seen.sum() / max(float(expected.sum()), 1e-300)))
        else:  # the parents determine the number of children by parent column
            share = expected / np.maximum(expected.sum(axis=0), 1e-300)
            wanted.append(share * seen.sum(axis=0))
    flat = np.concatenate([table.ravel() for table in wanted])
    first, second = (np.array(side, np.int64) for side in zip(*pairs, strict=True))
    tables = picking.PairTables(
        first,
        second,
        np.array(field.sizes, np.int64)[second],
        np.cumsum([0, *(table.size for table in wanted)])[:-1].astype(np.int64),
        1 / (flat + 1.0),  # inverse of the sampling variance
    )
    excess = np.concatenate([table.ravel() for table in found]) - flat
    together = np.stack(draws)
    picked = np.zeros(len(draws[0]), np.int64)
    order = np.arange(len(picked))
    for _ in range(_N_SWEEPS):
        field.rng.shuffle(order)
        picking.pick(together, picked, order, excess, tables)
    chosen: Codes16 = together[picked, np.arange(len(picked))]
    return chosen
