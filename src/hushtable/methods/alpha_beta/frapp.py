"""Method frapp (Agrawal and Haritsa 2005): each row is kept, or replaced by a random tuple.

A baseline for comparison with alpha-beta. Guarantee and proof: ``frapp.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np
import pyarrow as pa

from hushtable.engine.sealed_table import SealedTable
from hushtable.errors import ParameterError
from hushtable.methods.alpha_beta.two_rates import TwoRateCount
from hushtable.methods.base import CountError, Forecast, Method, Plan, Released
from hushtable.methods.count_error import bernoulli_error, needed_rows, replaced_line
from hushtable.methods.parameters import parameter, part, said
from hushtable.privacy.bounded_adversary import odds_limit
from hushtable.privacy.guarantee import Guarantee, PureDP
from hushtable.privacy.mechanisms.tuple_perturbation import RowReplacement
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.rational import exp_bounds, log_upper
from hushtable.privacy.values import check_epsilon
from hushtable.query.answers.association_loss import uniform_loss
from hushtable.query.answers.estimator import Estimate, Estimator
from hushtable.query.answers.published import (
    ComparableRelease,
    Generator,
    KnownNoiseRows,
    published_rows,
)
from hushtable.query.answers.row_sums import RowFunction, SumEstimates, no_less, pair_matrix
from hushtable.query.where import parse
from hushtable.schema import Schema
from hushtable.schema.codes import plain, written_tuples

_BITS = 64
_ROUNDING = Fraction(1, 2**22)


def same_privacy_retention(
    *, d: Fraction, gamma: Fraction, n_tuples: int, n_domain: int
) -> Fraction:
    """Return the retention at which one observation of a tuple raises a prior of d to gamma.

    The likelihood of a published tuple is g for a kept tuple of the table, and n (1-g)/m for a
    random one; their ratio may be at most `odds_limit` - 1.

    Examples
    --------
    >>> d = Fraction(10 * 30162, 648023040)
    >>> g = same_privacy_retention(
    ...     d=d, gamma=Fraction(1, 5), n_tuples=30162, n_domain=648023040
    ... )
    >>> round(float(g), 6)
    0.024335
    """
    odds = Fraction(n_tuples, n_domain) * (odds_limit(d, gamma) - 1)
    return odds / (1 + odds)


@dataclass(frozen=True, kw_only=True)
class Frapp(Method):
    """Replace each row by a uniformly random tuple, or keep it.

    Parameters
    ----------
    retention : number or str
        Probability that a row is kept, such as 1/40. Other rows become random tuples of the domain.

    Examples
    --------
    >>> from hushtable import sample_schema
    >>> (promise,) = Frapp(retention="1/100").guarantee(sample_schema())
    >>> promise.neighbors, round(float(promise.epsilon), 2)
    ('replace', 5.36)
    """

    name: ClassVar[str] = "frapp"

    retention: Fraction = parameter(read=part)

    def at_epsilon(self, schema: Schema, epsilon: Fraction) -> Self:
        """Return the retention with this epsilon: 1 + g m / (1 - g) = e**epsilon."""
        # Rounded down, so that epsilon is not exceeded: guarantees round epsilon up.
        less = max(epsilon - _ROUNDING, epsilon / 2)
        odds = (exp_bounds(less, _BITS)[0] - 1) / schema.domain.size
        digits = 10 ** (len(str(math.ceil((1 + odds) / odds))) + 6)
        return type(self)(retention=Fraction(int(odds / (1 + odds) * digits), digits))

    def plan(self, schema: Schema) -> FrappPlan:
        """Compute the epsilon of one row, or refuse."""
        if schema.unit.kind != "row":
            raise ParameterError(said("rows only", unit=schema.unit.kind))
        g, m = self.retention, schema.domain.size
        return FrappPlan(self, schema, check_epsilon(log_upper(1 + g * m / (1 - g))))


@dataclass(frozen=True)
class FrappPlan(Plan[SealedTable]):
    """Plan of method frapp: the schema, and the epsilon of one row."""

    method: Frapp
    schema: Schema
    epsilon: Fraction

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """Local differential privacy: one row replaced, number of rows public."""
        return (PureDP(epsilon=self.epsilon, unit=self.schema.unit, neighbors="replace"),)

    def forecast(self, rows: int | None = None) -> Forecast:
        """Forecast the error of counts."""
        schema, retention = self.schema, float(self.method.retention)
        lines: dict[str, str | float | int] = {
            "share of rows kept": retention,
            "number of rows": "published exactly",
            **replaced_line(1 - retention),
        }
        rows = schema.expected_rows(rows)
        if rows is not None:
            spread = (rows / 4) ** 0.5 / retention
            lines["standard deviation of a count of half the domain, about"] = spread
        memory = (rows or 1_000_000) * 8 * (2 * len(schema.attributes) + 2) / 1e6
        return Forecast(
            lines=lines,
            split={"rows": self.epsilon},
            n_cells=schema.domain.size,
            memory_mb=max(memory, 1.0),
        )

    def count_error(self, *, rows: int | None, share: float) -> CountError:
        """Return the expected error, from replaced rows and those that replace them."""
        rows = needed_rows(self.schema.expected_rows(rows))
        retention = float(self.method.retention)
        replaced = (1 - retention) * share
        return bernoulli_error(
            n_true=share * rows,
            n_other=(1 - share) * rows,
            keep=retention + replaced,
            insert=replaced,
            assumes="The question selects the same share of the domain as of the rows.",
        )

    def association_kept(self, released: Released) -> dict[tuple[str, str], float]:
        """Return the share of association that the rows keep, by pair of columns."""
        return uniform_loss(self.schema, float(self.method.retention))  # rows are kept whole

    def release(self, source: SealedTable, noise: Noise) -> Released:
        """Keep or replace each row at random; publish in the order of the codes."""
        rows = source.counts(list(self.schema.attributes))
        replacement = RowReplacement(self.method.retention, self.schema.domain.size)
        codes = noise.open(rows, replacement, "rows")
        return Released(
            tables={"data": pa.table(written_tuples(self.schema, codes))},
            settings={
                "notes": [
                    said["local perturbation"],
                ]
            },
        )


# Estimator of rows that were kept or replaced by random tuples of the domain.


class RetentionEstimator(Estimator):
    """Estimator of counts and sums of rows that were kept or replaced.

    With g the retention and p the share of the domain that satisfies a condition, a row is
    published as satisfying with probability g + (1-g) p if it does, and (1-g) p otherwise.
    """

    def _open(self) -> None:
        """Extract what answers need from the statement and the tables."""
        self.retention = Frapp(**self.parameters).retention
        self.notes = tuple(self.settings["notes"])

    def frame(self) -> pa.Table:
        """Return the rows as published, including random ones."""
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

        def covariance(i: int, j: int) -> float:
            product, mean = estimate(functions[i] * functions[j])
            (one, mean_one), (two, mean_two) = found[i], found[j]
            both = kept * product + (1 - kept) * mean * n_rows
            means = kept**2 * product + (1 - kept) ** 2 * mean_one * mean_two * n_rows
            means += kept * (1 - kept) * (one * mean_two + two * mean_one)
            return float((both - means) / kept**2)

        privacy = pair_matrix(len(functions), covariance, together=together)
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
