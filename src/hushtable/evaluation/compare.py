"""Comparison of several releases of the same private table.

Every number comes from `hushtable.evaluation.evaluate` with the same seed, so that all releases get
the same queries, test rows and attacks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushtable.engine.output_guard import silenced
from hushtable.engine.sources.header import Data
from hushtable.errors import HushtableError, ParameterError, ReleaseError
from hushtable.evaluation.evaluate import INTERNAL, evaluate
from hushtable.evaluation.figures import Figure, figures_of, has_control, judge_fitness, times_of
from hushtable.evaluation.findings import TEXTS, Findings
from hushtable.files.progress import Progress, silent
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.release.release import Release

NO_TIME = TEXTS["no publishing times"]
TIME = TEXTS["publishing times"]
NOT_THERE = TEXTS["missing publishing times"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison(Findings):
    """Results of a comparison; internal, because they depend on the private table."""

    name: str  # name of the private table
    # name, method, parameters, promise and verdict of each release
    releases: tuple[Mapping[str, Any], ...]
    figures: tuple[Figure, ...]
    evaluations: tuple[Mapping[str, Any], ...]  # output of `Evaluation.to_dict` for each release
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain data."""
        return {
            "format": 1,
            "internal": INTERNAL,
            "name": self.name,
            "releases": [dict(release) for release in self.releases],
            "figures": [figure.to_dict() for figure in self.figures],
            "notes": list(self.notes),
            "reproduce": dict(self.evaluations[0]["reproduce"]),
        }

    def to_html(self) -> str:
        """Return the table and plots as one self-contained HTML page."""
        from hushtable.evaluation.report.pages import render_comparison  # noqa: PLC0415 - needs an extra

        return render_comparison(self.to_dict(), self.evaluations)


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
    """Evaluate several releases of one table with the same settings and compare them.

    The result is internal: it is computed from the private table, and the promises do not cover it.

    Parameters
    ----------
    data : path or frame
        The private table.
    releases : sequence of Release or path
        At least one release.
    control : path or frame, optional
        Rows of the same population that no release was made from.
    target : str, optional
        Column that models predict. By default, the schemas' target.
    seed : int, default=0
        Seed of the evaluations.
    n_repeats : int, default=5
        Number of times that each model is trained.
    questions : int, default=20
        Count queries for each number of conditions and range of selectivity.
    ledger : Ledger or path, optional
        Ledger that was charged for the releases; it contains the publishing times.
    command : str, optional
        Command that repeats the comparison.
    progress : Progress, optional
        Callback for progress.

    Returns
    -------
    Comparison
        The results, by release.
    """
    if not releases:
        raise ParameterError("no release was given; pass at least one release to compare.")
    command = command or f"hushtable compare DATA RELEASE... --seed {seed}"
    opened = _open(releases)
    names = _names([release.folder for release in opened])
    common, differences = _common_columns(names, opened)
    if common is not None and target is not None and target not in common:
        raise ParameterError(f"target {target!r} is not published by all releases; choose another.")
    published = None if ledger is None else _publishing_times(opened, ledger)
    found, evaluated = [], []
    for number, (name, release) in enumerate(zip(names, opened, strict=True), start=1):
        place = f"{number} of {len(opened)}"
        started = time.monotonic()
        try:
            evaluation = evaluate(
                release,
                data,
                control=control,
                target=target,
                seed=seed,
                n_repeats=n_repeats,
                questions=questions,
                command=command,
                columns=common,
                progress=lambda what, share, place=place: progress(f"{place}: {what}", share),
            )
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
                "verdict": str(judge_fitness(evaluation)),
            }
            for name, release, evaluation in zip(names, opened, found, strict=True)
        ),
        figures=(*figures_of(opened, found), *times_of(published, evaluated)),
        evaluations=tuple(found),
        notes=(*differences, *_notes(found, published)),
    )


def _open(releases: Sequence[Release | str | Path]) -> list[Release]:
    """Load the releases; raise one error that lists all that cannot be loaded."""
    opened: list[Release] = []
    problems: list[str] = []
    for one in releases:
        try:
            opened.append(one if isinstance(one, Release) else Release.load(one))
        except ReleaseError as error:
            problems += error.problems
    ReleaseError.raise_if_any(problems)
    return opened


def _names(folders: Sequence[Path]) -> list[str]:
    """Name releases by their folders, with the shortest path suffixes that are unique."""
    paths = [folder.resolve().parts for folder in folders]
    for depth in range(1, max(map(len, paths)) + 1):
        names = ["/".join(parts[-depth:]) for parts in paths]
        if len(set(names)) == len(names):
            return names
    raise ParameterError("a release was given twice; pass each one once.")


def _common_columns(
    names: Sequence[str], releases: Sequence[Release]
) -> tuple[list[str] | None, list[str]]:
    """Return the common columns (None if all releases have the same), and notes on differences."""
    schemas = {name: release.schema for name, release in zip(names, releases, strict=True)}
    published = [set(schema.attributes) for schema in schemas.values()]
    common = set.intersection(*published)
    differences = []
    units = {str(schema.unit.kind) for schema in schemas.values()}
    if len(units) > 1:
        differences.append(TEXTS["different units"].format(units=", ".join(sorted(units))))
    for column in (name for name in schemas[names[0]].attributes if name in common):
        sizes = {name: schema.attributes[column].size for name, schema in schemas.items()}
        if len(set(sizes.values())) > 1:
            listed = ", ".join(f"{name}: {size:,}" for name, size in sizes.items())
            differences.append(TEXTS["different domains"].format(column=column, sizes=listed))
    if all(columns == common for columns in published):
        return None, differences
    if not common:
        raise ParameterError("the releases have no published column in common; compare others.")
    listed = "; ".join(
        f"{name} also has {', '.join(others)}"
        for name, schema in schemas.items()
        if (others := [column for column in schema.attributes if column not in common])
    )
    differences.insert(0, TEXTS["different columns"].format(columns=listed, n=len(common)))
    return [name for name in schemas[names[0]].attributes if name in common], differences


def _publishing_times(
    releases: Sequence[Release], ledger: Ledger | str | Path
) -> list[float | None]:
    """Return the publishing time of each release in seconds, found by its receipt."""
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
        yield TEXTS["different counts"].format(about=", ".join(sorted(about)))
    classes = {
        tuple(learning["classes"]) for one in found if (learning := one["utility"]["learning"])
    }
    if len(classes) > 1:
        yield TEXTS["different classes"]
    if not found[0]["reproduce"]["control"]:
        yield TEXTS["models tested on released rows"]
        if not all(has_control(one) for one in found if "attacks" in one["risk"]):
            yield TEXTS["only naive attackers"]
    if any("not_assessed" in one["risk"] for one in found):
        yield TEXTS["missing risk"]
