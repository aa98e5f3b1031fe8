"""Table of estimates: one row per group, with value, interval and errors."""

from __future__ import annotations

import csv
import html
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hushtable.files import svg
from hushtable.files.html import html_table
from hushtable.files.rows import no_formula
from hushtable.query.answers.estimator import Estimate, written
from hushtable.schema import Value
from hushtable.schema.codes import texts

FIGURES = ("value", "low", "high", "std", "privacy_std", "model_std", "sampling_std")

_FEW = 4  # maximum number of rows that a note names


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
            figures = [_figure(estimate, figure) for estimate in self.estimates]
            columns[figure] = pa.array(figures, pa.float64())
        columns["support"] = texts([str(estimate.support) for estimate in self.estimates])
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
        rows.writerow([*map(no_formula, self.by), *FIGURES, "support", "what"])
        for key, estimate in self:
            group = ["" if part is None else no_formula(str(part)) for part in key]
            numbers = [_figure(estimate, figure) for figure in FIGURES]
            figures = ["" if number is None else repr(number) for number in numbers]
            if estimate.moment:
                figures[:3] = estimate.figures()
            rows.writerow([*group, *figures, estimate.support, no_formula(estimate.what)])
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


def _figure(estimate: Estimate, name: str) -> float | None:
    """Return a number of an estimate; None for standard deviations that do not exist."""
    if name == "model_std" and estimate.std is None:
        return None
    number = getattr(estimate, name)
    return None if number is None else float(number)


def _written(part: Value) -> str:
    return "-" if part is None else str(part)


def _some(rows: Sequence[str]) -> str:
    """List up to four rows; of more, return only their number."""
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


# --- plots ----------------------------------------------------------------------------------------

_WIDTH, _ROW, _LEFT, _RIGHT, _TOP = 720, 22, 220, 690, 46


def drawing(answer: Estimate | EstimateTable) -> str:
    """Plot an estimate, or a table of them, with 95% intervals as an SVG document.

    Examples
    --------
    >>> one = Estimate(value=120.0, low=112.0, high=128.0, privacy_std=4.0, model_std=0.0)
    >>> drawing(one).count("<circle")
    1
    """
    if isinstance(answer, Estimate):
        answer = EstimateTable(("",), (("",),), (answer,))
    what = answer.rows()[0][len(answer.by)]
    bottom = _TOP + _ROW * len(answer)
    x = svg.Axis(*_range(answer.estimates), _LEFT, _RIGHT)
    y = svg.Axis(0, len(answer), _TOP, bottom)
    step = (x.high - x.low) / 5

    def tick(value: float) -> str:
        return written(value, step, what)

    parts = svg.titles(_LEFT, what, "with 95% intervals")
    parts += svg.grid(x, y, x_text=tick, y_text=None)
    for place, (key, estimate) in enumerate(answer):
        at = y(place + 0.5)
        parts.append(svg.text(_LEFT - 10, at + 4, ", ".join(map(_written, key)), anchor="end"))
        if not math.isnan(estimate.value):
            ends = (estimate.low, estimate.value, estimate.high)
            parts.append(svg.whisker(*((x(end), at) for end in ends)))
    return svg.document(_WIDTH, bottom + 34, parts)


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
    return low, high
