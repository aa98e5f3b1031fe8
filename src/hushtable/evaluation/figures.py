"""Rows of a comparison table, with one value per release, and verdicts on uses of a release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hushtable.evaluation.findings import Plain
from hushtable.release.release import Release

Better = Literal["lower", "higher", "neither"]


@dataclass(frozen=True)
class Figure(Plain):
    """A row of a comparison table: one number or text per release."""

    group: str  # promise, error, accuracy, risk, size or time
    name: str
    better: Better
    kind: Literal["share", "distance", "number", "text"]
    # by release: a mapping with value and, for an interval, low and high; None if not available
    values: tuple[Mapping[str, Any] | None, ...]


def figures_of(releases: Sequence[Release], found: Sequence[Mapping[str, Any]]) -> Iterator[Figure]:
    """Yield promises, errors, accuracies, risks and sizes of all releases."""
    statements = [release.statement for release in releases]
    yield _figure("promise", "method", [one.method for one in statements], "text")
    families = [", ".join(p.family for p in one.guarantees) for one in statements]
    yield _figure("promise", "kind of promise", families, "text")
    for name in ("epsilon", "delta"):
        values = [_promised(release, name) for release in releases]
        if any(value is not None for value in values):
            yield _figure("promise", name, values, better="lower")
    # Intervals of an empty release cover everything, so its errors and accuracies are left out.
    utilities = [one["utility"] if one["utility"]["n_published"] else None for one in found]
    yield from _errors(utilities)
    yield from _statistics(utilities)
    yield from _accuracies(utilities)
    yield from _risks(found)
    yield _figure("size", "published rows", [one["utility"]["n_published"] for one in found])
    sizes = [_size(release.folder) for release in releases]
    yield _figure("size", "kilobytes of the release", sizes, better="lower")


def times_of(
    published: Sequence[float | None] | None, evaluated: Sequence[float]
) -> Iterator[Figure]:
    """Yield the time of publishing and of this evaluation, by release."""
    if published is not None:
        yield _figure("time", "seconds to publish (from the ledger)", published, better="lower")
    yield _figure("time", "seconds to evaluate", evaluated)


def _promised(release: Release, name: str) -> float | None:
    given = (getattr(promise, name, None) for promise in release.statement.guarantees)
    return max((float(value) for value in given if value is not None), default=None)


def _size(folder: Path) -> float:
    return round(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e3, 1)


def _errors(utilities: Sequence[Mapping[str, Any] | None]) -> Iterator[Figure]:
    means = [one and mean_distance(one["columns"]) for one in utilities]
    yield _figure("error", "single columns, mean distance", means, "distance", "lower")
    for name in ("pairs", "triples"):
        means = [one and (one[name] or {}).get("mean") for one in utilities]
        if any(means):
            what = f"{name} of columns, mean total variation"
            yield _figure("error", what, means, "distance", "lower")
    lines = [one["workload"]["lines"][0] if one and one["workload"] else {} for one in utilities]
    measures: tuple[tuple[str, str, Literal["share", "number"], Better], ...] = (
        ("median_relative_error", "median relative error", "share", "lower"),
        ("median_absolute_error", "median error in rows", "number", "lower"),
        ("coverage", "coverage of 95% intervals", "share", "higher"),
        ("width", "median interval width (share of all rows)", "share", "lower"),
    )
    for key, name, kind, better in measures:
        values = [line.get(key) for line in lines]
        if any(values):
            yield _figure("error", f"count queries, {name}", values, kind, better)


def _statistics(utilities: Sequence[Mapping[str, Any] | None]) -> Iterator[Figure]:
    by_kind = [
        {line["kind"]: line for line in ((one and one["statistics"]) or {"lines": []})["lines"]}
        for one in utilities
    ]
    for kind in dict.fromkeys(kind for lines in by_kind for kind in lines):
        for key, name in (("coverage", "coverage of 95% intervals"), ("width", "half-width")):
            values = [lines.get(kind, {}).get(key) for lines in by_kind]
            if any(values):
                of: tuple[Literal["share", "number"], Better] = (
                    ("share", "higher") if key == "coverage" else ("number", "lower")
                )
                yield _figure("error", f"{kind}s, {name}", values, *of)


def distances_of(columns: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the distance of each one-way marginal (Kolmogorov-Smirnov if ordered, else TV)."""
    return [
        next(m["value"] for m in column["measured"] if m["metric"] != "earth mover's distance")
        for column in columns
    ]


