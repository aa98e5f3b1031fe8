"""Method frapp (Agrawal and Haritsa 2005): each row is kept, or replaced by a random tuple.

A baseline for comparison with alpha-beta. Guarantee and proof: ``frapp.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import pyarrow as pa

from hushtable.engine.sealed_table import SealedTable
from hushtable.errors import ParameterError
from hushtable.methods.base import CountError, Forecast, Method, Plan, Released
from hushtable.methods.count_error import bernoulli_error, needed_rows, replaced_line
from hushtable.methods.parameters import parameter, part
from hushtable.privacy.bounded_adversary import odds_limit
from hushtable.privacy.guarantee import Guarantee, PureDP, check_epsilon
from hushtable.privacy.mechanisms.row_replacement import RowReplacement
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.rational import exp_bounds, log_upper
from hushtable.schema import Schema
from hushtable.schema.written_tuples import written_tuples

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
    paper: ClassVar[str] = (
        "Agrawal and Haritsa, FRAPP, with the diagonal matrix; the comparison method of Rastogi, "
        "Suciu and Hong."
    )
    summary: ClassVar[str] = (
        "Baseline: keep each row or replace it by a random tuple, independently."
    )
    estimator_kind: ClassVar[str] = "retention"

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
            raise ParameterError(
                f"unit is {schema.unit.kind}: frapp treats rows independently and publishes their "
                "number. Use unit row, or another method."
            )
        g, m = self.retention, schema.domain.size
        return FrappPlan(self, schema, check_epsilon(log_upper(1 + g * m / (1 - g))))


@dataclass(frozen=True)
class FrappPlan(Plan[SealedTable]):
    """Epsilon of a schema's rows."""

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
        """Sum the variances of the rows: those in the question, and those that may become so."""
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

    def release(self, source: SealedTable, noise: Noise) -> Released:
        """Keep or replace each row at random; publish in the order of the codes."""
        rows = source.counts(list(self.schema.attributes))
        replacement = RowReplacement(self.method.retention, self.schema.domain.size)
        codes = noise.open(rows, replacement, "rows")
        return Released(
            tables={"data": pa.table(written_tuples(self.schema, codes))},
            settings={
                "notes": [
                    "Local perturbation: each row was kept or replaced independently, as its owner "
                    "could have done without trusting anyone. The number of rows is exact.",
                ]
            },
        )
