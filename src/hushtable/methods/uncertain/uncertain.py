"""Method uncertain: numeric records published as noisy points with their distribution.

Guarantee, algorithm and proofs: ``uncertain.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from hushtable.arrays import Floats, Integers
from hushtable.engine.sealed_table import SealedTable
from hushtable.errors import ParameterError, Refused, unpublished
from hushtable.extras import needing
from hushtable.kernels.anonymity_sets import gaussian_scales, uniform_scales
from hushtable.methods.base import Forecast, Method, Plan, Released, reader_of
from hushtable.methods.count_error import blurred_line
from hushtable.methods.parameters import parameter, rational_with, rules, said, whole
from hushtable.methods.uncertain.grid import (
    Model,
    NoiseGrid,
    carried_values,
    record_values,
    records_by,
)
from hushtable.methods.uncertain.noise_levels import CoverCheck, LevelFinder, NoCover
from hushtable.privacy.guarantee import Guarantee, NoGuarantee, UncertainAnonymity
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.rational import as_rational
from hushtable.schema import CalendarColumn, Categorical, Integer, Numeric, Schema

with needing("science"):
    from scipy.spatial import cKDTree


# Regions of near records with uniform noise: all records of a region fit equally well.
#
# Noise that hides the most isolated record is far too wide for the others. So records are divided
# into regions of at least k near records. The published value of a record is uniformly random in
# its region, and the ends of the region are published too.
#
# `divided` forms the regions: the record farthest from the center takes its nearest neighbors, as
# in MDAV (Domingo-Ferrer, Mateo-Sanz 2002), until fewer than k are left, which join the nearest
# region. Large sets are halved first. Distances are in standard deviations of the records, so that
# heavy tails widen only their own regions. `around` rounds the ends outward to a coarse grid, so
# that they are not values of records.
#
# Regions may be formed from the records in any way, because the guarantee counts only records of
# the same region (``uncertain.md``). It requires that a region has at least as many records as the
# largest k of its records, and that the sample does not depend on which of these it replaces.

PARTS = 8
"""Ends of a region are on a grid with at least this many parts per width (or on single steps)."""

_AT_ONCE = 4096  # larger sets are halved before the search for neighbors


@dataclass(frozen=True)
class RecordRegions:
    """Region of each record: first and last grid point in each column."""

    first: Integers  # (n, d), in steps from each column's low, inclusive
    last: Integers

    @property
    def n_values(self) -> Integers:
        """Number of grid points of each record's region, per column."""
        return self.last - self.first + 1

    def draw(self, noise: Noise) -> Integers:
        """Sample a grid point of each record's region uniformly, independently of the record.

        Examples
        --------
        >>> from hushtable.privacy.noise.sources import SecureNoise
        >>> regions = RecordRegions(np.full((100, 1), 5), np.full((100, 1), 7))
        >>> set(regions.draw(SecureNoise()).ravel().tolist())
        {5, 6, 7}
        """
        sizes = self.n_values.ravel()
        drawn = np.empty(len(sizes), np.int64)
        order = np.argsort(sizes, kind="stable")
        values, starts = np.unique(sizes[order], return_index=True)
        for value, places in zip(values.tolist(), np.split(order, starts[1:]), strict=True):
            drawn[places] = noise.uniform_below(value, size=len(places))
        return self.first + drawn.reshape(self.first.shape)


