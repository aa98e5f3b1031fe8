"""Estimator of counts from histograms, for conditions on one column."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa

from hushtable.errors import PredicateError, ReleaseError
from hushtable.query.answers import Estimate, Estimator
from hushtable.query.where import parse


class HistogramEstimator(Estimator):
    """Answer counts from a release of histograms."""

    def _open(self) -> None:
        self.scale = float(Fraction(self.settings["scale"]))

    def count(self, where: str) -> Estimate:
        """Estimate a count as the sum over the values that satisfy a condition on one column."""
        predicate = parse(where, self.schema)
        if len(predicate.columns) > 1:
            raise PredicateError("histograms answer conditions on one column.")
        # A condition without columns is true for all rows or for none: use any column.
        (name,) = predicate.columns or [next(iter(self.schema.attributes))]
        column = self.schema.attributes[name]
        inside = predicate.mask({name: np.arange(column.size)})
        value = float(max(self.tables[name].column("count").to_numpy()[inside].sum(), 0))
        std = math.sqrt(2 * int(inside.sum())) * self.scale
        # Chebyshev's inequality: valid for any distribution of the sum.
        half = std * math.sqrt(20)
        return Estimate(
            value=value,
            low=max(value - half, 0.0),
            high=value + half,
            privacy_std=std,
            model_std=0.0,
        )

    def frame(self) -> pa.Table:
        """Raise `ReleaseError`: histograms of single columns contain no rows."""
        raise ReleaseError("histograms contain no rows.")
