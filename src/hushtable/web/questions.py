"""Queries of the release explorer: conditions by column, groups, and the resulting WHERE clause.

A query is encoded in the query string of an address, so an address reproduces it. Conditions on
columns and the additional clause are combined with AND. A query asks for a row count, the mean or
median of a column, or a regression. With one or two columns to group by, each cell has its own
answer and its own clause.
"""

from __future__ import annotations

import csv
import io
import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from hushtable.errors import ParameterError, PredicateError
from hushtable.files.rows import no_formula
from hushtable.files.writing import Scratch
from hushtable.query.answers import Estimate
from hushtable.query.where.syntax import syntax_tree
from hushtable.release.release import SEEDED_MARK, Release
from hushtable.schema import Categorical, Column, Schema
from hushtable.schema.calendar import CalendarColumn
from hushtable.schema.categorical import Boolean
from hushtable.schema.column import with_label
from hushtable.web import words
from hushtable.web.answer_pool import AnswerPool, TooSlow

MAX_CELLS = 200
"""Maximum number of cells of a grouped answer; more would be slow and hard to read."""

MAX_CLAUSE = 2000
MAX_CONDITIONS = 500
FIGURES = ("mean", "median")
"""Statistics of a numeric column."""

_BINS = 12
EVERYTHING = "TRUE"
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")
_TIME = re.compile(r"[0-9]{2,4}[-:][0-9]{2}([-: T][0-9]{2})*")


@dataclass(frozen=True)
class ValueGroup:
    """A group of a column's values: its label, and the clause that selects it."""

    label: str
    clause: str


