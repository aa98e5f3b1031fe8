"""Dry runs: a release of a surrogate table, to estimate the quality of the real one.

The surrogate table follows the schema. Its values are drawn from the public domain alone, so it
contains no row, count or frequency of the private table. Values early in a list are more frequent,
and neighboring columns are weakly associated, so that a report on it has something to show. A
public table can take its place.

`dry_run` publishes this table like the private one and reports the errors of counts of its rows:
median and maximum, by column and for pairs of columns. All rows are made up or public, so a dry run
costs no privacy budget.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hushtable.arrays import Floats, Integers
from hushtable.engine import MemoryEngine, connect
from hushtable.errors import ParameterError, Refused
from hushtable.methods.base import Method
from hushtable.privacy.unit import Unit
from hushtable.publishing.publish import publish
from hushtable.schema import Categorical, Column, Numeric, Schema

USUAL_ROWS = 10_000
"""Rows of the surrogate table if no number is given."""

N_RANGES = 10
"""Number of ranges, with about equal numbers of rows, that are counted in an ordered column."""

MAX_PAIRS = 300
"""Maximum number of pairs of columns that are compared; if there are more, every n-th is."""

LEAST = 0.005
"""Counts below this share of the rows are left out."""

BLAMED = 2.0
"""A column is reported if its typical error exceeds that of the median column this many times."""

N_BINS = 20
"""Approximate number of bins that a dry run tries for the worst reported column."""

HELPED = 0.8
"""Bins help if they reduce the typical error to at most this share of it."""

MAX_ROWS = 200_000
_MISSING = 0.03

_VARIANTS: tuple[tuple[float, float, float, Callable[[Floats], Floats]], ...] = (
    # shares of values that follow the previous column, and that follow the row's class; skew of
    # categories; place of a number in its range, from its rank: widely spread, exponential, and
    # bell-shaped
    (0.5, 0.0, 0.7, lambda rank: rank**1.3),
    (0.05, 0.3, 1.2, lambda rank: -np.log1p(-rank) / 10),
    (0.0, 0.7, 2.0, lambda rank: 0.4 + 0.07 * np.log((rank + 1e-9) / (1 - rank))),
)
N_CLASSES = 12
"""Number of classes of rows, whose values in all columns resemble each other."""

N_VARIANTS = len(_VARIANTS)
"""Number of structures of surrogate tables; the first is that of a dry run."""


def surrogate_schema(schema: Schema) -> Schema:
    """Return the schema of the surrogate table, with a name that identifies it as one."""
    return schema.model_copy(
        update={"name": f"{schema.name} (surrogate, made-up rows)", "rows": None}
    )


def make_surrogate(schema: Schema, rows: int, variant: int = 0) -> pa.Table:
    """Return a surrogate table drawn from the schema alone; it is the same each time.

    The table has at least 1 row and at most `MAX_ROWS`. Variants below `N_VARIANTS` differ in the
    skew and the dependence of columns.

    Examples
    --------
    >>> from hushtable import sample_schema
    >>> table = make_surrogate(sample_schema(), 500)
    >>> table.num_rows, table.column_names == list(sample_schema().columns)
    (500, True)
    """
    rng = np.random.default_rng(variant)
    together, in_class, skew, place = _VARIANTS[variant]
    rows = min(max(rows, 1), MAX_ROWS)
    mood = rng.random(rows)
    classes = rng.integers(0, N_CLASSES, rows) if in_class else np.zeros(rows, np.int64)
    columns: dict[str, pa.Array] = {}
    for name in schema.columns:
        if name not in schema.attributes:
            # A person may have several rows.
            n_units = max(rows // 2, 1) if schema.unit.column == name else rows
            columns[name] = pa.array([str(n) for n in rng.integers(0, n_units, rows)])
            continue
        own = rng.random(rows)
        if in_class:
            near = rng.random(N_CLASSES)[classes] + 0.15 * (own - 0.5)
            own = np.where(rng.random(rows) < in_class, np.clip(near, 0, 1 - 1e-9), own)
        mood = np.where(rng.random(rows) < together, mood, own)
        columns[name] = _values(schema.attributes[name], mood, skew, place, rng)
    return pa.table(columns)


def _values(
    column: Column,
    mood: Floats,
    skew: float,
    place: Callable[[Floats], Floats],
    rng: np.random.Generator,
) -> pa.Array:
    if isinstance(column, Categorical):
        weights = 1.0 / (1.0 + np.arange(column.n_values)) ** skew
        codes = np.searchsorted(np.cumsum(weights) / weights.sum(), mood)
    else:
        codes = (place(mood) * column.n_values).astype(np.int64)
    codes = np.clip(codes, 0, column.n_values - 1)
    values = [column.value(int(code)) for code in codes]
    if column.missing == "category":
        gone = rng.random(len(values)) < _MISSING
        values = [None if none else value for value, none in zip(values, gone, strict=True)]
    return pa.array(values)


# --- errors ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ErrorSummary:
    """Errors of counts of at least a share `LEAST` of the rows.

    Parameters
    ----------
    typical, worst : float
        The median and the largest absolute error, as shares of the count.
    rows : float
        The median absolute error in rows.
    n_questions : int
        Number of counts.
    """

    typical: float
    worst: float
    rows: float
    n_questions: int


@dataclass(frozen=True)
class DryRun:
    """The result of a dry run.

    Parameters
    ----------
    rows : int
        Rows of the table that was published.
    on : str
        Name or description of that table.
    columns : mapping of str to ErrorSummary
        Errors by column.
    pairs : ErrorSummary or None
        Errors for pairs of columns.
    advice : tuple of str
        Columns with large errors, and possible remedies.
    """

    rows: int
    on: str
    columns: Mapping[str, ErrorSummary]
    pairs: ErrorSummary | None
    advice: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return {**asdict(self), "advice": list(self.advice)}


def dry_run(
    method: Method, schema: Schema, *, rows: int | None = None, like: str | Path | None = None
) -> DryRun:
    """Publish a surrogate or public table and report the errors of its counts.

    Parameters
    ----------
    method : Method
        The method, with its parameters.
    schema : Schema
        The public schema of the private table.
    rows : int, optional
        Rows of the surrogate table, at most 200,000; by default the schema's number, or 10,000.
    like : path, optional
        A public table with the schema's columns, instead of the surrogate.

    Returns
    -------
    DryRun
        Errors by column and for pairs, and advice.

    Raises
    ------
    ParameterError
        If the table does not fit in memory.
    Refused
        If the method publishes no rows, or no rows with single values.

    Examples
    --------
    >>> from hushtable import Quilt, sample_schema
    >>> found = dry_run(Quilt(epsilon=5, delta="1e-6", particles=2000), sample_schema(), rows=5000)
    >>> list(found.columns), found.columns["sex"].typical < 0.2
    (['age', 'sex', 'region', 'smoker', 'diagnosis'], True)
    """
    public = surrogate_schema(schema)
    table: Any = like
    if like is None:
        known = schema.expected_rows(rows)
        table = make_surrogate(public, USUAL_ROWS if known is None else known)
    names, made = list(schema.attributes), _published(table, public, method)
    private = _codes(table, public, names)
    cells = {name: _questions(public.attributes[name], private[name]) for name in names}
    compared = _compare(cells, private, _codes(made, public, names))
    columns = {name: off for name in names if (off := _off(compared[name])) is not None}
    pairs = _of_pairs(compared)

    def again(name: str, schema: Schema) -> ErrorSummary | None:
        """Publish again with a schema that differs in one column; return that column's errors."""
        other = _codes(_published(table, schema, method), public, [name])
        return _off(_compare({name: cells[name]}, private, other)[name])

    advice = (*_of_columns(columns, public, again), *_about_pairs(columns, pairs))
    on = "a surrogate table of made-up rows" if like is None else Path(like).name
    return DryRun(len(private[names[0]]), on, columns, pairs, advice)


