"""Count nodes by degree from a release of degrees."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.estimate.base import Estimate, Estimator
from hushtable.estimate.drawing import Generator
from hushtable.estimate.published import About, Published, published_rows
from hushtable.estimate.quantiles import NORMAL
from hushtable.methods.degrees.degrees import Degrees
from hushtable.methods.degrees.fit import DegreeDistribution
from hushtable.predicate import parse


class DegreeEstimator(Estimator):
    """Answer counts from a release of degrees."""

    counted: About = "nodes"

    def _open(self) -> None:
        """Take from the statement and the tables what answers need."""
        self._plan = Degrees(**self.parameters).plan(self.schema.name)

    @cached_property
    def distribution(self) -> DegreeDistribution:
        """The degree distribution, with what is needed for error bars."""
        return self._plan.distribution(self.tables["noisy"], self.settings)

    def count(self, where: str) -> Estimate:
        """Estimate how many nodes have a degree that satisfies a condition.

        How nodes are spread from the bound on was not measured. A condition that holds for some of
        these degrees and not for others has an interval from none to all nodes there.
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
                f"Unknown from degree {bound:,} on: the up to {most.high:,.0f} nodes there may "
                "have any of these degrees. The estimate follows a model.",
            ),
        )

    def _mask(self, where: str) -> NDArray[np.bool_]:
        """Tell which degrees satisfy a condition, up to the largest that may be asked about."""
        column = self.schema.attributes["degree"]
        lowest = int(str(column.value(0)))
        mask: NDArray[np.bool_] = np.zeros(lowest + column.n_values, np.bool_)
        mask[lowest:] = parse(where, self.schema).mask({"degree": np.arange(column.n_values)})
        return mask

    def _measured(self, mask: NDArray[np.bool_]) -> Estimate:
        """Answer from the distribution and its error bars."""
        # The last degree of the distribution stands for all beyond it, where it has no nodes.
        value, privacy_std, model_std = self.distribution.count(
            mask[: len(self.distribution.at_least)]
        )
        if not mask.any():
            privacy_std = model_std = 0.0
        reach = NORMAL * float(np.hypot(privacy_std, model_std))
        value = max(value, 0.0)
        notes: tuple[str, ...] = ()
        if self.distribution.acceptance < 1:
            notes = ("Bounding the degrees has moved this number; a model put it back.",)
        return Estimate(
            value=value,
            low=max(value - reach, 0.0),
            high=value + reach,
            privacy_std=privacy_std,
            model_std=model_std,
            notes=notes,
        )

    def published(self, rng: Generator) -> Published:
        """Lay the degrees beside those of the graph, as a column of one row per node."""
        note = (
            "A release of degrees has one column: there are no pairs of columns to compare and "
            "nothing to predict."
        )
        rows = published_rows(self.schema, self.frame(), about="nodes", notes=(note,))
        return replace(rows, whole_rows=None)

    def frame(self) -> pa.Table:
        """Give one row per node: the degree sequence, from the largest down."""
        return pa.table({"degree": pa.array(self.distribution.sequence(), pa.int64())})
