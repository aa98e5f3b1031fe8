"""FRAPP (Agrawal and Haritsa 2005): every row is kept, or replaced by a random tuple, on its own.

A baseline to compare alpha-beta with. The promise and its proof are in ``frapp.md`` beside this
file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import pyarrow as pa

from hushtable.engine.sealed import SealedTable
from hushtable.errors import ParameterError
from hushtable.methods.alpha_beta.written_tuples import written_tuples
from hushtable.methods.base import CountError, Forecast, Method, Plan, Released
from hushtable.methods.count_error import coins_error, needed_rows, replaced_line
from hushtable.methods.parameters import parameter, part
from hushtable.privacy.bounded_adversary import odds_limit
from hushtable.privacy.guarantee import Guarantee, PureDP, check_epsilon
from hushtable.privacy.noise import Noise
from hushtable.privacy.rational import exp_bounds, log_upper
from hushtable.privacy.row_replacement import RowReplacement
from hushtable.schema import Schema

_BITS = 64
_ROUNDING = Fraction(1, 2**22)


def same_privacy_retention(
    *, d: Fraction, gamma: Fraction, n_tuples: int, n_domain: int
) -> Fraction:
    """Give the retention with which one tuple, seen once, takes a prior of d to gamma.

    A published tuple is a kept one of the table g times as often as 1, and a random one
    n (1-g)/m times; their ratio may be at most `odds_limit` - 1.

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
        Chance that a row is kept and not replaced, such as 1/40. Those that are replaced become
        random tuples of the domain.

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
    summary: ClassVar[str] = "Baseline: keep each row or replace it by a random tuple, on its own."
    estimator_kind: ClassVar[str] = "retention"

    retention: Fraction = parameter(read=part)

    def at_epsilon(self, schema: Schema, epsilon: Fraction) -> Self:
        """Give the retention that promises this epsilon: 1 + g m / (1 - g) = e**epsilon."""
        # Rounded down, so that no more is spent than asked for: promises round epsilon up.
        less = max(epsilon - _ROUNDING, epsilon / 2)
        odds = (exp_bounds(less, _BITS)[0] - 1) / schema.domain.size
        digits = 10 ** (len(str(math.ceil((1 + odds) / odds))) + 6)
        return type(self)(retention=Fraction(int(odds / (1 + odds) * digits), digits))

    def plan(self, schema: Schema) -> FrappPlan:
        """Work out the epsilon of one row, or refuse."""
        if schema.unit.kind != "row":
            raise ParameterError(
                f"unit is {schema.unit.kind}: frapp treats each row on its own and publishes their "
                "number. Use unit row, or another method."
            )
        g, m = self.retention, schema.domain.size
        return FrappPlan(self, schema, check_epsilon(log_upper(1 + g * m / (1 - g))))


@dataclass(frozen=True)
class FrappPlan(Plan[SealedTable]):
    """Hold what it costs to keep some rows of a schema."""

    method: Frapp
    schema: Schema
    epsilon: Fraction

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """Local differential privacy: one row exchanged, the number of rows public."""
        return (PureDP(epsilon=self.epsilon, unit=self.schema.unit, neighbors="replace"),)

    def forecast(self, rows: int | None = None) -> Forecast:
        """Say how exact counts will be."""
        schema, retention = self.schema, float(self.method.retention)
        lines: dict[str, str | float | int] = {
            "share of rows that are kept": retention,
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
        """Add up the coins of the rows: those asked for, and those that may become such."""
        rows = needed_rows(self.schema.expected_rows(rows))
        retention = float(self.method.retention)
        replaced = (1 - retention) * share
        return coins_error(
            n_true=share * rows,
            n_other=(1 - share) * rows,
            keep=retention + replaced,
            insert=replaced,
            assumes="The question takes the same share of the domain as of the rows.",
        )

    def release(self, source: SealedTable, noise: Noise) -> Released:
        """Toss a coin for each row, replace those that lose, publish in the order of the codes."""
        rows = source.counts(list(self.schema.attributes))
        replacement = RowReplacement(self.method.retention, self.schema.domain.size)
        codes = noise.open(rows, replacement, "rows")
        return Released(
            tables={"data": pa.table(written_tuples(self.schema, codes))},
            settings={
                "notes": [
                    "Local perturbation: every row was kept or replaced on its own, as its owner "
                    "could have done without trusting anyone. The number of rows is exact.",
                ]
            },
        )
