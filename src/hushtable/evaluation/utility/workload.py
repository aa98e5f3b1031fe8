"""Random count queries: errors of the answers, and coverage of the intervals.

A query is a conjunction of conditions on one, two or three columns: an interval of an ordered
column, or some values of another. Queries are sampled in four ranges of selectivity, because an
error of 50 rows is small for a query about half of the table and large for a query about a few
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import Bools, Floats
from hushtable.errors import InvalidInput, Refused
from hushtable.evaluation.findings import Metric, MetricValue, Plain, metric_named, wilson
from hushtable.evaluation.inputs import CodedRows
from hushtable.files.progress import Progress
from hushtable.query.answers import Estimate
from hushtable.schema import Categorical, Column

ARITIES = (1, 2, 3)
SELECTIVITIES = ((0.0, 0.001), (0.001, 0.01), (0.01, 0.1), (0.1, 1.0))
PER_CELL = 20
FLOOR = 0.001
"""Smallest denominator of a relative error, as a share of the rows; it is at least one row."""

_TRIES = 40  # candidates for each number of conditions, as a multiple of `per_cell`
_MAX_VALUES = 12  # maximum in a condition on an unordered column
_BOOTSTRAP = 1000

RELATIVE = metric_named("relative error")
ABSOLUTE = metric_named("absolute error")
COVERAGE = metric_named("coverage")

WIDTH = metric_named("width of intervals")


@dataclass(frozen=True)
class Condition:
    """A condition on one column: an interval of codes, or a set of codes."""

    name: str
    column: Column = field(hash=False)  # some columns are not hashable; the name is sufficient
    codes: tuple[int, ...]  # first and last code of an interval, or the set of codes
    interval: bool

    def mask(self, codes: NDArray[np.int32]) -> Bools:
        """Return which rows satisfy the condition."""
        if self.interval:
            return (codes >= self.codes[0]) & (codes <= self.codes[1])
        wanted = np.zeros(self.column.size, np.bool_)
        wanted[list(self.codes)] = True
        return np.asarray(wanted[codes])

    def sql(self) -> str:
        """Return the condition in SQL."""
        name = '"' + self.name.replace('"', '""') + '"'
        if self.interval:
            low, high = (_literal(self.column, code) for code in self.codes)
            return f"{name} = {low}" if low == high else f"{name} BETWEEN {low} AND {high}"
        values = [code for code in self.codes if code != self.column.missing_code]
        if not values:
            return f"{name} IS NULL"
        listed = ", ".join(_literal(self.column, code) for code in values)
        return f"{name} = {listed}" if len(values) == 1 else f"{name} IN ({listed})"


def _literal(column: Column, code: int) -> str:
    value = column.value(code) if code < column.n_values else column.name(code)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)


@dataclass(frozen=True)
class CountQuestion:
    """A count query: the number of rows that satisfy all conditions."""

    conditions: tuple[Condition, ...]

    @property
    def sql(self) -> str:
        """The WHERE clause."""
        return " AND ".join(condition.sql() for condition in self.conditions)

    def count(self, rows: CodedRows) -> int:
        """Count the rows that satisfy the query."""
        found = np.ones(rows.n_rows, np.bool_)
        for condition in self.conditions:
            found &= condition.mask(rows.codes[condition.name])
        return int(np.count_nonzero(found))


@dataclass(frozen=True)
class Answered:
    """A query with its true count and the answer of the release."""

    question: CountQuestion
    truth: int
    estimate: Estimate

    @property
    def absolute(self) -> float:
        """Absolute error."""
        return abs(self.estimate.value - self.truth)


@dataclass(frozen=True, kw_only=True, eq=False)
class WorkloadLine(Plain):
    """Summary of the answers by number of conditions and range of selectivity."""

    arity: int | None  # number of conditions; None for all
    selectivity: tuple[float, float] | None  # None for all
    n: int  # number of queries
    median_relative_error: MetricValue
    mean_relative_error: MetricValue
    median_absolute_error: MetricValue
    coverage: MetricValue | None  # None without intervals
    width: MetricValue | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Workload:
    """Results of all count queries."""

    answered: list[Answered]
    lines: list[WorkloadLine]
    n_refused: int  # queries that the release cannot answer
    has_intervals: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the results as plain data."""
        return {
            "n": len(self.answered),
            "n_refused": self.n_refused,
            "floor": FLOOR,
            "has_intervals": self.has_intervals,
            "lines": [line.to_dict() for line in self.lines],
            "questions": [
                {
                    "where": one.question.sql,
                    "arity": len(one.question.conditions),
                    "truth": one.truth,
                    "value": one.estimate.value,
                    "low": one.estimate.low if self.has_intervals else None,
                    "high": one.estimate.high if self.has_intervals else None,
                }
                for one in self.answered
            ],
        }


