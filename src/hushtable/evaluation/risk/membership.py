"""Attack ``membership``: tell whether a person was in the private table at all."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hushtable.estimate.quantiles import NORMAL
from hushtable.evaluation.metric import Measured, Metric, share_metric
from hushtable.evaluation.risk.outcome import Outcome, Rate, difference
from hushtable.evaluation.risk.records import Scene
from hushtable.extras import needing
from hushtable.kernels.nearest import nearest

with needing("eval", "evaluation"):
    from scipy.stats import rankdata

_ATTACKER = (
    "Someone knows all values of a person and says that they were in the private table if a "
    "published record is near enough; what is near enough they learned from people whose answer "
    "they know."
)

ADVANTAGE = Metric(
    name="membership advantage",
    meaning="Members called members minus others called members: 0 is guessing, 1 is certainty.",
    better="lower",
    low=-1.0,
    high=1.0,
)
AUC = share_metric(
    "membership AUC",
    "Chance that a member is nearer to the release than somebody else: 0.5 is guessing.",
)


def run(scene: Scene) -> list[Outcome]:
    """Run the attack; it needs a control group."""
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
            of="",
            attacker=_ATTACKER,
            attack=attack,
            control=control,
            naive=Rate.of(called * attack.n, attack.n),
            n=attack.n,
            note=" ".join(
                [
                    scene.sampled(),
                    "The rates are the shares called members, among members and in the control; "
                    "the naive attacker calls as many, blindly. Half of the people served to "
                    "learn what is near.",
                ]
            ).strip(),
            details=(
                Measured(metric=ADVANTAGE, of="", value=gap.value, low=gap.low, high=gap.high),
                _area(members, others),
            ),
        )
    ]


def _best_limit(members: NDArray[np.float64], others: NDArray[np.float64]) -> float:
    """Choose the distance up to which members are called, for the largest advantage."""
    limits = np.unique(np.concatenate((members, others)))
    caught = np.searchsorted(np.sort(members), limits, side="right") / len(members)
    wrong = np.searchsorted(np.sort(others), limits, side="right") / len(others)
    return float(limits[np.argmax(caught - wrong)])


def _area(members: NDArray[np.float64], others: NDArray[np.float64]) -> Measured:
    """Give the area under the curve, with DeLong's 95 % interval."""
    m, n = len(members), len(others)
    together = rankdata(np.concatenate((members, others)))
    # Share of the others that are farther than each member, and the other way round; ties half.
    above = 1.0 - (together[:m] - rankdata(members)) / n
    below = (together[m:] - rankdata(others)) / m
    area = float(above.mean())
    variance = _variance(above) / m + _variance(below) / n
    reach = NORMAL * math.sqrt(variance)
    return Measured(
        metric=AUC, of="", value=area, low=max(area - reach, 0.0), high=min(area + reach, 1.0)
    )


def _variance(values: NDArray[np.float64]) -> float:
    return float(values.var(ddof=1)) if len(values) > 1 else 0.0
