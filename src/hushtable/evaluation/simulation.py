"""Forecasts from simulation: errors of answers from releases of surrogate tables.

`simulate` publishes surrogate tables with the schema and size of the private one, asks each release
random queries, and compares the answers with the surrogate's own. Formulas know the noise of a
method only. A simulation also contains what noise does to its decisions, and what its model, its
bins and its suppression lose. Surrogate tables have several structures of dependence, since that of
the private table is unknown; a public table can take their place. No private data is read, so a
simulation costs no privacy budget. `benchmarks/forecasts.py` compares forecasts with real tables.

`dry_run` reports the errors of one such release by column: those of counts of its rows.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import hushtable
from hushtable.errors import HushtableError, HushtableWarning, InvalidInput, Refused
from hushtable.evaluation.findings import TEXTS
from hushtable.evaluation.inputs import CodedRows, read_rows
from hushtable.evaluation.utility.marginals import Binned, coarse_bins
from hushtable.evaluation.utility.workload import CountQuestion, draw_questions
from hushtable.files.writing import replace_own
from hushtable.methods.base import Method
from hushtable.methods.registry import METHODS
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.publishing.publish import publish
from hushtable.publishing.surrogate import (
    N_VARIANTS,
    USUAL_ROWS,
    make_surrogate,
    surrogate_schema,
)
from hushtable.release.release import Release
from hushtable.schema import Integer, Number, Numeric, Schema

MAX_ROWS = 50_000
MAX_VALUES = 1_000_000
"""Maximum numbers of rows and values of a simulated table, so that a simulation takes seconds."""

KINDS = ("one column", "two columns", "three columns", "group means")
"""Kinds of queries: counts with conditions on one to three columns, and means of groups."""

WANTED = {
    "rows": KINDS,
    "counts": KINDS[:3],
    "predict": KINDS[1:3],
    "numbers": KINDS[3:],
}
"""Kinds of queries that matter for each use of a release."""

BESIDE = ("quilt", "noisy-counts", "partition", "diffgen")
"""Methods to compare."""

PER_CELL = 6
"""Count queries for each number of conditions and range of selectivity."""

N_MEANS = 6
"""Groups whose means are asked for."""

_MAX_NUMBERS = 50_000  # values of a column whose mean is asked for; more take long
_GROUP = 0.01  # minimum share of the rows in a group whose mean is asked for
_WORST = 0.95
_DESIGN = 1  # increase it if the same inputs give other results
_KEPT = 500  # stored simulations


@dataclass(frozen=True)
class SimulatedError:
    """Errors of one kind of query.

    Parameters
    ----------
    typical, worst : float
        Median, and the error that 95% of the queries do not exceed: in rows for counts, in standard
        deviations of the column for means. In a dry run, the largest error; both as shares of the
        count.
    n_queries : int
        Number of queries.
    rows : float, optional
        In a dry run, the median error in rows.
    """

    typical: float
    worst: float
    n_queries: int
    rows: float | None = None


@dataclass(frozen=True)
class Simulation:
    """Simulated errors of one method.

    Parameters
    ----------
    method : str
        Name of the method.
    rows : int
        Rows of the simulated tables.
    on : str
        Description of these tables.
    errors : mapping of str to SimulatedError
        Errors by kind of query; a kind is absent if no such query was answered.
    problems : tuple of str
        Reasons why `publish` refuses the plan; empty if it accepts it.
    """

    method: str
    rows: int
    on: str
    errors: Mapping[str, SimulatedError] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def score(self, kinds: Sequence[str] = KINDS) -> float:
        """Return the mean logarithm of the typical errors of some kinds; lower is better.

        It is infinite if the method is refused or leaves such queries unanswered.
        """
        wanted = [self.errors.get(kind) for kind in kinds]
        known = [math.log(max(one.typical, 1e-6)) for one in wanted if one is not None]
        return sum(known) / max(len(known), 1) if len(known) == len(wanted) else math.inf

    def in_words(self) -> dict[str, str]:
        """Return the typical error by kind of query, with the larger one in parentheses.

        Examples
        --------
        >>> found = SimulatedError(typical=21.7, worst=240.2, n_queries=40)
        >>> Simulation("quilt", 1000, "t", {KINDS[0]: found}).in_words()["one column"]
        '22 rows (240)'
        """
        words = {}
        for kind in KINDS:
            found, unit = self.errors.get(kind), "SD" if kind == KINDS[-1] else "rows"
            words[kind] = "not answered"
            if found is not None:
                words[kind] = f"{_written(found.typical)} {unit} ({_written(found.worst)})"
        return words

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return {**asdict(self), "problems": list(self.problems)}


def explained(simulations: Sequence[Simulation]) -> str:
    """Return what the figures of `Simulation.in_words` are, as sentences."""
    first = simulations[0]
    return TEXTS["simulated errors"].format(on=first.on, rows=first.rows)


def _written(error: float) -> str:
    return f"{error:,.0f}" if error >= 10 else f"{error:.2g}"


def simulate(
    method: Method,
    schema: Schema,
    *,
    rows: int | None = None,
    like: str | Path | None = None,
    stored_only: bool = False,
) -> Simulation | None:
    """Publish surrogate tables, or a public one, and measure the errors of answers.

    Results are stored in the user's cache folder, since they depend on public inputs only. They are
    repeatable: surrogate tables, queries and noise are drawn from fixed seeds.

    Parameters
    ----------
    method : Method
        The method, with its parameters.
    schema : Schema
        The public schema of the private table.
    rows : int, optional
        Approximate number of rows; by default the schema's number, or 10,000. At most 50,000 rows
        and a million values are simulated.
    like : path, optional
        A public table with the schema's columns, instead of surrogate tables.
    stored_only : bool
        Return None unless the result is stored.

    Examples
    --------
    >>> from hushtable import NoisyCounts, Schema
    >>> schema = Schema.parse("{name: t, columns: {age: {type: integer, low: 0, high: 9}}}")
    >>> found = simulate(NoisyCounts(epsilon=1, mechanism="pure"), schema, rows=1000)
    >>> 0 < found.errors["one column"].typical < 10
    True
    """
    known = schema.expected_rows(rows)
    stored = _place(method, schema, known, like)
    with suppress(OSError, ValueError, KeyError, TypeError):
        return _parsed(json.loads(stored.read_text(encoding="utf-8")))
    if stored_only:
        return None
    found = _simulated(method, schema, known, like)
    with suppress(OSError):  # a missing cache only costs time
        stored.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_own(stored, json.dumps(found.to_dict()), lasting=False)
        by_age = sorted(stored.parent.glob("*.json"), key=lambda path: path.stat().st_mtime)
        for old in by_age[:-_KEPT]:
            old.unlink()
    return found


def beside(method: Method) -> list[Method]:
    """Return other methods to compare, with the epsilon, delta and k of a method, if it has them.

    Examples
    --------
    >>> from hushtable import Partition
    >>> [other.name for other in beside(Partition(epsilon=2))]
    ['quilt', 'noisy-counts', 'diffgen']
    """
    epsilon, delta = getattr(method, "epsilon", None), getattr(method, "delta", None)
    given: dict[str, Any] = {"epsilon": epsilon or 1}
    approximate = {**given, "delta": delta or "0.000001"}
    own = {"quilt": approximate, "noisy-counts": approximate | {"k": getattr(method, "k", 10)}}
    return [METHODS[name](**own.get(name, given)) for name in BESIDE if name != method.name]


def compare_methods(
    methods: Sequence[Method], schema: Schema, *, use: str = "rows", **options: Any
) -> list[Simulation]:
    """Simulate several methods; return them by increasing error, with refused ones last.

    `options` are those of `simulate`.
    """
    each = [simulate(method, schema, **options) for method in methods]
    found = [one for one in each if one is not None]
    # A table may have no such queries, as one column has no pairs.
    kinds = [kind for kind in WANTED[use] if any(kind in one.errors for one in found)]
    return sorted(found, key=lambda one: (bool(one.problems), one.score(kinds)))


def _simulated(
    method: Method, schema: Schema, rows: int | None, like: str | Path | None
) -> Simulation:
    public = surrogate_schema(schema)
    most = max(min(MAX_ROWS, MAX_VALUES // max(len(public.attributes), 1)), 1)
    n_rows = min(USUAL_ROWS if rows is None else max(rows, 1), most)
    on = "surrogate tables of made-up rows" if like is None else Path(like).name
    errors: dict[str, list[float]] = {kind: [] for kind in KINDS}
    try:
        for variant in range(N_VARIANTS if like is None else 1):
            table = make_surrogate(public, n_rows, variant) if like is None else like
            coded = read_rows(table, public)
            if schema.rows is not None:  # a public number of rows, which some methods use
                public = public.model_copy(update={"rows": coded.n_rows})
            found = errors_of(method, public, table, coded, seed=variant, rows=rows)
            for kind, more in found.items():
                errors[kind] += more
            n_rows = coded.n_rows
    except HushtableError as refusal:
        return Simulation(method.name, n_rows, on, problems=tuple(refusal.problems))
    return Simulation(method.name, n_rows, on, summarized(errors))


def summarized(errors: Mapping[str, Sequence[float]]) -> dict[str, SimulatedError]:
    """Summarize the errors of each kind that has any."""
    return {
        kind: SimulatedError(
            float(np.median(found)), float(np.quantile(found, _WORST)), len(found)
        )
        for kind, found in errors.items()
        if found
    }  # fmt: skip


def errors_of(
    method: Method,
    schema: Schema,
    table: Any,
    coded: CodedRows,
    *,
    seed: int,
    rows: int | None = None,
    per_cell: int = PER_CELL,
) -> dict[str, list[float]]:
    """Publish a table without protection, and return the errors of random queries by kind.

    `coded` contains the rows of the table. What `publish` refuses for `rows` rows is refused.
    """
    with _published(table, schema, method, seed=seed, rows=rows) as release:
        return measure_errors(release, coded, seed=seed, per_cell=per_cell)


@contextmanager
def _published(
    table: Any, schema: Schema, method: Method, *, seed: int, **options: Any
) -> Iterator[Release]:
    """Publish a table without protection; delete the release at the end."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", HushtableWarning)
        own, out = method.for_dry_run(Path(folder)), Path(folder) / "release"
        yield publish(table, schema, own, out=out, noise=SeededNoise(seed), **options)


