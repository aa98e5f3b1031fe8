"""Uncertain k-anonymity: publish each numeric record as a noisy point and its distribution.

The promise, the algorithm and the proofs are in ``uncertain.md`` beside this file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from hushtable.engine.base import Engine
from hushtable.errors import ParameterError, Refused
from hushtable.kernels.anonymity import Points, Vector, gaussian_scales, uniform_scales
from hushtable.methods._levels import Integers, LevelFinder, Model, NoCover, Ruler
from hushtable.methods.base import Forecast, Method, Released
from hushtable.privacy.guarantee import Guarantee, NoGuarantee, UncertainAnonymity
from hushtable.privacy.noise import Noise
from hushtable.privacy.rational import as_rational
from hushtable.schema import Categorical, Integer, Number, Schema

STD = "_std"
"""Ending of the columns that hold the standard deviation of the noise."""

MIN_ETA = Fraction(1, 1000)
"""Smallest eta: the check draws 120 / eta errors per record."""

SHAPE_LIMIT = 2
"""Locally scaled noise is at most 2**2 times as wide (or narrow) as the round one, per column."""

Levels = Literal["safe", "exact"]
Edges = Literal["wrap", "open"]


@dataclass(frozen=True, kw_only=True)
class Uncertain(Method):
    """Publish each record as a noisy point with the distribution of its noise.

    Parameters
    ----------
    k : int
        How many records fit what is published at least as well as the true one, itself included.
    model : {"uniform", "gaussian"}
        The noise: evenly in a box around the record, or Gaussian. For the same promise a box needs
        less noise.
    levels : {"safe", "exact"}
        ``safe``: few noise levels, and cover is counted only among records that publish the same.
        ``exact``: each record its own, as in the paper; the level then names the record, so nothing
        is promised.
    eta : number, str or "expectation"
        Largest chance, for every record, of fewer than `k`. ``"expectation"`` is the paper's
        condition on the average alone, under which many records have no cover; nothing is promised.
    local : bool
        Shape the noise like the neighborhood of each record.
    local_floor : number or str
        Smallest spread of a neighborhood that is believed, as a share of the column's scale.
    scales : mapping of str to number
        Public scale per column, in which noise is equally large in all columns; by default the
        standard deviation of an even spread over the schema's range.
    carry : sequence of str
        Columns published as they are. Cover is then counted only among records with equal values.
    k_column : str, optional
        An integer column that says how many records each one needs; not published.
    k_by : mapping of str to int
        What the values of `k_column` stand for; without it, the value is the number itself.
    edges : {"wrap", "open"}
        ``wrap`` joins the two ends of each column's range, so that a record at the edge has
        neighbors on all sides. ``open`` is the paper's: the edges then need several times as much
        noise, or cannot have cover at all (Gaussian noise that points away from everybody).

    Examples
    --------
    >>> Uncertain(k=10).guarantee(Schema.from_dict({"name": "t", "columns": {
    ...     "age": {"type": "integer", "low": 0, "high": 99}}}))
    (UncertainAnonymity(family='uncertain-anonymity', k=10, eta=Fraction(1, 20)),)
    >>> Uncertain(k=1, eta=2)
    Traceback (most recent call last):
    ...
    hushtable.errors.ParameterError: k is 1; it must be a whole number of at least 2.
    eta is 2; it must be between 0.001 and 0.5, or 'expectation'.
    """

    name: ClassVar[str] = "uncertain"
    paper: ClassVar[str] = (
        "Aggarwal, on unifying privacy and uncertain data models (section II), repaired."
    )
    summary: ClassVar[str] = "Publish numeric records as noisy points that fit at least k people."
    estimator: ClassVar[str] = "uncertain"
    one_machine: ClassVar[str] = (
        "uncertain compares every record with every other, so it is a method for one machine: "
        "about 10,000 records with safe levels, 100,000 with levels exact. Take a sample of so "
        "many rows out of Spark and publish that; or publish counts, such as with partition."
    )

    k: int = field(
        metadata={"help": "How many records fit a published one as well as its owner does."}
    )
    model: Model = field(
        default="uniform",
        metadata={"help": "The noise: evenly in a box, which needs less of it, or gaussian."},
    )
    levels: Levels = field(
        default="safe",
        metadata={"help": "safe shares noise levels; exact is the paper's and promises nothing."},
    )
    eta: Fraction | str = field(
        default=Fraction(1, 20),
        metadata={"help": "Largest chance per record of fewer than k, or 'expectation' (paper)."},
    )
    local: bool = field(
        default=False, metadata={"help": "Shape the noise like each record's neighborhood."}
    )
    local_floor: Fraction = field(
        default=Fraction(1, 10),
        metadata={"help": "Smallest believed spread of a neighborhood, as a share of the scale."},
    )
    scales: Mapping[str, float] = field(
        default_factory=dict,
        hash=False,
        metadata={"help": "Public scale of a column: COLUMN=NUMBER; default from its range."},
    )
    carry: Sequence[str] = field(
        default=(), metadata={"help": "Columns published as they are, separated by commas."}
    )
    k_column: str | None = field(
        default=None, metadata={"help": "Integer column with each record's own k; not published."}
    )
    k_by: Mapping[str, int] = field(
        default_factory=dict,
        hash=False,
        metadata={"help": "What values of k_column stand for: VALUE=K."},
    )
    edges: Edges = field(
        default="wrap",
        metadata={"help": "wrap joins the ends of each range; open is the paper's, much noisier."},
    )

    def __post_init__(self) -> None:
        problems = []
        if isinstance(self.k, bool) or not isinstance(self.k, int) or self.k < 2:
            problems.append(f"k is {self.k}; it must be a whole number of at least 2.")
        for name, kind in (("model", Model), ("levels", Levels), ("edges", Edges)):
            if getattr(self, name) not in get_args(kind):
                allowed = " or ".join(get_args(kind))
                problems.append(f"{name} is {getattr(self, name)!r}; it must be {allowed}.")
        problems += self._read_numbers()
        carry = self.carry.split(",") if isinstance(self.carry, str) else self.carry
        object.__setattr__(self, "carry", tuple(name.strip() for name in carry if name.strip()))
        if self.levels == "exact" and self.eta != "expectation":
            # The default eta is no wish of the caller's; exact levels are the paper's condition.
            object.__setattr__(self, "eta", "expectation")
        if self.eta == "expectation":
            # The closed formulas for expected cover are those of open columns.
            object.__setattr__(self, "edges", "open")
        if self.k_by and self.k_column is None:
            problems.append("k_by is given without k_column; name the column it is about.")
        if problems:
            raise ParameterError(problems)

    def _read_numbers(self) -> list[str]:
        """Turn eta, the floor, the scales and k_by into exact or plain numbers."""
        problems: list[str] = []

        def number(name: str, given: Any) -> Fraction | None:
            try:
                return as_rational(given, name=name)
            except ParameterError as error:
                problems.extend(error.problems)
                return None

        if self.eta != "expectation":
            eta = number("eta", self.eta)
            if eta is not None and not MIN_ETA <= eta <= Fraction(1, 2):
                problems.append(
                    f"eta is {self.eta}; it must be between 0.001 and 0.5, or 'expectation'."
                )
            object.__setattr__(self, "eta", eta)
        floor = number("local_floor", self.local_floor)
        if floor is not None and not 0 < floor <= 1:
            problems.append(f"local_floor is {self.local_floor}; it must be above 0, at most 1.")
        object.__setattr__(self, "local_floor", floor)
        scales = {name: number(f"scales[{name!r}]", value) for name, value in self.scales.items()}
        problems += [
            f"scales[{name!r}] is {self.scales[name]}; a scale must be above 0."
            for name, value in scales.items()
            if value is not None and value <= 0
        ]
        object.__setattr__(
            self, "scales", {name: float(value or 0) for name, value in scales.items()}
        )
        wanted = {str(value): k for value, k in self.k_by.items()}
        problems += [
            f"k_by[{value!r}] is {k}; it must be a whole number of at least k = {self.k}."
            for value, k in wanted.items()
            if isinstance(k, bool) or not isinstance(k, int) or k < self.k
        ]
        object.__setattr__(self, "k_by", wanted)
        return problems

    # --- before the data is read ------------------------------------------------------------------

    def guarantee(self, schema: Schema) -> tuple[Guarantee, ...]:
        """Promise k with probability 1 - eta for each record, or say why nothing is promised."""
        self.geometry(schema)
        if self.levels == "exact":
            return (
                NoGuarantee(
                    reason="each record's noise level is a function of the record, so whoever "
                    "holds the original records can look it up and name the person"
                ),
            )
        if isinstance(self.eta, str):
            return (
                NoGuarantee(
                    reason=f"{self.k} records fit on average only, so many a record may fit nobody "
                    "but its owner"
                ),
            )
        return (UncertainAnonymity(k=self.k, eta=self.eta),)

    def forecast(self, schema: Schema, rows: int | None = None) -> Forecast:
        """Say how large the noise would be if records were spread evenly over the domain."""
        plan = self.geometry(schema)
        rows = schema.rows if rows is None else rows
        lines: dict[str, str | float | int] = {
            "noisy columns": len(plan.names),
            "carried columns": len(self.carry),
        }
        if not isinstance(self.eta, str):
            lines["errors drawn per record to check its cover"] = int(120 / self.eta) + 2
        if rows is not None and rows >= self.k:
            # Half of k / rows of an even spread lies within this share of each column's range.
            share = min(1.0, (self.k / rows) ** (1 / len(plan.names)))
            lines["noise as a share of a column's range, at least about"] = round(share, 3)
            if share > 0.5:
                lines["warning"] = (
                    f"{rows:,} records in {len(plan.names)} columns are few: the noise will be of "
                    "the order of the whole range. Publish fewer columns."
                )
        elif rows is not None:
            lines["warning"] = f"fewer than k = {self.k} records cannot be published."
        n_rows = 1_000_000 if rows is None else rows
        memory = n_rows * 8 * (len(plan.names) * 6 + 8) / 1e6 + 1
        return Forecast(lines=lines, split={}, n_cells=schema.domain.size, memory_mb=memory)

    def geometry(self, schema: Schema) -> Geometry:
        """Work out what is fixed by the schema and the parameters, or say all that is wrong."""
        problems = [
            f"{name}: there is no column {column!r}; the columns are "
            f"{', '.join(schema.attributes)}."
            for name, columns in (
                ("carry", self.carry),
                ("scales", self.scales),
                ("k_column", [self.k_column] * (self.k_column is not None)),
            )
            for column in columns
            if column not in schema.attributes
        ]
        noisy = []
        for name, column in schema.attributes.items():
            if name in self.carry or name == self.k_column:
                continue
            noisy.append(name)
            if isinstance(column, Categorical):
                problems.append(
                    f"column {name!r} is categorical and cannot be made noisy; give it role: "
                    "identifier to leave it out, or name it in carry to publish it as it is "
                    "(cover is then counted among records with the same value)."
                )
            elif column.missing == "category":
                problems.append(
                    f"column {name!r} may be missing, and a missing value cannot be made noisy; "
                    "use missing: other, which counts it as one value, or leave the column out."
                )
            elif column.n_values < 2 and name not in self.scales:
                problems.append(
                    f"column {name!r} has one possible value only; leave it out, or give its scale."
                )
        if self.k_column in schema.attributes:
            column = schema.attributes[str(self.k_column)]
            if not isinstance(column, Integer) or column.missing == "category":
                problems.append(
                    f"k_column {self.k_column!r} must be an integer column without missing values."
                )
        if self.k_column in self.carry:
            problems.append(f"k_column {self.k_column!r} cannot be carried; it is not published.")
        if schema.unit.kind == "node" or (schema.unit.max_rows or 1) > 1:
            problems.append(
                f"the unit is {schema.unit.describe()}, and cover is counted in records; publish "
                "one record per person."
            )
        if not noisy:
            problems.append("no column is left to be made noisy.")
        if problems:
            raise ParameterError(problems)
        return Geometry(schema, self, tuple(noisy))

    # --- the run ----------------------------------------------------------------------------------

    def run(self, engine: Engine, noise: Noise) -> Released:
        """Find the levels, add the noise, and hand out the records in random order."""
        schema = engine.schema
        plan = self.geometry(schema)
        names = [*plan.names, *self.carry, *[self.k_column] * (self.k_column is not None)]
        values = record_values(engine, [str(name) for name in names])
        perturbed = self.perturb(values, schema, noise)
        order = np.asarray(noise.distinct_below(len(values), k=len(values)), np.int64)
        return plan.released(perturbed, values, order)

    def perturb(self, values: Points, schema: Schema, noise: Noise) -> Perturbed:
        """Make the noisy records in the order of the originals, for attacks on the method itself.

        Parameters
        ----------
        values : array
            The noisy columns in the schema's order, then `carry`, then `k_column`.
        """
        plan = self.geometry(schema)
        k = self._wanted(values)
        d = len(plan.names)
        steps = np.rint((values[:, :d] - plan.low) / plan.step).astype(np.int64)
        points = steps * (plan.step / plan.scale)
        self._check_rows(len(points), k)
        groups = records_by(values[:, d : d + len(self.carry)])
        shapes = self._shapes(points, k, groups)
        if self.levels == "exact":
            widths = self._exact_widths(plan, points, k, shapes)
        else:
            finder = LevelFinder(points, k, self._chance, plan.ruler, noise)
            widths = self._safe_widths(finder, groups, shapes)
        errors = plan.ruler.draw(widths, noise)
        return Perturbed(steps=plan.ruler.place(steps + errors), widths=widths)

    def _wanted(self, values: Points) -> Integers:
        """Give each record's own k, at least the promised one."""
        if self.k_column is None:
            return np.full(len(values), self.k, np.int64)
        given = np.rint(values[:, -1]).astype(np.int64)
        if self.k_by:
            own = {int(value): k for value, k in self.k_by.items()}
            given = np.asarray([own.get(int(value), self.k) for value in given], np.int64)
        return np.maximum(given, self.k)

    def _check_rows(self, n: int, k: Integers) -> None:
        if n < self.k or n < k.max(initial=0):
            raise Refused(
                f"there are fewer records than k asks for (k is up to {k.max(initial=self.k)}); "
                "nobody can hide among so few. Choose a smaller k or publish more records."
            )

    def _shapes(self, points: Points, k: Integers, groups: list[Integers]) -> Points:
        """Measure the spread of each record's k nearest neighbors (its own group's only)."""
        shapes = np.ones_like(points)
        if not self.local:
            return shapes
        for rows in groups:
            tree = cKDTree(points[rows])
            for value in np.unique(k[rows]).tolist():
                asked = rows[k[rows] == value]
                _, near = tree.query(points[asked], k=min(value, len(rows)))
                near = near.reshape(len(asked), -1)
                spread = points[rows][near].std(axis=1)
                shapes[asked] = np.maximum(spread, float(self.local_floor))
        if self.levels == "exact":
            return shapes
        # Safe levels share their shape too: powers of two around the geometric mean.
        powers = np.log2(shapes)
        powers = np.rint(powers - powers.mean(axis=1, keepdims=True))
        return np.asarray(2.0 ** np.clip(powers, -SHAPE_LIMIT, SHAPE_LIMIT))

    def _exact_widths(
        self, plan: Geometry, points: Points, k: Integers, shapes: Points
    ) -> Integers:
        solve = uniform_scales if self.model == "uniform" else gaussian_scales
        sizes = solve(points, k.astype(np.float64), shape=shapes if self.local else None)
        n_infinite = int(np.isinf(sizes).sum())
        if n_infinite:
            raise Refused(_infeasible(self.model, n_infinite))
        return plan.ruler.widths(sizes[:, None] * shapes)

    @property
    def _chance(self) -> Fraction | None:
        return None if isinstance(self.eta, str) else self.eta

    def _safe_widths(self, finder: LevelFinder, groups: list[Integers], shapes: Points) -> Integers:
        try:
            levels = finder.find(groups, shapes)
        except NoCover as failure:
            raise Refused(_infeasible(self.model, len(failure.rows))) from None
        widths = np.empty(shapes.shape, np.int64)
        for level in levels:
            widths[level.rows] = finder.ruler.widths(level.size * level.shape)
        return widths


