"""Condensation: groups of k records are replaced by pseudo-records with the same moments.

The algorithm and what is (not) promised are in ``condensation.md`` beside this file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from hushtable.engine.base import Engine
from hushtable.errors import Refused
from hushtable.kernels.anonymity import Points
from hushtable.methods.base import Forecast, Method, Released
from hushtable.methods.uncertain.levels import Integers
from hushtable.methods.uncertain.uncertain import Uncertain, record_values, records_by
from hushtable.privacy.guarantee import Guarantee, NoGuarantee
from hushtable.privacy.noise import Noise
from hushtable.schema import Schema


@dataclass(frozen=True, kw_only=True)
class Condensation(Method):
    """Replace groups of k records by pseudo-records with the group's mean and covariance.

    Parameters
    ----------
    k : int
        Smallest group.
    scales : mapping of str to number
        Public scale per column, in which neighbors are found; by default from the schema's range.
    carry : sequence of str
        Columns published as they are; groups are formed among records with equal values.

    Examples
    --------
    >>> Condensation(k=10).guarantee(Schema.from_dict({"name": "t", "columns": {
    ...     "age": {"type": "integer", "low": 0, "high": 99}}}))[0].family
    'none'
    """

    name: ClassVar[str] = "condensation"
    paper: ClassVar[str] = "Aggarwal and Yu, a condensation approach (2004), to compare with."
    summary: ClassVar[str] = "Replace groups of k numeric records by pseudo-records (baseline)."
    estimator: ClassVar[str] = "uncertain"
    one_machine: ClassVar[str] = (
        "condensation looks for the nearest records of each record, so it is a method for one "
        "machine, about 100,000 records. Take a sample of so many rows out of Spark."
    )

    k: int = field(metadata={"help": "Smallest group of records that is condensed."})
    scales: Mapping[str, float] = field(
        default_factory=dict,
        hash=False,
        metadata={"help": "Public scale of a column: COLUMN=NUMBER; default from its range."},
    )
    carry: Sequence[str] = field(
        default=(), metadata={"help": "Columns published as they are, separated by commas."}
    )

    def __post_init__(self) -> None:
        same = self._as_uncertain()  # the parameters have the same meaning and the same limits
        object.__setattr__(self, "scales", same.scales)
        object.__setattr__(self, "carry", same.carry)

    def _as_uncertain(self) -> Uncertain:
        return Uncertain(k=self.k, scales=self.scales, carry=self.carry, edges="open")

    def guarantee(self, schema: Schema) -> tuple[Guarantee, ...]:
        """Promise nothing: no bound is known on what pseudo-records tell about a record."""
        self._as_uncertain().geometry(schema)
        return (
            NoGuarantee(
                reason="pseudo-records follow the mean and covariance of groups of real ones, and "
                "no bound is known on what that tells about a record"
            ),
        )

    def forecast(self, schema: Schema, rows: int | None = None) -> Forecast:
        """Say how many groups there will be."""
        noisy = len(self._as_uncertain().geometry(schema).names)
        rows = schema.rows if rows is None else rows
        lines: dict[str, str | float | int] = {"condensed columns": noisy}
        if rows is not None:
            lines["groups, at most"] = rows // self.k
        memory = (1_000_000 if rows is None else rows) * 8 * (noisy * 4 + 4) / 1e6 + 1
        return Forecast(lines=lines, split={}, n_cells=schema.domain.size, memory_mb=memory)

    def run(self, engine: Engine, noise: Noise) -> Released:
        """Form groups around random records and draw pseudo-records for each."""
        schema = engine.schema
        geometry = self._as_uncertain().geometry(schema)
        values = record_values(engine, [*geometry.names, *self.carry])
        pseudo = self.condense(values, schema, noise)
        order = np.asarray(noise.distinct_below(len(values), k=len(values)), np.int64)
        table = geometry.table(pseudo[order], values[order, len(geometry.names) :])
        return Released(
            tables={"data": table},
            estimator={
                "model": "pseudo",
                "noisy": [],
                "levels": [],
                "notes": ["Records are drawn from the mean and covariance of groups of real ones."],
            },
        )

    def condense(self, values: Points, schema: Schema, noise: Noise) -> Integers:
        """Make the pseudo-records, counted in steps from each column's low."""
        geometry = self._as_uncertain().geometry(schema)
        d = len(geometry.names)
        points = (values[:, :d] - geometry.low) / geometry.scale
        steps = np.empty((len(values), d), np.int64)
        groups = records_by(values[:, d:])
        small = sum(len(rows) for rows in groups if len(rows) < self.k)
        if small or not len(values):
            raise Refused(
                f"{small} records are among fewer than k = {self.k} with the same carried values "
                "(or there are no records); choose a smaller k or carry less."
            )
        for rows in groups:
            for members in _form_groups(points[rows], self.k, noise):
                pseudo = _pseudo_records(points[rows][members], noise)
                steps[rows[members]] = np.rint(pseudo * geometry.scale / geometry.step)
        return np.clip(steps, 0, geometry.n_values - 1)


def _form_groups(points: Points, k: int, noise: Noise) -> list[Integers]:
    """Take random records with their k - 1 nearest; the last few join the nearest group."""
    free = np.ones(len(points), np.bool_)
    groups: list[Integers] = []
    for seed in np.asarray(noise.distinct_below(len(points), k=len(points))).tolist():
        if not free[seed]:
            continue
        candidates = np.flatnonzero(free)
        if len(candidates) < k:
            break
        distances = ((points[candidates] - points[seed]) ** 2).sum(axis=1)
        members = candidates[np.argpartition(distances, k - 1)[:k]]
        free[members] = False
        groups.append(members)
    centers = np.stack([points[members].mean(axis=0) for members in groups])
    for row in np.flatnonzero(free):
        nearest = int(np.argmin(((centers - points[row]) ** 2).sum(axis=1)))
        groups[nearest] = np.append(groups[nearest], row)
    return groups


def _pseudo_records(points: Points, noise: Noise) -> Points:
    """Draw evenly along each eigenvector, with the variance its eigenvalue says."""
    mean = points.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(points.T, bias=True).reshape(len(mean), len(mean)))
    drawn = noise.uniform_below(2**53, size=points.size).reshape(points.shape) / 2**53 - 0.5
    return np.asarray(mean + (drawn * np.sqrt(12 * np.maximum(values, 0))) @ vectors.T)
