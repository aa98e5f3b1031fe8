"""Utility of a release: closeness to the original in distributions, counts and models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hushtable.arrays import Floats, Integers
from hushtable.evaluation.findings import PACKAGED, TEXTS, Plain, metric_named, over_repeats
from hushtable.evaluation.inputs import AlignedTables, CodedRows
from hushtable.evaluation.utility.learning import Learning, learn
from hushtable.evaluation.utility.marginals import (
    ASSOCIATION,
    TOTAL_VARIATION,
    Marginals,
    SetComparison,
    compare_marginals,
)
from hushtable.evaluation.utility.slopes import (
    SlopeComparison,
    compare_slopes,
    in_short,
)
from hushtable.evaluation.utility.statistics import Statistics, ask_statistics
from hushtable.evaluation.utility.workload import (
    CountQuestion,
    Workload,
    draw_questions,
    run_workload,
)
from hushtable.files.progress import Progress, silent
from hushtable.query.answers import Estimate
from hushtable.query.answers.published import Block
from hushtable.schema import Integer

# Comparison of degree sequences: totals, and the distribution of degrees.

N_POINTS = 60


@dataclass(frozen=True, kw_only=True, eq=False)
class DegreeComparison(Plain):
    """Comparison of two degree sequences."""

    degrees: Integers  # evenly spaced on a logarithmic scale
    original: Floats  # share of nodes with at least that degree
    published: Floats
    totals: dict[str, tuple[float, float]]  # name to values in the original and in the release


def compare_degrees(original: Integers, published: Integers) -> DegreeComparison:
    """Compare two degree sequences.

    Examples
    --------
    >>> found = compare_degrees(np.array([1, 1, 2, 4]), np.array([1, 2, 2, 3]))
    >>> found.totals["edges"], found.original.tolist()
    ((4.0, 4.0), [1.0, 0.5, 0.25, 0.25])
    """
    top = max(int(original.max(initial=1)), int(published.max(initial=1)))
    degrees = np.unique(np.rint(np.geomspace(1, top, N_POINTS)).astype(np.int64))
    one, two = _totals(original), _totals(published)
    return DegreeComparison(
        degrees=degrees,
        original=_at_least(original, degrees),
        published=_at_least(published, degrees),
        totals={name: (one[name], two[name]) for name in one},
    )


def _totals(degrees: Integers) -> dict[str, float]:
    return {
        "nodes": float(len(degrees)),
        "edges": float(degrees.sum() / 2),
        "mean degree": float(degrees.mean()) if len(degrees) else 0.0,
        "largest degree": float(degrees.max(initial=0)),
        "nodes without edges": float(np.count_nonzero(degrees == 0)),
    }


def _at_least(values: Integers, degrees: Integers) -> Floats:
    below = np.searchsorted(np.sort(values), degrees, side="left")
    return np.asarray((len(values) - below) / max(len(values), 1))


Draws = Sequence[Sequence[CodedRows]]

MIN_ROWS = 20
"""Minimum number of rows for training and testing models."""

METRICS = tuple(map(metric_named, PACKAGED["utility"]))


@dataclass(frozen=True, kw_only=True, eq=False)
class Utility:
    """All utility measurements of a release."""

    about: str  # what is counted: rows, distinct tuples, people or nodes
    n_original: int
    n_published: int
    n_draws: int  # how often values inside generalized cells were sampled
    marginals: Marginals
    workload: Workload | None
    learning: Learning | None
    degrees: DegreeComparison | None  # only for graphs
    notes: tuple[str, ...]  # remarks for the reader, including why something was left out
    slopes: tuple[SlopeComparison, ...] = ()
    statistics: Statistics | None = None  # only for releases that answer questions

    def to_dict(self) -> dict[str, Any]:
        """Return the measurements as plain data."""
        marginals = self.marginals
        return {
            "about": self.about,
            "n_original": self.n_original,
            "n_published": self.n_published,
            "n_draws": self.n_draws,
            "notes": list(self.notes),
            "metrics": [metric.to_dict() for metric in METRICS],
            "columns": [column.to_dict() for column in marginals.columns],
            "pairs": _sets(marginals.pairs, marginals.n_pairs),
            "triples": _sets(marginals.triples, marginals.n_triples),
            "association": self._association(),
            "slopes": in_short(self.slopes),
            "workload": self.workload and self.workload.to_dict(),
            "statistics": self.statistics and self.statistics.to_dict(),
            "learning": self.learning and self.learning.to_dict(),
            "degrees": self.degrees and self.degrees.to_dict(),
        }

    def _association(self) -> dict[str, Any] | None:
        both = [pair.association for pair in self.marginals.pairs if pair.association]
        if not both:
            return None
        gaps = [abs(one.original - one.published) for one in both]
        mean = ASSOCIATION.at(float(np.mean(gaps)), of="all pairs")
        return {"mean": mean.to_dict(), "largest": float(np.max(gaps))}


def _sets(sets: Sequence[SetComparison], n_there: int) -> dict[str, Any] | None:
    if not sets:
        return None
    distances = [one.total_variation.value for one in sets]
    n_draws = max(len(one.values) for one in sets)
    # Sets in blocks without sampled values have a single value, used for every draw.
    means = [
        float(np.mean([one.values[draw % len(one.values)] for one in sets]))
        for draw in range(n_draws)
    ]
    mean = over_repeats(TOTAL_VARIATION, f"mean of {len(sets)}", means)
    return {
        "n": len(sets),
        "n_in_table": n_there,
        "mean": mean.to_dict(),
        "largest": float(np.max(distances)),
        "independent": float(np.mean([one.independent for one in sets])),
        "sampling": float(np.mean([one.sampling for one in sets])),
        "each": [one.to_dict() for one in sets],
    }


def measure_utility(
    compared: AlignedTables,
    control: CodedRows | None,
    target: str | None,
    rng: np.random.Generator,
    *,
    n_draws: int,
    n_repeats: int,
    per_cell: int,
    progress: Progress = silent,
) -> Utility:
    """Compare a release with the original.

    Values inside generalized cells are sampled `n_draws` times, models are trained `n_repeats`
    times, and `per_cell` queries are asked for each number of conditions and range of selectivity.
    """
    published = compared.published
    notes = list(published.notes)
    for_draws, for_triples, for_questions, for_models = rng.spawn(4)
    draws = [
        [CodedRows.drawn(block, for_draws) for _ in range(n_draws if block.is_random else 1)]
        for block in published.blocks
    ]
    marginals = compare_marginals(
        published.blocks,
        compared.originals,
        draws,
        for_triples,
        names=list(published.schema.attributes),
        progress=progress,
    )
    if compared.schema.unit.kind == "person" and published.about == "rows":
        max_rows = compared.schema.unit.max_rows
        notes.append(TEXTS["only max_rows used"].format(max_rows=max_rows))
    if len(published.schema.attributes) == 1 and published.about != "nodes":
        notes.append(TEXTS["one column"])
    workload = _workload(compared, draws, for_questions, per_cell, progress)
    statistics = None
    if compared.release is not None and compared.whole is not None and workload is not None:
        (for_statistics,) = for_questions.spawn(1)
        progress("means, medians and slopes", 0.0)
        statistics = ask_statistics(
            compared.release, compared.whole, for_statistics, workload.answered,
            n=-(-per_cell // 2),
        )  # fmt: skip
    learning = None
    block, why_not = _block_to_learn(compared, control, target)
    if block is not None and compared.all_rows is not None and target is not None:
        learning = learn(
            target,
            compared.all_rows.select(block.names),
            control and control.select(block.names),
            block,
            for_models,
            n_repeats=n_repeats,
            progress=progress,
        )
    return Utility(
        about=published.about,
        n_original=compared.n_original,
        n_published=max(rows[0].n_rows for rows in draws),
        n_draws=max(map(len, draws)),
        marginals=marginals,
        workload=workload,
        learning=learning,
        degrees=_degrees(compared, draws),
        notes=(*notes, *why_not),
        slopes=compare_slopes(compared.originals, draws),
        statistics=statistics,
    )


def _degrees(compared: AlignedTables, draws: Draws) -> DegreeComparison | None:
    if compared.published.about != "nodes" or compared.whole is None:
        return None
    column = compared.published.schema.attributes["degree"]
    assert isinstance(column, Integer)  # noqa: S101 - degrees are integers
    original, released = (
        rows.codes["degree"].astype(np.int64) + column.low for rows in (compared.whole, draws[0][0])
    )
    return compare_degrees(original, released)


def _workload(
    compared: AlignedTables,
    draws: Draws,
    rng: np.random.Generator,
    per_cell: int,
    progress: Progress,
) -> Workload | None:
    if compared.whole is not None:
        questions = draw_questions(compared.whole, rng, per_cell=per_cell)
    else:  # a long table: queries about items of one group, among people who have any of them
        each = max(1, per_cell // len(compared.originals))
        questions = [
            found
            for rows in compared.originals
            for found in draw_questions(rows, rng, per_cell=each, with_missing=False)
        ]
    if not questions:
        return None
    count, rows = compared.count, draws[0][0]

    def answer(question: CountQuestion) -> Estimate:
        if count is not None:
            return count(question.sql)
        value = float(question.count(rows))
        return Estimate(value=value, low=value, high=value, privacy_std=0.0, model_std=0.0)

    n_rows, has_intervals = compared.n_original, count is not None
    return run_workload(
        questions, n_rows, answer, rng, has_intervals=has_intervals, progress=progress
    )


def _block_to_learn(
    compared: AlignedTables, control: CodedRows | None, target: str | None
) -> tuple[Block | None, tuple[str, ...]]:
    """Return a block with the target and other columns, or None and the reason."""
    published = compared.published
    if published.about in ("nodes", "people") or compared.all_rows is None:
        return None, ()  # the notes of the release already say so
    if target is None:
        return None, (TEXTS["no target"],)
    fewest = min(rows.n_rows for rows in (compared.all_rows, control) if rows is not None)
    if fewest < MIN_ROWS:
        return None, (TEXTS["too few rows to train on"].format(least=MIN_ROWS),)
    with_target = [block for block in published.blocks if target in block.names]
    block = max(with_target, key=lambda block: len(block.names), default=None)
    if block is None or len(block.names) < 2:
        return None, (TEXTS["target alone"].format(target=target),)
    return block, ()
