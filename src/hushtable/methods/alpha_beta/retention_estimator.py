"""Estimator of rows that were kept or replaced by random tuples of the domain."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa

from hushtable.methods.alpha_beta.frapp import Frapp
from hushtable.methods.alpha_beta.two_rates import TwoRateCount
from hushtable.query.answers.association_loss import uniform_loss
from hushtable.query.answers.drawing import Generator
from hushtable.query.answers.estimator import Estimate, Estimator
from hushtable.query.answers.published import ComparableRelease, KnownNoiseRows, published_rows
from hushtable.query.answers.row_sums import RowFunction
from hushtable.query.answers.sums import SumEstimates, no_less
from hushtable.query.where import parse
from hushtable.schema.codes import plain


class RetentionEstimator(Estimator):
    """Answer counts of rows from a release by retention and replacement.

    With g the retention and p the share of the domain that satisfies a condition, a row is
    published as satisfying with probability g + (1-g) p if it does, and (1-g) p otherwise.
    """

    def _open(self) -> None:
        """Extract what answers need from the statement and the tables."""
        self.retention = Frapp(**self.parameters).retention
        self.notes = tuple(self.settings["notes"])

    def frame(self) -> pa.Table:
        """Return the rows as published; most of them are random."""
        return plain(self.table.select(list(self.schema.attributes)))

    def published(self, rng: Generator) -> ComparableRelease:
        """Return the rows in comparable form, with the expected contribution of replaced rows."""
        return published_rows(
            self.schema,
            self.frame(),
            background=KnownNoiseRows(float(1 - self.retention) * self.table.num_rows),
            notes=(
                "Most published rows are random with a known distribution; their expected "
                "contribution is subtracted from every distribution. Models are trained on rows as "
                "published, noise included.",
            ),
        )

    def association_kept(self) -> dict[tuple[str, str], float]:
        """Return the retention for all pairs: rows are kept or replaced as a whole."""
        return uniform_loss(self.schema, float(self.retention))

    def sums(self, functions: Sequence[RowFunction], *, together: bool = True) -> SumEstimates:
        """Estimate sums over rows.

        With m the mean of a function f over the domain, a published row has expectation g f + (1-g)
        m. Covariances are linear in products of functions, so they are estimated in the same way.
        """
        n_rows, kept = self.table.num_rows, float(self.retention)
        size = float(self.schema.domain.size)

        def estimate(function: RowFunction) -> tuple[float, float]:
            mean = function.over_domain(self.schema) / size
            seen = float(function.values(self.codes).sum())
            return (seen - (1 - kept) * mean * n_rows) / kept, mean

        found = [estimate(function) for function in functions]
        privacy = np.zeros((len(functions), len(functions)))
        for i in range(len(functions)):
            for j in range(i, len(functions)) if together else (i,):
                product, mean = estimate(functions[i] * functions[j])
                (one, mean_one), (two, mean_two) = found[i], found[j]
                both = kept * product + (1 - kept) * mean * n_rows
                means = kept**2 * product + (1 - kept) ** 2 * mean_one * mean_two * n_rows
                means += kept * (1 - kept) * (one * mean_two + two * mean_one)
                privacy[i, j] = privacy[j, i] = (both - means) / kept**2
        # Estimated products are noisy too, so the result is projected to a valid covariance.
        return SumEstimates(
            np.array([value for value, _ in found]),
            no_less(privacy),
            np.zeros_like(privacy),
            notes=self.notes,
        )

    def count(self, where: str) -> Estimate:
        """Estimate how many rows of the private table satisfy a condition."""
        return self.answer(where).estimate(*self.notes)

    def answer(self, where: str) -> TwoRateCount:
        """Return the observed counts and probabilities for a condition."""
        predicate = parse(where, self.schema)
        seen = predicate.mask(self.codes)
        n_domain = predicate.count()
        replaced = (1 - self.retention) * Fraction(n_domain, self.schema.domain.size)
        return TwoRateCount(
            n_seen=int(np.count_nonzero(seen)),
            n_items=self.table.num_rows,
            low=replaced,
            high=self.retention + replaced,
            most=self.table.num_rows if n_domain else 0,
        )
