"""Random questions for means, shares, medians, correlations and slopes: coverage and width.

Widths are half-widths in standard deviations of the number; those of shares and correlations are
absolute. Slopes are those of standardized numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hushtable.arrays import Bools, Floats
from hushtable.errors import InvalidInput, Refused
from hushtable.evaluation.findings import MetricValue, Plain, metric_named, wilson
from hushtable.evaluation.inputs import CodedRows
from hushtable.evaluation.utility.workload import (
    COVERAGE,
    Answered,
    draw_questions,
)
from hushtable.query.answers import Estimate
from hushtable.query.answers.functions import values_of
from hushtable.query.answers.questions import quoted
from hushtable.release.release import Release
from hushtable.schema import Integer, Number

KINDS = ("mean", "share", "median", "group mean", "correlation", "slope")
N_WORST = 3
_MAX_GROUPS = 12  # values of a column by which means are asked

HALF_WIDTH = metric_named("half-width of intervals")


@dataclass(frozen=True)
class StatisticAnswered(Plain):
    """A question with its true answer and the interval of the release."""

    kind: str
    question: str
    truth: float
    value: float
    low: float
    high: float
    scale: float  # standard deviation that widths are divided by
    is_unknown: bool

    @property
    def holds(self) -> bool:
        """Whether the interval contains the truth."""
        slack = 1e-9 * max(1.0, abs(self.truth))
        return self.low - slack <= self.truth <= self.high + slack

    @property
    def miss(self) -> float:
        """Distance of the truth from the interval, in half-widths."""
        outside = max(self.low - self.truth, self.truth - self.high, 0.0)
        return outside / max((self.high - self.low) / 2, 1e-12)


@dataclass(frozen=True, kw_only=True, eq=False)
class StatisticsLine(Plain):
    """Coverage and width of one kind of answer."""

    kind: str
    n: int
    n_unknown: int  # answers that nothing supports; their intervals end at limits
    n_refused: int
    coverage: MetricValue | None
    width: MetricValue | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Statistics(Plain):
    """Coverage and width by kind of answer, and the worst misses of all kinds."""

    lines: tuple[StatisticsLine, ...]
    worst: tuple[StatisticAnswered, ...]


def ask_statistics(
    release: Release,
    rows: CodedRows,
    rng: np.random.Generator,
    counts: Sequence[Answered],
    *,
    n: int,
) -> Statistics | None:
    """Ask a release n random questions of each kind, and compare with the rows."""
    asked = _Asked(release, rows, rng)
    lines, worst = [], [_of_count(one) for one in counts]
    for kind in KINDS:
        found, n_refused = list[StatisticAnswered](), 0
        for _ in range(n):
            try:
                found += asked.of(kind)
            except (Refused, InvalidInput):
                n_refused += 1
        if not found and not n_refused:
            continue
        coverage = width = None
        if found:
            held = sum(one.holds for one in found)
            low, high = wilson(held, len(found))
            coverage = COVERAGE.at(held / len(found), of=kind, low=low, high=high)
            halves = [(one.high - one.low) / 2 / one.scale for one in found]
            width = HALF_WIDTH.at(min(float(np.median(halves)), 1e9), of=kind)
        unknown = sum(one.is_unknown for one in found)
        lines.append(
            StatisticsLine(
                kind=kind, n=len(found), n_unknown=unknown, n_refused=n_refused,
                coverage=coverage, width=width,
            )
        )  # fmt: skip
        worst += found
    worst = sorted((one for one in worst if not one.holds), key=lambda one: -one.miss)[:N_WORST]
    return Statistics(lines=tuple(lines), worst=tuple(worst)) if lines else None


def _of_count(one: Answered) -> StatisticAnswered:
    found, said = one.estimate, f"count: {one.question.sql}"
    unknown = found.support == "untested"
    return StatisticAnswered(
        "count", said, float(one.truth), found.value, found.low, found.high, 1.0, unknown
    )


class _Asked:
    """Random questions and their true answers."""

    def __init__(self, release: Release, rows: CodedRows, rng: np.random.Generator) -> None:
        self.release, self.rows, self.rng = release, rows, rng
        self.numbers: dict[str, Floats] = {}
        self.groups = []
        for name, column in rows.schema.attributes.items():
            if isinstance(column, Integer | Number):
                values = values_of(column)[rows.codes[name]]
                if np.nanstd(values) > 0:
                    self.numbers[name] = values
            if column.size <= _MAX_GROUPS:
                self.groups.append(name)

    def of(self, kind: str) -> Iterator[StatisticAnswered]:
        """Ask one question; yield nothing if the table has no such columns."""
        rng, release = self.rng, self.release
        names = rng.permutation(list(self.numbers)).tolist()
        if kind == "share":
            yield from self._share()
        elif kind in ("correlation", "slope"):
            if len(names) > 1:
                yield from self._pair(kind, *names[:2])
        elif names and kind == "group mean":
            groups = [name for name in self.groups if name != names[0]]
            if groups:
                yield from self._groups(names[0], str(rng.choice(groups)))
        elif names:
            values = self.numbers[names[0]]
            where, mask = self._condition()
            inside = np.sort(values[mask & ~np.isnan(values)])
            if not len(inside):
                return
            if kind == "mean":
                found, truth = release.mean(names[0], where), float(inside.mean())
            else:
                found = release.median(names[0], where)
                truth = float(inside[math.ceil(len(inside) / 2) - 1])
            yield self._answered(kind, f"{names[0]} where {where}", truth, found, values)

    def _condition(self) -> tuple[str, Bools]:
        questions = draw_questions(self.rows, self.rng, per_cell=1)
        question, _ = questions[int(self.rng.integers(len(questions)))]
        mask = np.ones(self.rows.n_rows, np.bool_)
        for one in question.conditions[:1]:
            mask &= one.mask(self.rows.codes[one.name])
        return question.conditions[0].sql(), mask

    def _share(self) -> Iterator[StatisticAnswered]:
        (part, inside), (of, base) = self._condition(), self._condition()
        if base.any():
            truth = float(np.count_nonzero(inside & base) / np.count_nonzero(base))
            found = self.release.share(part, of)
            yield self._answered("share", f"{part} among {of}", truth, found)

    def _groups(self, name: str, by: str) -> Iterator[StatisticAnswered]:
        column, values = self.rows.schema.attributes[by], self.numbers[name]
        for code in range(column.n_values):
            inside = values[(self.rows.codes[by] == code) & ~np.isnan(values)]
            if len(inside):
                value = column.value(code)
                text = value.replace("'", "''") if isinstance(value, str) else None
                where = f"{quoted(by)} = " + (repr(value) if text is None else f"'{text}'")
                found = self.release.mean(name, where)
                said = f"{name} where {where}"
                yield self._answered("group mean", said, float(inside.mean()), found, values)

    def _pair(self, kind: str, one: str, other: str) -> Iterator[StatisticAnswered]:
        there = ~np.isnan(self.numbers[one]) & ~np.isnan(self.numbers[other])
        x, y = self.numbers[one][there], self.numbers[other][there]
        if len(x) < 2 or not x.std() or not y.std():
            return
        correlation = float(np.corrcoef(x, y)[0, 1])
        if kind == "correlation":
            found = self.release.correlation(one, other)
            yield self._answered(kind, f"{one} and {other}", correlation, found)
            return
        formula = f"{quoted(other)} ~ {quoted(one)}"
        found = self.release.regression(formula)[one]
        unit = y.std() / x.std()
        yield self._answered(kind, formula, correlation * unit, found, y / x.std())

    def _answered(
        self, kind: str, said: str, truth: float, found: Any, values: Floats | None = None
    ) -> StatisticAnswered:
        assert isinstance(found, Estimate)  # noqa: S101 - no groups were asked for
        scale = 1.0 if values is None else float(np.nanstd(values))
        low, high = (min(max(end, -1e15), 1e15) for end in (found.low, found.high))
        unknown = found.support == "untested"
        said = f"{kind}: {said}"
        return StatisticAnswered(kind, said, truth, found.value, low, high, scale, unknown)
