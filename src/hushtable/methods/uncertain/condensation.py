"""Method condensation: groups of k records are replaced by pseudo-records with their moments.

Algorithm and limits: ``condensation.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hushtable.arrays import Floats, Integers
from hushtable.engine.sealed_table import SealedTable
from hushtable.errors import Refused
from hushtable.methods.base import Forecast, Method, Plan, Released
from hushtable.methods.parameters import parameter, said, whole
from hushtable.methods.uncertain.grid import record_values, records_by
from hushtable.methods.uncertain.uncertain import (
    TYPICAL_ROWS,
    Uncertain,
    UncertainPlan,
    read_names,
    read_scales,
    with_leftovers,
)
from hushtable.privacy.guarantee import Guarantee, NoGuarantee
from hushtable.privacy.noise.noise import Noise
from hushtable.schema import Schema


@dataclass(frozen=True, kw_only=True)
class Condensation(Method):
    """Replace groups of k records by pseudo-records with the group's mean and covariance.

    Parameters
    ----------
    k : int
        Minimum number of records in a group.
    scales : mapping of str to number
        Public scale of columns, COLUMN=NUMBER on the command line. Neighbors are found in these
        units; the default comes from the columns' ranges.
    carry : sequence of str
        Columns published unchanged; on the command line, one option each. Groups are formed among
        records with equal values.

    Examples
    --------
    >>> Condensation(k=10).guarantee(Schema.from_dict({"name": "t", "columns": {
    ...     "age": {"type": "integer", "low": 0, "high": 99}}}))[0].family
    'none'
    """

    name: ClassVar[str] = "condensation"
    sees_exact_counts: ClassVar[str] = (
        "all records are seen; pseudo-records are sampled from exact moments of groups."
    )

    k: int = parameter(read=whole(at_least=2))
    scales: Mapping[str, float] = parameter(read=read_scales, default_factory=dict, hash=False)
    carry: Sequence[str] = parameter(read=read_names, default=())

    def plan(self, schema: Schema) -> CondensationPlan:
        """Return which columns are condensed (as for `Uncertain`), or refuse."""
        same = Uncertain(k=self.k, scales=self.scales, carry=self.carry, edges="open")
        return CondensationPlan(self, schema, same.plan(schema))


@dataclass(frozen=True)
class CondensationPlan(Plan[SealedTable]):
    """Plan of method condensation: columns that are condensed, their grids and scales."""

    method: Condensation
    schema: Schema
    grids: UncertainPlan

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """No guarantee: no bound is known on what pseudo-records reveal about a record."""
        return (
            NoGuarantee(
                reason="pseudo-records follow the mean and covariance of groups of real ones, and "
                "no bound is known on what they reveal about a record"
            ),
        )

    def forecast(self, rows: int | None = None) -> Forecast:
        """Forecast the number of groups."""
        noisy = len(self.grids.names)
        rows = self.schema.expected_rows(rows)
        lines: dict[str, str | float | int] = {
            "condensed columns": noisy,
            "warning": "intervals cover only the sampling of pseudo-records. The error of blurring "
            "inside groups is unknown, so coverage may be far below 95%, and two-column counts "
            "may be less accurate than if columns were published separately.",
        }
        if rows is not None:
            lines["groups, at most"] = rows // self.method.k
        memory = (TYPICAL_ROWS if rows is None else rows) * 8 * (noisy * 4 + 4) / 1e6 + 1
        return Forecast(lines=lines, split={}, n_cells=self.schema.domain.size, memory_mb=memory)

    def release(self, source: SealedTable, noise: Noise) -> Released:
        """Form groups around random records and sample pseudo-records for each."""
        names = self.grids.names
        values = record_values(source.exact_engine("records"), [*names, *self.method.carry])
        pseudo = self.condense(values, noise)
        order = noise.permutation(len(values))
        return Released(
            tables={"data": self.grids.table(pseudo[order], values[order, len(names) :])},
            settings={
                "model": "pseudo",
                "noisy": [],
                "levels": [],
                "notes": [
                    "Records are sampled from the mean and covariance of groups of real records."
                ],
            },
        )

    def condense(self, values: Floats, noise: Noise) -> Integers:
        """Return the pseudo-records, in steps from each column's low."""
        grids, k, d = self.grids, self.method.k, len(self.grids.names)
        points = (values[:, :d] - grids.low) / grids.scale
        steps = np.empty((len(values), d), np.int64)
        groups = records_by(values[:, d:])
        small = sum(len(rows) for rows in groups if len(rows) < k)
        if small or not len(values):
            raise Refused(said("few records in common", small=small, k=k))
        for rows in groups:
            for members in _form_groups(points[rows], k, noise):
                pseudo = _pseudo_records(points[rows][members], noise)
                steps[rows[members]] = np.rint(pseudo * grids.scale / grids.step)
        return np.clip(steps, 0, grids.n_values - 1)


def _form_groups(points: Floats, k: int, noise: Noise) -> list[Integers]:
    """Group random records with their k - 1 nearest; the last few join the nearest group."""
    free = np.ones(len(points), np.bool_)
    groups: list[Integers] = []
    for seed in noise.permutation(len(points)).tolist():
        if not free[seed]:
            continue
        candidates = np.flatnonzero(free)
        if len(candidates) < k:
            break
        distances = ((points[candidates] - points[seed]) ** 2).sum(axis=1)
        members = candidates[np.argpartition(distances, k - 1)[:k]]
        free[members] = False
        groups.append(members)
    return with_leftovers(points, groups, np.flatnonzero(free))


def _pseudo_records(points: Floats, noise: Noise) -> Floats:
    """Sample uniformly along each eigenvector, with its eigenvalue as variance."""
    mean = points.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(points.T, bias=True).reshape(len(mean), len(mean)))
    drawn = noise.uniform_below(2**53, size=points.size).reshape(points.shape) / 2**53 - 0.5
    return np.asarray(mean + (drawn * np.sqrt(12 * np.maximum(values, 0))) @ vectors.T)
