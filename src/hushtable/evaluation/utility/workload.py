"""A workload of random count questions: how far off the answers are, and whether intervals hold.

A question is a conjunction of conditions on one, two or three columns: an interval of an ordered
column, some values of another one. Questions are drawn so that the answers are spread over four
ranges of selectivity, since an error of 50 rows is little for a question about half of the table
and much for one about a handful.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtable.errors import InvalidInput, Refused
from hushtable.estimate import Estimate
from hushtable.evaluation.metric import Measured, Metric, share_metric
from hushtable.evaluation.repeats import wilson
from hushtable.evaluation.rows import CodedRows, is_ordered
from hushtable.files.progress import Progress, silent
from hushtable.schema import Categorical, Column

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

ARITIES = (1, 2, 3)
SELECTIVITIES = ((0.0, 0.001), (0.001, 0.01), (0.01, 0.1), (0.1, 1.0))
PER_CELL = 20
FLOOR = 0.001
"""Smallest share of the rows that a relative error is relative to."""

_TRIES = 40  # questions drawn for each one that is wanted
_MAX_VALUES = 12  # that a condition lists
_BOOTSTRAP = 1000

RELATIVE = Metric(
    name="relative error",
    meaning=(
        "Distance of the answer from the truth, divided by the truth or 0.1 % of the rows, "
        "whichever is more."
    ),
    better="lower",
)
ABSOLUTE = Metric(
    name="absolute error",
    meaning="Distance of the answer from the truth, in rows.",
    better="lower",
)
COVERAGE = share_metric(
    "coverage",
    "Share of answers whose 95 % interval holds the truth; it should be 0.95 or more.",
    better="higher",
)

WIDTH = Metric(
    name="width of intervals",
    meaning="Median width of the 95 % intervals, as a share of the rows: how little they say.",
    better="lower",
)


@dataclass(frozen=True)
class Condition:
    """Ask for an interval of codes, or for some codes, of one column.

    Parameters
    ----------
    name : str
        The column.
    column : Column
        What its codes mean.
    codes : tuple of int
        First and last code of an interval, or the codes wanted.
    interval : bool
        Which of the two.
    """

    name: str
    column: Column = field(hash=False)  # some hold mappings; the name is enough
    codes: tuple[int, ...]
    interval: bool

    def mask(self, codes: NDArray[np.int32]) -> Bools:
        """Tell which rows satisfy it."""
        if self.interval:
            return (codes >= self.codes[0]) & (codes <= self.codes[1])
        wanted = np.zeros(self.column.size, np.bool_)
        wanted[list(self.codes)] = True
        return np.asarray(wanted[codes])

    def sql(self) -> str:
        """Write as a condition of a WHERE clause."""
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
class Question:
    """Ask how many rows satisfy all of some conditions."""

    conditions: tuple[Condition, ...]

    @property
    def sql(self) -> str:
        """The WHERE clause."""
        return " AND ".join(condition.sql() for condition in self.conditions)

    def count(self, rows: CodedRows) -> int:
        """Count the rows that satisfy it."""
        found = np.ones(rows.n_rows, np.bool_)
        for condition in self.conditions:
            found &= condition.mask(rows.codes[condition.name])
        return int(np.count_nonzero(found))


@dataclass(frozen=True)
class Answered:
    """Hold a question with its true count and what the release says."""

    question: Question
    truth: int
    n_rows: int
    estimate: Estimate

    @property
    def selectivity(self) -> float:
        """Share of rows that satisfy it."""
        return self.truth / max(self.n_rows, 1)

    @property
    def absolute(self) -> float:
        """Distance from the truth."""
        return abs(self.estimate.value - self.truth)

    @property
    def relative(self) -> float:
        """Distance from the truth, relative to it or to the floor."""
        return self.absolute / max(self.truth, FLOOR * self.n_rows, 1.0)

    @property
    def covered(self) -> bool:
        """Whether the interval holds the truth."""
        return self.estimate.low <= self.truth <= self.estimate.high


@dataclass(frozen=True, kw_only=True, eq=False)
class WorkloadLine:
    """Summarize the answers of one arity and range of selectivity.

    Parameters
    ----------
    arity : int or None
        Number of conditions; None for all.
    selectivity : pair of float or None
        The range; None for all.
    n : int
        Questions.
    median, mean : Measured
        Relative error.
    absolute : Measured
        Median absolute error.
    coverage, width : Measured or None
        How often intervals held, and how wide they are; None without intervals.
    """

    arity: int | None
    selectivity: tuple[float, float] | None
    n: int
    median: Measured
    mean: Measured
    absolute: Measured
    coverage: Measured | None
    width: Measured | None

    def to_dict(self) -> dict[str, Any]:
        """Write as plain data."""
        return {
            "arity": self.arity,
            "selectivity": self.selectivity and list(self.selectivity),
            "n": self.n,
            "median_relative_error": self.median.to_dict(),
            "mean_relative_error": self.mean.to_dict(),
            "median_absolute_error": self.absolute.to_dict(),
            "coverage": self.coverage and self.coverage.to_dict(),
            "width": self.width and self.width.to_dict(),
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Workload:
    """Hold the outcome of a workload.

    Parameters
    ----------
    answered : list of Answered
        All answers.
    lines : list of WorkloadLine
        Summaries: all, by arity, and by arity and selectivity.
    n_refused : int
        Questions that the release does not answer.
    has_intervals : bool
        Whether answers come with intervals.
    """

    answered: list[Answered]
    lines: list[WorkloadLine]
    n_refused: int
    has_intervals: bool

    def to_dict(self) -> dict[str, Any]:
        """Write as plain data."""
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
) -> list[tuple[Question, int]]:
    """Draw questions until each arity and selectivity has enough, or long enough.

    Parameters
    ----------
    rows : CodedRows
        The original.
    rng : Generator
        Where randomness comes from.
    per_cell : int
        Questions wanted of each arity and range of selectivity.
    with_missing : bool
        Whether to ask for missing values, too.
    """
    drawer = _Drawer(rows, rng)
    found: list[tuple[Question, int]] = []
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
            question = Question(tuple(conditions))
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
    """Draw conditions of about the wanted selectivity."""

    def __init__(self, rows: CodedRows, rng: np.random.Generator) -> None:
        self._rows, self._rng = rows, rng
        self._in_order: dict[str, NDArray[np.int32]] = {}
        self._shares: dict[str, Floats] = {}
        for name, column in rows.schema.attributes.items():
            if is_ordered(column):
                self._in_order[name] = np.sort(rows.codes[name])
            else:
                counts = np.bincount(rows.codes[name], minlength=column.size)
                self._shares[name] = counts / max(rows.n_rows, 1)

    def condition(self, name: str, anchor: int, share: float) -> Condition:
        """Make a condition that one row satisfies, and about this share of all rows."""
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
        reach = share * n_present
        first = int(np.clip(place - self._rng.random() * reach, 0, n_present - 1))
        last = int(np.clip(first + reach - 1, place, n_present - 1))
        ends = int(in_order[first]), int(in_order[last])
        if not isinstance(column, Categorical):
            return Condition(name, column, ends, True)
        return Condition(name, column, tuple(range(ends[0], ends[1] + 1)), False)


Answer = Callable[[Question], Estimate]


def run_workload(
    questions: Sequence[tuple[Question, int]],
    n_rows: int,
    answer: Answer,
    rng: np.random.Generator,
    *,
    has_intervals: bool = True,
    progress: Progress = silent,
) -> Workload:
    """Ask a release all questions and compare with the truth.

    Parameters
    ----------
    questions : sequence of (Question, int)
        Questions and true counts.
    n_rows : int
        Rows of the original.
    answer : callable
        What the release says.
    rng : Generator
        For the bootstrap intervals of the summaries.
    has_intervals : bool
        Whether answers come with intervals that mean something.
    progress : Progress
        Is told how far it is.
    """
    answered, n_refused = [], 0
    for number, (question, truth) in enumerate(questions):
        try:
            answered.append(Answered(question, truth, n_rows, answer(question)))
        except (Refused, InvalidInput):
            n_refused += 1
        progress("count questions", (number + 1) / len(questions))
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
            and (cell is None or cell[0] < one.selectivity <= cell[1])
        ]
        if mine:
            lines.append(_line(arity, cell, mine, has_intervals, rng))
    return Workload(
        answered=answered, lines=lines, n_refused=n_refused, has_intervals=has_intervals
    )


def _line(
    arity: int | None,
    cell: tuple[float, float] | None,
    mine: Sequence[Answered],
    has_intervals: bool,
    rng: np.random.Generator,
) -> WorkloadLine:
    of = f"{arity or 'all'} conditions" if arity != 1 else "1 condition"
    relative = np.array([one.relative for one in mine])
    absolute = np.array([one.absolute for one in mine])
    coverage = width = None
    if has_intervals:
        wide = [(one.estimate.high - one.estimate.low) / max(one.n_rows, 1) for one in mine]
        width = Measured(metric=WIDTH, of=of, value=float(np.median(wide)))
        hits = sum(one.covered for one in mine)
        low, high = wilson(hits, len(mine))
        coverage = Measured(metric=COVERAGE, of=of, value=hits / len(mine), low=low, high=high)
    return WorkloadLine(
        arity=arity,
        selectivity=cell,
        n=len(mine),
        median=_bootstrapped(RELATIVE, of, relative, np.median, rng),
        mean=_bootstrapped(RELATIVE, of, relative, np.mean, rng),
        absolute=_bootstrapped(ABSOLUTE, of, absolute, np.median, rng),
        coverage=coverage,
        width=width,
    )


def _bootstrapped(
    metric: Metric, of: str, values: Floats, summary: Callable[..., Any], rng: np.random.Generator
) -> Measured:
    """Summarize values of a random sample of questions, with a bootstrap interval."""
    again = values[rng.integers(len(values), size=(_BOOTSTRAP, len(values)))]
    low, high = np.quantile(summary(again, axis=1), [0.025, 0.975])
    return Measured(
        metric=metric, of=of, value=float(summary(values)), low=float(low), high=float(high)
    )
