"""Answers of a release, remembered: a page is asked the same thing many times."""

from __future__ import annotations

import csv
import io
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushtable.estimate import Estimate
from hushtable.files.scratch import Scratch
from hushtable.release import SEEDED_MARK, Release
from hushtable.web.questions import Part, Question, parts_of

_REMEMBERED = 20_000  # answers; some hundred bytes each


@dataclass(frozen=True)
class Cell:
    """Hold one count of a grouped answer."""

    parts: tuple[Part, ...]
    clause: str
    estimate: Estimate


@dataclass(frozen=True)
class Answer:
    """Hold the count that was asked for, and the cells it was grouped into."""

    question: Question
    clause: str
    whole: Estimate
    cells: tuple[Cell, ...] = ()

    @property
    def notes(self) -> list[str]:
        """What is to be known about these numbers, each said once."""
        of_cells = (note for cell in self.cells for note in cell.estimate.notes)
        return list(dict.fromkeys([*self.whole.notes, *of_cells]))

    def to_csv(self) -> str:
        """Write the numbers for a spreadsheet."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([*map(_unrun, self.question.by), "where", "count", "low", "high", "std"])
        if not self.cells:
            writer.writerow(_row((), self.clause, self.whole))
        for cell in self.cells:
            writer.writerow(_row([part.label for part in cell.parts], cell.clause, cell.estimate))
        return out.getvalue()


def _row(labels: Sequence[str], clause: str, estimate: Estimate) -> list[Any]:
    numbers = (estimate.value, estimate.low, estimate.high, estimate.std)
    return [*map(_unrun, labels), _unrun(clause), *(f"{number:.6g}" for number in numbers)]


def _unrun(text: str) -> str:
    """Quote what a spreadsheet would run as a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


class Answers:
    """Ask a release, once for each question.

    Parameters
    ----------
    release : Release
        The release, checked against its statement.
    """

    def __init__(self, release: Release) -> None:
        self.release = release
        self.schema = release.schema
        self._known: OrderedDict[str, Estimate] = OrderedDict()
        self._memory = threading.Lock()
        self._asking = threading.Lock()  # estimators are not made for several threads
        self._rows: Scratch | None = None

    def ask(self, question: Question) -> Answer:
        """Answer a question."""
        clause = question.clause(self.schema)
        whole = self.count(clause)
        cells = question.cells(self.schema) if question.by else ()
        return Answer(
            question,
            clause,
            whole,
            tuple(Cell(parts, each, self.count(each)) for parts, each in cells),
        )

    def distribution(self, name: str) -> list[Cell]:
        """Count every part of a column."""
        parts = parts_of(name, self.schema.attributes[name])
        return [Cell((part,), part.clause, self.count(part.clause)) for part in parts]

    def count(self, clause: str) -> Estimate:
        """Count what satisfies a clause."""
        with self._memory:
            if clause in self._known:
                self._known.move_to_end(clause)
                return self._known[clause]
        with self._asking:
            found = self.release.count(clause)
        with self._memory:
            self._known[clause] = found
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return found

    def rows_file(self, suffix: str) -> Path:
        """Give the rows as a file, written when they are first asked for."""
        with self._asking:
            if self._rows is None:
                import tempfile  # noqa: PLC0415 - seldom needed

                self._rows = Scratch(Path(tempfile.gettempdir()), "hushtable-rows-")
            mark = f"{SEEDED_MARK}-" if self.release.statement.seeded else ""
            path = self._rows.folder / f"{mark}rows{suffix}"
            if not path.exists():
                self.release.export(path)
            return path

    def close(self) -> None:
        """Remove what was written for downloads."""
        if self._rows is not None:
            self._rows.close()
            self._rows = None
