"""What a release is good for, and what it is not, from the numbers of its evaluation.

Each use has one public rule, written here and nowhere else. There is no overall score: a release
that is useless for one purpose may be all that another one needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hushtable.evaluation.figures import best_accuracies, mean_distance

CLOSE = 0.05
"""Mean distance up to which single columns count as told."""

SMALL_ERROR = 0.1
"""Median relative error up to which counts count as told."""

VACUOUS = 0.5
"""Share of the rows from which on an interval says next to nothing."""

_SIZES = {
    (0.1, 1.0): "counts of a tenth of the rows and more",
    (0.01, 0.1): "counts of one row in a hundred to one in ten",
    (0.001, 0.01): "counts of fewer than one row in a hundred",
}


@dataclass(frozen=True)
class Verdict:
    """Say what a release is good for and what not.

    Examples
    --------
    >>> print(Verdict(("models",), ("counts",)))
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


def judge(evaluation: Mapping[str, Any]) -> Verdict:
    """Judge what `Evaluation.to_dict` gives."""
    utility = evaluation["utility"]
    if not utility["n_published"]:
        return Verdict((), ("anything: it is empty",))
    found = list(_uses(utility))
    return Verdict(
        tuple(use for use, good in found if good), tuple(use for use, good in found if not good)
    )


def _uses(utility: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    yield "single columns", mean_distance(utility["columns"]) <= CLOSE
    if pairs := utility["pairs"]:
        # Half of what would be lost if columns had nothing to do with each other.
        told = pairs["mean"]["value"] <= max(pairs["independent"] / 2, CLOSE)
        yield "how two columns hang together", told
    if workload := utility["workload"]:
        for line in workload["lines"]:
            use = _SIZES.get(tuple(line["selectivity"] or ()))
            if line["arity"] is None and use:
                yield use, line["median_relative_error"]["value"] <= SMALL_ERROR
        if workload["lines"] and (held := workload["lines"][0]["coverage"]):
            width = workload["lines"][0]["width"]["value"]
            if held["high"] < 0.95:
                yield f"intervals (only {held['value']:.0%} of them hold)", False
            else:
                yield f"intervals (typical width {width:.1%} of the rows)", width < VACUOUS
    if learning := utility["learning"]:
        best = best_accuracies(learning)
        gain = best["original"] - best["nothing"]
        if gain > 0.01:  # otherwise there is nothing to learn
            learned = best["release"] - best["nothing"] >= gain / 2
            yield f"models that predict {learning['target']}", learned
