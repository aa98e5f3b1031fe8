"""Rows of a comparison table: one number of every release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hushtable.release.release import Release


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One number of every release."""

    group: str  # promise, error, accuracy, risk, size or time
    name: str
    better: Literal["lower", "higher", "neither"]
    kind: Literal["share", "distance", "number", "text"]
    # by release: a mapping with value and, for an interval, low and high; None if not available
    values: tuple[Mapping[str, Any] | None, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the figure as plain data."""
        return {
            "group": self.group,
            "name": self.name,
            "better": self.better,
            "kind": self.kind,
            "values": [value and dict(value) for value in self.values],
        }


def figures_of(releases: Sequence[Release], found: Sequence[Mapping[str, Any]]) -> Iterator[Figure]:
    """Yield promises, errors, accuracies, risks and sizes of all releases."""
    yield _texts("promise", "method", [release.statement.method for release in releases])
    families = [[promise.family for promise in r.statement.guarantees] for r in releases]
    yield _texts("promise", "kind of promise", [", ".join(found) for found in families])
    for name in ("epsilon", "delta"):
        values = [_promised(release, name) for release in releases]
        if any(value is not None for value in values):
            yield _numbers("promise", name, "lower", "number", values)
    # Intervals of an empty release cover everything, so they are left out.
    telling = [one if one["utility"]["n_published"] else None for one in found]
    yield from _errors(telling)
    yield from _accuracies(telling)
    yield from _risks(found)
    rows = [one["utility"]["n_published"] for one in found]
    yield _numbers("size", "published rows", "neither", "number", rows)
    sizes = [_size(release.folder) for release in releases]
    yield _numbers("size", "kilobytes of the release", "lower", "number", sizes)


def times_of(
    published: Sequence[float | None] | None, evaluated: Sequence[float]
) -> Iterator[Figure]:
    """Yield the time of publishing and of this evaluation, by release."""
    if published is not None:
        yield _numbers("time", "seconds to publish (from the ledger)", "lower", "number", published)
    yield _numbers("time", "seconds to evaluate", "neither", "number", evaluated)


def _promised(release: Release, name: str) -> float | None:
    values = [
        float(value)
        for promise in release.statement.guarantees
        if (value := getattr(promise, name, None)) is not None
    ]
    return max(values) if values else None


def _size(folder: Path) -> float:
    return round(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e3, 1)


def _errors(found: Sequence[Mapping[str, Any] | None]) -> Iterator[Figure]:
    yield _numbers(
        "error", "single columns, mean distance", "lower", "distance",
        [None if one is None else mean_distance(one["utility"]["columns"]) for one in found],
    )  # fmt: skip
    for name in ("pairs", "triples"):
        means = [one and (one["utility"][name] or {}).get("mean") for one in found]
        if any(means):
            yield _measured(
                "error", f"{name} of columns, mean total variation", "lower", "distance", means
            )
    lines = [
        one["utility"]["workload"]["lines"][0] if one and one["utility"]["workload"] else {}
        for one in found
    ]
    for key, name, better, kind in (
        ("median_relative_error", "count queries, median relative error", "lower", "share"),
        ("median_absolute_error", "count queries, median error in rows", "lower", "number"),
        ("coverage", "count queries, coverage of 95% intervals", "higher", "share"),
        ("width", "count queries, median interval width (share of all rows)", "lower", "share"),
    ):
        values = [line.get(key) for line in lines]
        if any(values):
            yield _measured("error", name, better, kind, values)


def mean_distance(columns: Sequence[Mapping[str, Any]]) -> float:
    """Return the mean distance of one-way marginals (Kolmogorov-Smirnov if ordered, else TV)."""
    distances = [
        next(m["value"] for m in column["measured"] if m["metric"] != "earth mover's distance")
        for column in columns
    ]
    return float(sum(distances) / len(distances))


def _accuracies(found: Sequence[Mapping[str, Any] | None]) -> Iterator[Figure]:
    lines = [
        {
            (line["model"], line["trained_on"]): line["accuracy"]
            for line in ((one and one["utility"]["learning"]) or {"lines": []})["lines"]
        }
        for one in found
    ]
    models = dict.fromkeys(key for of_release in lines for key in of_release)
    for model, trained_on in models:
        name = f"{model}, trained on the {trained_on}" if trained_on != "nothing" else "majority"
        better: Literal["higher", "neither"] = "higher" if trained_on == "release" else "neither"
        values = [of_release.get((model, trained_on)) for of_release in lines]
        yield _measured("accuracy", name, better, "share", values)


def _risks(found: Sequence[Mapping[str, Any]]) -> Iterator[Figure]:
    attacks = [one["risk"].get("attacks") for one in found]
    if not any(attacks):
        return
    yield _texts(
        "risk", "attacks with significant success",
        [a and _beyond_chance(a, control=has_control(one))
         for a, one in zip(attacks, found, strict=True)],
    )  # fmt: skip
    names = dict.fromkeys(x["name"] for a in attacks if a for x in a)
    for name in names:
        worst = [worst_of(a or [], name) for a in attacks]
        yield _measured(
            "risk", f"{name}, largest excess", "lower", "share", [w and w["excess"] for w in worst]
        )
    anonymity = [one["risk"].get("anonymity") for one in found]
    if any(anonymity):
        yield _numbers(
            "risk", "smallest group (k)", "higher", "number", [a and a["k"] for a in anonymity]
        )


def has_control(found: Mapping[str, Any]) -> bool:
    """Return whether attacks had a control group: a given table or rows held back."""
    told = found["reproduce"]
    return bool(told["control"] or told.get("held_back"))


def _beyond_chance(attacks: Sequence[Mapping[str, Any]], *, control: bool) -> str:
    said = f"{sum(attack['succeeds'] for attack in attacks)} of {len(attacks)}"
    return said if control else f"inconclusive ({said} without a control table)"


def worst_of(attacks: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any] | None:
    """Return the outcome of one attack that exceeds its reference most."""
    tried = [x for x in attacks if x["name"] == name and x["excess"] and x["attack"]["n"]]
    return max(tried, key=lambda x: float(x["excess"]["value"]), default=None)


def _texts(group: str, name: str, values: Sequence[str | None]) -> Figure:
    return Figure(
        group=group, name=name, better="neither", kind="text",
        values=tuple(None if value is None else {"value": value} for value in values),
    )  # fmt: skip


def _numbers(
    group: str,
    name: str,
    better: Literal["lower", "higher", "neither"],
    kind: Literal["share", "distance", "number"],
    values: Sequence[float | None],
) -> Figure:
    held = tuple(None if value is None else {"value": value} for value in values)
    return Figure(group=group, name=name, better=better, kind=kind, values=held)


def _measured(
    group: str,
    name: str,
    better: Any,
    kind: Any,
    values: Sequence[Mapping[str, Any] | None],
) -> Figure:
    held = tuple(
        value and {key: value[key] for key in ("value", "low", "high") if value[key] is not None}
        for value in values
    )
    return Figure(group=group, name=name, better=better, kind=kind, values=held)


def best_accuracies(learning: Mapping[str, Any]) -> dict[str, float]:
    """Return the best accuracy by what the model was trained on.

    Examples
    --------
    >>> lines = [{"trained_on": w, "accuracy": {"value": v}} for w, v in
    ...          (("release", 0.7), ("release", 0.8), ("original", 0.9), ("nothing", 0.5))]
    >>> best_accuracies({"lines": lines})
    {'release': 0.8, 'original': 0.9, 'nothing': 0.5}
    """
    return {
        where: max(
            line["accuracy"]["value"] for line in learning["lines"] if line["trained_on"] == where
        )
        for where in ("release", "original", "nothing")
    }


# Uses that a release is suitable for, judged from its evaluation.
#
# Each use has one fixed rule, defined in this module. There is no overall score: a release that is
# unsuitable for one purpose may be sufficient for another.

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
