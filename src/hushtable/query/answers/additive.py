"""Tables that add up: counts that agree in all cells, margins and levels of taxonomies.

Every requested table has all its margins. Least squares over the estimates of all of them, each
weighted by its precision, gives one joint table of all columns, with cells of at least 0. It is
rounded to whole numbers. All published counts are sums of its cells, so they add up to the last
digit. Rounding increases or decreases single cells as long as all tables come closer to the
unrounded ones (controlled rounding).

An interval is that of the same count asked alone, extended to contain the published count. So it
covers the truth at least as often.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hushtable.arrays import Floats, Integers
from hushtable.errors import ParameterError, unpublished
from hushtable.files.rows import write_workbook
from hushtable.files.writing import require_new, write_whole
from hushtable.query.answers.estimator import Estimator, count_of
from hushtable.query.answers.row_sums import ONE, RowFunction
from hushtable.query.answers.table import aligned
from hushtable.schema import Categorical, Column

MAX_JOINT, MAX_COUNTS = 200_000, 20_000  # cells of the joint table, and counts of all tables
TOTAL = "_T"
_N_ITERATIONS = 300
_WEIGHT_OF_ROWS = 1e-4  # of the published rows, where no requested table says anything
_NO_ID = re.compile(r"[^A-Za-z0-9_@$-]+")

Subset = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Category:
    """A value, a group of values of a taxonomy, or the total of a column."""

    id: str
    label: str
    codes: Floats  # 1 for each code that it contains
    is_value: bool


def categories_of(column: Column) -> list[Category]:
    """Return the values of a column, the groups of each level of its taxonomy, and the total."""
    found = [
        (column.name(code), np.arange(column.size) == code, True) for code in range(column.size)
    ]
    if isinstance(column, Categorical) and column.taxonomy is not None:
        for level in range(1, column.taxonomy.depth):
            group_of = column.taxonomy.level(level)
            groups = [group_of.get(str(column.value(c))) for c in range(column.n_values)]
            for group in dict.fromkeys(g for g in groups if g is not None):
                mine = np.array(
                    [g == group for g in groups] + [False] * (column.size - len(groups))
                )
                if mine.sum() > 1 and not any(np.array_equal(mine, one[1]) for one in found):
                    found.append((group, mine, False))
    made: list[Category] = []
    for label, codes, is_value in [*found, ("Total", np.ones(column.size, bool), False)]:
        short = TOTAL if label == "Total" and not is_value and codes.all() else ""
        short = short or _NO_ID.sub("_", label) or "_"
        taken = {one.id for one in made}
        name = short if short not in taken else f"{short}_{len(made)}"
        made.append(Category(name, label, codes.astype(np.float64), is_value))
    return made


@dataclass(frozen=True, eq=False)
class AdditiveTable:
    """One table with all its margins and levels: an axis per column, over its categories."""

    columns: tuple[str, ...]
    categories: tuple[tuple[Category, ...], ...]
    counts: Integers
    low: Floats
    high: Floats

    def to_arrow(self) -> pa.Table:
        """Return one row per count, with the label of its category in each column."""
        labels = np.array(list(itertools.product(*([c.label for c in one]
                                                   for one in self.categories))))  # fmt: skip
        columns = {name: pa.array(labels[:, at]) for at, name in enumerate(self.columns)}
        figures = {"count": self.counts, "low": self.low, "high": self.high}
        return pa.table(columns | {name: figure.ravel() for name, figure in figures.items()})

    def __str__(self) -> str:
        names = [name for name in self.to_arrow().column_names if name not in self.columns]
        rows = self.to_arrow().to_pylist()
        cells = [[*(r[c] for c in self.columns), *(f"{r[name]:,.0f}" for name in names)]
                 for r in rows]  # fmt: skip
        return aligned([*self.columns, *names], cells, len(self.columns))

    def to_json_stat(self, label: str) -> dict[str, Any]:
        """Return a JSON-stat 2.0 dataset; the last dimension has count, low and high."""
        dimension: dict[str, Any] = {}
        for name, several in zip(self.columns, self.categories, strict=True):
            parts = {
                one.id: [c.id for c in several if c.is_value and one.codes @ c.codes]
                for one in several
                if not one.is_value
            }
            category = {
                "index": [one.id for one in several],
                "label": {one.id: one.label for one in several},
                "child": parts,
            }
            dimension[name] = {"label": name, "category": category}
        measures = {"count": "count", "low": "95% interval, lower", "high": "95% interval, upper"}
        dimension["measure"] = {
            "label": "measure", "category": {"index": [*measures], "label": measures},
        }  # fmt: skip
        values = np.stack([self.counts, self.low.round(1), self.high.round(1)], axis=-1)
        return {
            "version": "2.0",
            "class": "dataset",
            "label": label,
            "id": [*self.columns, "measure"],
            "size": [*values.shape],
            "role": {"metric": ["measure"]},
            "dimension": dimension,
            "value": [float(v) if v % 1 else int(v) for v in values.ravel().tolist()],
        }


@dataclass(frozen=True, eq=False)
class AdditiveTables:
    """Tables whose counts add up exactly, across all of them.

    Parameters
    ----------
    name : str
        Name of the data set.
    tables : tuple of AdditiveTable
        The tables, as requested.
    rounding : float
        Largest change of a count by rounding to whole numbers.
    """

    name: str
    tables: tuple[AdditiveTable, ...]
    rounding: float

    def __getitem__(self, place: int) -> AdditiveTable:
        return self.tables[place]

    def to_json_stat(self) -> dict[str, Any]:
        """Return a JSON-stat 2.0 dataset or, for several tables, a collection."""
        made = [t.to_json_stat(f"{self.name}: {' by '.join(t.columns)}") for t in self.tables]
        if len(made) == 1:
            return made[0]
        return {"version": "2.0", "class": "collection", "label": self.name,
                "link": {"item": made}}  # fmt: skip

    def to_sdmx_csv(self) -> str:
        """Return SDMX-CSV 2.0 text: a column that a table does not have is its total."""
        names = list(dict.fromkeys(name for table in self.tables for name in table.columns))
        ids = [_NO_ID.sub("_", name).upper() for name in names]
        written, seen = io.StringIO(), set[tuple[str, ...]]()
        rows = csv.writer(written, lineterminator="\n")
        rows.writerow(["STRUCTURE", "STRUCTURE_ID", "ACTION", *ids, "OBS_VALUE", "LOW", "HIGH"])
        flow = f"HUSHTABLE:{_NO_ID.sub('_', self.name).upper()}(1.0)"
        for table in self.tables:
            for cell, several in zip(
                np.ndindex(table.counts.shape), itertools.product(*table.categories), strict=True
            ):
                place = dict(zip(table.columns, (one.id for one in several), strict=True))
                key = tuple(place.get(name, TOTAL) for name in names)
                if key not in seen:  # a margin of several tables is the same in all of them
                    seen.add(key)
                    ends = (f"{table.low[cell]:.1f}", f"{table.high[cell]:.1f}")
                    rows.writerow(["dataflow", flow, "I", *key, int(table.counts[cell]), *ends])
        return written.getvalue()

    def export(self, path: str | Path) -> None:
        """Write a new file: ``.json`` (JSON-stat 2.0), ``.csv`` (SDMX-CSV 2.0) or ``.xlsx``.

        Parameters
        ----------
        path : str or Path
            The file, which must not exist.
        """
        path = Path(path)
        if path.suffix == ".xlsx":
            write_workbook(path, {f"table {n}": t.to_arrow() for n, t in enumerate(self.tables, 1)})
            return
        require_new(path, ".json", ".csv")
        text = self.to_sdmx_csv() if path.suffix == ".csv" else json.dumps(self.to_json_stat())
        write_whole(path, text)


def additive_tables(
    estimator: Estimator, name: str, wanted: Sequence[Sequence[str]]
) -> AdditiveTables:
    """Estimate tables, each with all margins, whose counts add up; see the module docstring."""
    attributes = estimator.asked.attributes
    names = list(dict.fromkeys(column for table in wanted for column in table))
    problems = unpublished(names, attributes)
    if not names or any(len(set(table)) < len(table) or not table for table in wanted):
        problems.append("each table must name at least one column, and each column once.")
    ParameterError.raise_if_any(problems)
    categories = {column: tuple(categories_of(attributes[column])) for column in names}
    sizes = tuple(attributes[column].size for column in names)
    n_counts = sum(math.prod(len(categories[column]) for column in table) for table in wanted)
    if math.prod(sizes) > MAX_JOINT or n_counts > MAX_COUNTS:
        raise ParameterError(
            f"these tables have {n_counts:,} counts, and {math.prod(sizes):,} combinations of all "
            f"their columns; at most {MAX_COUNTS:,} and {MAX_JOINT:,} are possible. Request fewer "
            "columns together."
        )
    rows = np.zeros(sizes)
    np.add.at(rows, tuple(estimator.codes[column] for column in names), 1.0)
    whole = estimator.sums([ONE], together=False)
    rows *= max(float(whole.values[0]), 0.0) / max(rows.sum(), 1.0)
    ends, measured = [], dict[Subset, tuple[Floats, float]]()
    for table in wanted:
        several = [categories[column] for column in table]
        found = estimator.sums([_cell(table, one) for one in itertools.product(*several)],
                               together=False)  # fmt: skip
        shape = tuple(map(len, several))
        told = [
            count_of(found, at, whole.values[0], scope="people") for at in range(math.prod(shape))
        ]
        ends.append([np.array([getattr(one, end) for one in told]).reshape(shape)
                     for end in ("low", "high")])  # fmt: skip
        values, variances = found.values.reshape(shape), np.diag(found.privacy + found.model)
        for kept in itertools.product([False, True], repeat=len(table)):
            # A margin contains the values of its columns and the totals of the others.
            cells = np.ix_(*(
                range(attributes[column].size) if keep else [len(categories[column]) - 1]
                for column, keep in zip(table, kept, strict=True)
            ))  # fmt: skip
            of = [names.index(c) for c, keep in zip(table, kept, strict=True) if keep]
            counts = values[cells].reshape([sizes[at] for at in of])
            order = np.argsort(of)
            mean = float(np.mean(variances.reshape(shape)[cells]))
            measured[tuple(sorted(of))] = counts.transpose(order), max(mean, 1e-6)
    joint = least_squares(rows, measured)
    whole_numbers = rounded(joint, [*measured])
    off = max(float(np.abs(_margin(whole_numbers - joint, at)).max()) for at in measured)
    made = []
    for table, (low, high) in zip(wanted, ends, strict=True):
        counts = whole_numbers.sum(axis=tuple(at for at, c in enumerate(names) if c not in table))
        own = [column for column in names if column in table]
        counts = counts.transpose([own.index(column) for column in table])
        for axis, column in enumerate(table):
            codes = np.stack([one.codes for one in categories[column]])
            counts = np.moveaxis(np.tensordot(codes, counts, (1, axis)), 0, axis)
        found_counts = counts.round().astype(np.int64)
        made.append(
            AdditiveTable(
                tuple(table),
                tuple(categories[column] for column in table),
                found_counts,
                np.minimum(low, found_counts),
                np.maximum(high, found_counts),
            )
        )
    return AdditiveTables(name, tuple(made), off)


def _cell(table: Sequence[str], several: Sequence[Category]) -> RowFunction:
    pairs = zip(table, several, strict=True)
    return RowFunction({column: one.codes for column, one in pairs if not one.codes.all()})


def _margin(table: Floats, kept: Subset) -> Floats:
    return np.asarray(table.sum(axis=tuple(at for at in range(table.ndim) if at not in kept)))


def _spread(margin: Floats, kept: Subset, n_axes: int) -> Floats:
    return np.expand_dims(margin, tuple(at for at in range(n_axes) if at not in kept))


def least_squares(rows: Floats, measured: Mapping[Subset, tuple[Floats, float]]) -> Floats:
    """Return the nonnegative joint table whose margins are closest to the measured ones.

    The normal equations are diagonal in the components of the analysis of variance. They are solved
    in turn with the projection to nonnegative tables (ADMM; Boyd and others 2011).

    Parameters
    ----------
    rows : float array
        Joint table of the published rows, which decides what no margin measures.
    measured : mapping of tuple to (float array, float)
        For the axes of each margin its counts, and the variance of each.
    """
    n_axes, wanted = rows.ndim, np.zeros(rows.shape)
    for kept, (counts, variance) in measured.items():
        wanted += _spread(counts, kept, n_axes) / variance
    parts = [*itertools.product([False, True], repeat=n_axes)]
    eigenvalues = np.array([
        sum(
            math.prod(rows.shape[at] for at in range(n_axes) if at not in kept) / variance
            for kept, (_, variance) in measured.items()
            if all(at in kept for at in range(n_axes) if part[at])
        )
        for part in parts
    ])  # fmt: skip
    loose = _WEIGHT_OF_ROWS * float(eigenvalues[eigenvalues > 0].min())
    pull = float(np.exp(np.mean(np.log(eigenvalues + loose))))
    wanted += loose * rows

    def solve(right: Floats) -> Floats:
        found = np.zeros(rows.shape)
        for part, eigenvalue in zip(parts, eigenvalues, strict=True):
            own = right
            for axis, inside in enumerate(part):
                mean = own.mean(axis=axis, keepdims=True)
                own = own - mean if inside else mean
            found += own / (eigenvalue + loose + pull)
        return found

    table, dual = rows, np.zeros(rows.shape)
    for _ in range(_N_ITERATIONS):
        free = solve(wanted + pull * (table - dual))
        table = np.maximum(free + dual, 0.0)
        dual = dual + free - table
    return table


def rounded(table: Floats, margins: Sequence[Subset]) -> Floats:
    """Round a table to whole numbers of at least 0, so that its margins stay close.

    Cumulative sums are rounded first. Then the cell whose change brings the squared deviations of
    all margins down most is changed by 1, as long as there is one.

    Examples
    --------
    >>> rounded(np.array([[0.4, 1.4], [0.4, 0.8]]), [(), (0,), (1,), (0, 1)]).tolist()
    [[0.0, 2.0], [0.0, 1.0]]
    """
    found = np.diff(np.cumsum(table.ravel()).round(), prepend=0.0).reshape(table.shape)
    total = np.zeros(table.shape)
    for kept in margins:
        total += _spread(_margin(found - table, kept), kept, table.ndim)
    for _ in range(4 * table.size):
        up = np.unravel_index(np.argmin(total), total.shape)
        down = np.unravel_index(np.argmax(np.where(found > 0, total, -np.inf)), total.shape)
        step, cell = (1.0, up) if -total[up] >= total[down] else (-1.0, down)
        if 2 * step * total[cell] + len(margins) >= -1e-9:
            break
        found[cell] += step
        for kept in margins:
            places = tuple(cell[at] if at in kept else slice(None) for at in range(table.ndim))
            total[places] += step
    return found
