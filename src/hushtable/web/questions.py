"""What an analyst asks on the page: conditions by column, groups, and the clause they make.

A question is the query string of an address, so an address reproduces it. Conditions on columns,
and whatever else is written as a clause, hold together (AND). Rows are counted, or a column's mean
or median is asked for, or a regression. With one or two columns to group by, each cell is an answer
of its own, and has a clause of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from urllib.parse import urlencode

from hushtable.errors import ParameterError, PredicateError
from hushtable.predicate.syntax import syntax_tree
from hushtable.schema import Categorical, Column, Schema
from hushtable.schema.listed import Boolean
from hushtable.schema.moments import OnCalendar

MAX_CELLS = 200
"""Cells of a grouped answer; more are neither quick to work out nor easy to read."""

MAX_CLAUSE = 2000
FIGURES = ("mean", "median")
"""What may be asked of a column of numbers."""

_BINS = 12
EVERYTHING = "TRUE"
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")
_MOMENT = re.compile(r"[0-9]{2,4}[-:][0-9]{2}([-: T][0-9]{2})*")


@dataclass(frozen=True)
class Part:
    """A group of a column's values: how it is called, and the clause that picks it."""

    label: str
    clause: str


@dataclass(frozen=True)
class Question:
    """Hold a question as it was asked.

    Parameters
    ----------
    pairs : tuple of pairs of str
        Conditions as the page's form sends them: ``in:COLUMN``, ``from:COLUMN``, ``to:COLUMN``
        and ``none:COLUMN`` (missing), each with a value.
    where : str
        A clause that must hold too.
    by : tuple of str
        Up to two columns to group by.
    figure : str
        ``mean`` or ``median``, of the column `of`; empty for a count.
    of : str
        See `figure`.
    regress : str
        The formula of a regression.
    logistic : bool
        Whether it is a logistic one.
    """

    pairs: tuple[tuple[str, str], ...] = ()
    where: str = ""
    by: tuple[str, ...] = ()
    figure: str = ""
    of: str = ""
    regress: str = ""
    logistic: bool = False

    @classmethod
    def read(cls, items: Sequence[tuple[str, str]], schema: Schema) -> Question:
        """Read a query string that was taken apart, or name all that is wrong with it.

        Examples
        --------
        >>> from hushtable import sample_schema
        >>> items = [("from:age", "40"), ("in:sex", "F"), ("by", "region")]
        >>> asked = Question.read(items, sample_schema())
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
                    problems.append(f"there is no column {value!r} to group by.")
            elif kind in {"in", "from", "to", "none"}:
                problem = _problem(kind, column, value, schema)
                problems += [problem] if problem else []
                pairs.append((name, value))
        if max(len(where), len(regress)) > MAX_CLAUSE:
            problems.append(f"a clause or formula has at most {MAX_CLAUSE:,} letters; shorten it.")
        if figure and figure not in FIGURES:
            problems.append(f"{figure!r} cannot be asked for; there are {', '.join(FIGURES)}.")
        if figure and of not in schema.attributes:
            problems.append(f"there is no column {of!r} to take the {figure} of.")
        if regress and (figure or by):
            problems.append(
                "a regression stands alone: it has its groups in the formula, as C(column). Leave "
                "out the other figure and the groups."
            )
        if len(by) > 2:
            problems.append("at most two columns can be grouped by.")
        if problems:
            raise ParameterError(problems)
        return cls(
            tuple(pairs), where, tuple(dict.fromkeys(by)), figure, of if figure else "", regress,
            bool(regress) and "logistic" in texts,
        )  # fmt: skip

    def query(self) -> str:
        """Write the query string that asks this again."""
        others = {
            "where": self.where, "figure": self.figure, "of": self.of, "regress": self.regress,
            "logistic": "1" if self.logistic else "",
        }  # fmt: skip
        items = [*self.pairs, *((name, value) for name, value in others.items() if value)]
        return urlencode([*items, *(("by", name) for name in self.by)])

    def options(self, schema: Schema) -> list[str]:
        """Write what `hushtable query` is asked beside the release."""
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
        """Tell whether each group is one value, as in a cross table; long columns have ranges."""
        return all(
            len(parts_of(name, schema.attributes[name])) == schema.attributes[name].size
            for name in self.by
        )

    def clause(self, schema: Schema) -> str:
        """Write the condition as a WHERE clause."""
        found = list(self._conditions(schema))
        if self.where:
            found.append(f"({self.where})" if found else self.where)
        return " AND ".join(found) or EVERYTHING

    def chosen(self, kind: str, column: str) -> list[str]:
        """Give what was chosen for a column, to fill the form with."""
        return [value for name, value in self.pairs if name == f"{kind}:{column}"]

    def cells(self, schema: Schema) -> list[tuple[tuple[Part, ...], str]]:
        """Give the cells of a grouped question: their parts, and the clause of each."""
        groups = [parts_of(name, schema.attributes[name]) for name in self.by]
        n_cells = 1
        for group in groups:
            n_cells *= len(group)
        if n_cells > MAX_CELLS:
            raise ParameterError(
                f"grouping by {' and '.join(self.by)} gives {n_cells:,} cells; at most {MAX_CELLS} "
                "are shown. Group by one of them, or ask for some values at a time."
            )
        whole = self.clause(schema)
        cells = []
        for parts in product(*groups):
            clause = " AND ".join(part.clause for part in parts)
            # What was written may hold an OR, so the two are kept apart.
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


def parts_of(name: str, column: Column) -> list[Part]:
    """Divide a column into parts to group by: its values, or a few ranges of a long column.

    Examples
    --------
    >>> from hushtable import sample_schema
    >>> ages = parts_of("age", sample_schema().attributes["age"])
    >>> ages[0], len(ages)
    (Part(label='0 to 9', clause='age BETWEEN 0 AND 9'), 10)
    """
    spelled = quoted_name(name)
    if isinstance(column, Categorical):
        parts = [Part(value, f"{spelled} = {_literal(value, column)}") for value in column.values]
    else:
        width = _width(column.n_values)
        parts = []
        for first in range(0, column.n_values, width):
            last = min(first + width, column.n_values) - 1
            low, high = (_written(column.value(code)) for code in (first, last))
            ends = [_bound(end, column) for end in (low, high)]
            if low == high:
                parts.append(Part(low, f"{spelled} = {ends[0]}"))
            else:
                parts.append(Part(f"{low} to {high}", f"{spelled} BETWEEN {ends[0]} AND {ends[1]}"))
    parts += [Part(name, f"{spelled} = {quoted_text(name)}") for name in column.special_names]
    if column.missing == "category":
        parts.append(Part("(missing)", f"{spelled} IS NULL"))
    return parts


def _literal(value: str, column: Column) -> str:
    """Write a listed value, or the name of a special one."""
    return value if isinstance(column, Boolean) else quoted_text(value)


def _bound(text: str, column: Column) -> str:
    """Write a number as it is, and a moment in quotes."""
    return quoted_text(text) if isinstance(column, OnCalendar) else text


def _width(n_values: int) -> int:
    """Choose how many values go into a range: 1, 2 or 5 times a power of ten."""
    scale = 1
    while True:
        for step in (1, 2, 5):
            if n_values <= _BINS * step * scale:
                return step * scale
        scale *= 10


def _written(value: object) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _problem(kind: str, name: str, value: str, schema: Schema) -> str:
    """Say what is wrong with one condition, if anything."""
    column = schema.attributes.get(name)
    if column is None:
        return f"there is no column {name!r}."
    listed = column.values if isinstance(column, Categorical) else column.special_names
    if kind == "in" and value not in listed:
        return f"column {name!r} has no value {value!r}."
    if kind in {"from", "to"}:
        form = _MOMENT if isinstance(column, OnCalendar) else _NUMBER
        if isinstance(column, Categorical) or not form.fullmatch(value.strip()):
            return f"column {name!r}: {value!r} is not a number, or no moment."
    return ""


@cache
def quoted_name(name: str) -> str:
    """Write the name of a column in a clause, in quotes where it would be read as something else.

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
    """Write a text in a clause."""
    return "'" + text.replace("'", "''") + "'"
