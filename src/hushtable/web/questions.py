"""Questions of the release explorer and their answers, as short plain data.

A question is a query string: what to estimate, a WHERE clause, and up to two columns to group by.
Each group has its own clause and its own answer.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any, cast

from hushtable.errors import HushtableError, ParameterError, PredicateError, Refused
from hushtable.files.writing import Scratch
from hushtable.query.answers import Estimate
from hushtable.query.answers.estimator import written
from hushtable.query.where.syntax import syntax_tree
from hushtable.release.release import SEEDED_MARK, Release
from hushtable.schema import Categorical, Column, Schema
from hushtable.schema.calendar import CalendarColumn
from hushtable.schema.categorical import Boolean
from hushtable.schema.column import with_label
from hushtable.web.answer_pool import AnswerPool, TooSlow

MAX_CELLS = 200
"""Maximum number of cells of a grouped answer; more would be slow and hard to read."""

MAX_CLAUSE = 10_000
FIGURES = ("mean", "median")
"""Statistics of a numeric column."""

MODELS = ("regression", "logistic")
N_RANGES = 12
"""Maximum number of ranges of a long column."""


@dataclass(frozen=True)
class ValueGroup:
    """A group of a column's values: its label, and the clause that selects it."""

    label: str
    clause: str


@dataclass(frozen=True)
class PageQuestion:
    """A question as submitted."""

    what: str = ""  # a statistic or a model; empty for a row count
    of: str = ""  # column of the statistic, or formula of the model
    where: str = ""
    by: tuple[str, ...] = ()  # up to two columns to group by

    @classmethod
    def read(cls, items: Sequence[tuple[str, str]], schema: Schema) -> PageQuestion:
        """Parse the items of a query string; raise an error that lists all problems.

        Examples
        --------
        >>> from hushtable import sample_schema
        >>> items = [("what", "mean"), ("of", "age"), ("where", "sex = 'F'"), ("by", "region")]
        >>> PageQuestion.read(items, sample_schema())
        PageQuestion(what='mean', of='age', where="sex = 'F'", by=('region',))
        """
        texts = {name: value.strip() for name, value in items}
        what, of, where = (texts.get(name, "") for name in ("what", "of", "where"))
        by = tuple(dict.fromkeys(value for name, value in items if name == "by" and value))
        problems = [
            f"cannot group by {name!r}: no such column."
            for name in by if name not in schema.attributes
        ]  # fmt: skip
        if what not in {"", *FIGURES, *MODELS}:
            problems.append(f"what is {what!r}; it must be one of {', '.join(FIGURES + MODELS)}.")
        if what in FIGURES and of not in schema.attributes:
            problems.append(f"cannot compute the {what} of {of!r}: no such column.")
        if what in MODELS and by:
            problems.append("a regression has no groups; write C(column) in the formula.")
        if max(len(where), len(of)) > MAX_CLAUSE:
            problems.append(
                f"the clause or formula is too long; the limit is {MAX_CLAUSE:,} characters."
            )
        if len(by) > 2:
            problems.append("there are more than two columns to group by; choose at most two.")
        ParameterError.raise_if_any(problems)
        return cls(what, of if what else "", where, by)

    def cells(self, schema: Schema) -> Iterator[tuple[list[str], str]]:
        """Return the labels and the clause of each group."""
        groups = [parts_of(name, schema.attributes[name]) for name in self.by]
        n_cells = math.prod(map(len, groups))
        if n_cells > MAX_CELLS:
            raise ParameterError(
                f"grouping by {' and '.join(self.by)} gives {n_cells:,} cells; the limit is "
                f"{MAX_CELLS}. Group by one of them, or ask for some values with a condition."
            )
        for cell in product(*groups):
            # Parentheses, because the clause may contain OR.
            own = [f"({self.where})" if self.by else self.where] if self.where else []
            clause = " AND ".join([*own, *(part.clause for part in cell)])
            yield [part.label for part in cell] or [clause or "all rows"], clause


def parts_of(name: str, column: Column) -> list[ValueGroup]:
    """Divide a column into groups: its values, or a few ranges of a long column.

    Examples
    --------
    >>> from hushtable import sample_schema
    >>> ages = parts_of("age", sample_schema().attributes["age"])
    >>> ages[0], len(ages)
    (ValueGroup(label='0 to 9', clause='age BETWEEN 0 AND 9'), 10)
    """
    spelled = quoted_name(name)
    if isinstance(column, Categorical):
        parts = [
            ValueGroup(with_label(value, column.labels), f"{spelled} = {_literal(value, column)}")
            for value in column.values
        ]
    else:
        width = _width(column.n_values)
        parts = []
        for first in range(0, column.n_values, width):
            last = min(first + width, column.n_values) - 1
            low, high = (_written(column.value(code)) for code in (first, last))
            ends = [_bound(end, column) for end in (low, high)]
            if low == high:
                parts.append(ValueGroup(low, f"{spelled} = {ends[0]}"))
            else:
                parts.append(
                    ValueGroup(f"{low} to {high}", f"{spelled} BETWEEN {ends[0]} AND {ends[1]}")
                )
    parts += [
        ValueGroup(with_label(special, column.labels), f"{spelled} = {quoted_text(special)}")
        for special in column.special_names
    ]
    if column.missing == "category":
        parts.append(ValueGroup("(missing)", f"{spelled} IS NULL"))
    return parts