def measure_errors(
    release: Release, rows: CodedRows, *, seed: int, per_cell: int = PER_CELL
) -> dict[str, list[float]]:
    """Return the errors of random queries to a release of known rows, by kind of query."""
    rng = np.random.default_rng(seed)
    about = release.published(rng).about
    if about not in {"rows", "distinct tuples"}:
        raise Refused(f"{release.statement.method} answers queries about {about}, not rows.")
    rows = rows.distinct() if about == "distinct tuples" else rows
    errors: dict[str, list[float]] = {kind: [] for kind in KINDS}
    groups = []
    for question, truth in draw_questions(rows, rng, per_cell=per_cell):
        n_columns = len(question.conditions)
        if n_columns == 1 and truth >= _GROUP * rows.n_rows:
            groups.append(question)
        with suppress(Refused, InvalidInput):
            errors[KINDS[n_columns - 1]].append(abs(release.count(question.sql).value - truth))
    for question in groups[:N_MEANS]:
        for name, mean, std in _means(rows, question, rng):
            with suppress(Refused, InvalidInput):
                value = release.mean(name, question.sql).value  # type: ignore[union-attr]
                if math.isfinite(value):
                    errors["group means"].append(abs(value - mean) / std)
    return errors


def _means(
    rows: CodedRows, question: CountQuestion, rng: np.random.Generator
) -> list[tuple[str, float, float]]:
    """Return a random number column, its mean in the group, and its standard deviation overall."""
    asked = {condition.name for condition in question.conditions}
    numeric = [
        name
        for name, column in rows.schema.attributes.items()
        if isinstance(column, Integer | Number)
        and 2 < column.n_values <= _MAX_NUMBERS
        and name not in asked
    ]
    if not numeric:
        return []
    name = numeric[int(rng.integers(len(numeric)))]
    column, codes = rows.schema.attributes[name], rows.codes[name]
    present = codes < column.n_values
    there, places = np.unique(codes[present], return_inverse=True)
    values = np.array([column.value(int(code)) for code in there], np.float64)[places]
    inside = np.logical_and.reduce([c.mask(rows.codes[c.name]) for c in question.conditions])
    std = float(values.std()) if len(values) else 0.0
    if not std or not inside[present].any():
        return []
    return [(name, float(values[inside[present]].mean()), std)]


