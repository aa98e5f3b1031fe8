"""Several releases of the same private table, side by side.

Every number comes from `hushtable.evaluation.evaluate`, run with the same seed, so that all
releases get the same questions, test rows and attacks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushtable.engine.header import Data
from hushtable.engine.silence import silenced
from hushtable.errors import HushtableError, ParameterError, ReleaseError
from hushtable.evaluation.evaluate import INTERNAL, evaluate
from hushtable.evaluation.figures import Figure, figures_of, has_control, times_of
from hushtable.evaluation.findings import Findings
from hushtable.evaluation.verdict import judge
from hushtable.files.progress import Progress, silent
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison(Findings):
    """Hold a comparison; for the custodian's eyes.

    Parameters
    ----------
    name : str
        The private table.
    releases : tuple of mapping
        Name, method, parameters, promise and verdict of each.
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

    def to_html(self) -> str:
        """Write table and plots as one page."""
        from hushtable.evaluation.report.compare_page import render  # noqa: PLC0415 - needs an extra

        return render(self.to_dict(), self.evaluations)


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
    common, differences = _common_columns(names, opened)
    published = None if ledger is None else _publishing_times(opened, ledger)
    found, evaluated = [], []
    for number, (name, release) in enumerate(zip(names, opened, strict=True), start=1):
        place = f"{number} of {len(opened)}"
        started = time.monotonic()
        try:
            evaluation = evaluate(
                release, data, control=control, target=_on(common, target), seed=seed,
                n_repeats=n_repeats, questions=questions, command=command, columns=common,
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
                "verdict": str(judge(evaluation)),
            }
            for name, release, evaluation in zip(names, opened, found, strict=True)
        ),
        figures=(*figures_of(opened, found), *times_of(published, evaluated)),
        evaluations=tuple(found),
        notes=(*differences, *_notes(found, published)),
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


def _common_columns(
    names: Sequence[str], releases: Sequence[Release]
) -> tuple[list[str] | None, list[str]]:
    """Find what all releases publish, None if that is everything, and say how they differ."""
    schemas = {name: release.schema for name, release in zip(names, releases, strict=True)}
    published = [set(schema.attributes) for schema in schemas.values()]
    common = set.intersection(*published)
    differences = []
    units = {str(schema.unit.kind) for schema in schemas.values()}
    if len(units) > 1:
        differences.append(
            f"Releases protect different units ({', '.join(sorted(units))}), so the same epsilon "
            "does not promise the same."
        )
    for column in (name for name in schemas[names[0]].attributes if name in common):
        sizes = {name: schema.attributes[column].size for name, schema in schemas.items()}
        if len(set(sizes.values())) > 1:
            listed = ", ".join(f"{name}: {size:,}" for name, size in sizes.items())
            differences.append(
                f"Column {column!r} has different numbers of values ({listed}); errors are about "
                "what each release could have published."
            )
    if all(columns == common for columns in published):
        return None, differences
    if not common:
        raise ParameterError("the releases have no published column in common.")
    left_out = {
        name: [column for column in schema.attributes if column not in common]
        for name, schema in schemas.items()
    }
    listed = "; ".join(
        f"{name} also has {', '.join(columns)}" for name, columns in left_out.items() if columns
    )
    differences.insert(
        0,
        f"Releases have different columns ({listed}). They are compared on the {len(common)} that "
        "all of them have; what a release spent on others is not to its credit here.",
    )
    order = schemas[names[0]].attributes
    return [name for name in order if name in common], differences


def _on(common: Sequence[str] | None, target: str | None) -> str | None:
    """Refuse to predict a column that some release lacks."""
    if common is not None and target is not None and target not in common:
        raise ParameterError(f"target {target!r} is not published by all of the releases.")
    return target


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
        yield "Without a control table, models are tested on rows that were released."
        if not all(has_control(one) for one in found if "attacks" in one["risk"]):
            yield (
                "Where no rows could be held back either, attacks are compared with a naive "
                "attacker only."
            )
    without = [one for one in found if "not_assessed" in one["risk"]]
    if without:
        yield "Where risk is missing, there are no whole published rows to attack."
