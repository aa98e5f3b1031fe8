"""Functions of a row that are summed over the rows of the private table.

All answers except counts are computed from such sums: a mean from two of them, a regression from a
dozen. A function is a product of factors, one per column, given over the column's codes. A
condition that links columns (``a < b``) is one more factor, over whole rows.

Numbers are rescaled from the public bounds of their column to -1 to 1 (`UnitRuler`), so that sums
of squares of large numbers lose no precision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from hushtable.arrays import ColumnCodes, Floats, Integers
from hushtable.errors import TooLarge
from hushtable.numeric import NORMAL
from hushtable.query.answers.functions import FunctionOfColumn
from hushtable.query.where import Predicate, parse
from hushtable.query.where.formula import Formula, Junction, evaluate, join
from hushtable.query.where.predicate import independent_parts
from hushtable.schema import Column, Date, Integer, Number, Schema, Time, Timestamp

Scale = Integer | Number | Date | Timestamp | Time | FunctionOfColumn
"""Numeric columns and functions of them; dates and times count as numbers of seconds."""


MAX_TIED = 2_000_000  # limit of combinations of values of the columns that a condition links


@dataclass(frozen=True)
class UnitRuler:
    """Scale that maps the values of a numeric column to -1 to 1."""

    middle: float  # middle of the column's public range
    half: float  # half of its width

    @classmethod
    def of(cls, column: Scale) -> UnitRuler:
        """Return the scale of a column."""
        if isinstance(column, FunctionOfColumn):
            low, high = float(np.nanmin(column.numbers)), float(np.nanmax(column.numbers))
        else:
            low, high = numbers_of(column, np.array([0, column.n_values - 1])).tolist()
        return cls((low + high) / 2, (high - low) / 2 or 1.0)

    def places(self, column: Scale) -> Floats:
        """Return the scaled value of each code; 0 for codes that are not numbers."""
        places: Floats = np.zeros(column.size)
        values = numbers_of(column, np.arange(column.n_values))
        places[: column.n_values] = (values - self.middle) / self.half
        return np.nan_to_num(places, copy=False)


def numbers_of(column: Scale, codes: Integers) -> Floats:
    """Return the numbers of codes; for dates and times, the second at which the period begins.

    Examples
    --------
    >>> from hushtable.schema import Date
    >>> born = Date(type="date", low="1970-01-01", high="1970-03-31", step="month")
    >>> (numbers_of(born, np.arange(3)) / 86_400).tolist()
    [0.0, 31.0, 59.0]
    """
    if isinstance(column, FunctionOfColumn):
        return np.asarray(column.numbers[codes])
    if isinstance(column, Date | Timestamp | Time):
        return column.second_of(codes).astype(np.float64)
    return np.asarray(float(column.exact_low) + float(column.exact_step) * codes)


@dataclass(frozen=True, eq=False)
class RowFunction:
    """A product of factors, each a function of one column or of several linked columns.

    Parameters
    ----------
    factors : mapping of str to float array
        Factor of each code, by column; columns without an entry do not matter.
    powers : mapping of str to int
        Exponent of each factor that is a pure power of the scaled number, by column.
    tied : tuple of str
        Columns of the factor over whole rows.
    over_rows : callable, optional
        Factor over whole rows: takes rows as codes and returns a number for each row.
    smooth : frozenset of str
        Columns whose factor is a number, nearly linear inside public bins, and not a condition.
    """

    factors: Mapping[str, Floats] = field(default_factory=dict)
    powers: Mapping[str, int] = field(default_factory=dict)
    tied: tuple[str, ...] = ()
    over_rows: Callable[[ColumnCodes], Floats] | None = None
    smooth: frozenset[str] = frozenset()

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the function depends on."""
        return tuple(dict.fromkeys((*self.factors, *self.tied)))

    @property
    def is_zero(self) -> bool:
        """True if a factor is 0 for all codes."""
        return any(not factor.any() for factor in self.factors.values())

    def __mul__(self, other: RowFunction) -> RowFunction:
        factors = dict(self.factors)
        powers = dict(self.powers)
        for name, factor in other.factors.items():
            both = name in factors
            factors[name] = factors[name] * factor if both else factor
            if both and name in powers and name in other.powers:
                powers[name] += other.powers[name]
            elif both:
                powers.pop(name, None)
            elif name in other.powers:
                powers[name] = other.powers[name]
        one, two = self.over_rows, other.over_rows
        over_rows = one or two
        if one is not None and two is not None:
            over_rows = lambda codes: one(codes) * two(codes)  # noqa: E731
        tied = tuple(dict.fromkeys((*self.tied, *other.tied)))
        rough = {n for one in (self, other) for n in one.factors if n not in one.smooth}
        return RowFunction(
            factors, powers, tied, over_rows, (self.smooth | other.smooth).difference(rough)
        )

    def without(self, name: str) -> RowFunction:
        """Return the function without the factor of one column."""
        factors = {other: factor for other, factor in self.factors.items() if other != name}
        powers = {other: power for other, power in self.powers.items() if other != name}
        return RowFunction(factors, powers, self.tied, self.over_rows, self.smooth)

    def values(self, codes: ColumnCodes) -> Floats:
        """Return the value for each row."""
        n_rows = len(next(iter(codes.values())))
        result: Floats = np.ones(n_rows)
        for name, factor in self.factors.items():
            result *= factor[codes[name]]
        return result if self.over_rows is None else result * self.over_rows(codes)

    def over_domain(self, schema: Schema, weights: Mapping[str, Floats] | None = None) -> float:
        """Sum the function over all combinations of a schema's columns.

        `weights` gives a weight for each code of a column; a combination has the product of its
        weights.
        """
        given = weights or {}
        result = 1.0
        for name, column in schema.attributes.items():
            if name in self.tied:
                continue
            factor = self.factors.get(name)
            weight = given.get(name)
            if factor is None:
                result *= column.size if weight is None else float(weight.sum())
            else:
                result *= float(factor.sum() if weight is None else factor @ weight)
        if self.over_rows is None:
            return result
        domain = schema.domain.project(self.tied)
        if domain.size > MAX_TIED:
            raise TooLarge(
                f"the condition links {domain.size:,} combinations of "
                f"{', '.join(self.tied)}; the limit is {MAX_TIED:,}. Compare columns with "
                "constants."
            )
        grid = domain.grid()
        codes = {name: grid[:, place] for place, name in enumerate(self.tied)}
        values = self.over_rows(codes)
        for name in self.tied:
            for part in (self.factors.get(name), given.get(name)):
                if part is not None:
                    values = values * part[codes[name]]
        return result * float(values.sum())


