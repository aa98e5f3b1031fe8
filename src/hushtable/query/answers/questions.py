"""Questions that analysts may ask of any release: validation and answers.

Answers are computed from sums over rows (`Estimator.sums`), except counts that an estimator answers
directly. A question is validated completely before anything is computed.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Literal

import numpy as np

from hushtable.errors import HushtableError, ParameterError, Refused, TooLarge, unpublished
from hushtable.numeric import CONFIDENCE, NORMAL, normal_quantile, project_to_simplex
from hushtable.query.answers import moments, regression
from hushtable.query.answers.estimator import NOTHING, Estimate, Estimator, Scope, count_of
from hushtable.query.answers.functions import FunctionOfColumn, clipped, read_function, values_of
from hushtable.query.answers.moments import NumericQuery
from hushtable.query.answers.quantiles import (
    codes_in_words,
    name_of_quantile,
    no_quantile,
    quantile,
    value_at,
)
from hushtable.query.answers.regression import kind_of, read_formula
from hushtable.query.answers.row_sums import (
    ONE,
    RowFunction,
    Scale,
    SumEstimates,
    condition,
    is_code,
)
from hushtable.query.answers.table import EstimateTable, of_terms
from hushtable.query.where import parse
from hushtable.schema import CalendarColumn, Column, Date, Integer, Number, Time, Timestamp, Value

Family = Literal["each", "all"]

MAX_CELLS = 20_000
ALL = "all"
"""Label for all values of a column in the margins of a cross table."""

EstimateOrTable = Estimate | EstimateTable


@dataclass(frozen=True, eq=False)
class ReleaseQuestions:
    """Questions to one release, answered by its estimator."""

    estimator: Estimator

    @property
    def columns(self) -> Mapping[str, Column]:
        """Columns that questions may use."""
        return self.estimator.asked.attributes

    # --- counts -----------------------------------------------------------------------------------

    def count(self, where: str | None, scope: Scope) -> Estimate:
        """Estimate the number of rows."""
        _raise(self._problems(where=where, scope=scope))
        return self._count(where, scope)

    def share(
        self, part: str, where: str | None, by: Sequence[str], scope: Scope
    ) -> EstimateOrTable:
        """Estimate the share of rows that satisfy a condition, among all rows or a subset."""
        problems = self._problems(where=where, by=by, scope=scope)
        problems += [p for p in self._problems(where=part) if p not in problems]
        _raise(problems)
        rows = condition(part, self.estimator.asked)
        return self._by(
            by, where, lambda base: moments.share(self.estimator.sums, rows, base, scope=scope)
        )

    def crosstab(
        self,
        by: Sequence[str],
        where: str | None,
        *,
        family: Family,
        margins: bool,
        scope: Scope,
    ) -> EstimateTable:
        """Estimate the number of rows of each combination of values."""
        problems = self._problems(where=where, by=by, scope=scope)
        if family not in ("each", "all"):
            problems.append(f"family is {family!r}; it must be 'each' or 'all'.")
        if not by:
            problems.append("by is empty; name at least one column to count by.")
        _raise(problems)
        groups = self._groups(by, margins=margins)
        sums = self._sums_of_cells(by, groups, where)
        stretch = 1.0
        if family == "all":
            stretch = _family_factor(len(groups), normal=sums is not None)
        if sums is None:
            clauses = [_clause(self._conditions(by, group), where) for group in groups]
            estimates = [_stretched(self._count(clause, scope), stretch) for clause in clauses]
        else:
            n_rows = max(float(sums.values[-1]), 1.0)
            estimates = [
                count_of(sums, place, n_rows, scope=scope, stretch=stretch)
                for place in range(len(groups))
            ]
            estimates = _not_negative(estimates, sums, [None not in group for group in groups])
        keys = tuple(self._key(by, group, as_text=margins) for group in groups)
        return EstimateTable(tuple(by), keys, tuple(estimates))

    def _sums_of_cells(
        self, by: Sequence[str], groups: Sequence[tuple[int | None, ...]], where: str | None
    ) -> SumEstimates | None:
        """Estimate all cells at once if the estimator supports it; otherwise return None."""
        if not self.estimator.counts_are_sums:
            return None
        base = condition(where, self.estimator.asked)
        functions = [self._cell(by, group) * base for group in groups]
        return self.estimator.sums([*functions, ONE], together=False)

    def _count(self, where: str | None, scope: Scope) -> Estimate:
        answer = self.estimator.count(where or self._everything())
        everybody = self.estimator.count(self._everything()) if where else answer
        n_rows = max(everybody.value, answer.value, 1.0)
        sampling = answer.value * (1 - answer.value / n_rows)
        answer = replace(
            answer, sampling_std=math.sqrt(sampling), scope=scope, what=self.estimator.unit_text
        )
        if scope == "people":
            return answer
        more = NORMAL**2 * (sampling + 1.0)
        return replace(
            answer,
            low=max(0.0, answer.value - math.sqrt((answer.value - answer.low) ** 2 + more)),
            high=answer.value + math.sqrt((answer.high - answer.value) ** 2 + more),
        )

    def _everything(self) -> str:
        name = quoted(next(iter(self.columns)))
        return f"{name} IS NULL OR {name} IS NOT NULL"

    # --- numbers ----------------------------------------------------------------------------------

    def statistic(
        self,
        name: str,
        column: str,
        where: str | None,
        by: Sequence[str],
        scope: Scope,
        *,
        clip: tuple[float, float] | None = None,
    ) -> EstimateOrTable:
        """Estimate the mean, total or variance of a number; dates and times have only a mean."""
        source, read, problems = self._read_number(column)
        problems += self._problems(
            numbers=[source] if source else (), where=where, by=by, scope=scope,
            may_be_times=name == "mean",
        )  # fmt: skip
        number = read
        if clip is not None and not problems:
            if isinstance(read, Integer | Number | FunctionOfColumn):
                number = clipped(read, clip)
            else:
                problems.append(f"column {column!r} is not a number; clip takes numbers only.")
        _raise(problems)
        assert number is not None  # noqa: S101 - checked before
        compute = {"mean": moments.mean, "total": moments.total, "variance": moments.variance}[name]
        bounds = "" if clip is None else f" clipped to {clip[0]:,g} to {clip[1]:,g}"

        def answer(base: RowFunction) -> Estimate:
            numbers = NumericQuery(source, number, base, column + bounds)
            return compute(self.estimator.sums, numbers, scope=scope)

        found = self._by(by, where, answer)
        return _of_kind(found, number)

    def _read_number(self, text: str) -> tuple[str, Scale | None, list[str]]:
        """Return the column that a number depends on, the number, and problems of a function."""
        found = None
        if text not in self.columns:
            try:
                found = read_function(text, self.columns)
            except ParameterError as error:
                return "", None, list(error.problems)
        source, number = found or (text, self.columns.get(text))
        return source, number if isinstance(number, Scale) else None, []

    def quantile(
        self, column: str, probability: float, where: str | None, by: Sequence[str], scope: Scope
    ) -> EstimateOrTable:
        """Estimate a quantile of a column."""
        problems = self._problems(
            numbers=(column,), where=where, by=by, scope=scope, may_be_times=True
        )
        if not isinstance(probability, int | float) or not 0 <= probability <= 1:
            problems.append(f"the quantile is {probability!r}; it must be from 0 to 1.")
        _raise(problems)
        number = self._number(column)
        if self.estimator.quantiles_by_counts:
            found = self._quantiles_by_counts(column, float(probability), where, by, scope)
            return _of_kind(found, number)
        binned, bins = self.estimator.by_bin(column)
        answer = self._by(
            by,
            where,
            lambda base: quantile(
                partial(self.estimator.sums, together=False),
                NumericQuery(column, number, base),
                float(probability),
                scope=scope,
                by_bin=(partial(binned.sums, together=False), bins),
            ),
        )
        return _of_kind(answer, number)

    def _quantiles_by_counts(
        self, column: str, probability: float, where: str | None, by: Sequence[str], scope: Scope
    ) -> EstimateOrTable:
        def compute(group: tuple[int | None, ...]) -> Estimate:
            clause = _clause(self._conditions(by, group), where)
            return self._quantile_by_counts(column, probability, clause, scope)

        return self._in_groups(by, self._groups(by), compute) if by else _known(compute(()))

    def _quantile_by_counts(
        self, column: str, probability: float, where: str | None, scope: Scope
    ) -> Estimate:
        """Estimate a quantile from cumulative counts.

        The estimate is the first value up to which there are enough rows. The interval starts where
        the upper end of the count first suffices, and ends where the lower end does.
        """
        number, name = self._number(column), quoted(column)
        base = self._count(_clause([f"{name} IS NOT NULL"], where), scope)

        def up_to(code: int) -> Estimate:
            clause = _clause([f"{name} <= {literal(number.value(code))}"], where)
            return self._count(clause, scope)

        def first(end: str, rows: float) -> int:
            def suffices(code: int) -> bool:
                return bool(getattr(up_to(code), end) >= rows * probability)

            return bisect_left(range(number.n_values - 1), True, key=suffices)

        what, every = name_of_quantile(probability, column), np.arange(number.n_values)
        if base.value <= 0:
            return no_quantile(number, every, what=what, scope=scope, notes=base.notes)
        code = first("value", base.value)
        ends = min(code, first("high", base.low)), max(code, first("low", base.high))
        value, low, high = value_at(number, (code, *ends))
        # Divide the error among its sources as for the count of rows up to the value.
        at = up_to(code)
        std, known = (high - low) / (2 * NORMAL), math.hypot(at.privacy_std, at.model_std)
        unit = std / (known or 1.0)
        return Estimate(
            value=value,
            low=low,
            high=high,
            privacy_std=unit * at.privacy_std,
            model_std=unit * at.model_std if known else std,
            sampling_std=unit * at.sampling_std,
            scope=scope,
            what=what,
            support=at.support,
            notes=(*base.notes, *codes_in_words(number, every, ends)),
        )

    def correlation(
        self, one: str, other: str, where: str | None, by: Sequence[str], scope: Scope
    ) -> EstimateOrTable:
        """Estimate the correlation of two columns, or of functions of them."""
        read = {text: self._read_number(text) for text in (one, other)}
        problems = [problem for _, _, found in read.values() for problem in found]
        sources = [source for source, _, _ in read.values() if source]
        problems += self._problems(numbers=sources, where=where, by=by, scope=scope)
        if one == other:
            problems.append(f"column {one!r} is named twice; name two different columns.")
        _raise(problems)

        def compute(base: RowFunction) -> Estimate:
            pair = (
                NumericQuery(source, number, base, text)
                for text, (source, number, _) in read.items()
                if number is not None
            )
            return moments.correlation(self.estimator.sums, *pair, scope=scope)

        return self._by(by, where, compute)

    def regression(
        self,
        formula: str,
        where: str | None,
        *,
        scope: Scope,
        logistic: bool = False,
        poisson: bool = False,
        weights: str | None = None,
    ) -> EstimateTable:
        """Estimate the coefficients of a regression."""
        problems = self._problems(
            where=where, scope=scope, numbers=() if weights is None else (weights,)
        )
        if logistic and poisson:
            problems.append("logistic and poisson are both set; set one of them.")
        if weights is not None and scope == "population":
            problems.append("weights need scope 'people': their sampling error is not estimated.")
        column = None if weights is None else self.columns.get(weights)
        if isinstance(column, Integer | Number) and column.exact_low < 0:
            problems.append(f"column {weights!r} may be negative, so it cannot be a weight.")
        try:
            read = read_formula(formula, self.columns, two_valued=logistic, counts=poisson)
        except ParameterError as error:
            raise ParameterError([*error.problems, *problems]) from None
        _raise(problems)
        base, weight = condition(where, self.estimator.asked), ONE
        if isinstance(column, Integer | Number):
            values = values_of(column)
            factor = np.nan_to_num(values / (np.nanmax(values) or 1.0))
            weight = RowFunction({str(weights): factor}, smooth=frozenset([str(weights)]))
        fit = regression.linear_regression
        if logistic or poisson:
            fit = partial(regression.likelihood_regression, poisson=poisson)
        found = fit(self.estimator.sums, read, self.columns, base, weight=weight, scope=scope)
        return of_terms(found)

    # --- checking and grouping --------------------------------------------------------------------

    def _number(self, name: str) -> Integer | Number | Date | Timestamp | Time:
        column = self.columns[name]
        assert isinstance(column, Integer | Number | Date | Timestamp | Time)  # noqa: S101 - checked
        return column

    def _problems(
        self,
        *,
        numbers: Sequence[str] = (),
        where: str | None = None,
        by: Sequence[str] = (),
        scope: str = "people",
        may_be_times: bool = False,
    ) -> list[str]:
        """List all problems of a question."""
        problems = []
        for name in (*numbers, *by):
            if name not in self.columns:
                problems += unpublished([name], self.columns)
            elif name in numbers and isinstance(self.columns[name], CalendarColumn):
                if not may_be_times:
                    problems.append(
                        f"column {name!r} is {kind_of(self.columns[name])}, which cannot be "
                        "summed; ask for its mean, its median or a quantile."
                    )
            elif name in numbers and not isinstance(self.columns[name], Integer | Number):
                problems.append(
                    f"column {name!r} is {kind_of(self.columns[name])} and has no mean or "
                    "quantile; ask for the share of one of its values, or for a cross table."
                )
        if len(set(by)) < len(by):
            problems.append("by names a column twice; name each column once.")
        if scope not in ("people", "population"):
            problems.append(f"scope is {scope!r}; it must be 'people' or 'population'.")
        if where is not None:
            try:
                predicate = parse(where, self.estimator.asked)
                if predicate.count(predicate.columns) == 0:
                    problems.append(f"no row can satisfy {str(predicate)!r}; change the condition.")
            except TooLarge:
                pass  # too large to count, so it may not be empty
            except HushtableError as error:
                problems += error.problems
        return problems

    def _groups(self, by: Sequence[str], *, margins: bool = False) -> list[tuple[int | None, ...]]:
        sizes = [self.columns[name].size for name in by]
        if math.prod(sizes) > MAX_CELLS:
            raise TooLarge(
                f"{', '.join(by)} have {math.prod(sizes):,} combinations; the limit of a table "
                f"is {MAX_CELLS:,}; count by fewer columns, or by ranges with where."
            )
        last: tuple[None, ...] = (None,) if margins else ()
        return list(product(*((*range(size), *last) for size in sizes)))

    def _key(
        self, by: Sequence[str], group: tuple[int | None, ...], *, as_text: bool = False
    ) -> tuple[Value, ...]:
        values = (
            ALL if code is None else self._value(name, code)
            for name, code in zip(by, group, strict=True)
        )
        return tuple(str(v) if as_text and v is not None else v for v in values)

    def _value(self, name: str, code: int) -> Value:
        """Return the value of a code: the name of a special value, None if missing."""
        column = self.columns[name]
        special = column.n_values <= code != column.missing_code
        return column.name(code) if special else column.value(code)

    def _cell(self, by: Sequence[str], group: tuple[int | None, ...]) -> RowFunction:
        given = ((name, code) for name, code in zip(by, group, strict=True) if code is not None)
        return math.prod((is_code(name, self.columns[name], c) for name, c in given), start=ONE)

    def _conditions(self, by: Sequence[str], group: tuple[int | None, ...]) -> list[str]:
        """Return the conditions that select a group."""
        made = []
        for name, code in zip(by, group, strict=True):
            if code is not None:
                value = self._value(name, code)
                test = "IS NULL" if value is None else f"= {literal(value)}"
                made.append(f"{quoted(name)} {test}")
        return made

    def _by(
        self, by: Sequence[str], where: str | None, compute: Callable[[RowFunction], Estimate]
    ) -> EstimateOrTable:
        """Answer for all rows of a condition, or for each group that it does not exclude."""
        base = condition(where, self.estimator.asked)
        if not by:
            return _known(compute(base))
        groups = [group for group in self._groups(by) if not (self._cell(by, group) * base).is_zero]
        return self._in_groups(by, groups, lambda group: compute(self._cell(by, group) * base))

    def _in_groups(
        self,
        by: Sequence[str],
        groups: Sequence[tuple[int | None, ...]],
        compute: Callable[[tuple[int | None, ...]], Estimate],
    ) -> EstimateTable:
        """Answer for each group; raise `Refused` if all are refused.

        A refused group has no value, and its notes give the reason.
        """
        answers, refused = [], list[Refused]()
        for group in groups:
            try:
                answers.append(compute(group))
            except TooLarge:
                raise
            except Refused as refusal:
                refused.append(refusal)
                answers.append(_unknown(refusal))
        if len(refused) == len(groups):  # the question itself cannot be answered
            raise Refused(list(dict.fromkeys(p for one in refused for p in one.problems)))
        what = next((a.what for a in answers if not math.isnan(a.value)), answers[0].what)
        answers = [replace(answer, what=what) for answer in answers]
        return EstimateTable(tuple(by), tuple(self._key(by, g) for g in groups), tuple(answers))


def _of_kind(answer: EstimateOrTable, column: Scale) -> EstimateOrTable:
    """Mark an answer as a date or time if the column is one."""
    if isinstance(column, Integer | Number | FunctionOfColumn):
        return answer
    if isinstance(answer, Estimate):
        return replace(answer, moment=column.type)
    return replace(
        answer, estimates=tuple(replace(one, moment=column.type) for one in answer.estimates)
    )


def quoted(name: str) -> str:
    """Quote the name of a column for a WHERE clause."""
    return '"' + name.replace('"', '""') + '"'


def _raise(problems: Sequence[str]) -> None:
    if problems:
        raise ParameterError(list(dict.fromkeys(problems)))


def literal(value: object) -> str:
    """Format a value for a WHERE clause."""
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def _clause(conditions: Sequence[str], where: str | None) -> str | None:
    parts = [*conditions, *([f"({where})"] if where else [])]
    return " AND ".join(parts) or None


def _known(answer: Estimate) -> Estimate:
    """Raise `Refused` if the answer has no value."""
    if math.isnan(answer.value):
        raise Refused(
            "because of noise, there may be no such rows at all, so there is no answer; "
            "ask about a larger group."
        )
    return answer


def _unknown(refusal: Refused) -> Estimate:
    """Return a placeholder for the answer of a refused group."""
    return Estimate(
        value=math.nan,
        low=-math.inf,
        high=math.inf,
        privacy_std=math.inf,
        model_std=0.0,
        notes=refusal.problems,
    )


def _family_factor(n: int, *, normal: bool) -> float:
    """Return the factor that widens n intervals to a joint confidence of 95%.

    For normal errors, this is the factor of Šidák (1967), which is valid for any correlation.
    Otherwise it is that of Bonferroni, with the tails of Laplace noise.
    """
    if normal:
        return normal_quantile((1 + CONFIDENCE ** (1 / n)) / 2) / NORMAL
    tail = 1 - CONFIDENCE
    return math.log(tail / n) / math.log(tail)


def _stretched(estimate: Estimate, factor: float) -> Estimate:
    return replace(
        estimate,
        low=max(0.0, estimate.value - factor * (estimate.value - estimate.low)),
        high=estimate.value + factor * (estimate.high - estimate.value),
    )


def _with_value(estimate: Estimate, value: float) -> Estimate:
    value = value if value > NOTHING else 0.0
    return replace(
        estimate, value=value, low=min(estimate.low, value), high=max(estimate.high, value)
    )


def _not_negative(
    estimates: Sequence[Estimate], sums: SumEstimates, is_cell: Sequence[bool]
) -> list[Estimate]:
    """Make cells non-negative without changing their sum; leave margins as they are."""
    cells = np.flatnonzero(is_cell)
    raw = sums.values[cells]
    widths = np.maximum((sums.privacy.diagonal() + sums.model.diagonal())[cells], 1e-9)
    values = project_to_simplex(raw, max(0.0, float(raw.sum())), widths / widths.max())
    made = list(estimates)
    for cell, value in zip(cells.tolist(), values.tolist(), strict=True):
        made[cell] = _with_value(made[cell], value)
    return made