@dataclass(frozen=True)
class Perturbed:
    """Hold noisy records in the order of their originals: never published like this.

    Parameters
    ----------
    steps : array (n, d)
        The noisy values, counted in steps from each column's low.
    widths : array (n, d)
        The size of the noise, as `Ruler` counts it.
    """

    steps: Integers
    widths: Integers


@dataclass(frozen=True)
class Geometry:
    """Know what schema and parameters fix: the columns, their grids and their scales."""

    schema: Schema
    method: Uncertain
    names: tuple[str, ...]

    @property
    def _columns(self) -> list[Integer | Number]:
        columns = [self.schema.attributes[name] for name in self.names]
        return [column for column in columns if not isinstance(column, Categorical)]

    @property
    def n_values(self) -> Integers:
        """Number of grid points of each column."""
        return np.asarray([column.n_values for column in self._columns], np.int64)

    @property
    def low(self) -> Vector:
        """The lowest grid point of each column."""
        return np.asarray([float(column.exact_low) for column in self._columns])

    @property
    def step(self) -> Vector:
        """The distance between grid points."""
        return np.asarray([float(column.exact_step) for column in self._columns])

    @property
    def scale(self) -> Vector:
        """The scale of each column: given, or that of an even spread over its range."""
        return np.asarray(
            [
                self.method.scales.get(
                    name, float(column.exact_step * (column.n_values - 1)) / math.sqrt(12)
                )
                for name, column in zip(self.names, self._columns, strict=True)
            ]
        )

    @property
    def ruler(self) -> Ruler:
        """The noise that can be drawn on these grids."""
        joined = self.n_values if self.method.edges == "wrap" else None
        return Ruler(self.method.model, self.step / self.scale, joined)

    def stds(self, widths: Integers) -> Points:
        """Give the standard deviation of the noise, in the columns' own units."""
        if self.method.model == "gaussian":
            return np.asarray(self.ruler.reach(widths) * self.scale)
        return np.asarray(self.step * np.sqrt((2.0 * widths + 1) ** 2 - 1) / math.sqrt(12))

    def table(self, steps: Integers, carried: Points) -> pa.Table:
        """Write numbers of steps and carried values as a table in the schema's order."""
        columns: dict[str, pa.Array] = {}
        for name, column in self.schema.attributes.items():
            if name in self.method.carry:
                place = list(self.method.carry).index(name)
                columns[name] = _carried(column, carried[:, place])
            elif name in self.names:
                place = self.names.index(name)
                if isinstance(column, Integer):
                    columns[name] = pa.array(column.low + steps[:, place], pa.int64())
                else:
                    values = self.low[place] + steps[:, place] * self.step[place]
                    columns[name] = pa.array(values, pa.float64())
        return pa.table(columns)

    def released(self, perturbed: Perturbed, values: Points, order: Integers) -> Released:
        """Turn the noisy records into the public table, in the given order."""
        carried = values[order, len(self.names) : len(self.names) + len(self.method.carry)]
        table = self.table(perturbed.steps[order], carried)
        stds = self.stds(perturbed.widths)[order]
        for place, name in enumerate(self.names):
            table = table.append_column(name + STD, pa.array(stds[:, place], pa.float64()))
        levels, counts = np.unique(stds, axis=0, return_counts=True)
        described = [
            {"records": int(n), "std": dict(zip(self.names, level.tolist(), strict=True))}
            for level, n in zip(levels, counts, strict=True)
        ]
        return Released(
            tables={"data": table},
            estimator={
                "model": self.method.model,
                "noisy": list(self.names),
                "levels": described if self.method.levels == "safe" else [],
                "notes": [_LEVELS_NOTE[self.method.levels], _NOISE_NOTE[self.method.model]],
            },
        )