def _published(table: Any, schema: Schema, method: Method) -> pa.Table:
    """Publish to a temporary folder and return the published rows."""
    with tempfile.TemporaryDirectory() as folder:
        apart = method.for_dry_run(Path(folder))
        release = publish(table, schema, apart, out=Path(folder) / "dry-run", anyway=True)
        made = release.frame(drawn=bool(release.recode))
    if not made.num_rows:
        raise Refused(
            "the dry run published no rows to compare with the original ones; increase epsilon, or "
            "publish fewer columns."
        )
    lost = [name for name in schema.attributes if name not in made.column_names]
    if lost:
        raise Refused(
            f"{method.name} does not publish rows with single values (no column "
            f"{', '.join(lost)}), so a dry run cannot compare them."
        )
    return made


def _codes(table: Any, schema: Schema, names: Sequence[str]) -> dict[str, Integers]:
    """Return surrogate or published rows as codes; they are not private."""
    if isinstance(table, pa.Table):
        table = table.select(list(names))
        schema = Schema(
            name=schema.name,
            unit=Unit(kind="row"),
            missing_values=schema.missing_values,
            columns={name: schema.columns[name] for name in names},
        )
    engine = connect(table, schema, engine="memory")
    if not isinstance(engine, MemoryEngine):
        raise ParameterError("a dry run needs a table that fits in memory.")
    return engine.codes(list(names))


def _questions(column: Column, codes: Integers) -> Integers:
    """Return the index of the count that includes each code: of its value or range."""
    if not column.is_line:
        return np.arange(column.size)
    counts = np.bincount(codes, minlength=column.size)
    ranks = (np.cumsum(counts) - counts / 2) / max(len(codes), 1)  # mid-rank of each value
    found = np.minimum((N_RANGES * ranks).astype(np.int64), N_RANGES - 1)
    # Special values and missing have no order: count each separately.
    found[column.size - column.n_special :] = N_RANGES + np.arange(column.n_special)
    return np.unique(found, return_inverse=True)[1].ravel()


