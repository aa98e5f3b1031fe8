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
        """Estimate how many nodes have a degree that satisfies a condition."""
        predicate = parse(where, self.schema)
        degrees = np.arange(len(self.distribution.at_least))
        lowest = self.schema.attributes["degree"].value(0)
        codes = degrees - int(str(lowest))
        mask: NDArray[np.bool_] = np.zeros(len(degrees), np.bool_)
        mask[codes >= 0] = predicate.mask({"degree": codes[codes >= 0]})
        value, privacy_std, model_std = self.distribution.count(mask)
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