_LEVELS_NOTE = {
    "safe": "A record's level is the set of its _std columns. Levels were chosen from the private "
    "records so that each has cover among the records of its own level alone.",
    "exact": "Each record has its own noise level, which depends on the record.",
}
_NOISE_NOTE = {
    "uniform": "A value is the true one plus an error that is equally likely at every grid point "
    "up to sqrt(3) standard deviations (rounded) to either side.",
    "gaussian": "A value is the true one plus a discrete Gaussian error on the column's grid.",
}


def record_values(engine: Engine, columns: Sequence[str]) -> Points:
    """Give the private records as numbers, one row each: values, or codes of categories.

    Records are the occupied cells of the finest table, each as often as it is counted, so every
    engine has them, in an order that says nothing about the order of the private rows.
    """
    cells = engine.counts(columns)
    values = np.empty(cells.codes.shape)
    for place, name in enumerate(columns):
        column, codes = engine.schema.attributes[name], cells.codes[:, place]
        if isinstance(column, Categorical):
            values[:, place] = codes
        else:
            values[:, place] = float(column.exact_low) + codes * float(column.exact_step)
            values[codes == column.missing_code, place] = np.nan
    return np.repeat(values, cells.counts, axis=0)


def _infeasible(model: Model, n_rows: int) -> str:
    if model == "uniform":
        return (
            f"{n_rows} records cannot have cover: too few records carry the same values, or k is "
            "not below the number of records. Choose a smaller k or carry less."
        )
    return (
        f"{n_rows} records cannot be shown to have cover by Gaussian noise of any size. In open "
        "columns at most half of the others fit on average (k must be below 1 + duplicates + "
        "others / 2), and noise that points away from all others leaves a record the best fit; "
        "with joined ends, k must be well below eta times the number of records that carry the "
        "same values. Choose a smaller k, carry less, or use edges=wrap or model=uniform."
    )


def records_by(carried: Points) -> list[Integers]:
    """Group rows by the values they carry: one array of rows for each combination."""
    if carried.shape[1] == 0:
        return [np.arange(len(carried))]
    _, group_of = np.unique(carried, axis=0, return_inverse=True)
    group_of = group_of.reshape(-1)
    order = np.argsort(group_of, kind="stable")
    starts = np.flatnonzero(np.diff(group_of[order], prepend=-1))
    return np.split(order, starts[1:])


def _carried(column: Categorical | Integer | Number, values: NDArray[np.float64]) -> pa.Array:
    if isinstance(column, Categorical):
        labels = [column.value(int(code)) for code in range(column.size)]
        return pa.array([labels[int(code)] for code in values], pa.string())
    missing = np.isnan(values)
    if isinstance(column, Integer):
        whole = np.where(missing, 0, values).astype(np.int64)
        return pa.array(whole, pa.int64(), mask=missing)
    return pa.array(values, pa.float64(), mask=missing)
