"""ReleaseDescription of the columns of a release: type, values, and distribution with intervals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from hushtable.errors import ParameterError, Refused, unpublished
from hushtable.files.html import html_table
from hushtable.query.answers.estimator import Estimate
from hushtable.query.answers.questions import ReleaseQuestions, literal, quoted
from hushtable.query.answers.table import FIGURES, EstimateTable, aligned
from hushtable.schema import Column
from hushtable.schema.column import with_label

_MOST = 8  # values of a column whose counts are shown
_QUARTILES = {"25%": 0.25, "median": 0.5, "75%": 0.75}


@dataclass(frozen=True)
class ColumnDescription:
    """One column: its type, its values in short, and estimates of its distribution."""

    label: str
    type: str
    values: str
    answers: EstimateTable  # by statistic


@dataclass(frozen=True, repr=False)
class ReleaseDescription:
    """Columns of a release with their distributions.

    Parameters
    ----------
    columns : dict of str to ColumnDescription
        The columns, by name.
    """

    columns: dict[str, ColumnDescription]

    def __getitem__(self, name: str) -> EstimateTable:
        return self.columns[name].answers

    def to_arrow(self) -> pa.Table:
        """Return an Arrow table with one row for each statistic of each column."""
        rows = [
            {
                "column": name,
                "label": column.label,
                "type": column.type,
                "values": column.values,
                "statistic": key[0],
                "statistic_label": column.answers.labels["statistic"].get(str(key[0])),
            }
            | {figure: getattr(estimate, figure) for figure in FIGURES[:3]}
            for name, column in self.columns.items()
            for key, estimate in column.answers
        ]
        return pa.Table.from_pylist(rows)

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the rows of `to_arrow` as plain data."""
        found: list[dict[str, Any]] = self.to_arrow().to_pylist()
        return found

    def to_pandas(self) -> Any:
        """Return a pandas data frame with one row for each statistic of each column."""
        return self.to_arrow().to_pandas()

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for name, column in self.columns.items():
            given = with_label(name, {name: column.label}), column.type, column.values
            for row in column.answers.rows()[1]:
                yield *given, *row
                given = "", "", ""
            if given[0]:
                yield *given, "", "", "", ""

    def __str__(self) -> str:
        return aligned(_HEADER, list(self._rows()), 4)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"{html_table(_HEADER, self._rows())}<small>95% intervals.</small>"


_HEADER = ("column", "type", "values", "statistic", "estimate", "low", "high")


def describe(questions: ReleaseQuestions, names: tuple[str, ...]) -> ReleaseDescription:
    """Describe some columns; raise one error that lists all unknown ones."""
    ParameterError.raise_if_any(unpublished(names, questions.columns))
    return ReleaseDescription({name: _described(questions, name) for name in names})


def _described(questions: ReleaseQuestions, name: str) -> ColumnDescription:
    column = questions.columns[name]
    found: dict[str, Estimate] = {}
    if column.is_line:
        _add_numbers(questions, name, column, found)
    else:
        counts = questions.crosstab((name,), None, family="each", margins=False, scope="people")
        cells = [(_name(key[0]), estimate) for key, estimate in counts]
        if len(cells) > _MOST:
            cells.sort(key=lambda cell: -cell[1].value)
        found |= dict(cells[:_MOST])
    answers = EstimateTable(
        ("statistic",),
        tuple((key,) for key in found),
        tuple(found.values()),
        {"statistic": column.labels},
    )
    values = column.in_short if column.is_line else f"{column.n_values:,} values"
    return ColumnDescription(column.label, column.type, values, answers)


def _add_numbers(
    questions: ReleaseQuestions, name: str, column: Column, found: dict[str, Estimate]
) -> None:
    try:
        found["mean"] = _single(questions.statistic("mean", name, None, (), "people"))
        for word, share in _QUARTILES.items():
            found[word] = _single(questions.quantile(name, share, None, (), "people"))
    except Refused:
        pass  # a release of counts only, or too noisy
    others = [f"{quoted(name)} = {literal(special)}" for special in column.special_names]
    others += [f"{quoted(name)} IS NULL"] if column.missing == "category" else []
    words = (*column.special_names, "(missing)")
    for word, clause in zip(words, others, strict=False):
        found[word] = replace(questions.count(clause, "people"), what="rows")


def _single(answer: Estimate | EstimateTable) -> Estimate:
    assert isinstance(answer, Estimate)  # noqa: S101 - asked without groups
    return answer


def _name(value: object) -> str:
    return "(missing)" if value is None else str(value)