def mean_distance(columns: Sequence[Mapping[str, Any]]) -> float:
    """Return the mean distance of the one-way marginals."""
    distances = distances_of(columns)
    return float(sum(distances) / len(distances))


def _accuracies(utilities: Sequence[Mapping[str, Any] | None]) -> Iterator[Figure]:
    lines = [
        {
            (line["model"], line["trained_on"]): line["accuracy"]
            for line in ((one and one["learning"]) or {"lines": []})["lines"]
        }
        for one in utilities
    ]
    for model, trained_on in dict.fromkeys(key for of_release in lines for key in of_release):
        name = f"{model}, trained on the {trained_on}" if trained_on != "nothing" else "majority"
        values = [of_release.get((model, trained_on)) for of_release in lines]
        better: Better = "higher" if trained_on == "release" else "neither"
        yield _figure("accuracy", name, values, "share", better)


def _risks(found: Sequence[Mapping[str, Any]]) -> Iterator[Figure]:
    attacks = [one["risk"].get("attacks") or [] for one in found]
    if not any(attacks):
        return
    counts = [
        _beyond_chance(tried, control=has_control(one)) if tried else None
        for tried, one in zip(attacks, found, strict=True)
    ]
    yield _figure("risk", "attacks with significant success", counts, "text")
    for name in dict.fromkeys(attack["name"] for tried in attacks for attack in tried):
        worst = [worst_of(tried, name) for tried in attacks]
        excess = [one and one["excess"] for one in worst]
        yield _figure("risk", f"{name}, largest excess", excess, "share", "lower")
    anonymity = [one["risk"].get("anonymity") for one in found]
    if any(anonymity):
        smallest = [one and one["k"] for one in anonymity]
        yield _figure("risk", "smallest group (k)", smallest, better="higher")


def has_control(found: Mapping[str, Any]) -> bool:
    """Return whether attacks had a control group: a given table or rows held back."""
    return bool(found["reproduce"]["control"] or found["reproduce"]["held_back"])


def _beyond_chance(attacks: Sequence[Mapping[str, Any]], *, control: bool) -> str:
    count = f"{sum(attack['succeeds'] for attack in attacks)} of {len(attacks)}"
    return count if control else f"inconclusive ({count} without a control table)"


def worst_of(attacks: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any] | None:
    """Return the outcome of the named attack that exceeds its reference most, if there is one."""
    tried = [x for x in attacks if x["name"] == name and x["excess"] and x["attack"]["n"]]
    return max(tried, key=lambda x: float(x["excess"]["value"]), default=None)


def _figure(
    group: str,
    name: str,
    values: Sequence[Mapping[str, Any] | float | str | None],
    kind: Literal["share", "distance", "number", "text"] = "number",
    better: Better = "neither",
) -> Figure:
    """Return a figure; a measured value keeps its interval, if it has one."""

    def held(value: Mapping[str, Any] | float | str | None) -> Mapping[str, Any] | None:
        given = value if isinstance(value, Mapping) else {"value": value}
        shown = {key: given[key] for key in ("value", "low", "high") if given.get(key) is not None}
        return shown or None

    return Figure(group, name, better, kind, tuple(map(held, values)))


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
# Each use has one fixed rule, defined in this module. There is no overall score, because a
# release that is unsuitable for one purpose may be sufficient for another.

CLOSE = 0.05
"""Largest mean distance at which one-way marginals are considered accurate."""

SMALL_ERROR = 0.1
"""Largest median relative error at which counts are considered accurate."""

VACUOUS = 0.5
"""Smallest interval width at which intervals are considered uninformative, as a share of rows."""

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
