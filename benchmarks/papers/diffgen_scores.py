"""Accuracy of DiffGen with other scores, on Adult's income and on other targets (not in the paper).

Run as ``python -m benchmarks.papers.diffgen_scores``. See `hushtable_papers.adult_accuracy` for
the protocol; means of ten runs with their standard errors, in percent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hushtable import DiffGen
from hushtable.methods.diffgen.diffgen import Calibration
from hushtable.privacy.mechanisms.scored_splits import ScoreName
from hushtable_papers.adult_accuracy import measure

EPSILONS = ("0.1", "0.25", "0.5", "1")
KINDS: tuple[tuple[ScoreName, Calibration], ...] = (
    ("max", "paper"),
    ("max", "tight"),
    ("information-gain", "tight"),
    ("total-variation", "tight"),
    ("balanced-max", "tight"),
    ("balanced-gain", "tight"),
)


def by_epsilon(
    tried: Iterable[int | str], epsilons: Iterable[str] = EPSILONS, **which: Any
) -> None:
    """Measure every score and calibration, for several public values of h."""
    for score, calibration in KINDS:
        for epsilon in epsilons:
            row = []
            for h in tried:
                method = DiffGen(
                    epsilon=epsilon,
                    specializations=h,
                    score=score,
                    calibration=calibration,
                    target=which.get("target"),
                )
                mean, error = measure(method, **which)
                row.append(f"h={h} {mean:6.2f} ±{error:5.2f}")
            print(
                f"  {score:>17} {calibration:>5} epsilon {epsilon:>4}: {'  '.join(row)}", flush=True
            )


ELSEWHERE: dict[str, dict[str, Any]] = {
    "Adult, fresh divisions": {"first_seed": 500},
    "Adult, sex": {"target": "sex"},
    "Adult, relationship": {"target": "relationship"},
    "clinic sample, diagnosis": {"target": "diagnosis", "clinic": True},
}


def main() -> None:
    by_epsilon((4, 10, 14, "auto"))
    for title, which in ELSEWHERE.items():  # `auto` for every score
        print(title)
        by_epsilon(("auto",), ("0.1", "1"), **which)


if __name__ == "__main__":
    main()
