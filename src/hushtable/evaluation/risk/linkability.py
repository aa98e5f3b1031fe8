"""Linkability: two files about the same people, joined through the release."""

from __future__ import annotations

import numpy as np

from hushtable.arrays import Floats
from hushtable.evaluation.findings import TEXTS
from hushtable.evaluation.risk.attack import AttackTables, Outcome, Rate, columns_of
from hushtable.extras import needing
from hushtable.kernels.nearest import nearest

with needing("eval", "evaluation"):
    from scipy.special import gammaln

N_NEIGHBORS = 5
N_SPLITS = 4
"""Number of random divisions of the columns between the two files."""

_ATTACKER = TEXTS["attacker who links"].format(n=N_NEIGHBORS)


def run(scene: AttackTables) -> list[Outcome]:
    """Run the attack; return nothing with fewer than two columns or without published rows."""
    d = len(scene.names)
    if d < 2 or not len(scene.published):
        return []
    halves = []
    for _ in range(1 if d == 2 else N_SPLITS):
        order = scene.rng.permutation(d).tolist()
        halves.append((order[: d // 2], order[d // 2 :]))
    attack = _linked(scene, scene.targets(scene.original), halves)
    control = scene.control
    hits = _chance(len(scene.published)) * attack.n
    notes = [scene.sampled()]
    if len(halves) > 1:
        notes.append(f"The columns were divided at random {len(halves)} times.")
    return [
        Outcome(
            name="linkability",
            attacker=_ATTACKER,
            attack=attack,
            control=None if control is None else _linked(scene, scene.targets(control), halves),
            naive=Rate.of(hits, attack.n),
            note=" ".join(notes).strip(),
        )
    ]


def _linked(
    scene: AttackTables, targets: Floats, halves: list[tuple[list[int], list[int]]]
) -> Rate:
    """Return the share of linked targets; each is tried with one division of the columns."""
    hits = 0
    for part, (one, other) in enumerate(halves):
        people = targets[part :: len(halves)]
        # Ties are broken independently in the two files; otherwise they would always agree.
        near = []
        for columns in (one, other):
            places, _ = nearest(
                columns_of(people, columns),
                columns_of(scene.published, columns),
                ordered=scene.ordered[columns],
                n_neighbors=N_NEIGHBORS,
                seed=scene.seed(),
            )
            near.append(places)
        shared = (near[0][:, :, None] == near[1][:, None, :]).any(axis=(1, 2))
        hits += int(np.count_nonzero(shared))
    return Rate.of(hits, len(targets))


def _chance(n: int) -> float:
    """Return the probability that two random sets of 5 of `n` records have one in common."""
    k = min(N_NEIGHBORS, n)
    if 2 * k > n:
        return 1.0
    log_disjoint = gammaln(n - k + 1) * 2 - gammaln(n - 2 * k + 1) - gammaln(n + 1)
    return float(-np.expm1(log_disjoint))
