"""Table of estimates: one row per group, with value, interval and errors."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hushtable.files.html import html_table
from hushtable.files.rows import no_formula, write_workbook
from hushtable.query.answers.estimator import COUNTED, Estimate, written
from hushtable.schema import Value
from hushtable.schema.codes import texts
from hushtable.schema.column import with_label

if TYPE_CHECKING:
    from hushtable.query.answers.plot import Plot

_INTERVALS = "low and high are the ends of 95% intervals."
FIGURES = ("value", "low", "high", "std", "privacy_std", "model_std", "sampling_std")

_SHOWN = 40  # rows of a longer table that are shown without print
_FEW = 4  # maximum number of rows that a note names


@dataclass(frozen=True, eq=False, repr=False)
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
    labels : mapping of str to mapping, optional
        Labels of values, by column of `by`. They are shown with the values, and other tables get
        them in a column of their own, such as ``sex_label``.

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
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

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
        groups = [self._group(key) for key in self.keys]
        names = groups[0] if groups else self.by
        columns = {name: _arrow([group[name] for group in groups]) for name in names}
        for figure in FIGURES:
            figures = [_figure(estimate, figure) for estimate in self.estimates]
            columns[figure] = pa.array(figures, pa.float64())
        columns["support"] = texts([str(estimate.support) for estimate in self.estimates])
        columns["what"] = texts([estimate.what for estimate in self.estimates])
        return pa.table(columns)

    def _group(self, key: tuple[Value, ...]) -> dict[str, Value]:
        """Return the values of a group with their labels, by column."""
        found: dict[str, Value] = {}
        for name, value in zip(self.by, key, strict=True):
            found[name] = value
            if labels := self.labels.get(name):
                found[f"{name}_label"] = labels.get(str(value))
        return found

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
        return [{**self._group(key), **estimate.to_dict()} for key, estimate in self]

    def to_csv(self) -> str:
        """Return the table as CSV text."""
        written = io.StringIO()
        rows = csv.writer(written, lineterminator="\n")
        groups = [self._group(key) for key in self.keys]
        names = groups[0] if groups else self.by
        rows.writerow([*map(no_formula, names), *FIGURES, "support", "what"])
        for group, estimate in zip(groups, self.estimates, strict=True):
            parts = ["" if part is None else no_formula(str(part)) for part in group.values()]
            numbers = [_figure(estimate, figure) for figure in FIGURES]
            figures = ["" if number is None else repr(number) for number in numbers]
            if estimate.moment:
                figures[:3] = estimate.figures()
            rows.writerow([*parts, *figures, estimate.support, no_formula(estimate.what)])
        return written.getvalue()

    def to_excel(self, path: str | Path) -> None:
        """Write the table to a new ``.xlsx`` file, with a sheet of notes; needs openpyxl.

        Parameters
        ----------
        path : str or Path
            The file, which must not exist.

        Raises
        ------
        ReleaseError
            If the file exists, has another suffix, or cannot be written.
        """
        frame = self.to_arrow()
        notes = pa.table({"note": [_INTERVALS, *self.notes]})
        write_workbook(path, {"answer": frame, "notes": notes})

    # --- for people -------------------------------------------------------------------------------

    def rows(self) -> tuple[list[str], list[list[str]]]:
        """Return header and cells as texts."""
        whats = list(dict.fromkeys(estimate.what for estimate in self.estimates))
        what = whats[0] if len(whats) == 1 else "value"
        header = [*self.by, what, "low", "high"]
        cells = [[*map(str, self._shown(key)), *estimate.figures()] for key, estimate in self]
        return header, cells

    def _shown(self, key: tuple[Value, ...]) -> tuple[Value, ...]:
        """Return a group with the labels of its values; values without label stay as they are."""
        parts = []
        for name, value in zip(self.by, key, strict=True):
            text = _written(value)
            said = with_label(text, self.labels.get(name, {}))
            parts.append(value if said == text and value is not None else said)
        return tuple(parts)

    def __str__(self) -> str:
        return aligned(*self.rows(), len(self.by))

    def _repr_html_(self) -> str:
        notes = "".join(f"<br><small>{html.escape(note)}</small>" for note in self.notes)
        return f"{html_table(*self.rows())}<small>95% intervals.</small>{notes}"

    def __repr__(self) -> str:
        lines = str(self).splitlines()
        if len(self) > _SHOWN:
            more = f"... {len(self) - _SHOWN:,} more rows: print() shows all, to_pandas() has them."
            lines[_SHOWN + 2 :] = [more]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    def plot(self) -> Plot:
        """Plot the estimates with their intervals.

        More than 12 ordered groups, such as ages, become a line with a band, one line for each
        value of a second column. Other groups become rows with bars or dots.

        Returns
        -------
        Plot
            The plot, which notebooks show; ``save("plot.svg")`` writes it to a file.
        """
        from hushtable.query.answers.plot import plot  # noqa: PLC0415 - rarely needed

        groups = {self._shown(key): estimate for key, estimate in self}
        what = self.rows()[0][len(self.by)]
        bars = what.startswith((*COUNTED, "share of", "total of"))
        return plot(self.by, groups, what, written, bars=bars)


def aligned(header: Sequence[str], cells: Sequence[Sequence[str]], n_left: int) -> str:
    """Return a Markdown table; the first `n_left` columns are texts, the others numbers."""
    header, cells = [_plain(cell) for cell in header], [[_plain(c) for c in r] for r in cells]
    widths = [max(len(row[i]) for row in (header, *cells)) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        parts = [
            cell.ljust(width) if i < n_left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "| " + " | ".join(parts) + " |"

    rule = [
        ":" + "-" * (width + 1) if i < n_left else "-" * (width + 1) + ":"
        for i, width in enumerate(widths)
    ]
    return "\n".join([line(header), "|" + "|".join(rule) + "|", *map(line, cells)])


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
    return "(missing)" if part is None else str(part)


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