def draw_questions(
    rows: CodedRows,
    rng: np.random.Generator,
    *,
    per_cell: int = PER_CELL,
    with_missing: bool = True,
) -> list[tuple[CountQuestion, int]]:
    """Sample queries until each arity and selectivity range has enough, or the attempts run out.

    Return the queries with their true counts. With `with_missing` False, no query asks for missing
    values.
    """
    drawer = _Drawer(rows, rng)
    found: list[tuple[CountQuestion, int]] = []
    names = list(rows.schema.attributes)
    if not rows.n_rows:
        return found
    for arity in [arity for arity in ARITIES if arity <= len(names)]:
        wanted = dict.fromkeys(SELECTIVITIES, per_cell)
        seen = set()
        for number in range(_TRIES * per_cell):
            left = [cell for cell, n in wanted.items() if n > 0]
            if not left:
                break
            low, high = left[number % len(left)]
            share = np.exp(rng.uniform(np.log(max(low, 1e-4)), np.log(min(high, 0.9))))
            anchor = int(rng.integers(rows.n_rows))
            chosen = sorted(rng.choice(len(names), arity, replace=False).tolist())
            conditions = [drawer.condition(names[i], anchor, share ** (1 / arity)) for i in chosen]
            question = CountQuestion(tuple(conditions))
            if not with_missing and any(_asks_missing(one) for one in conditions):
                continue
            truth = question.count(rows)
            cell = next(
                (c for c in SELECTIVITIES if c[0] * rows.n_rows < truth <= c[1] * rows.n_rows), None
            )
            if cell is None or wanted[cell] == 0 or question.sql in seen:
                continue
            seen.add(question.sql)
            wanted[cell] -= 1
            found.append((question, truth))
    return found


def _asks_missing(condition: Condition) -> bool:
    return condition.column.missing_code in condition.codes and not condition.interval


class _Drawer:
    """Sampler of conditions with about a given selectivity."""

    def __init__(self, rows: CodedRows, rng: np.random.Generator) -> None:
        self._rows, self._rng = rows, rng
        self._in_order: dict[str, NDArray[np.int32]] = {}
        self._shares: dict[str, Floats] = {}
        for name, column in rows.schema.attributes.items():
            if column.is_line:
                self._in_order[name] = np.sort(rows.codes[name])
            else:
                counts = np.bincount(rows.codes[name], minlength=column.size)
                self._shares[name] = counts / max(rows.n_rows, 1)

    def condition(self, name: str, anchor: int, share: float) -> Condition:
        """Return a condition that row `anchor` satisfies, and about this share of all rows."""
        column, code = self._rows.schema.attributes[name], int(self._rows.codes[name][anchor])
        if code >= column.n_values:
            return Condition(name, column, (code,), False)
        if name in self._in_order:
            return self._interval(name, column, code, share)
        shares = self._shares[name]
        wanted, covered = [code], shares[code]
        for other in self._rng.permutation(column.n_values).tolist():
            if other != code and covered + shares[other] <= share:
                wanted.append(other)
                covered += shares[other]
            if len(wanted) == _MAX_VALUES:
                break
        return Condition(name, column, tuple(sorted(wanted)), False)

    def _interval(self, name: str, column: Column, code: int, share: float) -> Condition:
        in_order = self._in_order[name]
        n_present = int(np.searchsorted(in_order, column.n_values))
        place = int(np.searchsorted(in_order, code))
        n_wanted = share * n_present
        first = int(np.clip(place - self._rng.random() * n_wanted, 0, n_present - 1))
        last = int(np.clip(first + n_wanted - 1, place, n_present - 1))
        ends = int(in_order[first]), int(in_order[last])
        if not isinstance(column, Categorical):
            return Condition(name, column, ends, True)
        return Condition(name, column, tuple(range(ends[0], ends[1] + 1)), False)


