"""Estimator of random samples of rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from hushtable.extras import needing
from hushtable.methods.counts.random_sampling import RandomSampling
from hushtable.numeric import CONFIDENCE
from hushtable.privacy.mechanisms.single_counts import least
from hushtable.query.answers.association_loss import uniform_loss
from hushtable.query.answers.estimator import Estimate, Estimator
from hushtable.query.answers.row_sums import RowFunction
from hushtable.query.answers.sums import SumEstimates
from hushtable.query.where import parse
from hushtable.schema.codes import plain


class SampleEstimator(Estimator):
    """Answer from rows that were published with the same probability each.

    Of m rows that satisfy a condition, n ~ Binomial(m, rate) are seen. The interval contains all m
    for which neither "n or more" nor "n or fewer" has a probability below 2.5% (Clopper-Pearson,
    for m). At least n of m rows are seen if and only if the n-th success comes within m trials.
    """

    def _open(self) -> None:
        """Extract what answers need from the statement and the tables."""
        self.rate = float(RandomSampling(**self.parameters).rate)

    def frame(self) -> pa.Table:
        """Return the sampled rows."""
        return plain(self.table.select(list(self.schema.attributes)))

    @property
    def n_rows(self) -> int:
        """Number of sampled rows."""
        return int(self.table.num_rows)

    def association_kept(self) -> dict[tuple[str, str], float]:
        """Return 1 for all pairs: rows are published whole."""
        return uniform_loss(self.schema, 1.0)

    def count(self, where: str) -> Estimate:
        """Estimate how many rows of the private table satisfy a condition."""
        with needing("science"):
            from scipy.special import betainc  # noqa: PLC0415 - an extra
        predicate = parse(where, self.schema)
        n = int(np.count_nonzero(predicate.mask(self.codes))) if self.n_rows else 0
        known = self.schema.counted_rows
        most = (np.inf if known is None else float(known)) if predicate.count() else 0.0
        tail = (1.0 - CONFIDENCE) / 2.0
        low = n + least(lambda k: betainc(n, k + 1, self.rate) >= tail) if n else 0
        high = n + least(lambda k: betainc(k + 1, n + 1, 1.0 - self.rate) <= tail)
        value = n / self.rate
        return Estimate(
            value=min(value, most),
            low=min(float(low), most),
            high=min(float(high), most),
            privacy_std=float(np.sqrt(max(n, 1) * (1.0 - self.rate)) / self.rate),
            model_std=0.0,
        )

    def sums(self, functions: Sequence[RowFunction], *, together: bool = True) -> SumEstimates:
        """Estimate sums over rows; each sampled row counts 1/rate (Horvitz-Thompson)."""
        seen = np.stack([function.values(self.codes) for function in functions])
        values = seen.sum(axis=1) / self.rate
        spread = (1.0 - self.rate) / self.rate**2
        privacy = spread * (seen @ seen.T)
        if not together:
            privacy = np.diag(privacy.diagonal())
        return SumEstimates(values, privacy, np.zeros_like(privacy))
