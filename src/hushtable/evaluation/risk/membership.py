"""Membership inference: decide whether a person was in the private table."""

from __future__ import annotations

import math

import numpy as np

from hushtable.arrays import Floats
from hushtable.evaluation.findings import TEXTS, MetricValue, metric_named
from hushtable.evaluation.risk.attack import AttackTables, Outcome, Rate, difference
from hushtable.extras import needing
from hushtable.kernels.nearest import nearest
from hushtable.numeric import NORMAL

with needing("eval", "evaluation"):
    from scipy.stats import rankdata

_ATTACKER = TEXTS["attacker on membership"]
_NOTE = TEXTS["rates of membership"]

ADVANTAGE = metric_named("membership advantage")
AUC = metric_named("membership AUC")


def run(scene: AttackTables) -> list[Outcome]:
    """Run the attack; return nothing without rows, or with fewer than two people in a group."""
    if scene.control is None or not len(scene.published) or not len(scene.control):
        return []
    published = scene.published
    members, others = (
        nearest(scene.targets(table), published, ordered=scene.ordered)[1][:, 0]
        for table in (scene.original, scene.control)
    )
    members, others = scene.rng.permutation(members), scene.rng.permutation(others)
    half, other_half = len(members) // 2, len(others) // 2
    if not half or not other_half:
        return []
    limit = _best_limit(members[:half], others[:other_half])
    attack = Rate.of(int(np.count_nonzero(members[half:] <= limit)), len(members) - half)
    control = Rate.of(int(np.count_nonzero(others[other_half:] <= limit)), len(others) - other_half)
    called = (attack.value + control.value) / 2
    gap = difference(attack, control)
    return [
        Outcome(
            name="membership",
            attacker=_ATTACKER,
            attack=attack,
            control=control,
            naive=Rate.of(called * attack.n, attack.n),
            note=f"{scene.sampled()} {_NOTE}".strip(),
            details=(
                ADVANTAGE.at(gap.value, low=gap.low, high=gap.high),
                _area(members, others),
            ),
        )
    ]


def _best_limit(members: Floats, others: Floats) -> float:
    """Return the distance threshold with the largest advantage."""
    limits = np.unique(np.concatenate((members, others)))
    caught = np.searchsorted(np.sort(members), limits, side="right") / len(members)
    wrong = np.searchsorted(np.sort(others), limits, side="right") / len(others)
    return float(limits[np.argmax(caught - wrong)])


def _area(members: Floats, others: Floats) -> MetricValue:
    """Return the area under the ROC curve, with DeLong's 95% interval."""
    m, n = len(members), len(others)
    together = rankdata(np.concatenate((members, others)))
    # Share of nonmembers that are farther away than each member, and vice versa; ties count half.
    above = 1.0 - (together[:m] - rankdata(members)) / n
    below = (together[m:] - rankdata(others)) / m
    area = float(above.mean())
    variance = _variance(above) / m + _variance(below) / n
    half_width = NORMAL * math.sqrt(variance)
    return AUC.at(area, low=max(area - half_width, 0.0), high=min(area + half_width, 1.0))


def _variance(values: Floats) -> float:
    return float(values.var(ddof=1)) if len(values) > 1 else 0.0
