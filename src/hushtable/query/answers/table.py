"""Table of estimates: one row per group, with value, interval and errors."""

from __future__ import annotations

import csv
import html
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import pyarrow as pa

from hushtable.files.html import html_table
from hushtable.files.rows import no_formula
from hushtable.query.answers.estimator import Estimate, written
from hushtable.schema import Value
from hushtable.schema.codes import numbers, texts

FIGURES = ("value", "low", "high", "privacy_std", "model_std", "sampling_std")

_FEW = 4  # largest number of rows that a note lists


@dataclass(frozen=True, eq=False)
class EstimateTable:
    """Estimates by group.

    Parameters
    ----------
    by : tuple of str
        Columns that identify the groups.
    keys : tuple of tuple
        Group of each row: a value for each of `by`; None is a missing value.
    estimates : tuple of Estimate
        The estimates.

    Examples
    --------
    >>> counts = [Estimate(value=v, low=v - 2, high=v + 2, privacy_std=1, model_std=0)
    ...           for v in (10.0, 20.0)]
    >>> print(EstimateTable(("sex",), (("F",), ("M",)), tuple(counts)))
    | sex | rows | low | high |
    |:----|-----:|----:|-----:|
    | F   |   10 |   8 |   12 |
    | M   |   20 |  18 |   22 |
    """

    by: tuple[str, ...]
    keys: tuple[tuple[Value, ...], ...]
    estimates: tuple[Estimate, ...]

    def __len__(self) -> int:
        return len(self.estimates)

    def __iter__(self) -> Iterator[tuple[tuple[Value, ...], Estimate]]:
        return zip(self.keys, self.estimates, strict=True)

    def __getitem__(self, key: Value | tuple[Value, ...]) -> Estimate:
        wanted = key if isinstance(key, tuple) else (key,)
        for mine, estimate in self:
            if mine == wanted:
                return estimate
        raise KeyError(key)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of all estimates without repetition; a note on some rows names them."""
        rows: dict[str, list[str]] = {}
        for key, estimate in self:
            for note in dict.fromkeys(estimate.notes):
                rows.setdefault(note, []).append(", ".join(map(_written, key)))
        return tuple(
            note if len(named) == len(self) else f"{_some(named)}: {note}"
            for note, named in rows.items()
        )

    # --- as other tables --------------------------------------------------------------------------

    def to_arrow(self) -> pa.Table:
        """Return an Arrow table: the groups, then the numbers of each estimate."""
        columns = {
            name: _arrow([key[place] for key in self.keys]) for place, name in enumerate(self.by)
        }
        for figure in FIGURES:
            figures = np.array([float(getattr(e, figure)) for e in self.estimates])
            columns[figure] = numbers(figures)
        columns["what"] = texts([estimate.what for estimate in self.estimates])
        return pa.table(columns)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Export the table as an Arrow C stream."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """Return a pandas data frame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Return a polars data frame."""
        import polars  # noqa: PLC0415 - optional dependency

        return polars.from_arrow(self.to_arrow())

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the rows as plain data."""
        return [
            {**dict(zip(self.by, key, strict=True)), **estimate.to_dict()} for key, estimate in self
        ]

    def to_csv(self) -> str:
        """Return the table as CSV text."""
        written = io.StringIO()
        rows = csv.writer(written, lineterminator="\n")
        rows.writerow([*map(no_formula, self.by), *FIGURES, "what"])
        for key, estimate in self:
            group = ["" if part is None else no_formula(str(part)) for part in key]
            figures = [repr(float(getattr(estimate, figure))) for figure in FIGURES]
            if estimate.moment:
                figures[:3] = estimate.figures()
            rows.writerow([*group, *figures, no_formula(estimate.what)])
        return written.getvalue()

    # --- for people -------------------------------------------------------------------------------

    def rows(self) -> tuple[list[str], list[list[str]]]:
        """Return header and cells as texts."""
        whats = list(dict.fromkeys(estimate.what for estimate in self.estimates))
        what = whats[0] if len(whats) == 1 else "value"
        header = [*self.by, what, "low", "high"]
        cells = [[*map(_written, key), *estimate.figures()] for key, estimate in self]
        return header, cells

    def __str__(self) -> str:
        header, cells = self.rows()
        header, cells = [_plain(cell) for cell in header], [[_plain(c) for c in r] for r in cells]
        widths = [max(len(row[i]) for row in (header, *cells)) for i in range(len(header))]
        n_keys = len(self.by)

        def line(row: Sequence[str]) -> str:
            parts = [
                cell.ljust(width) if i < n_keys else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            return "| " + " | ".join(parts) + " |"

        rule = [
            ":" + "-" * (width + 1) if i < n_keys else "-" * (width + 1) + ":"
            for i, width in enumerate(widths)
        ]
        return "\n".join([line(header), "|" + "|".join(rule) + "|", *map(line, cells)])

    def _repr_html_(self) -> str:
        notes = "".join(f"<br><small>{html.escape(note)}</small>" for note in self.notes)
        return f"{html_table(*self.rows())}<small>95% intervals.</small>{notes}"


def of_terms(estimates: Mapping[str, Estimate]) -> EstimateTable:
    """Return the coefficients of a regression as a table, by term."""
    return EstimateTable(("term",), tuple((name,) for name in estimates), tuple(estimates.values()))


def _written(part: Value) -> str:
    return "-" if part is None else str(part)


def _some(rows: Sequence[str]) -> str:
    """List a few rows, or their number if there are more."""
    return "; ".join(rows) if len(rows) <= _FEW else f"{len(rows)} of these"


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _arrow(values: Sequence[Value]) -> pa.Array:
    if all(value is None or isinstance(value, str) for value in values):
        return pa.array(values, pa.string()) if None in values else texts(map(str, values))
    if any(isinstance(value, str) for value in values):  # numbers and special values
        return pa.array([None if value is None else str(value) for value in values], pa.string())
    kind = pa.float64() if any(isinstance(value, float) for value in values) else pa.int64()
    return pa.array(values, kind)


# Plots of estimates with their intervals, as SVG.

_WIDTH, _ROW, _LEFT, _RIGHT, _TOP = 720, 22, 220, 690, 46
N_TICKS = 5

Point = tuple[float, float]


def drawing(answer: Estimate | EstimateTable) -> str:
    """Plot an estimate, or a table of them, as an SVG document.

    Examples
    --------
    >>> one = Estimate(value=120.0, low=112.0, high=128.0, privacy_std=4.0, model_std=0.0)
    >>> drawing(one).count("<circle")
    1
    """
    if isinstance(answer, Estimate):
        answer = EstimateTable(("",), (("",),), (answer,))
    header, _ = answer.rows()
    low, high = _range(answer.estimates)
    bottom = _TOP + _ROW * len(answer)

    def x(value: float) -> float:
        inside = min(max(value, low), high)
        return _LEFT + (_RIGHT - _LEFT) * (inside - low) / (high - low)

    what = header[len(answer.by)]
    parts = captions(_LEFT, what, "with 95% intervals")
    for value in ticks(low, high):
        parts.append(
            f'<line x1="{x(value):.1f}" x2="{x(value):.1f}" y1="{_TOP}" y2="{bottom}" '
            'stroke="#ddd"/>'
            f'<text x="{x(value):.1f}" y="{bottom + 18}" text-anchor="middle" fill="#555">'
            f"{written(value, (high - low) / N_TICKS, what)}</text>"
        )
    for place, (key, estimate) in enumerate(answer):
        y = _TOP + _ROW * (place + 0.5)
        label = ", ".join("-" if part is None else str(part) for part in key)
        parts.append(
            f'<text x="{_LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{escape(label)}</text>'
        )
        if math.isnan(estimate.value):
            continue
        parts.append(mark((x(estimate.low), y), (x(estimate.value), y), (x(estimate.high), y)))
    return document(_WIDTH, bottom + 34, parts)


def captions(left: int, title: str, below: str) -> list[str]:
    """Return the title of a plot and the line below it."""
    return [
        f'<text x="{left}" y="20" font-size="15">{escape(title)}</text>',
        f'<text x="{left}" y="36" fill="#555">{escape(below)}</text>',
    ]


def ticks(low: float, high: float) -> list[float]:
    """Return evenly spaced tick positions from end to end."""
    return [low + (high - low) * tick / (N_TICKS - 1) for tick in range(N_TICKS)]


def mark(start: Point, value: Point, end: Point) -> str:
    """Draw an interval as a line, and its value as a point on it."""
    return (
        f'<line x1="{start[0]:.1f}" x2="{end[0]:.1f}" y1="{start[1]:.1f}" y2="{end[1]:.1f}" '
        'stroke="#1f5f8b" stroke-width="2"/>'
        f'<circle cx="{value[0]:.1f}" cy="{value[1]:.1f}" r="4" fill="#1f5f8b"/>'
    )


def document(width: int, height: int, parts: Sequence[str]) -> str:
    """Combine parts into an SVG document."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _range(estimates: Sequence[Estimate]) -> tuple[float, float]:
    ends = [
        end
        for estimate in estimates
        for end in (estimate.low, estimate.value, estimate.high)
        if math.isfinite(end)
    ]
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    if all(estimate.low >= 0 for estimate in estimates) and low < (high - low):
        low = 0.0
    return (low, high) if high > low else (low - 0.5, low + 0.5)
