"""Uses that a release is suitable for, judged from its evaluation.

Each use has one fixed rule, defined in this module. There is no overall score: a release that is
unsuitable for one purpose may be sufficient for another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hushtable.evaluation.figures import best_accuracies, mean_distance

CLOSE = 0.05
"""Largest mean distance at which one-way marginals are considered accurate."""

SMALL_ERROR = 0.1
"""Largest median relative error at which counts are considered accurate."""

VACUOUS = 0.5
"""Interval width, as a share of the rows, from which intervals are considered uninformative."""

_SIZES = {
    (0.1, 1.0): "counts above 10% of the rows",
    (0.01, 0.1): "counts of 1% to 10% of the rows",
    (0.001, 0.01): "counts of 0.1% to 1% of the rows",
}


@dataclass(frozen=True)
class FitnessForUse:
    """Suitable and unsuitable uses of a release.

    Examples
    --------
    >>> print(FitnessForUse(("models",), ("counts",)))
    good for models; not good for counts
    """

    good_for: tuple[str, ...]
    not_good_for: tuple[str, ...]

    def __str__(self) -> str:
        parts = []
        if self.good_for:
            parts.append(f"good for {', '.join(self.good_for)}")
        if self.not_good_for:
            parts.append(f"not good for {', '.join(self.not_good_for)}")
        return "; ".join(parts)


def judge_fitness(evaluation: Mapping[str, Any]) -> FitnessForUse:
    """Judge a release by the output of `Evaluation.to_dict`."""
    utility = evaluation["utility"]
    if not utility["n_published"]:
        return FitnessForUse((), ("any use: it is empty",))
    found = list(_uses(utility))
    return FitnessForUse(
        tuple(use for use, good in found if good), tuple(use for use, good in found if not good)
    )


def _uses(utility: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    yield "single columns", mean_distance(utility["columns"]) <= CLOSE
    if pairs := utility["pairs"]:
        # At most half of the error of a release in which all columns are independent.
        is_close = pairs["mean"]["value"] <= max(pairs["independent"] / 2, CLOSE)
        yield "relations between two columns", is_close
    if workload := utility["workload"]:
        for line in workload["lines"]:
            use = _SIZES.get(tuple(line["selectivity"] or ()))
            if line["arity"] is None and use:
                yield use, line["median_relative_error"]["value"] <= SMALL_ERROR
        if workload["lines"] and (held := workload["lines"][0]["coverage"]):
            width = workload["lines"][0]["width"]["value"]
            if held["high"] < 0.95:
                yield f"intervals (only {held['value']:.0%} cover the true count)", False
            else:
                yield f"intervals (typical width {width:.1%} of the rows)", width < VACUOUS
    if learning := utility["learning"]:
        best = best_accuracies(learning)
        gain = best["original"] - best["nothing"]
        if gain > 0.01:  # otherwise there is nothing to learn
            learned = best["release"] - best["nothing"] >= gain / 2
            yield f"models that predict {learning['target']}", learned