def run_workload(
    questions: Sequence[tuple[CountQuestion, int]],
    n_rows: int,
    answer: Callable[[CountQuestion], Estimate],
    rng: np.random.Generator,
    *,
    has_intervals: bool,
    progress: Progress,
) -> Workload:
    """Answer all queries with a release and compare with the true counts."""
    answered, n_refused = [], 0
    for number, (question, truth) in enumerate(questions):
        try:
            answered.append(Answered(question, truth, answer(question)))
        except (Refused, InvalidInput):
            n_refused += 1
        progress("count queries", (number + 1) / len(questions))
    groups: list[tuple[int | None, tuple[float, float] | None]] = [(None, None)]
    groups += [(arity, None) for arity in ARITIES]
    groups += [(None, cell) for cell in SELECTIVITIES]
    groups += [(arity, cell) for arity in ARITIES for cell in SELECTIVITIES]
    lines = []
    for arity, cell in groups:
        mine = [
            one
            for one in answered
            if arity in (None, len(one.question.conditions))
            and (cell is None or cell[0] < one.truth / max(n_rows, 1) <= cell[1])
        ]
        if mine:
            lines.append(_line(arity, cell, mine, n_rows, rng, has_intervals=has_intervals))
    return Workload(
        answered=answered, lines=lines, n_refused=n_refused, has_intervals=has_intervals
    )


def _line(
    arity: int | None,
    cell: tuple[float, float] | None,
    mine: Sequence[Answered],
    n_rows: int,
    rng: np.random.Generator,
    *,
    has_intervals: bool,
) -> WorkloadLine:
    of = f"{arity or 'all'} conditions" if arity != 1 else "1 condition"
    absolute = np.array([one.absolute for one in mine])
    relative = absolute / [max(one.truth, FLOOR * n_rows, 1.0) for one in mine]
    coverage = width = None
    if has_intervals:
        wide = [(one.estimate.high - one.estimate.low) / max(n_rows, 1) for one in mine]
        width = WIDTH.at(float(np.median(wide)), of=of)
        hits = sum(one.estimate.low <= one.truth <= one.estimate.high for one in mine)
        low, high = wilson(hits, len(mine))
        coverage = COVERAGE.at(hits / len(mine), of=of, low=low, high=high)
    return WorkloadLine(
        arity=arity,
        selectivity=cell,
        n=len(mine),
        median_relative_error=_bootstrapped(RELATIVE, of, relative, np.median, rng),
        mean_relative_error=_bootstrapped(RELATIVE, of, relative, np.mean, rng),
        median_absolute_error=_bootstrapped(ABSOLUTE, of, absolute, np.median, rng),
        coverage=coverage,
        width=width,
    )


def _bootstrapped(
    metric: Metric, of: str, values: Floats, summary: Callable[..., Any], rng: np.random.Generator
) -> MetricValue:
    """Summarize errors over queries, with a 95% bootstrap interval."""
    again = values[rng.integers(len(values), size=(_BOOTSTRAP, len(values)))]
    low, high = np.quantile(summary(again, axis=1), [0.025, 0.975])
    return metric.at(float(summary(values)), of=of, low=float(low), high=float(high))