ONE = RowFunction()
"""Constant 1, whose sum is the number of rows."""


def power(name: str, column: Scale, exponent: int) -> RowFunction:
    """Return a power of the scaled number; 0 for other codes, even for exponent 0."""
    factor = UnitRuler.of(column).places(column) ** exponent
    if isinstance(column, FunctionOfColumn):
        factor[np.isnan(column.numbers)] = 0.0
        smooth = frozenset([name] if column.is_smooth else [])
        return RowFunction({name: factor}, smooth=smooth)
    factor[column.n_values :] = 0.0
    return RowFunction({name: factor}, {name: exponent}, smooth=frozenset([name]))


def present(name: str, column: Column | FunctionOfColumn) -> RowFunction:
    """Return the indicator of a value that is neither missing nor special."""
    if isinstance(column, FunctionOfColumn):
        return ONE if column.is_defined else power(name, column, 0)
    if column.size == column.n_values:
        return ONE
    if isinstance(column, Scale):
        return power(name, column, 0)
    return RowFunction({name: (np.arange(column.size) < column.n_values).astype(np.float64)})


def is_code(name: str, column: Column, code: int) -> RowFunction:
    """Return the indicator of one code."""
    factor = np.zeros(column.size)
    factor[code] = 1.0
    return RowFunction({name: factor})


def condition(where: str | None, schema: Schema) -> RowFunction:
    """Return the indicator of a WHERE clause.

    Examples
    --------
    >>> schema = Schema.from_dict({"name": "t", "columns": {
    ...     name: {"type": "integer", "low": 0, "high": 3} for name in "abc"}})
    >>> asked = condition("a < 2 AND b < c", schema)
    >>> asked.factors["a"].tolist(), asked.tied
    ([1.0, 1.0, 0.0, 0.0], ('b', 'c'))
    """
    return ONE if where is None else of_predicate(parse(where, schema))


def of_predicate(predicate: Predicate) -> RowFunction:
    """Return the indicator of a parsed condition."""
    schema, formula = predicate.schema, predicate.formula
    splits = isinstance(formula, Junction) and formula.every
    parts = independent_parts(formula) if splits else [formula]
    factors, tied = {}, list[Formula]()
    for part in parts:
        if len(part.columns) == 1:
            (name,) = part.columns
            codes = np.arange(schema.attributes[name].size)
            factors[name] = np.broadcast_to(evaluate(part, {name: codes}), len(codes)).astype(float)
        else:
            tied.append(part)
    if not tied:
        return RowFunction(factors)
    rest = join(True, tied)

    def over_rows(codes: ColumnCodes) -> Floats:
        n_rows = len(next(iter(codes.values())))
        return np.broadcast_to(evaluate(rest, codes), n_rows).astype(np.float64)

    return RowFunction(factors, {}, rest.columns, over_rows)