def _literal(value: str, column: Column) -> str:
    """Return the SQL literal of a listed value, or of the name of a special value."""
    return value if isinstance(column, Boolean) else quoted_text(value)


def _bound(text: str, column: Column) -> str:
    """Return the SQL literal of a bound: a number as is, a date or time in quotes."""
    return quoted_text(text) if isinstance(column, CalendarColumn) else text


def _width(n_values: int) -> int:
    """Return the number of values per range: 1, 2 or 5 times a power of ten."""
    scale = 1
    while True:
        for step in (1, 2, 5):
            if n_values <= N_RANGES * step * scale:
                return step * scale
        scale *= 10


def _written(value: object) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


@cache
def quoted_name(name: str) -> str:
    """Return a column name for a clause, quoted if SQL would not parse it as a column.

    Examples
    --------
    >>> quoted_name("age"), quoted_name("hours-per-week"), quoted_name("case")
    ('age', '"hours-per-week"', '"case"')
    """
    quotes = '"' + name.replace('"', '""') + '"'
    if not (name.isascii() and name.isidentifier()):
        return quotes
    try:
        read = syntax_tree(f"{name} = 0").this
    except PredicateError:
        return quotes
    return name if read.key == "column" and read.name == name else quotes


def quoted_text(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


class ShortAnswers:
    """Answers in short: three texts, three numbers (null if unbounded), and places of notes."""

    def __init__(self) -> None:
        self.notes: dict[str, int] = {}
        self.refused: list[HushtableError] = []

    def add(self, ask: Callable[[], Any]) -> list[Any]:
        """Ask a question, and return its answer, or the reason why it is refused."""
        try:
            return self.short(ask())
        except HushtableError as error:
            self.refused.append(error)
            problems = error.problems if isinstance(error, Refused) else (str(error),)
            return [written(math.nan, 0)] * 3 + [None] * 3 + [self._placed(problems)]

    def short(self, found: Estimate) -> list[Any]:
        """Return an answer in short."""
        numbers = (found.value, found.low, found.high)
        short = [float(f"{number:.9g}") if math.isfinite(number) else None for number in numbers]
        return [*found.figures(), *short, self._placed(found.notes)]

    def _placed(self, notes: Sequence[str]) -> list[int]:
        return [self.notes.setdefault(note, len(self.notes)) for note in notes]


def figure_of(release: Release, what: str, of: str) -> Callable[..., Estimate]:
    """Return the function that counts, or that computes a statistic, from a WHERE clause."""
    return partial(getattr(release, what), of) if what else cast("Any", release.count)


def answer_question(release: Release, question: PageQuestion) -> dict[str, Any]:
    """Answer a question: rows of labels, clause and short answer, and the notes."""
    answers, where = ShortAnswers(), question.where or None
    if question.what in MODELS:
        logistic = question.what == "logistic"
        terms = release.regression(question.of, where, logistic=logistic)
        rows = [[[str(term)], question.where, answers.short(one)] for (term,), one in terms]
    else:
        ask = figure_of(release, question.what, question.of)
        rows = [
            [labels, clause, answers.add(partial(ask, clause or None))]
            for labels, clause in question.cells(release.schema)
        ]
        if len(answers.refused) == len(rows):
            raise answers.refused[0]
    return {"rows": rows, "notes": list(answers.notes)}


_REMEMBERED = 20_000  # maximum number of cached answers, of a few hundred bytes each


def _size(found: dict[str, Any] | TooSlow) -> int:
    return 1 + (0 if isinstance(found, TooSlow) else len(found["rows"]))


class AnswerCache:
    """Answers of a release, computed once per query, in other processes."""

    def __init__(self, release: Release) -> None:
        self.release = release
        self.schema = release.schema
        self._pool = AnswerPool(release.folder, answer_question)
        self._known: OrderedDict[PageQuestion, dict[str, Any] | TooSlow] = OrderedDict()
        self._n_known = 0
        self._memory = threading.Lock()
        self._exporting = threading.Lock()
        self._rows: Scratch | None = None

    def ask(self, question: PageQuestion) -> dict[str, Any]:
        """Answer a query."""
        with self._memory:
            found = self._known.get(question)
            if found is not None:
                self._known.move_to_end(question)
        if found is None:
            try:
                found = self._pool.ask(question)
            except TooSlow as error:  # it would be again
                found = error
            self._keep(question, found)
        if isinstance(found, TooSlow):
            raise found
        return found

    def _keep(self, question: PageQuestion, found: dict[str, Any] | TooSlow) -> None:
        with self._memory:
            if question not in self._known:
                self._n_known += _size(found)
            self._known[question] = found
            while self._n_known > _REMEMBERED:
                self._n_known -= _size(self._known.popitem(last=False)[1])

    def rows_file(self, suffix: str) -> Path:
        """Return the path of a temporary file with the rows, which is written at first use."""
        with self._exporting:  # estimators are not thread-safe
            if self._rows is None:
                import tempfile  # noqa: PLC0415 - rarely needed

                self._rows = Scratch(Path(tempfile.gettempdir()), "hushtable-rows-")
            mark = f"{SEEDED_MARK}-" if self.release.statement.seeded else ""
            path = self._rows.folder / f"{mark}rows{suffix}"
            if not path.exists():
                self.release.export(path)
            return path

    def close(self) -> None:
        """End the workers, and delete the files written for downloads."""
        self._pool.close()
        if self._rows is not None:
            self._rows.close()
            self._rows = None