# --- stored results -------------------------------------------------------------------------------


def _place(method: Method, schema: Schema, rows: int | None, like: str | Path | None) -> Path:
    """Return the file in the user's cache folder that stores the result for these inputs."""
    inputs = {
        "version": [hushtable.__version__, _DESIGN],
        "method": [method.name, method.parameters()],
        "schema": schema.to_dict(),
        "rows": rows,
        "like": like and hashlib.sha256(Path(like).read_bytes()).hexdigest(),
    }
    digest = hashlib.sha256(json.dumps(inputs, sort_keys=True, default=str).encode()).hexdigest()
    folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(folder) / "hushtable" / "forecasts" / f"{digest}.json"


def _parsed(plain: dict[str, Any]) -> Simulation:
    errors = {kind: SimulatedError(**found) for kind, found in plain["errors"].items()}
    return Simulation(**{**plain, "errors": errors, "problems": tuple(plain["problems"])})


# --- dry runs -------------------------------------------------------------------------------------

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


@dataclass(frozen=True)
class DryRun:
    """The result of a dry run.

    Parameters
    ----------
    rows : int
        Rows of the table that was published.
    on : str
        Name or description of that table.
    columns : mapping of str to SimulatedError
        Errors by column.
    pairs : SimulatedError or None
        Errors for pairs of columns.
    advice : tuple of str
        Columns with large errors, and possible remedies.
    """

    rows: int
    on: str
    columns: Mapping[str, SimulatedError]
    pairs: SimulatedError | None
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
    known = schema.expected_rows(rows)
    table = make_surrogate(public, USUAL_ROWS if known is None else known) if like is None else like
    original = read_rows(table, public)
    bins = {n: coarse_bins(c, original.codes[n]) for n, c in public.attributes.items()}
    truth = Binned(original, bins)

    def compare(own: Schema) -> Callable[..., SimulatedError | None]:
        """Publish; return a function that compares the counts by some columns."""
        made = Binned(read_rows(_rows_of(table, own, method), public), bins)
        return lambda *names: _errors_of_counts(truth, made, names)

    errors = compare(public)
    columns = {name: off for name in public.attributes if (off := errors(name)) is not None}
    pairs = list(combinations(public.attributes, 2))
    some = pairs[:: -(-len(pairs) // MAX_PAIRS)] if pairs else []
    of_pairs = [off for pair in some if (off := errors(*pair)) is not None]
    together = None
    if of_pairs:
        together = SimulatedError(
            float(np.median([off.typical for off in of_pairs])),
            max(off.worst for off in of_pairs),
            sum(off.n_queries for off in of_pairs),
            float(np.median([off.rows or 0.0 for off in of_pairs])),
        )
    advice = _advice(columns, together, public, lambda name, own: compare(own)(name))
    on = "a surrogate table of made-up rows" if like is None else Path(like).name
    return DryRun(original.n_rows, on, columns, together, tuple(advice))


def _rows_of(table: Any, schema: Schema, method: Method) -> pa.Table:
    """Publish a table and return the published rows."""
    with _published(table, schema, method, seed=0, anyway=True) as release:
        made = release.frame(drawn=bool(release.recode))
    if not made.num_rows:
        raise Refused(TEXTS["empty dry run"])
    lost = [name for name in schema.attributes if name not in made.column_names]
    if lost:
        raise Refused(TEXTS["no single values"].format(method=method.name, lost=", ".join(lost)))
    return made


def _errors_of_counts(truth: Binned, made: Binned, names: Sequence[str]) -> SimulatedError | None:
    """Compare the shares of the rows in each combination of bins; None if all are too small."""
    shares, found = truth.shares(names).ravel(), made.shares(names).ravel()
    asked = shares >= max(LEAST, 1 / truth.n_rows)
    if not asked.any():
        return None
    error = np.abs(found - shares)[asked]
    relative = error / shares[asked]
    return SimulatedError(
        float(np.median(relative)),
        float(relative.max()),
        int(asked.sum()),
        float(np.median(error)) * truth.n_rows,
    )


def _advice(
    columns: Mapping[str, SimulatedError],
    pairs: SimulatedError | None,
    schema: Schema,
    again: Callable[[str, Schema], SimulatedError | None],
) -> Iterator[str]:
    """Yield advice on columns with large errors; for the worst, try whether bins help."""
    by_error = sorted(columns, key=lambda name: -columns[name].typical)
    # The typical error of the median column (the lower of two).
    middle = columns[by_error[len(by_error) // 2]].typical if by_error else 0.0
    for place, name in enumerate(by_error):
        typical = columns[name].typical
        if typical <= BLAMED * middle:
            break
        said = TEXTS["large error"].format(
            name=name,
            typical=percent(typical),
            middle=percent(middle),
            size=schema.attributes[name].size,
        )
        coarser = None if place else _in_bins(schema, name)
        then = coarser and again(name, coarser[1])
        if coarser is None:
            yield f"{said}."
        elif then is None or then.typical > HELPED * typical:
            yield f"{said}; bins: {coarser[0]} in the schema would not help."
        else:
            yield (
                TEXTS["bins help"].format(said=said, width=coarser[0], then=percent(then.typical))
            )
    if pairs is not None and middle and pairs.typical > 2 * BLAMED * middle:
        yield (TEXTS["pairs far off"].format(pairs=percent(pairs.typical), middle=percent(middle)))


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


def percent(share: float) -> str:
    """Format a share as a percentage with two digits.

    Examples
    --------
    >>> percent(0.0123), percent(0.5), percent(2.4)
    ('1.2%', '50%', '240%')
    """
    return f"{100 * share:.2g}%" if share < 0.995 else f"{100 * share:,.0f}%"
