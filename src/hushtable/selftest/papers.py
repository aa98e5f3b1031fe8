"""Numbers from the papers and their corrections, compared with this implementation.

The reference values were computed independently to twenty digits; the tests contain the full lists.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from hushtable.kernels.anonymity_sets import gaussian_scales, uniform_scales
from hushtable.kernels.graph_edges import projected_degrees
from hushtable.kernels.split_scores import split_score
from hushtable.methods.alpha_beta.frapp import same_privacy_retention
from hushtable.methods.diffgen.diffgen import DiffGen
from hushtable.privacy.bounded_adversary import Ratios
from hushtable.privacy.mechanisms.class_scores import Max, exponent
from hushtable.privacy.mechanisms.single_counts import ThresholdMatrix
from hushtable.schema import Schema
from hushtable.selftest.verdict import CheckResult, SelfCheck, held

_DOUBLE = 1e-12


def _close(found: list[float], wanted: list[str], tolerance: float = _DOUBLE) -> CheckResult:
    off = max(abs(x / float(y) - 1) for x, y in zip(found, wanted, strict=True))
    return held(off <= tolerance, f"{len(wanted)} numbers, relative error at most {off:.1g}")


def _release_probabilities() -> CheckResult:
    wanted = {
        3: "0.001", 4: "0.0016487212707001281468", 5: "0.0027182818284590452354",
        8: "0.012182493960703473438", 11: "0.054598150033144239078", 14: "0.24469193226422038792",
    }  # fmt: skip
    paper = ThresholdMatrix(epsilon=Fraction(1), delta=Fraction(1, 1000), k=3)
    return _close([paper.release_probability(count) for count in wanted], list(wanted.values()))


def _partitions_and_degrees() -> CheckResult:
    ends = np.array([[0, 1], [0, 2], [0, 3], [0, 4], [1, 2], [3, 4]], np.int32)
    degrees = projected_degrees(ends[:, 0], ends[:, 1], 5, 2).tolist()
    left, right = np.array([1, 0], np.int64), np.array([0, 2], np.int64)
    found = int(split_score(left, left + right, True))  # twice quality (3)
    return held(degrees == [2, 2, 2, 1, 1] and found == 5, "projected degrees, quality of a split")


def _uncertain_scales() -> CheckResult:
    points = np.array([[0, 0], [1, 0], [0, 1], [2, 2], [3, 1], [-1, 2]], np.float64)
    two = np.full(6, 2.0)
    wanted = {
        "gaussian": ["1.1236673616373035185", "1.1065253908028602838", "1.0128468525101310095",
                     "1.3638416256907093148", "1.5909192002831332496", "1.5519941179817857643"],
        "uniform": ["2.0", "2.25", "2.0", "3.0", "3.4142135623730950488", "3.2909944487358056284"],
    }  # fmt: skip
    solved = [*gaussian_scales(points, two), *uniform_scales(points, two)]
    exact = [float(text) for text in (*wanted["gaussian"], *wanted["uniform"])]
    # The search approaches scales from above: never too small, and at most 0.5% too large.
    off = [x / y - 1 for x, y in zip(solved, exact, strict=True)]
    safe = min(off) >= -_DOUBLE and max(off) <= 0.005
    return held(safe, f"12 scales, at most {100 * max(off):.2g}% too large, none too small")


def _budgets() -> CheckResult:
    numbers = {f"x{i}": {"type": "integer", "low": 0, "high": 99} for i in range(6)}
    target = {"type": "categorical", "values": ["Y", "N"], "role": "target"}
    schema = Schema.from_dict({"name": "t", "columns": {**numbers, "class": target}})
    method = DiffGen(epsilon=Fraction(1, 10), specializations=4, score="max", calibration="paper")
    plan = method.plan(schema)
    prime = plan.round_epsilon(4)
    paper = exponent(Max(), epsilon=prime, sensitivity=1, monotone=False)
    found = [prime, plan.structure_epsilon, paper]
    return _close(
        [float(number) for number in found],
        ["0.0035714285714285714286", "0.05", "0.0017857142857142857143"],
    )


def _posteriors() -> CheckResult:
    d, gamma = Fraction(10 * 30162, 648023040), Fraction(1, 5)
    twice = Ratios.of_repeated_views(keep=Fraction(1, 2), insert=d / gamma, views=2)
    retention = same_privacy_retention(d=d, gamma=gamma, n_tuples=30162, n_domain=648023040)
    found = [twice.high, twice.posterior(d, "independent"), twice.low, retention]
    return _close(
        [float(number) for number in found],
        ["354.22364894627676219", "0.14159325071640042504", "0.25087508745228902552",
         "0.02433486343428751444"],
    )  # fmt: skip


CHECKS = tuple(
    SelfCheck("papers", name, look)
    for name, look in {
        "000, release probabilities": _release_probabilities,
        "001, regions and degrees": _partitions_and_degrees,
        "002, scales of uncertain records": _uncertain_scales,
        "003, budgets and exponents": _budgets,
        "004, posteriors of a bounded adversary": _posteriors,
    }.items()
)