def divided(steps: Integers, k: Integers) -> list[Integers]:
    """Divide records into regions; the k of each record is at most the size of its region.

    `steps` (n, d) has at least as many records as the largest `k` (n,).

    Examples
    --------
    >>> rows = divided(np.array([[0], [100], [1], [101], [2], [99], [50]]), np.full(7, 3))
    >>> [sorted(members.tolist()) for members in rows]
    [[1, 3, 5], [0, 2, 4, 6]]
    """
    spread = steps.std(axis=0)
    points = (steps - steps.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    found: list[Integers] = []
    pieces = [np.arange(len(steps))]
    while pieces:
        rows = pieces.pop()
        if len(rows) > max(_AT_ONCE, 4 * int(k[rows].max())):
            widest = int(np.argmax(points[rows].std(axis=0)))
            pieces += np.array_split(rows[np.argsort(points[rows, widest], kind="stable")], 2)
        else:
            found += [rows[members] for members in _neighborhoods(points[rows], k[rows])]
    return found


def _neighborhoods(points: Floats, k: Integers) -> list[Integers]:
    """Group far records with their nearest neighbors, starting with the largest k."""
    left = np.arange(len(points))
    found: list[Integers] = []
    while len(left) and len(left) >= (size := int(k[left].max())):
        here = points[left]
        # Records with the largest k come first, so a region is large enough for all its records,
        # including those that join it later.
        away = ((here - here.mean(axis=0)) ** 2).sum(axis=1)
        seed = int(np.argmax(np.where(k[left] == size, away, -1.0)))
        distances = ((here - here[seed]) ** 2).sum(axis=1)
        members = np.argpartition(distances, size - 1)[:size]
        found.append(left[members])
        left = np.delete(left, members)
    return with_leftovers(points, found, left)


def with_leftovers(points: Floats, groups: list[Integers], left: Integers) -> list[Integers]:
    """Return the groups, each with the left records that are nearest to its center."""
    centers = np.stack([points[members].mean(axis=0) for members in groups])
    for row in left:
        nearest = int(np.argmin(((centers - points[row]) ** 2).sum(axis=1)))
        groups[nearest] = np.append(groups[nearest], row)
    return groups


def around(steps: Integers, n_values: Integers) -> tuple[Integers, Integers]:
    """Return the ends of a region around records, rounded outward to a coarse grid.

    `steps` (n, d) are the records of the region; `n_values` (d,) limits the ends to the columns.

    Examples
    --------
    >>> around(np.array([[33, 7], [99, 7]]), np.array([100, 100]))
    (array([32,  7]), array([99,  7]))
    """
    low, high = steps.min(axis=0), steps.max(axis=0)
    grid = np.maximum((high - low) // PARTS, 1)
    grid = 2 ** np.floor(np.log2(grid)).astype(np.int64)
    first = low // grid * grid
    last = np.minimum((high // grid + 1) * grid - 1, n_values - 1)
    return np.asarray(first, np.int64), np.asarray(last, np.int64)


STD = "_std"
"""Suffix of the columns with the standard deviation of the noise."""

FROM, TO = "_from", "_to"
"""Suffixes of the columns with the ends of a record's region."""

MIN_ETA = Fraction(1, 1000)
"""Smallest eta; a check samples up to 120 / eta errors per level."""

SHAPE_LIMIT = 2
"""Locally scaled noise is at most 2**2 times as wide (or narrow) as isotropic noise, per column."""

TYPICAL_ROWS = 1_000_000
"""Number of rows that forecasts of memory assume if none is given."""

EXPECTATION = "expectation"
"""Value of eta that requires k records on average only."""

Levels = Literal["safe", "exact"]
Edges = Literal["region", "wrap", "open"]


def _chance(name: str, given: Any) -> Fraction | str:
    """Read the largest probability of fewer than k records, or "expectation"."""
    if given == EXPECTATION:
        return EXPECTATION
    value = as_rational(given, name=name)
    if not MIN_ETA <= value <= Fraction(1, 2):
        raise ParameterError(f"{name} is {given}; it must be from 0.001 to 0.5, or 'expectation'.")
    return value


_above_zero = rational_with(lambda value: 0 < value <= 1, "above 0, at most 1")


def read_scales(name: str, given: Any) -> dict[str, float]:
    """Read public scales of columns."""
    scales: dict[str, float] = {}
    problems: list[str] = []
    for column, scale in rules(name, given).items():
        try:
            value = as_rational(scale, name=f"{name}[{column!r}]")
        except ParameterError as error:
            problems += error.problems
            continue
        if value <= 0:
            problems.append(f"{name}[{column!r}] is {scale}; it must be above 0.")
        scales[column] = float(value)
    ParameterError.raise_if_any(problems)
    return scales


def read_names(name: str, given: Any) -> tuple[str, ...]:
    """Read names of columns: a sequence, or comma-separated text."""
    names = given.split(",") if isinstance(given, str) else given
    return tuple(column.strip() for column in names if column.strip())


def _own_k(name: str, given: Any) -> dict[str, Any]:
    """Read the number of records for each value of a column."""
    return {str(value): k for value, k in rules(name, given).items()}


@dataclass(frozen=True, kw_only=True)
class Uncertain(Method):
    """Publish each record as a noisy point with the distribution of its noise.

    A record has *cover* if at least `k` records, its owner included, fit the published point at
    least as well as the owner does.

    Parameters
    ----------
    k : int
        Number of records, the owner included, that fit a published record at least as well as the
        owner.
    model : {"uniform", "gaussian"}
        Noise distribution: uniform in a box around the record, which needs less noise, or
        ``gaussian``.
    levels : {"safe", "exact"}
        How noise levels are chosen: ``safe`` uses few shared levels, ``exact`` is the paper's
        choice and has no guarantee. With ``safe``, cover is counted only among records with the
        same level. With ``exact``, each record has its own level, which identifies it.
    eta : number, str or "expectation"
        Largest probability per record of fewer than `k`, or ``expectation``, the paper's condition
        on the average. Under that condition many records have no cover, and there is no guarantee.
        With regions there are never fewer than `k`, whatever eta is.
    local : bool
        Shape the noise like the neighborhood of each record; not available for regions.
    local_floor : number or str
        Smallest spread of a neighborhood, as a share of the column's scale; smaller values are
        raised.
    scales : mapping of str to number
        Public scale of columns, COLUMN=NUMBER on the command line. Noise is equally large in all
        columns in these units. The default is the standard deviation of a uniform distribution over
        the schema's range.
    carry : sequence of str
        Columns published unchanged; on the command line, one option each. Cover is then counted
        only among records with equal values.
    k_column : str, optional
        Integer column with the number of records that each record needs; not published.
    k_by : mapping of str to int
        Number of records for each value of `k_column`, VALUE=K on the command line. By default the
        value is the number itself.
    edges : {"region", "wrap", "open"}
        Range of the noise: a ``region`` of near records, ``wrap`` around the ends of columns, or
        ``open`` as in the paper, with much more noise. With ``region``, all values of a region are
        equally likely for each of its `k` or more records, and an isolated record widens only its
        own region. It requires uniform noise and safe levels; otherwise ``wrap`` is used. With
        ``wrap``, a record at an edge has neighbors on all sides. With ``open``, records at edges
        need several times as much noise, or cannot have cover at all (Gaussian noise that points
        away from all others).

    Examples
    --------
    >>> Uncertain(k=10).guarantee(Schema.from_dict({"name": "t", "columns": {
    ...     "age": {"type": "integer", "low": 0, "high": 99}}}))
    (UncertainAnonymity(family='uncertain-anonymity', k=10, eta=Fraction(0, 1)),)
    >>> Uncertain(k=1, eta=2)
    Traceback (most recent call last):
    ...
    hushtable.errors.ParameterError: k is 1; it must be a whole number of at least 2.
    eta is 2; it must be from 0.001 to 0.5, or 'expectation'.
    """

    name: ClassVar[str] = "uncertain"
    sees_exact_counts: ClassVar[str] = (
        "all records are seen; the noise of each depends on a comparison with the others."
    )

    k: int = parameter(read=whole(at_least=2))
    model: Model = parameter(default="uniform")
    levels: Levels = parameter(default="safe")
    eta: Fraction | str = parameter(read=_chance, default=Fraction(1, 20))
    local: bool = parameter(default=False)
    local_floor: Fraction = parameter(read=_above_zero, default=Fraction(1, 10))
    scales: Mapping[str, float] = parameter(read=read_scales, default_factory=dict, hash=False)
    carry: Sequence[str] = parameter(read=read_names, default=())
    k_column: str | None = parameter(default=None)
    k_by: Mapping[str, int] = parameter(read=_own_k, default_factory=dict, hash=False)
    edges: Edges = parameter(default="region")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.levels == "exact":
            # The default eta was not requested; exact levels imply the paper's condition.
            object.__setattr__(self, "eta", EXPECTATION)
        if self.eta == EXPECTATION:
            # The closed formulas for expected cover apply to open columns.
            object.__setattr__(self, "edges", "open")
        elif self.edges == "region" and (self.model == "gaussian" or self.local):
            # Gaussian errors are not equally likely, so a region would reveal who is near its
            # middle.
            object.__setattr__(self, "edges", "wrap")

    def _problems(self, *, fields_are_right: bool) -> list[str]:
        """Check the values of k_by, and that it has a column."""
        problems = []
        if fields_are_right:
            problems += [
                f"k_by[{value!r}] is {k}; it must be a whole number of at least k = {self.k}."
                for value, k in self.k_by.items()
                if isinstance(k, bool) or not isinstance(k, int) or k < self.k
            ]
        if self.k_by and self.k_column is None:
            problems.append("k_by is given without k_column; name the column that it refers to.")
        return problems

    def plan(self, schema: Schema) -> UncertainPlan:
        """Compute everything that is fixed before the data is read, or refuse."""
        noisy = tuple(
            name for name in schema.attributes if name not in self.carry and name != self.k_column
        )
        problems = [
            *self._unknown_columns(schema),
            *(problem for name in noisy for problem in self._unfit(name, schema)),
            *self._wrong_k_column(schema),
        ]
        if schema.unit.kind == "node" or (schema.unit.max_rows or 1) > 1:
            problems.append(said("records of persons", unit=schema.unit.describe()))
        if not noisy:
            problems.append(
                "no column is left for noise; publish a numeric column that is not carried."
            )
        ParameterError.raise_if_any(problems)
        return UncertainPlan(self, schema, noisy)

    def _unknown_columns(self, schema: Schema) -> list[str]:
        own_k = [] if self.k_column is None else [self.k_column]
        return [
            *unpublished(self.carry, schema.attributes, "carry:"),
            *unpublished(self.scales, schema.attributes, "scales:"),
            *unpublished(own_k, schema.attributes, "k_column:"),
        ]

    def _unfit(self, name: str, schema: Schema) -> list[str]:
        """List the reasons why a column cannot get noise."""
        column = schema.attributes[name]
        if isinstance(column, Categorical):
            return [said("categorical column", name=name)]
        if isinstance(column, CalendarColumn) or column.special:
            what = f"a {column.type}" if isinstance(column, CalendarColumn) else "a special value"
            return [
                f"column {name!r}: {what} cannot get noise; set role: identifier to leave it out."
            ]
        if column.missing == "category":
            return [said("missing values", name=name)]
        if column.n_values < 2 and name not in self.scales:
            return [f"column {name!r} has only one possible value; leave it out, or set its scale."]
        return []

    def _wrong_k_column(self, schema: Schema) -> list[str]:
        problems = []
        if self.k_column in schema.attributes:
            column = schema.attributes[str(self.k_column)]
            if not isinstance(column, Integer) or column.missing == "category":
                problems.append(
                    f"k_column {self.k_column!r} must be an integer column without missing values."
                )
        if self.k_column in self.carry:
            problems.append(f"k_column {self.k_column!r} cannot be carried; it is not published.")
        return problems


@dataclass(frozen=True)
class Perturbed:
    """Noisy records in the order of their originals; never published in this order."""

    steps: Integers  # noisy values (n, d), in steps from each column's low
    widths: Integers  # size of the noise (n, d), in units of `NoiseGrid`
    regions: RecordRegions | None = None  # regions that values were sampled from


@dataclass(frozen=True)
class UncertainPlan(Plan[SealedTable]):
    """Plan of method uncertain: columns that get noise, their grids and scales."""

    method: Uncertain
    schema: Schema
    names: tuple[str, ...]

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """Cover of k with probability 1 - eta for each record, or the reason for no guarantee."""
        k, eta = self.method.k, self.method.eta
        if self.method.levels == "exact":
            return (
                NoGuarantee(
                    reason="each record's noise level is a function of the record, so anyone who "
                    "has the original records can look it up and identify the person"
                ),
            )
        if isinstance(eta, str):
            return (
                NoGuarantee(
                    reason=f"{k} records fit only on average, so some records may fit only "
                    "their owner"
                ),
            )
        return (UncertainAnonymity(k=k, eta=0 if self.method.edges == "region" else eta),)

    def forecast(self, rows: int | None = None) -> Forecast:
        """Forecast the noise for records spread uniformly over the domain."""
        rows = self.schema.expected_rows(rows)
        k, eta, d = self.method.k, self.method.eta, len(self.names)
        lines: dict[str, str | float | int] = {
            "noisy columns": d,
            "carried columns": len(self.method.carry),
        }
        if not isinstance(eta, str) and self.method.edges != "region":
            lines["errors sampled per record to check its cover"] = int(120 / eta) + 2
        if rows is not None and rows >= k:
            # k / rows of a uniform distribution are in a box with this share of each column's
            # range.
            share = min(1.0, (k / rows) ** (1 / d))
            lines["noise as a share of a column's range, at least about"] = round(share, 3)
            lines |= blurred_line(share)
            if share > 0.5:
                lines["warning"] = said("few records", rows=rows, d=d)
        elif rows is not None:
            lines["warning"] = f"fewer than k = {k} records cannot be published; lower k."
        n_rows = TYPICAL_ROWS if rows is None else rows
        memory = n_rows * 8 * (d * 6 + 8) / 1e6 + 1
        return Forecast(lines=lines, split={}, n_cells=self.schema.domain.size, memory_mb=memory)

    # --- grids ------------------------------------------------------------------------------------

    @property
    def _columns(self) -> list[Numeric]:
        columns = [self.schema.attributes[name] for name in self.names]
        return [column for column in columns if isinstance(column, Numeric)]

    @property
    def n_values(self) -> Integers:
        """Number of grid points of each column."""
        return np.asarray([column.n_values for column in self._columns], np.int64)

    @property
    def low(self) -> Floats:
        """Lowest grid point of each column."""
        return np.asarray([float(column.exact_low) for column in self._columns])

    @property
    def step(self) -> Floats:
        """Distance between grid points."""
        return np.asarray([float(column.exact_step) for column in self._columns])

    @property
    def scale(self) -> Floats:
        """Scale of each column: as given, or the standard deviation of a uniform distribution."""
        return np.asarray(
            [
                self.method.scales.get(
                    name, float(column.exact_step * (column.n_values - 1)) / math.sqrt(12)
                )
                for name, column in zip(self.names, self._columns, strict=True)
            ]
        )

    @property
    def ruler(self) -> NoiseGrid:
        """Noise that can be sampled on these grids."""
        joined = self.n_values if self.method.edges == "wrap" else None
        return NoiseGrid(self.method.model, self.step / self.scale, joined)

    def stds(self, widths: Integers) -> Floats:
        """Return the standard deviation of the noise, in the units of the columns."""
        if self.method.model == "gaussian":
            return np.asarray(self.ruler.noise_range(widths) * self.scale)
        return np.asarray(self.step * np.sqrt((2.0 * widths + 1) ** 2 - 1) / math.sqrt(12))

    # --- tables -----------------------------------------------------------------------------------

    def table(self, steps: Integers, carried: Floats) -> pa.Table:
        """Return steps and carried values as a table in the order of the schema."""
        columns: dict[str, pa.Array] = {}
        for name, column in self.schema.attributes.items():
            if name in self.method.carry:
                place = list(self.method.carry).index(name)
                columns[name] = carried_values(column, carried[:, place])
            elif name in self.names:
                place = self.names.index(name)
                if isinstance(column, Integer):
                    columns[name] = pa.array(column.low + steps[:, place], pa.int64())
                else:
                    values = self.low[place] + steps[:, place] * self.step[place]
                    columns[name] = pa.array(values, pa.float64())
        return pa.table(columns)

    # --- the run ----------------------------------------------------------------------------------

    def association_kept(self, released: Released) -> dict[tuple[str, str], float]:
        """Return the share of association that the rows keep, by pair of columns."""
        from hushtable.methods.uncertain.estimator import UncertainEstimator  # noqa: PLC0415 - imports this module

        return reader_of(UncertainEstimator, self, released).association_kept()

    def release(self, source: SealedTable, noise: Noise) -> Released:
        """Find the levels, add the noise, and return the records in random order."""
        own_k = self.method.k_column
        names = [*self.names, *self.method.carry, *([] if own_k is None else [own_k])]
        values = record_values(source.exact_engine("records"), names)
        perturbed = self.perturb(values, noise)
        order = noise.permutation(len(values))
        return self.released(perturbed, values, order)

    def perturb(self, values: Floats, noise: Noise) -> Perturbed:
        """Return the noisy records in the order of the originals, for attacks on the method itself.

        `values` has the noisy columns in the order of the schema, then `carry`, then `k_column`.
        """
        k = self.wanted(values)
        d = len(self.names)
        steps = np.rint((values[:, :d] - self.low) / self.step).astype(np.int64)
        points = steps * (self.step / self.scale)
        self._check_rows(len(points), k)
        groups = records_by(values[:, d : d + len(self.method.carry)])
        if self.method.edges == "region":
            regions = self._regions(steps, k, groups)
            return Perturbed(regions.draw(noise), regions.n_values // 2, regions)
        shapes = self._shapes(points, k, groups)
        if self.method.levels == "exact":
            widths = self._exact_widths(points, k, shapes)
        else:
            eta = None if isinstance(self.method.eta, str) else self.method.eta
            finder = LevelFinder(CoverCheck(points, k, eta, self.ruler, noise))
            widths = self._safe_widths(finder, groups, shapes)
        errors = self.ruler.draw(widths, noise)
        return Perturbed(steps=self.ruler.place(steps + errors), widths=widths)

    def wanted(self, values: Floats) -> Integers:
        """Return each record's own k, at least the promised one."""
        if self.method.k_column is None:
            return np.full(len(values), self.method.k, np.int64)
        given = np.rint(values[:, -1]).astype(np.int64)
        if self.method.k_by:
            own = {int(value): k for value, k in self.method.k_by.items()}
            given = np.asarray([own.get(int(value), self.method.k) for value in given], np.int64)
        return np.maximum(given, self.method.k)

    def _check_rows(self, n: int, k: Integers) -> None:
        most = k.max(initial=self.method.k)
        if n < most:
            raise Refused(said("fewer records than k", most=most))

    def _regions(self, steps: Integers, k: Integers, groups: list[Integers]) -> RecordRegions:
        """Assign each record to a region of at least its k records, within its group."""
        small = [rows for rows in groups if len(rows) < k[rows].max()]
        if small:
            raise Refused(_infeasible("uniform", sum(len(rows) for rows in small)))
        first, last = np.empty_like(steps), np.empty_like(steps)
        for rows in groups:
            for members in divided(steps[rows], k[rows]):
                near = rows[members]
                first[near], last[near] = around(steps[near], self.n_values)
        return RecordRegions(first, last)

    def _shapes(self, points: Floats, k: Integers, groups: list[Integers]) -> Floats:
        """Return the spread of each record's k nearest neighbors in its group."""
        shapes = np.ones_like(points)
        if not self.method.local:
            return shapes
        for rows in groups:
            tree = cKDTree(points[rows])
            for value in np.unique(k[rows]).tolist():
                asked = rows[k[rows] == value]
                _, near = tree.query(points[asked], k=min(value, len(rows)))
                near = near.reshape(len(asked), -1)
                spread = points[rows][near].std(axis=1)
                shapes[asked] = np.maximum(spread, float(self.method.local_floor))
        if self.method.levels == "exact":
            return shapes
        # Safe levels also share their shape: powers of two around the geometric mean.
        powers = np.log2(shapes)
        powers = np.rint(powers - powers.mean(axis=1, keepdims=True))
        return np.asarray(2.0 ** np.clip(powers, -SHAPE_LIMIT, SHAPE_LIMIT))

    def _exact_widths(self, points: Floats, k: Integers, shapes: Floats) -> Integers:
        model = self.method.model
        solve = uniform_scales if model == "uniform" else gaussian_scales
        sizes = solve(points, k.astype(np.float64), shape=shapes if self.method.local else None)
        n_infinite = int(np.isinf(sizes).sum())
        if n_infinite:
            raise Refused(_infeasible(model, n_infinite))
        return self.ruler.widths(sizes[:, None] * shapes)

    def _safe_widths(self, finder: LevelFinder, groups: list[Integers], shapes: Floats) -> Integers:
        try:
            levels = finder.find(groups, shapes)
        except NoCover as failure:
            raise Refused(_infeasible(self.method.model, len(failure.rows))) from None
        widths = np.empty(shapes.shape, np.int64)
        for level in levels:
            widths[level.rows] = self.ruler.widths(level.size * level.shape)
        return widths

    def released(self, perturbed: Perturbed, values: Floats, order: Integers) -> Released:
        """Return the noisy records as the public table, in the given order."""
        carried = values[order, len(self.names) : len(self.names) + len(self.method.carry)]
        table = self.table(perturbed.steps[order], carried)
        regions, levels = perturbed.regions, []
        if regions is None:
            stds = self.stds(perturbed.widths)[order]
            notes = [_LEVELS_NOTE[self.method.levels], _NOISE_NOTE[self.method.model]]
            if self.method.levels == "safe":
                distinct, counts = np.unique(stds, axis=0, return_counts=True)
                levels = [
                    {"records": int(n), "std": dict(zip(self.names, level.tolist(), strict=True))}
                    for level, n in zip(distinct, counts, strict=True)
                ]
        else:
            stds = (self.step * np.sqrt((regions.n_values.astype(np.float64) ** 2 - 1) / 12))[order]
            notes = [_REGION_NOTE]
        for place, name in enumerate(self.names):
            table = table.append_column(name + STD, pa.array(stds[:, place], pa.float64()))
        ends = {} if regions is None else {FROM: regions.first, TO: regions.last}
        for ending, steps in ends.items():
            written = self.table(steps[order], carried)
            for name in self.names:
                table = table.append_column(name + ending, written.column(name))
        return Released(
            tables={"data": table},
            settings={
                "model": self.method.model,  # uniform, if there are regions
                "noisy": list(self.names),
                "levels": levels,
                "notes": notes,
            },
        )


_LEVELS_NOTE = {
    "safe": "The level of a record is the set of its _std columns. Levels depend on the private "
    "records, such that each record has cover among the records of its own level.",
    "exact": "Each record has its own noise level, which depends on the record.",
}
_REGION_NOTE = (
    "A value is uniformly random in the record's region, from its _from to its _to, "
    "whatever the true value is. A region was formed around at least k near records, and its ends "
    "were rounded outward; they have no noise, so they reveal roughly where these records are."
)
_NOISE_NOTE = {
    "uniform": "A value is the true value plus an error that is equally likely at every grid point "
    "up to sqrt(3) standard deviations (rounded) to either side.",
    "gaussian": "A value is the true value plus a discrete Gaussian error on the column's grid.",
}


def _infeasible(model: Model, n_rows: int) -> str:
    if model == "uniform":
        return said("no cover", n_rows=n_rows)
    return said("no cover with Gaussian noise", n_rows=n_rows)
