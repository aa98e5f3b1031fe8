"""Workload of a release: what it is for, stated by the custodian before the data is read.

An item is text of one of three kinds, with column names in double quotes if they need them:

- ``mean(income) by education x sex``, ``total(income)``: numeric statistics, by group or of all;
- ``income ~ age + sex``: a linear regression, in which categorical columns enter as categories;
- ``region x diagnosis``: a marginal.

A numeric statistic is computed from sums of functions of a row. The workload measures these sums
directly, with noise for the public bounds of the columns. The functions follow from schema and
item alone: they are those that the answer itself requests. Sums on which answers depend more get
less noise.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from hushtable.arrays import Floats
from hushtable.errors import ParameterError, Refused
from hushtable.methods.quilt.budget import PrivateMeasurer, TableNoise
from hushtable.methods.quilt.particles import Group
from hushtable.numeric import nearly_normal
from hushtable.privacy.accounting.sensitivity import Sensitivity
from hushtable.query.answers import moments, regression
from hushtable.query.answers.estimator import Estimate
from hushtable.query.answers.moments import Ask, NumericQuery
from hushtable.query.answers.regression import RegressionFormula, kind_of, read_formula
from hushtable.query.answers.row_sums import ONE, RowFunction, SumEstimates, is_code
from hushtable.schema import Categorical, Integer, Number, Schema

SCALE = 2**19
"""Sums are measured as integers, in multiples of 1 / `SCALE`."""

MAX_FUNCTIONS = 1000
"""Maximum number of sums of one item."""

MAX_CODES = 1 << 24
"""Maximum number of values of a column of a numeric statistic."""

LEAST_WEIGHT = 0.1
"""Minimum weight of a sum, relative to the sum that needs the least noise."""

_MAX_PROBED = 200  # sums whose influence on the answers is computed; of more, all count the same

_QUOTED = r'(?=(?:[^"]*"[^"]*")*[^"]*$)'  # outside of double quotes
_STATISTIC = re.compile(r"(mean|total)\s*\((.*)\)\s*(?:\bby\b(.+))?", re.DOTALL)
_FACTOR = re.compile(r"C\((.*)\)", re.DOTALL)
_ALLOWED = (
    "write 'mean(income) by education', 'total(income)', 'income ~ age + sex', or 'region x "
    "diagnosis'; put names with special characters in double quotes"
)

Query = Callable[[Ask], Estimate | Mapping[str, Estimate]]
"""Computes answers from estimates of the sums that it requests."""


@dataclass(frozen=True)
class WorkloadItem:
    """An item of the workload.

    A numeric statistic has a query for each group, and all queries have the same form.
    """

    text: str
    columns: tuple[str, ...]
    queries: tuple[Query, ...] = ()  # answers, given estimates of sums; none for a marginal
    functions: Mapping[str, RowFunction] = field(default_factory=dict)  # by key; see `key_of`
    keys: tuple[tuple[str, ...], ...] = ()  # of the functions of each query

    def forecast(
        self, schema: Schema, total: float, noise_of: Callable[[Sensitivity], TableNoise]
    ) -> str:
        """Describe the expected half-width of each answer, if all values were equally frequent.

        `noise_of` returns the noise of sums with a sensitivity to one row.
        """
        sizes = {name: schema.attributes[name].size for name in self.columns}
        shares = {name: np.full(size, 1 / size) for name, size in sizes.items()}
        weights = self._weights(shares, total)
        moved = Sensitivity(rows=1).of_sums(self._weighted(weights), sizes, SCALE)
        noise = noise_of(moved)
        stds = noise.std / (SCALE * weights[: len(self.keys[0])])
        expected = self._expected(shares, total)
        answers = self._answers(expected, stds**2, total, 3.0 if noise.pure else 0.0)
        group = " in a typical group" if len(self.queries) > 1 else ""
        return (
            "; ".join(f"{one.what}{group}: {one.reach:,.3g}" for one in answers)
            or "unknown, because the noise is too large"
        )

    def measured(
        self,
        measurer: PrivateMeasurer,
        group: Group,
        shares: Mapping[str, Floats],
        total: float,
        share: Fraction,
    ) -> MeasuredSums:
        """Measure the sums for a share of the budget.

        Their weights suit independent columns with the given `shares` of codes, in a table of
        `total` rows.
        """
        weights = self._weights(shares, total)
        noisy = measurer.sums("workload", group, self._weighted(weights), SCALE, share)
        unit = SCALE * weights
        # A row may be rounded by half a unit, and all rows may be alike.
        stds = np.hypot(noisy.noise.std, total / 2) / unit
        parameter = str(noisy.noise.parameter)
        return MeasuredSums(self, noisy.counts / unit, stds, weights, parameter)

    def _weighted(self, weights: Floats) -> list[dict[str, Floats]]:
        """Return the factors of all functions times weights."""
        found = []
        for function, weight in zip(self.functions.values(), weights.tolist(), strict=True):
            factors = dict(function.factors)
            smallest = min(factors, key=lambda name: len(factors[name]))
            found.append({**factors, smallest: weight * factors[smallest]})
        return found

    def _expected(self, shares: Mapping[str, Floats], total: float) -> Floats:
        """Return the sums of the first query, in a table of independent columns."""
        found = [
            math.prod(float(factor @ shares[name]) for name, factor in one.factors.items())
            for one in map(self.functions.__getitem__, self.keys[0])
        ]
        return total * np.array(found)

    def _answers(
        self, values: Floats, variances: Floats, total: float, kurtosis: float = 0.0
    ) -> list[Estimate]:
        """Answer the first query, given its sums; return nothing if there is no answer."""
        places = {key: place for place, key in enumerate(self.keys[0])}

        def ask(asked: Sequence[RowFunction], **_: Any) -> SumEstimates:
            keys = [key_of(one) for one in asked]
            if not all(key in places or key == "" for key in keys):
                raise Refused("this sum was not measured.")
            at = [places.get(str(key), -1) for key in keys]
            noise = np.diag(np.append(variances, 0.0)[at])
            found = np.append(values, total)[at]
            return SumEstimates(found, noise, np.zeros_like(noise), nearly_normal(kurtosis))

        try:
            made = self.queries[0](ask)
        except Refused:
            return []
        return [made] if isinstance(made, Estimate) else list(made.values())

    def _weights(self, shares: Mapping[str, Floats], total: float) -> Floats:
        """Return the weight of each sum: its noise is inversely proportional to it.

        If a_k is the derivative of an answer with respect to sum k, the error of the answer is the
        root of sum a_k^2 / w_k^2, times a constant. If the sum of w_k^2 is limited, w_k^2
        proportional to |a_k| is best. With several answers, a_k^2 is added over the answers, each
        relative to its sum over k. All queries get the weights of the first.
        """
        n = len(self.keys[0])
        if n > _MAX_PROBED or len({len(keys) for keys in self.keys}) > 1:
            return np.ones(len(self.functions))
        expected = self._expected(shares, total)
        found = [self._answers(expected, unit, total) for unit in np.eye(n)]
        squares = np.nan_to_num([[one.privacy_std**2 for one in answers] for answers in found])
        if not squares.any():  # such as a regressor that is constant
            return np.ones(len(self.functions))
        per_answer = np.maximum(squares.sum(axis=0), 1e-300)
        weights = (squares / per_answer).sum(axis=1) ** 0.25
        each = np.maximum(weights / float(weights.max()), LEAST_WEIGHT).tolist()
        of_key = {key: w for keys in self.keys for key, w in zip(keys, each, strict=True)}
        return np.array([of_key[key] for key in self.functions])


def read_items(texts: Sequence[str], schema: Schema) -> tuple[WorkloadItem, ...]:
    """Parse the items of a workload; raise one `ParameterError` that lists all problems."""
    found, problems = [], []
    for text in texts:
        try:
            found.append(_read(text, schema))
        except ParameterError as error:
            problems += [f"workload item {text!r}: {problem}" for problem in error.problems]
    ParameterError.raise_if_any(problems)
    return tuple(found)


def columns_of(text: str) -> tuple[str, ...]:
    """Return the names of columns in an item, whether or not they exist."""
    if "~" in text:
        outcome, _, rest = text.partition("~")
        terms = [_FACTOR.sub(r"\1", part.strip()) for part in re.split(rf"\+{_QUOTED}", rest)]
        return tuple(_unquoted(part) for part in (outcome, *terms) if part != "1")
    statistic = _STATISTIC.fullmatch(text.strip())
    groups = text if statistic is None else statistic[3]
    number = () if statistic is None else (statistic[2],)
    by = re.split(rf"\s+x\s+{_QUOTED}", groups) if groups else ()
    return tuple(_unquoted(part) for part in (*number, *by))


def _unquoted(text: str) -> str:
    text = text.strip()
    quoted = len(text) > 1 and text[0] == text[-1] == '"'
    return text[1:-1].replace('""', '"') if quoted else text


def _read(text: str, schema: Schema) -> WorkloadItem:
    names, columns = columns_of(text), schema.attributes
    problems = [
        f"{name!r} is not a published column; {_ALLOWED}." for name in names if name not in columns
    ]
    if len(set(names)) < len(names):
        problems.append("a column occurs twice; name it once.")
    if len(names) < 2 and "(" not in text:
        problems.append(f"a marginal or a regression needs two columns or more; {_ALLOWED}.")
    problems += [
        f"column {name!r} has {columns[name].size:,} values; the limit is {MAX_CODES:,}. Give it a "
        "larger step."
        for name in names
        if name in columns and columns[name].size > MAX_CODES
    ]
    ParameterError.raise_if_any(problems)
    statistic = _STATISTIC.fullmatch(text.strip())
    queries: list[Query] = []
    if "~" in text:
        made = partial(
            regression.linear_regression,
            formula=_formula(text, schema), columns=columns, where=ONE, scope="people",
        )  # fmt: skip
        queries.append(made)
    elif statistic is not None:
        (name, *by), compute = names, {"mean": moments.mean, "total": moments.total}[statistic[1]]
        number = columns[name]
        if not isinstance(number, Integer | Number):
            raise ParameterError(f"column {name!r} is {kind_of(number)}, not a number.")
        if math.prod(columns[of].size for of in by) > MAX_FUNCTIONS:
            raise ParameterError(f"it has more than {MAX_FUNCTIONS:,} groups; use fewer.")
        for codes in product(*(range(columns[of].size) for of in by)):
            cells = (is_code(of, columns[of], code) for of, code in zip(by, codes, strict=True))
            asked = NumericQuery(name, number, math.prod(cells, start=ONE))
            queries.append(partial(compute, numbers=asked, scope="people"))
    return _with_functions(WorkloadItem(text, names, tuple(queries)))


def _formula(text: str, schema: Schema) -> RegressionFormula:
    """Parse a regression; categorical columns enter as categories, with or without C()."""
    outcome, _, rest = text.partition("~")
    terms = [
        f"C({term.strip()})"
        if isinstance(schema.attributes.get(_unquoted(term)), Categorical)
        else term
        for term in re.split(rf"\+{_QUOTED}", rest)
    ]
    return read_formula(f"{outcome} ~ {'+'.join(terms)}", schema.attributes)


def _with_functions(item: WorkloadItem) -> WorkloadItem:
    """Add the functions that the queries of an item request; equal factors are one array."""
    functions: dict[str, RowFunction] = {}
    kept: dict[str, Floats] = {}
    keys = []

    def ask(asked: Sequence[RowFunction], **_: Any) -> SumEstimates:
        own = {key: one for one in asked if (key := key_of(one))}
        for key, one in own.items():
            factors = {
                name: kept.setdefault(of_factor, factor)
                for name, factor in one.factors.items()
                if (of_factor := key_of(RowFunction({name: factor}, one.powers)))
            }
            functions[key] = RowFunction(factors, one.powers)
        keys.append(tuple(own))
        raise _RecordedError

    for query in item.queries:
        with suppress(_RecordedError):
            query(ask)
        if len(functions) > MAX_FUNCTIONS:
            raise ParameterError(f"it needs more than {MAX_FUNCTIONS:,} sums; use fewer groups.")
    return replace(item, functions=functions, keys=tuple(keys))


# --- sums -----------------------------------------------------------------------------------------


class _RecordedError(Exception):
    """End of a query whose sums were recorded."""


def key_of(function: RowFunction) -> str | None:
    """Return a text that identifies a function of a row; None if it is not a product.

    Factors that are 1 for all codes are left out, so the key of the constant 1 is "".
    """
    if function.over_rows is not None:
        return None
    parts = []
    for name, factor in sorted(function.factors.items()):
        if (factor == 1).all():
            continue
        if name in function.powers:
            parts.append(f"{name}^{function.powers[name]}")
        else:
            digest = hashlib.blake2b(factor.tobytes(), digest_size=12).hexdigest()
            parts.append(f"{name}:{digest}")
    return " ".join(parts)


# --- measured sums --------------------------------------------------------------------------------


@dataclass(frozen=True)
class MeasuredSums:
    """Noisy sums of an item, as published."""

    item: WorkloadItem
    values: Floats
    stds: Floats  # of the noise and of rounding
    weights: Floats
    parameter: str  # variance of the Gaussian, or scale of the Laplace noise

    def plain(self) -> dict[str, Any]:
        """Return the sums as plain data."""
        return {
            "item": self.item.text,
            "values": self.values.tolist(),
            "stds": self.stds.tolist(),
            "weights": self.weights.tolist(),
            "parameter": self.parameter,
        }


Sums = Mapping[str, tuple[float, float]]
"""Value and variance of each measured sum, by key of its function."""


def published_sums(settings: Sequence[Mapping[str, Any]], schema: Schema) -> Sums:
    """Return the sums in the settings of a release; of equal functions, the more precise one."""
    found: dict[str, tuple[float, float]] = {}
    for given in settings:
        (item,) = read_items([given["item"]], schema)
        stds = np.asarray(given["stds"], np.float64)
        for key, value, std in zip(item.functions, given["values"], stds, strict=True):
            if key not in found or std**2 < found[key][1]:
                found[key] = (float(value), float(std**2))
    return found


def sums_among(
    functions: Sequence[RowFunction], sums: Sums, kurtosis: float
) -> tuple[list[int], SumEstimates]:
    """Return the places of the functions whose sums were measured, and the estimates of these."""
    keys = [key_of(one) for one in functions] if sums else []
    known = [place for place, key in enumerate(keys) if key in sums]
    values, variances = np.array([sums[str(keys[place])] for place in known]).reshape(-1, 2).T
    noise = np.diag(variances)
    z = nearly_normal(kurtosis)
    return known, SumEstimates(values, noise, np.zeros_like(noise), z, support="measured")
