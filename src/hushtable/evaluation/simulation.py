"""Forecasts from simulation: errors of answers from releases of surrogate tables.

`simulate` publishes surrogate tables with the schema and size of the private one, asks each release
random queries, and compares the answers with the surrogate's own. Formulas know the noise of a
method only. A simulation also contains what noise does to its decisions, and what its model, its
bins and its suppression lose. Surrogate tables have several structures of dependence, since that of
the private table is unknown; a public table can take their place. No private data is read, so a
simulation costs no privacy budget. `benchmarks/forecasts.py` compares forecasts with real tables.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import hushtable
from hushtable.errors import HushtableError, HushtableWarning, InvalidInput, Refused
from hushtable.evaluation.inputs import CodedRows, read_rows
from hushtable.evaluation.utility.workload import CountQuestion, draw_questions
from hushtable.files.writing import replace_own
from hushtable.methods.base import Method
from hushtable.methods.registry import METHODS
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.publishing.dry_run import (
    N_VARIANTS,
    USUAL_ROWS,
    make_surrogate,
    surrogate_schema,
)
from hushtable.publishing.publish import publish
from hushtable.release.release import Release
from hushtable.schema import Integer, Number, Schema

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
        deviations of the column for means.
    n_queries : int
        Number of queries.
    """

    typical: float
    worst: float
    n_queries: int


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
    return (
        f"From releases of {first.on}, {first.rows:,} rows. Typical error: half of the queries "
        "have a smaller one; in parentheses: 95% do. Counts have conditions on one to three "
        "columns. Errors of group means are in standard deviations (SD) of the column. Your table "
        "may differ: on real tables, four of five such errors were within a factor of 2 of the "
        "forecast. Means by partition and diffgen can be much worse if the column is skewed."
    )


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
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", HushtableWarning)
        release = publish(
            table,
            schema,
            method.for_dry_run(Path(folder)),
            out=Path(folder) / "release",
            noise=SeededNoise(seed),
            rows=rows,
        )
        return measure_errors(release, coded, seed=seed, per_cell=per_cell)


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
