"""Estimator of releases of degrees."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from hushtable.arrays import Bools
from hushtable.methods.degrees.degrees import Degrees
from hushtable.methods.degrees.distribution_fit import DegreeDistribution
from hushtable.numeric import NORMAL
from hushtable.query.answers.estimator import Estimate, Estimator
from hushtable.query.answers.published import About, ComparableRelease, Generator, published_rows
from hushtable.query.where import parse


class DegreeEstimator(Estimator):
    """Estimator of counts of nodes from a release of degrees."""

    counted: About = "nodes"

    def _open(self) -> None:
        """Extract what answers need from the statement and the tables."""
        self._plan = Degrees(**self.parameters).plan(self.schema.name)

    @cached_property
    def distribution(self) -> DegreeDistribution:
        """Degree distribution with its errors."""
        return self._plan.distribution(self.tables["noisy"], self.settings)

    def count(self, where: str) -> Estimate:
        """Estimate how many nodes have a degree that satisfies a condition.

        The distribution of degrees at or above the bound was not measured. If a condition holds for
        some of these degrees only, its interval ranges from none to all of these nodes.
        """
        mask = self._mask(where)
        bound = int(self.settings["max_degree"])
        there = mask[bound:]
        if there.all() or not there.any():
            return self._measured(mask)
        below, above = mask.copy(), np.arange(len(mask)) >= bound
        below[bound:] = False
        rest, most = self._measured(below), self._measured(above)
        low, high = rest.low, rest.high + most.high
        value = min(max(self._measured(mask).value, low), high)
        farthest = max(value - low, high - value) / NORMAL
        return Estimate(
            value=value,
            low=low,
            high=high,
            privacy_std=min(rest.privacy_std, farthest),
            model_std=float(np.sqrt(max(farthest**2 - rest.privacy_std**2, 0.0))),
            notes=(
                f"Degrees from {bound:,} on were not measured: up to {most.high:,.0f} nodes may "
                "have any of these degrees. The estimate is from a model.",
            ),
        )

    def _mask(self, where: str) -> Bools:
        """Return which degrees satisfy a condition, up to the largest of the schema."""
        column = self.schema.attributes["degree"]
        lowest = int(str(column.value(0)))
        mask: Bools = np.zeros(lowest + column.n_values, np.bool_)
        mask[lowest:] = parse(where, self.schema).mask({"degree": np.arange(column.n_values)})
        return mask

    def _measured(self, mask: Bools) -> Estimate:
        """Answer from the distribution and its errors."""
        # The last degree of the distribution represents all larger ones, which have no nodes.
        value, privacy_std, model_std = self.distribution.count(
            mask[: len(self.distribution.at_least)]
        )
        if not mask.any():
            privacy_std = model_std = 0.0
        reach = NORMAL * float(np.hypot(privacy_std, model_std))
        value = max(value, 0.0)
        notes: tuple[str, ...] = ()
        if self.distribution.acceptance < 1:
            notes = ("Bounding the degrees changed this number; a model corrects for it.",)
        return Estimate(
            value=value,
            low=max(value - reach, 0.0),
            high=value + reach,
            privacy_std=privacy_std,
            model_std=model_std,
            notes=notes,
        )

    def published(self, rng: Generator) -> ComparableRelease:
        """Return the degrees in comparable form: a column with one row per node."""
        note = (
            "A release of degrees has one column, so there are no pairs to compare and "
            "nothing to predict."
        )
        rows = published_rows(self.schema, self.frame(), about="nodes", notes=(note,))
        return replace(rows, whole_rows=None)

    def frame(self) -> pa.Table:
        """Return one row per node: the degree sequence in descending order."""
        return pa.table({"degree": pa.array(self.distribution.sequence(), pa.int64())})
