"""Counts from uncertain records: each is in a range with the probability its noise gives it.

The paper's estimate (19) adds up, over the records, the probability that the true record lies in
the range if it is spread around the published point like the noise. That smooths twice: the
published points already scatter around the true ones. To first order in the noise's variance,
counting the published points themselves (smoothed once) errs half as much in the same direction,
so twice the latter minus the former cancels it: Cook and Stefanski's simulation extrapolation
(1994) with its two exact points. That costs variance, so the correction D is applied as far as it
exceeds twice its own standard deviation: by the factor max(0, 1 - 4 V / D^2), in the manner of
James and Stein. The whole of D counts as `model_std`, since an error of second order remains; and
with noise as wide as the range itself no formula brings back what was smoothed away.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm

from hushtable.errors import TooLarge
from hushtable.estimate.base import CONFIDENCE, Estimate, Estimator
from hushtable.predicate import Predicate, parse
from hushtable.predicate.classes import Classes, classify
from hushtable.predicate.clause import _independent as independent_parts
from hushtable.predicate.formula import Formula, Junction, evaluate
from hushtable.schema import Categorical, Integer, Number, Schema

Floats = NDArray[np.float64]
Rule = Literal["corrected", "spread", "points"]

STD = "_std"
_MAX_TABLE = 10_000  # class combinations of columns that a clause ties together
_CHUNK = 4_000_000  # numbers per working array


def interval_probability(
    z: Floats,
    width: Floats,
    low: float,
    high: float,
    *,
    model: str,
    domain: tuple[float, float] | None = None,
    wrap: bool = False,
) -> Floats:
    """Give the probability that records spread around `z` lie between two bounds.

    Parameters
    ----------
    z, width : array (n,)
        Published values; sigma, or the width of the interval from end to end.
    low, high : float
        The bounds.
    model : {"gaussian", "uniform"}
        How the records are spread.
    domain : pair of float, optional
        Public range of the column: (21), the probability given that the record lies in it. In log
        space, so that a point far outside the range does not become 0/0.
    wrap : bool
        Whether the ends of the domain are joined.

    Examples
    --------
    >>> far = interval_probability(np.array([99.0]), np.ones(1), 0, 1, model="gaussian",
    ...                            domain=(0, 2))
    >>> bool(0 < far[0] < 1e-40)
    True
    """
    if high <= low:
        return np.zeros(len(z))
    if wrap and domain is not None:
        return _wrapped(z, width, (low, high), domain, model)
    if model == "uniform":
        start = z - width / 2
        if domain is None:
            lowest, highest = start, start + width
        else:
            lowest, highest = np.maximum(start, domain[0]), np.minimum(start + width, domain[1])
        inside = np.minimum(high, highest) - np.maximum(low, lowest)
        return np.asarray(np.clip(inside / np.maximum(highest - lowest, 1e-300), 0, 1))
    mass = _log_mass((low - z) / width, (high - z) / width)
    if domain is not None:
        mass = mass - _log_mass((domain[0] - z) / width, (domain[1] - z) / width)
    return np.asarray(np.minimum(np.exp(mass), 1.0))


def _log_mass(low: Floats, high: Floats) -> Floats:
    """Give log(Phi(high) - Phi(low)) without cancellation in either tail."""
    flip = low > 0
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    upper, lower = log_ndtr(high), log_ndtr(low)
    with np.errstate(divide="ignore"):
        return np.asarray(upper + np.log(-np.expm1(np.minimum(lower - upper, -0.0))))


def _wrapped(
    z: Floats,
    width: Floats,
    bounds: tuple[float, float],
    domain: tuple[float, float],
    model: str,
) -> Floats:
    period = domain[1] - domain[0]
    total = np.zeros(len(z))
    for turn in (-period, 0.0, period):
        begin, end = bounds[0] + turn - z, bounds[1] + turn - z
        if model == "uniform":
            half = np.minimum(width, period) / 2
            inside = np.minimum(end, half) - np.maximum(begin, -half)
            total += np.maximum(inside, 0) / (2 * half)
        else:  # the noise goes at most half way round
            half = np.full(len(z), period / 2)
            begin, end = np.clip(begin, -half, half), np.clip(end, -half, half)
            total += (ndtr(end / width) - ndtr(begin / width)) / (2 * ndtr(half / width) - 1)
    return np.asarray(np.clip(total, 0, 1))


def box_probability(
    z: Floats,
    width: Floats,
    low: Floats,
    high: Floats,
    *,
    model: str,
    domain: tuple[Floats, Floats] | None = None,
) -> Floats:
    """Give the probability of a box for each record: (19), or (21) with a public domain.

    Examples
    --------
    >>> box_probability(np.zeros((1, 2)), np.full((1, 2), 2.0), np.zeros(2), np.ones(2),
    ...                 model="uniform")
    array([0.25])
    """
    product = np.ones(len(z))
    for column in range(z.shape[1]):
        bounds = None if domain is None else (float(domain[0][column]), float(domain[1][column]))
        product *= interval_probability(
            z[:, column], width[:, column], float(low[column]), float(high[column]),
            model=model, domain=bounds,
        )  # fmt: skip
    return product


class UncertainEstimator(Estimator):
    """Estimate counts from uncertain records.

    Parameters
    ----------
    schema : Schema
        The public schema.
    parameters, settings : mapping
        What the statement says about the method and its noise.
    tables : mapping of str to table
        ``data``: the published records.
    """

    def __init__(
        self,
        schema: Schema,
        parameters: Mapping[str, Any],
        settings: Mapping[str, Any],
        tables: Mapping[str, pa.Table],
    ) -> None:
        table = tables["data"]
        self._table = table
        self._published = Schema.model_validate(
            {
                **schema.model_dump(),
                "columns": {
                    name: column
                    for name, column in schema.columns.items()
                    if name not in schema.attributes or name in table.column_names
                },
            }
        )
        self._model: str = settings["model"]
        self._wrap = parameters.get("edges") == "wrap"
        self._noisy: list[str] = list(settings["noisy"])
        self._n = table.num_rows
        self._z = {name: _floats(table, name) for name in self._noisy}
        self._width = {name: self._width_of(name) for name in self._noisy}
        self._codes = {
            name: _codes(column, table.column(name).to_pylist())
            for name, column in self._published.attributes.items()
            if name not in self._noisy
        }

    def _width_of(self, name: str) -> Floats:
        """Give sigma, or the width of the interval (a whole number of steps)."""
        std = _floats(self._table, name + STD)
        if self._model == "gaussian":
            return std
        step = float(self._numeric(name).exact_step)
        return np.asarray(np.sqrt(12 * std**2 + step**2))

    def _numeric(self, name: str) -> Integer | Number:
        column = self._published.attributes[name]
        assert not isinstance(column, Categorical)  # noqa: S101 - the method refuses these
        return column

    def count(self, where: str) -> Estimate:
        """Estimate how many records satisfy a WHERE clause, corrected for double smoothing."""
        predicate = parse(where, self._published)
        spread = self.probabilities(predicate, "spread")
        if self._model == "pseudo":
            return self._pseudo_estimate(float(spread.sum()))
        if not self._noisy_columns(predicate.formula):
            n = float(spread.sum())
            return Estimate(value=n, low=n, high=n, privacy_std=0.0, model_std=0.0)
        return self._estimate(spread, 2 * (self.probabilities(predicate, "points") - spread))

    def count_by(self, where: str, rule: Rule) -> float:
        """Estimate a count by one rule, to compare them.

        ``points`` counts the published points; ``spread`` is the paper's (21), or (19) on joined
        ends, where the two agree; ``corrected`` is what `count` gives.
        """
        predicate = parse(where, self._published)
        if rule == "corrected":
            return self.count(where).value
        return float(self.probabilities(predicate, rule).sum())

    def _pseudo_estimate(self, n: float) -> Estimate:
        """Give the number of pseudo-records, as if they were drawn independently."""
        std = math.sqrt(n * max(1 - n / max(self._n, 1), 0.0))
        margin = float(norm.ppf(0.5 + CONFIDENCE / 2)) * std
        return Estimate(
            value=n,
            low=max(n - margin, 0.0),
            high=min(n + margin, float(self._n)),
            privacy_std=std,
            model_std=0.0,
            notes=("Counts pseudo-records; how far groups blur the range is not known.",),
        )

    def _estimate(self, spread: Floats, corrections: Floats) -> Estimate:
        correction = float(corrections.sum())
        noise = 4 * float(np.sum(spread * (1 - spread)))
        factor = max(0.0, 1 - 4 * noise / correction**2) if correction else 0.0
        weights = spread + factor * corrections
        value = min(max(float(weights.sum()), 0.0), float(self._n))
        # Records are independent; their scatter around the mean includes that of the true ones,
        # so this errs on the large side.
        privacy_std = math.sqrt(float(np.sum((weights - weights.mean()) ** 2))) if self._n else 0.0
        model_std = abs(correction)
        margin = float(norm.ppf(0.5 + CONFIDENCE / 2)) * math.hypot(privacy_std, model_std)
        everything = bool(np.all(spread > 1 - 1e-12))
        nothing = bool(np.all(spread == 0)) and correction == 0
        if everything or nothing:
            value = float(self._n) if everything else 0.0
            margin = privacy_std = model_std = 0.0
        return Estimate(
            value=value,
            low=max(value - margin, 0.0),
            high=min(value + margin, float(self._n)),
            privacy_std=privacy_std,
            model_std=model_std,
            notes=(
                f"Of the first-order correction for double smoothing, {correction:.4g} records, "
                f"{factor:.0%} was applied; the rest stood out too little from its own noise.",
            ),
        )

    def probabilities(self, predicate: Predicate, rule: Rule) -> Floats:
        """Give the weight of each record: the chance that it matches, or whether its point does."""
        return self._weights(predicate.formula, rule)

    def _noisy_columns(self, formula: Formula) -> list[str]:
        return [name for name in formula.columns if name in self._noisy]

    def _weights(self, formula: Formula, rule: Rule) -> Floats:
        if not self._noisy_columns(formula):
            found = evaluate(formula, {name: self._codes[name] for name in formula.columns})
            return np.broadcast_to(found, self._n).astype(np.float64)
        parts = independent_parts(formula)
        if isinstance(formula, Junction) and len(parts) > 1:
            result = self._weights(parts[0], rule)
            for part in parts[1:]:
                weights = self._weights(part, rule)
                result = result * weights if formula.every else result + weights * (1 - result)
            return result
        return self._tied(formula, rule)

    def _tied(self, formula: Formula, rule: Rule) -> Floats:
        """Sum over the combinations of classes of columns that the clause ties together."""
        classes = {name: self._class_of(formula, name) for name in formula.columns}
        n_cells = math.prod(kind.n_classes for kind in classes.values())
        if n_cells > _MAX_TABLE:
            raise TooLarge(
                f"the clause ties together {n_cells:,} combinations of "
                f"{', '.join(formula.columns)}, and the limit is {_MAX_TABLE:,}; compare columns "
                "with constants."
            )
        grids = np.meshgrid(*(kind.representatives for kind in classes.values()), indexing="ij")
        table = np.broadcast_to(
            evaluate(formula, dict(zip(formula.columns, grids, strict=True))), grids[0].shape
        ).astype(np.float64)
        out = np.empty(self._n)
        rows = max(1, _CHUNK // max(n_cells, 1))
        for begin in range(0, self._n, rows):
            part = slice(begin, min(begin + rows, self._n))
            left = np.broadcast_to(table, (part.stop - begin, *table.shape))
            for name in formula.columns:
                mass = self._class_mass(name, classes[name], rule, part)
                left = np.einsum("ij...,ij->i...", left, mass)
            out[part] = left
        return out

    def _class_of(self, formula: Formula, name: str) -> Classes:
        column = self._published.attributes[name]
        return classify(formula, name, column.size, column.missing_code)

    def _class_mass(self, name: str, classes: Classes, rule: Rule, part: slice) -> Floats:
        """Give, per record, the probability of each class of a column's values."""
        n = part.stop - part.start
        mass = np.zeros((n, classes.n_classes))
        if name not in self._noisy:
            mass[np.arange(n), classes.of(self._codes[name][part])] = 1.0
            return mass
        column = self._numeric(name)
        low, step = float(column.exact_low), float(column.exact_step)
        z, width = self._z[name][part], self._width[name][part]
        if rule == "points":
            codes = np.clip(np.rint((z - low) / step), 0, column.n_values - 1).astype(np.int64)
            inside = np.abs(low + codes * step - z) <= step / 2
            mass[np.arange(n), classes.of(codes)] = inside
            return mass
        ends = np.append(classes.starts[1:], column.n_values)
        domain = (low - step / 2, low + (column.n_values - 0.5) * step)
        for label, start, end in zip(classes.labels, classes.starts, ends, strict=True):
            mass[:, label] += interval_probability(
                z, width, low + (start - 0.5) * step, low + (end - 0.5) * step,
                model=self._model, domain=domain, wrap=self._wrap,
            )  # fmt: skip
        return mass

    def frame(self) -> pa.Table:
        """Give the published records: noisy and carried columns, then the ``_std`` columns."""
        return self._table


def _floats(table: pa.Table, name: str) -> Floats:
    return np.asarray(table.column(name).to_numpy(), np.float64)


def _codes(column: Categorical | Integer | Number, values: list[Any]) -> NDArray[np.int64]:
    if isinstance(column, Categorical):
        known: dict[Any, int] = {value: code for code, value in enumerate(column.values)}
        return np.asarray([known.get(value, column.missing_code) for value in values], np.int64)
    low, step = float(column.exact_low), float(column.exact_step)
    return np.asarray(
        [column.missing_code if value is None else round((value - low) / step) for value in values],
        np.int64,
    )
