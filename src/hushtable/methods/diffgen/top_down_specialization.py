"""Method top-down-specialization (Fung, Wang and Yu 2007): k-anonymous generalized rows.

A baseline for comparison: k-anonymity, not differential privacy. ``top_down_specialization.md``
states the guarantee and its limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hushtable.arrays import Integers
from hushtable.engine.sealed_table import SealedTable
from hushtable.methods.base import Forecast, Method, Released
from hushtable.methods.count_error import inside_cells
from hushtable.methods.diffgen.cuts import Choice, CutPart, CutSet, draw_cuts
from hushtable.methods.diffgen.generalized_table import (
    GeneralizedPlan,
    generalized_table,
    plain_cut,
    target_and_predictors,
)
from hushtable.methods.parameters import parameter, whole
from hushtable.privacy.guarantee import Guarantee, KAnonymity
from hushtable.privacy.mechanisms.cells import NoisyCells
from hushtable.privacy.mechanisms.scored_splits import InformationGain, ScoredSplits
from hushtable.privacy.noise.noise import Noise
from hushtable.schema import Schema


@dataclass(frozen=True, kw_only=True)
class TopDownSpecialization(Method):
    """Specialize as long as every group has at least k rows; publish exact counts.

    Parameters
    ----------
    k : int
        Minimum number of rows of a group, at least 2.
    target : str, optional
        Column to predict, published unchanged; by default, the schema's target.

    Examples
    --------
    >>> TopDownSpecialization(k=1)
    Traceback (most recent call last):
    ...
    hushtable.errors.ParameterError: k is 1; it must be a whole number of at least 2.
    """

    name: ClassVar[str] = "top-down-specialization"
    sees_exact_counts: ClassVar[str] = (
        "groups are chosen by exact counts, and the counts of groups are published as they are."
    )

    k: int = parameter(read=whole(at_least=2))
    target: str | None = parameter(default=None)

    def plan(self, schema: Schema) -> TopDownSpecializationPlan:
        """Find the column to predict, or refuse."""
        target, predictors = target_and_predictors(schema, self.target, method=self.name)
        return TopDownSpecializationPlan(self, schema, target, predictors)


@dataclass(frozen=True)
class TopDownSpecializationPlan(GeneralizedPlan):
    """Plan of method top-down-specialization: the target column and its predictors."""

    method: TopDownSpecialization
    schema: Schema
    target: str
    predictors: tuple[str, ...]

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """K-anonymity in all columns except the target; it does not compose."""
        return (KAnonymity(k=self.method.k),)

    def forecast(self, rows: int | None = None) -> Forecast:
        """Forecast the number of groups."""
        schema = self.schema
        n_classes = schema.attributes[self.target].size
        most = schema.domain.size if rows is None else rows // self.method.k * n_classes
        held = 100_000 if rows is None else rows
        memory = 8e-6 * held * (2 * len(schema.attributes) + 6)
        lines: dict[str, str | float | int] = {"groups by class, at most": most}
        if rows is not None:
            lines |= inside_cells(
                n_cells=rows / self.method.k,
                sizes=[schema.attributes[name].size for name in self.predictors],
                n_columns=len(schema.attributes),
            )
        return Forecast(
            lines=lines,
            split={},
            n_cells=schema.domain.size,
            memory_mb=max(1.0, memory),
        )

    def release(self, source: SealedTable, noise: Noise) -> Released:
        """Load the distinct rows, and repeatedly specialize the best valid part."""
        table = source.exact_engine("groups and their counts")
        k = self.method.k
        histograms = table.histograms(self.predictors, by=self.target)
        cells = table.counts([*self.predictors, self.target])
        cuts = CutSet(self.schema, histograms, InformationGain())
        n_rows = int(cells.counts.sum())
        if n_rows >= k:
            codes = {name: cells.column(at) for at, name in enumerate(self.predictors)}
            _specialize(cuts, _RowGroups(codes, cells.counts), k)
        recode = cuts.recodings()
        split = [name for name in self.predictors if recode[name].size > 1]
        counted = [*split, self.target]
        groups = table.counts(counted, recode={name: recode[name] for name in split})
        # With fewer than k rows, none are published.
        kept = slice(None) if n_rows >= k else slice(0)
        listed = NoisyCells(groups.only(kept).codes, groups.counts[kept])
        return Released(
            tables={"data": generalized_table(self.schema, recode, counted, listed, exact=True)},
            settings={
                "target": self.target,
                "rate": None,
                "n_groups": len(listed.noisy),
                "threshold": None,
                "row_total": None,
                "class_sizes_scale": None,
                "columns": {name: plain_cut(recode[name]) for name in self.predictors},
                "specializations": [done.plain() for done in cuts.rounds],
                "notes": ["The cuts are drawn in `cuts.svg`.", "Counts are exact."],
            },
            attachments={"cuts.svg": draw_cuts(cuts.rounds, self.schema.name)},
        )


class _RowGroups:
    """Group of every distinct row, and how groups would be divided."""

    def __init__(self, codes: dict[str, Integers], rows: Integers) -> None:
        self.codes, self.rows = codes, rows
        self.group = np.zeros(len(rows), np.int64)

    def child_of(self, part: CutPart, children: tuple[CutPart, ...]) -> Integers:
        """Return the number of each row's child from 1 on, 0 for rows outside the part."""
        column = part.column
        number = np.zeros(column.size, np.int64)
        for at, child in enumerate(children, start=1):
            number[list(child.codes)] = at
        if part.holds_special:
            number[column.n_values :] = len(children) + 1 + np.arange(column.n_special)
        return number[self.codes[part.attribute]]

    def divided(self, child: Integers) -> tuple[Integers, Integers]:
        """Divide groups by child: return the new group of each row, and the sizes of the groups."""
        key = self.group * (int(child.max()) + 1) + child
        _, group = np.unique(key, return_inverse=True)
        group = group.reshape(-1)
        return group, np.bincount(group, weights=self.rows).astype(np.int64)


def _specialize(cuts: CutSet, groups: _RowGroups, k: int) -> None:
    """Specialize the valid part with the largest gain per anonymity lost, until none is left."""
    smallest = int(groups.rows.sum())
    invalid: set[CutPart] = set()  # a part stays invalid, because groups only shrink
    while True:
        best: tuple[float, CutPart, tuple[CutPart, ...], Integers, int] | None = None
        for choice in cuts.choices():
            if choice.part in invalid:
                continue
            gain, children = _best_way(choice)
            group, sizes = groups.divided(groups.child_of(choice.part, children))
            left = int(sizes.min())
            if gain <= 0 or left < k:
                invalid.add(choice.part)
                continue
            value = gain / (smallest - left + 1)
            if best is None or value > best[0]:
                best = value, choice.part, children, group, left
        if best is None:
            return
        _, part, children, groups.group, smallest = best
        cuts.specialize(part, children)


def _best_way(choice: Choice) -> tuple[int, tuple[CutPart, ...]]:
    """Return the information gain of the best split of a part, and its children."""
    ways = choice.ways
    assert isinstance(ways, ScoredSplits)  # noqa: S101 - the histograms are not sealed
    at = int(ways.scores.argmax())
    return int(ways.scores[at]), choice.part.split(int(ways.starts[at]))
