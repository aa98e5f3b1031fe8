"""Answers of a release, cached because pages repeat queries."""

from __future__ import annotations

import csv
import io
import threading
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushtable.files.writing import Scratch
from hushtable.query.answers import Estimate
from hushtable.query.answers.table import EstimateTable
from hushtable.release.release import SEEDED_MARK, Release
from hushtable.web import words
from hushtable.web.questions import EVERYTHING, PageQuestion, ValueGroup

_REMEMBERED = 20_000  # answers; a few hundred bytes each


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
        """Notes on the numbers, each listed once, with how many numbers it applies to."""
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
            [*map(_unrun, self.by), "where", _unrun(self.value_name), "low", "high", "std"]
        )
        if not self.cells:
            writer.writerow(_row((), self.clause, self.whole))
        for cell in self.cells:
            writer.writerow(_row([part.label for part in cell.parts], cell.clause, cell.estimate))
        return out.getvalue()


def _row(labels: Sequence[str], clause: str, estimate: Estimate) -> list[Any]:
    numbers = (estimate.value, estimate.low, estimate.high, estimate.std)
    return [*map(_unrun, labels), _unrun(clause), *(f"{number:.6g}" for number in numbers)]


def _unrun(text: str) -> str:
    """Prefix a text that a spreadsheet would execute as a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _size(found: Estimate | EstimateTable) -> int:
    return len(found) if isinstance(found, EstimateTable) else 1


def _or_none(clause: str) -> str | None:
    return None if clause == EVERYTHING else clause


class AnswerCache:
    """Answers of a release, computed once per query."""

    def __init__(self, release: Release) -> None:
        self.release = release
        self.schema = release.schema
        self._known: OrderedDict[tuple[Any, ...], Estimate | EstimateTable] = OrderedDict()
        self._n_known = 0
        self._memory = threading.Lock()
        self._asking = threading.Lock()  # estimators are not thread-safe
        self._rows: Scratch | None = None

    def ask(self, question: PageQuestion) -> PageAnswer:
        """Answer a query."""
        clause = question.clause(self.schema)
        if question.regress:
            return PageAnswer(question, clause, self.count(clause), self._terms(question, clause))
        whole = self._figure(question, clause)
        return PageAnswer(question, clause, whole, self._cells(question, clause))

    def distribution(self, name: str) -> tuple[AnswerCell, ...]:
        """Count every group of a column."""
        return self._cells(PageQuestion(by=(name,)), EVERYTHING)

    def count(self, clause: str) -> Estimate:
        """Estimate the number of rows that satisfy a clause."""
        found: Estimate = self._asked("count", clause)
        return found

    def _figure(self, question: PageQuestion, clause: str) -> Estimate:
        if question.figure:
            found: Estimate = self._asked(question.figure, question.of, _or_none(clause))
            return found
        return self.count(clause)

    def _cells(self, question: PageQuestion, clause: str) -> tuple[AnswerCell, ...]:
        """Answer for each group: all at once if each is a single value, else individually."""
        cells = question.cells(self.schema) if question.by else []
        if not cells or not question.lists_values(self.schema):
            return tuple(
                AnswerCell(parts, one, self._figure(question, one)) for parts, one in cells
            )
        if question.figure:
            table = self._asked(question.figure, question.of, _or_none(clause), by=question.by)
        else:
            table = self._asked("crosstab", question.by, _or_none(clause))
        return tuple(
            AnswerCell(parts, one, estimate)
            for (parts, one), estimate in zip(cells, table.estimates, strict=True)
        )

    def _terms(self, question: PageQuestion, clause: str) -> tuple[AnswerCell, ...]:
        table = self._asked(
            "regression", question.regress, _or_none(clause), logistic=question.logistic
        )
        return tuple(
            AnswerCell((ValueGroup(str(term), ""),), clause, found) for (term,), found in table
        )

    def _asked(self, what: str, *about: Any, **more: Any) -> Any:
        """Call a method of the release by name, with caching."""
        key = (what, *about, *more.items())
        with self._memory:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        with self._asking:
            found = getattr(self.release, what)(*about, **more)
        with self._memory:
            if key not in self._known:
                self._n_known += _size(found)
            self._known[key] = found
            while self._n_known > _REMEMBERED:
                self._n_known -= _size(self._known.popitem(last=False)[1])
        return found

    def rows_file(self, suffix: str) -> Path:
        """Return the path of the rows as a file, written at first use."""
        with self._asking:
            if self._rows is None:
                import tempfile  # noqa: PLC0415 - rarely needed

                self._rows = Scratch(Path(tempfile.gettempdir()), "hushtable-rows-")
            mark = f"{SEEDED_MARK}-" if self.release.statement.seeded else ""
            path = self._rows.folder / f"{mark}rows{suffix}"
            if not path.exists():
                self.release.export(path)
            return path

    def close(self) -> None:
        """Delete the files written for downloads."""
        if self._rows is not None:
            self._rows.close()
            self._rows = None