@dataclass(frozen=True)
class PageQuestion:
    """A query as submitted."""

    # Conditions as the form sends them: in:COLUMN, from:COLUMN, to:COLUMN or none:COLUMN (missing),
    # each with a value.
    pairs: tuple[tuple[str, str], ...] = ()
    where: str = ""  # additional clause
    by: tuple[str, ...] = ()  # up to two columns to group by
    figure: str = ""  # "mean" or "median" of the column `of`; empty for a count
    of: str = ""
    regress: str = ""  # formula of a regression
    logistic: bool = False

    @classmethod
    def read(cls, items: Sequence[tuple[str, str]], schema: Schema) -> PageQuestion:
        """Parse the items of a query string; raise an error that lists all problems.

        Examples
        --------
        >>> from hushtable import sample_schema
        >>> items = [("from:age", "40"), ("in:sex", "F"), ("by", "region")]
        >>> asked = PageQuestion.read(items, sample_schema())
        >>> asked.clause(sample_schema())
        "age >= 40 AND sex = 'F'"
        >>> asked.by
        ('region',)
        """
        pairs, by, problems = [], [], []
        texts = {name: value.strip() for name, value in items}
        where, regress = texts.get("where", ""), texts.get("regress", "")
        figure, of = texts.get("figure", ""), texts.get("of", "")
        for name, value in items:
            kind, _, column = name.partition(":")
            if not value.strip():
                continue
            if name == "by":
                by.append(value)
                if value not in schema.attributes:
                    problems.append(f"cannot group by {value!r}: no such column.")
            elif kind in {"in", "from", "to", "none"}:
                problem = _problem(kind, column, value, schema)
                problems += [problem] if problem else []
                pairs.append((name, value))
        if max(len(where), len(regress)) > MAX_CLAUSE:
            problems.append(
                f"the clause or formula is too long; the limit is {MAX_CLAUSE:,} characters."
            )
        if figure and figure not in FIGURES:
            problems.append(f"figure is {figure!r}; it must be one of {', '.join(FIGURES)}.")
        if figure and of not in schema.attributes:
            problems.append(f"cannot compute the {figure} of {of!r}: no such column.")
        if regress and (figure or by):
            problems.append(
                "a regression cannot be combined with a mean, a median or groups; remove them. For "
                "groups, write C(column) in the formula."
            )
        if len(pairs) > MAX_CONDITIONS:
            problems.append(f"there are more than {MAX_CONDITIONS} conditions; choose fewer.")
        if len(by) > 2:
            problems.append("there are more than two columns to group by; choose at most two.")
        ParameterError.raise_if_any(problems)
        return cls(
            tuple(pairs), where, tuple(dict.fromkeys(by)), figure, of if figure else "", regress,
            bool(regress) and "logistic" in texts,
        )  # fmt: skip

    def query(self) -> str:
        """Return the query string of this query."""
        others = {
            "where": self.where, "figure": self.figure, "of": self.of, "regress": self.regress,
            "logistic": "1" if self.logistic else "",
        }  # fmt: skip
        items = [*self.pairs, *((name, value) for name, value in others.items() if value)]
        return urlencode([*items, *(("by", name) for name in self.by)])

    def options(self, schema: Schema) -> list[str]:
        """Return the arguments of `hushtable query`, except the release."""
        clause, listed = self.clause(schema), self.lists_values(schema)
        asked = [word for name in self.by if listed for word in ("--by", name)]
        if self.figure == "mean":
            asked += ["--mean", self.of]
        elif self.figure:
            asked += ["--quantile", f"{self.of}:0.5"]
        elif self.regress:
            asked += ["--regress", self.regress, *(["--logistic"] if self.logistic else [])]
        return asked if asked and clause == EVERYTHING else [clause, *asked]

    def lists_values(self, schema: Schema) -> bool:
        """Return whether each group is a single value; long columns are grouped by ranges."""
        return all(
            len(parts_of(name, schema.attributes[name])) == schema.attributes[name].size
            for name in self.by
        )

    def clause(self, schema: Schema) -> str:
        """Return the condition as a WHERE clause."""
        found = list(self._conditions(schema))
        if self.where:
            found.append(f"({self.where})" if found else self.where)
        return " AND ".join(found) or EVERYTHING

    def chosen(self, kind: str, column: str) -> list[str]:
        """Return the values of a column's conditions of one kind (such as ``in``), for the form."""
        return [value for name, value in self.pairs if name == f"{kind}:{column}"]

    def cells(self, schema: Schema) -> list[tuple[tuple[ValueGroup, ...], str]]:
        """Return the cells of a grouped query, each as its groups of values and its clause."""
        groups = [parts_of(name, schema.attributes[name]) for name in self.by]
        n_cells = 1
        for group in groups:
            n_cells *= len(group)
        if n_cells > MAX_CELLS:
            raise ParameterError(
                f"grouping by {' and '.join(self.by)} gives {n_cells:,} cells; the limit is "
                f"{MAX_CELLS}. Group by one of them, or filter some values."
            )
        whole = self.clause(schema)
        cells = []
        for parts in product(*groups):
            clause = " AND ".join(part.clause for part in parts)
            # Parentheses, because the clause may contain OR.
            cells.append((parts, clause if whole == EVERYTHING else f"({whole}) AND {clause}"))
        return cells

    def _conditions(self, schema: Schema) -> Iterator[str]:
        for name, column in schema.attributes.items():
            spelled = quoted_name(name)
            found = []
            if values := self.chosen("in", name):
                texts = [_literal(value, column) for value in values]
                one = f"{spelled} = {texts[0]}"
                found.append(one if len(texts) == 1 else f"{spelled} IN ({', '.join(texts)})")
            bounds = [
                f"{spelled} {sign} {_bound(value.strip(), column)}"
                for kind, sign in (("from", ">="), ("to", "<="))
                for value in self.chosen(kind, name)[:1]
            ]
            if bounds:
                found.append(" AND ".join(bounds))
            if self.chosen("none", name) and column.missing == "category":
                found.append(f"{spelled} IS NULL")
            if len(found) > 1:
                yield (
                    "(" + " OR ".join(f"({one})" if " AND " in one else one for one in found) + ")"
                )
            else:
                yield from found


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
            if n_values <= _BINS * step * scale:
                return step * scale
        scale *= 10


def _written(value: object) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _problem(kind: str, name: str, value: str, schema: Schema) -> str:
    """Return a message on what is wrong with one condition, or an empty string."""
    column = schema.attributes.get(name)
    if column is None:
        return f"{name!r} is not a column of this release."
    listed = column.values if isinstance(column, Categorical) else column.special_names
    if kind == "in" and value not in listed:
        return f"column {name!r} has no value {value!r}."
    if kind in {"from", "to"}:
        form = _TIME if isinstance(column, CalendarColumn) else _NUMBER
        if isinstance(column, Categorical) or not form.fullmatch(value.strip()):
            return f"column {name!r}: {value!r} is not a valid number, date or time."
    return ""


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


# Answers of a release, cached because pages repeat queries.

_REMEMBERED = 20_000  # maximum number of cached answers, of a few hundred bytes each


@dataclass(frozen=True)
class AnswerCell:
    """One group of an answer: a count, another statistic, or a coefficient."""

    parts: tuple[ValueGroup, ...]
    clause: str
    estimate: Estimate


