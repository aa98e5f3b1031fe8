"""Several releases of the same private table, side by side.

Every number comes from `hushtable.evaluation.evaluate`, run with the same seed, so that all
releases get the same questions, test rows and attacks.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hushtable.engine.header import Data
from hushtable.engine.silence import silenced
from hushtable.errors import HushtableError, ParameterError, ReleaseError
from hushtable.evaluation.evaluate import INTERNAL, evaluate
from hushtable.evaluation.risk.outcome import worst_of
from hushtable.files.progress import Progress, silent
from hushtable.files.whole_file import write_whole
from hushtable.privacy.ledger import Ledger
from hushtable.release import Release

NO_TIME = (
    "How long publishing took depends on the private data, so no statement says it; name the "
    "ledger to see it here."
)
TIME = (
    "Times of publishing are from the ledger: by the clock, from the charge to the release, on "
    "whatever machine and with whatever else it did. They depend on the private data; keep them."
)
NOT_THERE = "Where the time of publishing is missing, the release is not in the ledger named."


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Hold one number of every release.

    Parameters
    ----------
    group : str
        What it is about: promise, error, accuracy, risk, size or time.
    name : str
        What it is called.
    better : {"lower", "higher", "neither"}
        Which direction is good.
    kind : {"share", "distance", "number", "text"}
        How it is written.
    values : tuple
        One per release: a mapping with value, and low and high where there is an interval; None
        where a release has no such number.
    """

    group: str
    name: str
    better: Literal["lower", "higher", "neither"]
    kind: Literal["share", "distance", "number", "text"]
    values: tuple[Mapping[str, Any] | None, ...]

    def to_dict(self) -> dict[str, Any]:
        """Write as plain data."""
        return {
            "group": self.group,
            "name": self.name,
            "better": self.better,
            "kind": self.kind,
            "values": [value and dict(value) for value in self.values],
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """Hold a comparison; for the custodian's eyes.

    Parameters
    ----------
    name : str
        The private table.
    releases : tuple of mapping
        Name, method, parameters and promise of each.
    figures : tuple of Figure
        What is compared.
    evaluations : tuple of mapping
        What `Evaluation.to_dict` gives for each release.
    notes : tuple of str
        What a reader must know.
    """

    name: str
    releases: tuple[Mapping[str, Any], ...]
    figures: tuple[Figure, ...]
    evaluations: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Write as plain data."""
        return {
            "format": 1,
            "internal": INTERNAL,
            "name": self.name,
            "releases": [dict(release) for release in self.releases],
            "figures": [figure.to_dict() for figure in self.figures],
            "notes": list(self.notes),
            "reproduce": dict(self.evaluations[0]["reproduce"]),
        }

    def write_json(self, path: str | Path) -> None:
        """Write the numbers to a new file, whole or not at all."""
        text = json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
        write_whole(path, text + "\n")

    def write_html(self, path: str | Path) -> None:
        """Write table and plots to a new file, whole or not at all: one page, self-contained."""
        from hushtable.evaluation.report.compare_page import render  # noqa: PLC0415 - needs an extra

        write_whole(path, render(self.to_dict(), self.evaluations))


@silenced
def compare(
    data: Data,
    releases: Sequence[Release | str | Path],
    *,
    control: Data | None = None,
    target: str | None = None,
    seed: int = 0,
    n_repeats: int = 5,
    questions: int = 20,
    ledger: Ledger | str | Path | None = None,
    command: str | None = None,
    progress: Progress = silent,
) -> Comparison:
    """Evaluate several releases of one table in the same way and lay them side by side.

    The result is for the custodian: it is made from the private table and not covered by the
    promises.

    Parameters
    ----------
    data : path or frame
        The private table.
    releases : sequence of Release or path
        At least one release.
    control : path or frame, optional
        Rows of the same population that no release was made from.
    target : str, optional
        The column that models predict; by default the schemas' target.
    seed : int
        Makes the comparison repeatable.
    n_repeats : int
        How often models are trained.
    questions : int
        Count questions of each arity and selectivity.
    ledger : Ledger or path, optional
        The ledger that the releases were charged to, which knows how long publishing took.
    command : str, optional
        How to run this again.
    progress : Progress, optional
        Is told what is being done.
    """
    if not releases:
        raise ParameterError("name at least one release to compare.")
    opened = _open(releases)
    names = _names([release.folder for release in opened])
    published = None if ledger is None else _publishing_times(opened, ledger)
    found, evaluated = [], []
    for number, (name, release) in enumerate(zip(names, opened, strict=True), start=1):
        place = f"{number} of {len(opened)}"
        started = time.monotonic()
        try:
            evaluation = evaluate(
                release, data, control=control, target=target, seed=seed, n_repeats=n_repeats,
                questions=questions, command=command,
                progress=lambda what, share, place=place: progress(f"{place}: {what}", share),
            )  # fmt: skip
        except HushtableError as error:
            problems = [f"release {name!r}: {problem}" for problem in error.problems]
            raise type(error)(problems) from error
        found.append(evaluation.to_dict())
        evaluated.append(round(time.monotonic() - started, 2))
    return Comparison(
        name=found[0]["name"],
        releases=tuple(
            {
                "name": name,
                "method": release.statement.method,
                "parameters": dict(release.statement.parameters),
                "promise": [promise.explain() for promise in release.statement.guarantees],
            }
            for name, release in zip(names, opened, strict=True)
        ),
        figures=(*_figures(opened, found), *_times(published, evaluated)),
        evaluations=tuple(found),
        notes=tuple(_notes(found, published)),
    )


def _open(releases: Sequence[Release | str | Path]) -> list[Release]:
    """Load the releases, or name every one that cannot be."""
    opened: list[Release] = []
    problems: list[str] = []
    for one in releases:
        try:
            opened.append(one if isinstance(one, Release) else Release.load(one))
        except ReleaseError as error:
            problems += error.problems
    if problems:
        raise ReleaseError(problems)
    return opened


def _names(folders: Sequence[Path]) -> list[str]:
    """Name releases by their folders, with as much of the path as tells them apart."""
    paths = [folder.resolve().parts for folder in folders]
    for depth in range(1, max(map(len, paths)) + 1):
        names = ["/".join(parts[-depth:]) for parts in paths]
        if len(set(names)) == len(names):
            return names
    raise ParameterError("the same release is named twice; name each one once.")


def _publishing_times(
    releases: Sequence[Release], ledger: Ledger | str | Path
) -> list[float | None]:
    """Find the entries of releases by the receipts in their statements."""
    book = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)
    known = {entry.receipt: entry.seconds for entry in book.entries()}
    receipts = [release.statement.ledger for release in releases]
    return [known.get(receipt.receipt) if receipt is not None else None for receipt in receipts]


def _notes(
    found: Sequence[Mapping[str, Any]], published: Sequence[float | None] | None
) -> Iterator[str]:
    yield NO_TIME if published is None else TIME
    if published is not None and None in published:
        yield NOT_THERE
    about = {one["utility"]["about"] for one in found}
    if len(about) > 1:
        yield (
            f"Releases count different things ({', '.join(sorted(about))}), and their errors are "
            "about what each counts."
        )
    classes = {
        tuple(learning["classes"]) for one in found if (learning := one["utility"]["learning"])
    }
    if len(classes) > 1:
        yield (
            "Models predict different classes, where a release has generalized the target or left "
            "values out: compare each with its own majority and raw lines."
        )
    if not found[0]["reproduce"]["control"]:
        yield (
            "Without a control table, models are tested on rows that were released, and attacks "
            "are compared with a naive attacker only."
        )
    without = [one for one in found if "not_assessed" in one["risk"]]
    if without:
        yield "Where risk is missing, there are no whole published rows to attack."


# --- what is compared -----------------------------------------------------------------------------


def _figures(releases: Sequence[Release], found: Sequence[Mapping[str, Any]]) -> Iterator[Figure]:
    yield _texts("promise", "method", [release.statement.method for release in releases])
    families = [[promise.family for promise in r.statement.guarantees] for r in releases]
    yield _texts("promise", "kind of promise", [", ".join(found) for found in families])
    for name in ("epsilon", "delta"):
        values = [_promised(release, name) for release in releases]
        if any(value is not None for value in values):
            yield _numbers("promise", name, "lower", "number", values)
    yield from _errors(found)
    yield from _accuracies(found)
    yield from _risks(found)
    rows = [one["utility"]["n_published"] for one in found]
    yield _numbers("size", "published rows", "neither", "number", rows)
    sizes = [_size(release.folder) for release in releases]
    yield _numbers("size", "kilobytes of the release", "lower", "number", sizes)


def _times(
    published: Sequence[float | None] | None, evaluated: Sequence[float]
) -> Iterator[Figure]:
    if published is not None:
        yield _numbers("time", "seconds of publishing, by the ledger", "lower", "number", published)
    yield _numbers("time", "seconds of this evaluation", "neither", "number", evaluated)


def _promised(release: Release, name: str) -> float | None:
    values = [
        float(value)
        for promise in release.statement.guarantees
        if (value := getattr(promise, name, None)) is not None
    ]
    return max(values) if values else None


def _size(folder: Path) -> float:
    return round(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e3, 1)


def _errors(found: Sequence[Mapping[str, Any]]) -> Iterator[Figure]:
    yield _numbers(
        "error", "single columns, mean distance", "lower", "distance",
        [_mean_distance(one["utility"]["columns"]) for one in found],
    )  # fmt: skip
    for name in ("pairs", "triples"):
        means = [(one["utility"][name] or {}).get("mean") for one in found]
        if any(means):
            yield _measured(
                "error", f"{name} of columns, mean total variation", "lower", "distance", means
            )
    lines = [
        one["utility"]["workload"]["lines"][0] if one["utility"]["workload"] else {}
        for one in found
    ]
    for key, name, better, kind in (
        ("median_relative_error", "count questions, median relative error", "lower", "share"),
        ("median_absolute_error", "count questions, median error in rows", "lower", "number"),
        ("coverage", "count questions, intervals that held", "higher", "share"),
    ):
        values = [line.get(key) for line in lines]
        if any(values):
            yield _measured("error", name, better, kind, values)


def _mean_distance(columns: Sequence[Mapping[str, Any]]) -> float:
    """Average total variation (or Kolmogorov-Smirnov, where ordered) over single columns."""
    distances = [
        next(m["value"] for m in column["measured"] if m["metric"] != "earth mover's distance")
        for column in columns
    ]
    return float(sum(distances) / len(distances))


def _accuracies(found: Sequence[Mapping[str, Any]]) -> Iterator[Figure]:
    lines = [
        {
            (line["model"], line["trained_on"]): line["accuracy"]
            for line in (one["utility"]["learning"] or {"lines": []})["lines"]
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
        "risk", "attacks that succeed beyond chance",
        [a and f"{sum(x['succeeds'] for x in a)} of {len(a)}" for a in attacks],
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
