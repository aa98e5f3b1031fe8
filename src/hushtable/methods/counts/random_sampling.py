"""Method random-sampling: publish a random sample of the rows as they are.

A baseline for comparison. ``random_sampling.md`` shows that it has no guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pyarrow as pa

from hushtable.engine.sealed_table import SealedTable
from hushtable.errors import ParameterError
from hushtable.extras import needing
from hushtable.methods.base import CountError, Forecast, Method, Plan, Released, schema_problems
from hushtable.methods.count_error import bernoulli_error, few_rows_line, needed_rows
from hushtable.methods.counts.cell_table import TYPICAL_ROWS, label_tuples, memory_mb
from hushtable.methods.parameters import parameter, part
from hushtable.numeric import CONFIDENCE, NORMAL
from hushtable.privacy.guarantee import Guarantee, NoGuarantee
from hushtable.privacy.mechanisms.single_counts import least
from hushtable.privacy.noise.noise import Noise
from hushtable.query.answers.association_loss import uniform_loss
from hushtable.query.answers.estimator import Estimate, Estimator
from hushtable.query.answers.row_sums import RowFunction, SumEstimates, products
from hushtable.query.where import parse
from hushtable.schema import Schema
from hushtable.schema.codes import plain


@dataclass(frozen=True, kw_only=True)
class RandomSampling(Method):
    """Publish each row as it is, independently with the same probability.

    Sampled rows are published in full. Use `NoisyCounts` to protect people.

    Parameters
    ----------
    rate : number or str
        Probability that a row is published, such as 1/10.

    Examples
    --------
    >>> from hushtable import sample_schema
    >>> [promise.family for promise in RandomSampling(rate="1/10").guarantee(sample_schema())]
    ['none']
    """

    name: ClassVar[str] = "random-sampling"
    sees_exact_counts: ClassVar[str] = "sampled rows are published as they are."

    rate: Fraction = parameter(read=part)

    def plan(self, schema: Schema) -> RandomSamplingPlan:
        """Return what is published, or refuse."""
        problems = schema_problems(schema, self.name, ())
        ParameterError.raise_if_any(problems)
        return RandomSamplingPlan(self, schema)


@dataclass(frozen=True)
class RandomSamplingPlan(Plan[SealedTable]):
    """Plan of method random-sampling."""

    method: RandomSampling
    schema: Schema

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """No guarantee."""
        return (
            NoGuarantee(
                reason="sampled rows are published as they are, so a unique row that is "
                "published reveals that its person is in the data"
            ),
        )

    def forecast(self, rows: int | None = None) -> Forecast:
        """Forecast how many rows will be published."""
        rows = self.schema.expected_rows(rows)
        lines: dict[str, str | float | int] = {
            "warning": "rows are published as they are; sampled people are not protected"
        }
        if rows is not None:
            lines["rows, about"] = round(float(self.method.rate) * rows)
            sizes = [column.size for column in self.schema.attributes.values()]
            lines |= few_rows_line(float(self.method.rate) * rows, sizes)
            # Cochran's rule for the normal interval of a mean: n above 25 times the squared
            # skewness.
            skewness = math.sqrt(float(self.method.rate) * rows / 25)
            lines["intervals of means"] = (
                f"are valid for columns of skewness up to {skewness:.1f}; for more skewed "
                "columns, coverage may be below 95%"
            )
            lines["standard deviation of a count of half the rows"] = self.count_error(
                rows=rows, share=0.5
            ).std
        held = max(1, TYPICAL_ROWS if rows is None else rows)
        return Forecast(
            lines=lines,
            split={},
            n_cells=self.schema.domain.size,
            memory_mb=memory_mb(self.schema, min(held, self.schema.domain.size)),
        )

    def count_error(self, *, rows: int | None, share: float) -> CountError:
        """Return the expected error, from the sampling of the rows in the question."""
        rows = needed_rows(self.schema.expected_rows(rows))
        return bernoulli_error(
            n_true=share * rows, n_other=0.0, keep=float(self.method.rate), insert=0.0,
            assumes="Nothing: the error depends only on the number of rows in the question.",
        )  # fmt: skip

    def association_kept(self, released: Released) -> dict[tuple[str, str], float]:
        """Return the share of association that the rows keep, by pair of columns."""
        return uniform_loss(self.schema, 1.0)  # rows are published whole

    def release(self, source: SealedTable, noise: Noise) -> Released:
        """Sample each row independently; publish the sample in the order of the domain."""
        cells = source.exact_engine("rows").counts(list(self.schema.attributes))
        row = np.repeat(np.arange(len(cells.counts)), cells.counts)
        kept = row[noise.bernoulli(self.method.rate, size=len(row))]
        columns = label_tuples(self.schema, {}, cells.codes[kept])
        return Released(tables={"data": pa.table(columns)})


# Estimator of random samples of rows.


_UNSEEN = NORMAL**2


class SampleEstimator(Estimator):
    """Estimator from rows that were published independently, each with the same probability.

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
        """Estimate sums over rows; each sampled row counts 1/rate (Horvitz-Thompson).

        The variance of a count has `_UNSEEN` more rows than were seen, so that a share is never
        certain because no, or each, sampled row satisfies its condition (Agresti and Coull 1998).
        """
        seen = np.stack([function.values(self.codes) for function in functions])
        squares = products(seen, together=together)
        squares += np.diag([0.0 if function.smooth else _UNSEEN for function in functions])
        privacy = (1.0 - self.rate) / self.rate**2 * squares
        return SumEstimates(seen.sum(axis=1) / self.rate, privacy, np.zeros_like(privacy))