# Estimated sums over the rows of the private table.


@dataclass(frozen=True, eq=False)
class SumEstimates:
    """Estimated sums with the covariance of their errors.

    Parameters
    ----------
    values : array (sums,)
        The estimates; they may be infeasible, such as a negative count.
    privacy, model : array (sums, sums)
        Covariance of the errors from noise, and of the errors from assumptions about what the
        release does not determine.
    privacy_z, model_z : float
        Half-width of the 95% interval of each error, in standard deviations.
    counted : str
        What the sums run over: rows, or distinct tuples.
    notes : tuple of str
        What the analyst must know.
    support : {"measured", "tested", "untested"}, optional
        How the release supports the sums (see `Estimate.support`).
    limits : array (2, sums), optional
        Lower and upper ends of the intervals of sums that were neither measured nor tested; NaN for
        others.
    """

    values: Floats
    privacy: Floats
    model: Floats
    privacy_z: float = NORMAL
    model_z: float = NORMAL
    counted: str = "rows"
    notes: tuple[str, ...] = ()
    support: Literal["measured", "tested", "untested"] | None = None
    limits: Floats | None = None

    @property
    def supported(self) -> Literal["measured", "tested", "untested"]:
        """How the release supports the sums; by default, according to the model error."""
        return self.support or ("untested" if self.model.any() else "measured")

    def combined(self, weights: Floats) -> SumEstimates:
        """Return linear combinations of the sums, one per row of weights."""
        return replace(
            self,
            values=weights @ self.values,
            privacy=weights @ self.privacy @ weights.T,
            model=weights @ self.model @ weights.T,
            limits=None,
        )

    def divided(self, by: float) -> SumEstimates:
        """Divide all sums by the same number."""
        return replace(
            self,
            values=self.values / by,
            privacy=self.privacy / by**2,
            model=self.model / by**2,
            limits=None,
        )

    def half_width_squared(self, sampling: Floats | float = 0.0) -> Floats:
        """Return the squared half-width of the 95% interval, as a quadratic form in weights.

        `sampling` is the covariance of the sampling error. Untested model errors may be at their
        limits, so half-widths are added: (a + b)^2 <= (1 + r) a^2 + (1 + 1/r) b^2 for every r > 0,
        with equality if r = b/a.
        """
        squares: Floats = self.privacy_z**2 * self.privacy + NORMAL**2 * sampling
        model = self.model_z**2 * self.model
        noise, limit = float(np.trace(squares)), float(np.trace(model))
        if self.supported != "untested" or noise <= 0 or limit <= 0:
            return np.asarray(squares + model)
        ratio = (limit / noise) ** 0.5
        return np.asarray((1 + ratio) * squares + (1 + 1 / ratio) * model)


WEAKER = ("measured", "tested", "untested")
"""Kinds of support, strongest first."""


def joined(n: int, parts: Sequence[tuple[Sequence[int], SumEstimates]]) -> SumEstimates:
    """Combine sums from sources with independent errors; each source has positions for its sums."""
    values, privacy, model = np.zeros(n), np.zeros((n, n)), np.zeros((n, n))
    notes: list[str] = []
    for places, part in parts:
        at = np.ix_(places, places)
        values[list(places)] = part.values
        privacy[at], model[at] = part.privacy, part.model
        notes += part.notes
    return SumEstimates(
        values,
        privacy,
        model,
        privacy_z=max((part.privacy_z for _, part in parts), default=NORMAL),
        model_z=max((part.model_z for _, part in parts), default=NORMAL),
        notes=tuple(dict.fromkeys(notes)),
        support=max((part.supported for _, part in parts), key=WEAKER.index, default="measured"),
    )


def no_less(covariance: Floats) -> Floats:
    """Return the nearest positive semidefinite matrix (negative eigenvalues become 0)."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def products(weights: Floats, *, together: bool) -> Floats:
    """Return the inner products of all pairs of rows, or only of each row with itself."""
    return np.asarray(weights @ weights.T) if together else np.diag(np.sum(weights**2, axis=1))


def pair_matrix(n: int, entry: Callable[[int, int], float], *, together: bool) -> Floats:
    """Return a symmetric matrix of entries, or only its diagonal."""
    result = np.zeros((n, n))
    for i in range(n):
        for j in range(i, n) if together else (i,):
            result[i, j] = result[j, i] = entry(i, j)
    return result