@dataclass(frozen=True)
class PageAnswer:
    """The answer to a query, with its cells if grouped; for a regression, its terms."""

    question: PageQuestion
    clause: str
    whole: Estimate
    cells: tuple[AnswerCell, ...] = ()

    @property
    def notes(self) -> list[str]:
        """Notes on the estimates without repetition; a note on some of them says on how many."""
        numbers = [self.whole, *(cell.estimate for cell in self.cells)]
        found = Counter(note for one in numbers for note in dict.fromkeys(one.notes))
        return [
            note if n == len(numbers)
            else words.SOME_NUMBERS.format(n=n, all=len(numbers), note=note)
            for note, n in found.items()
        ]  # fmt: skip

    @property
    def by(self) -> tuple[str, ...]:
        """Names of the columns that identify the cells."""
        return ("term",) if self.question.regress else self.question.by

    @property
    def value_name(self) -> str:
        """Name of the estimated quantity."""
        if self.question.regress:
            return "coefficient"
        return self.whole.what if self.question.figure else "count"

    def to_csv(self) -> str:
        """Return the numbers as CSV."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(
            [
                *map(no_formula, self.by),
                "where",
                no_formula(self.value_name),
                "low",
                "high",
                "std",
                "support",
            ]
        )
        if not self.cells:
            writer.writerow(_row((), self.clause, self.whole))
        for cell in self.cells:
            writer.writerow(_row([part.label for part in cell.parts], cell.clause, cell.estimate))
        return out.getvalue()


def _row(labels: Sequence[str], clause: str, estimate: Estimate) -> list[Any]:
    numbers = (estimate.value, estimate.low, estimate.high, estimate.std)
    figures = ("" if number is None else f"{number:.6g}" for number in numbers)
    return [*map(no_formula, labels), no_formula(clause), *figures, estimate.support]


def _size(found: PageAnswer | TooSlow) -> int:
    return 1 + len(found.cells) if isinstance(found, PageAnswer) else 1


def _or_none(clause: str) -> str | None:
    return None if clause == EVERYTHING else clause


def answer_question(release: Release, question: PageQuestion) -> PageAnswer:
    """Answer a query."""
    clause = question.clause(release.schema)
    if question.regress:
        table = release.regression(question.regress, _or_none(clause), logistic=question.logistic)
        terms = (
            AnswerCell((ValueGroup(str(term), ""),), clause, found) for (term,), found in table
        )
        return PageAnswer(question, clause, release.count(clause), tuple(terms))
    whole = _figure(release, question, clause)
    return PageAnswer(question, clause, whole, _cells(release, question, clause))


def _figure(release: Release, question: PageQuestion, clause: str, by: tuple[str, ...] = ()) -> Any:
    if question.figure:
        return getattr(release, question.figure)(question.of, _or_none(clause), by=by)
    return release.count(_or_none(clause), by=by) if by else release.count(clause)


def _cells(release: Release, question: PageQuestion, clause: str) -> tuple[AnswerCell, ...]:
    """Answer for each group: all at once if each is a single value, else individually."""
    cells = question.cells(release.schema) if question.by else []
    if cells and question.lists_values(release.schema):
        found = _figure(release, question, clause, question.by).estimates
    else:
        found = [_figure(release, question, one) for _, one in cells]
    return tuple(AnswerCell(*cell, estimate) for cell, estimate in zip(cells, found, strict=True))


class AnswerCache:
    """Answers of a release, computed once per query, in other processes."""

    def __init__(self, release: Release) -> None:
        self.release = release
        self.schema = release.schema
        self._pool = AnswerPool(release.folder, answer_question)
        self._known: OrderedDict[PageQuestion, PageAnswer | TooSlow] = OrderedDict()
        self._n_known = 0
        self._memory = threading.Lock()
        self._exporting = threading.Lock()
        self._rows: Scratch | None = None

    def ask(self, question: PageQuestion) -> PageAnswer:
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

    def _keep(self, question: PageQuestion, found: PageAnswer | TooSlow) -> None:
        with self._memory:
            if question not in self._known:
                self._n_known += _size(found)
            self._known[question] = found
            while self._n_known > _REMEMBERED:
                self._n_known -= _size(self._known.popitem(last=False)[1])

    def distribution(self, name: str) -> tuple[AnswerCell, ...]:
        """Count every group of a column."""
        return self.ask(PageQuestion(by=(name,))).cells

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