class _Compared(NamedTuple):
    """Index of the count that each original and each published row belongs to."""

    original: Integers
    published: Integers
    n_questions: int

    def times(self, other: _Compared) -> _Compared:
        """Return the counts for each combination of values of both columns."""
        n = other.n_questions
        return _Compared(
            self.original * n + other.original,
            self.published * n + other.published,
            self.n_questions * n,
        )


def _compare(
    cells: Mapping[str, Integers], private: Mapping[str, Integers], made: Mapping[str, Integers]
) -> dict[str, _Compared]:
    return {
        name: _Compared(of_code[private[name]], of_code[made[name]], int(of_code.max()) + 1)
        for name, of_code in cells.items()
    }


def _off(compared: _Compared) -> ErrorSummary | None:
    """Compare counts of original and published rows; None if all are too small."""
    truth = np.bincount(compared.original, minlength=compared.n_questions)
    weight = len(compared.original) / len(compared.published)
    error = np.abs(weight * np.bincount(compared.published, minlength=compared.n_questions) - truth)
    asked = truth >= max(LEAST * len(compared.original), 1)
    if not asked.any():
        return None
    shares = error[asked] / truth[asked]
    return ErrorSummary(
        float(np.median(shares)),
        float(shares.max()),
        float(np.median(error[asked])),
        int(asked.sum()),
    )


def _of_pairs(compared: Mapping[str, _Compared]) -> ErrorSummary | None:
    pairs = list(combinations(compared.values(), 2))
    some = pairs[:: -(-len(pairs) // MAX_PAIRS)] if pairs else []
    each = [off for one, two in some if (off := _off(one.times(two))) is not None]
    if not each:
        return None
    return ErrorSummary(
        float(np.median([off.typical for off in each])),
        max(off.worst for off in each),
        float(np.median([off.rows for off in each])),
        sum(off.n_questions for off in each),
    )


# --- advice ---------------------------------------------------------------------------------------


def _of_columns(
    columns: Mapping[str, ErrorSummary],
    schema: Schema,
    again: Callable[[str, Schema], ErrorSummary | None],
) -> Iterator[str]:
    """Yield advice on columns with large errors; for the worst, try whether bins help."""
    middle = _middle(columns)
    blamed = sorted(
        (name for name, off in columns.items() if off.typical > BLAMED * middle),
        key=lambda name: -columns[name].typical,
    )
    for place, name in enumerate(blamed):
        typical = columns[name].typical
        said = (
            f"column {name!r} has a typical error of {percent(typical)} (median column: "
            f"{percent(middle)}) and {schema.attributes[name].size:,} values"
        )
        coarser = _in_bins(schema, name)
        if place or coarser is None:
            yield f"{said}."
            continue
        rule, public = coarser
        then = again(name, public)
        if then is None or then.typical > HELPED * typical:
            yield f"{said}; bins: {rule} in the schema would not help."
        else:
            yield (
                f"{said}; with bins: {rule} in the schema, its error was {percent(then.typical)} "
                "in another dry run."
            )


def _in_bins(schema: Schema, name: str) -> tuple[float, Schema] | None:
    """Return the width of coarser bins of a column and the schema with them; None without any."""
    column = schema.attributes[name]
    if not isinstance(column, Numeric) or column.bins is not None:
        return None
    n_together = -(-column.n_values // N_BINS)
    if n_together < 2:
        return None
    width = n_together * column.exact_step
    rule = int(width) if width.denominator == 1 else float(width)
    plain = schema.to_dict()
    plain["columns"] = {**plain["columns"], name: {**plain["columns"][name], "bins": rule}}
    return rule, Schema.from_dict(plain)


def _about_pairs(columns: Mapping[str, ErrorSummary], pairs: ErrorSummary | None) -> Iterator[str]:
    middle = _middle(columns)
    if pairs is not None and middle and pairs.typical > 2 * BLAMED * middle:
        yield (
            f"pairs of columns have a typical error of {percent(pairs.typical)}, single columns of "
            f"{percent(middle)}: fewer columns or a larger epsilon would help pairs."
        )


def _middle(columns: Mapping[str, ErrorSummary]) -> float:
    """Return the typical error of the median column (the lower of two)."""
    errors = sorted(off.typical for off in columns.values())
    return errors[(len(errors) - 1) // 2] if errors else 0.0


def percent(share: float) -> str:
    """Format a share as a percentage with two digits.

    Examples
    --------
    >>> percent(0.0123), percent(0.5), percent(2.4)
    ('1.2%', '50%', '240%')
    """
    return f"{100 * share:.2g}%" if share < 0.995 else f"{100 * share:,.0f}%"
