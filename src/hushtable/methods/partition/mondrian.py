"""Method mondrian (LeFevre, DeWitt and Ramakrishnan 2006): k-anonymous groups by median splits.

A baseline for comparison. ``mondrian.md`` states the guarantee and its limits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa

from hushtable.arrays import Integers
from hushtable.engine.engine import Engine
from hushtable.engine.sealed_table import SealedTable, seal
from hushtable.errors import ParameterError, Refused
from hushtable.methods.base import TYPICAL_ROWS, Forecast, Method, Plan, Released, schema_problems
from hushtable.methods.count_error import inside_cells
from hushtable.methods.parameters import parameter, whole
from hushtable.methods.partition.estimator import BoxesEstimator
from hushtable.methods.partition.region_table import COUNT, box_columns
from hushtable.methods.partition.tree import PartitionAxis, ordered_axis_of
from hushtable.privacy.accounting.run_account import RunAccount
from hushtable.privacy.guarantee import Guarantee, KAnonymity
from hushtable.privacy.noise.noise import Noise
from hushtable.query.answers.cell_sums import cut_error
from hushtable.query.answers.estimator import Estimate
from hushtable.query.answers.row_sums import RowFunction, SumEstimates
from hushtable.query.where import parse
from hushtable.schema import Schema
from hushtable.schema.codes import as_numpy

Cuts = Literal["median", "middle"]

GROUP = "group"
"""Column with the group number, in addition to the schema's own."""


@dataclass(frozen=True)
class MondrianGroups:
    """Published groups: the box of each group, and its rows by class."""

    axes: tuple[PartitionAxis, ...]  # columns treated as quasi-identifiers
    target: str | None  # column that is published unchanged
    first: Integers  # boxes (groups, axes), as positions on the axes
    last: Integers
    counts: Integers  # exact numbers of rows (groups, classes)


@dataclass(frozen=True, kw_only=True)
class Mondrian(Method):
    """Divide the rows into groups of at least k and publish each group's box.

    Parameters
    ----------
    k : int
        Minimum number of rows of a group, at least 2.
    relaxed : bool
        Divide rows with the median value so that both halves have equal size. By default, rows with
        equal values stay together.
    by_class : bool
        Split the column with most information about the class instead of the widest.
    cuts : {"median", "middle"}
        Where groups are split: at the ``median`` of their rows, with the smallest box around each
        group, or in the ``middle`` of the widest side of the group's region. Regions of ``middle``
        are public and serve as boxes; `relaxed` and `by_class` require ``median``.
    target : str, optional
        Column that is published unchanged; by default, the schema's target.

    Examples
    --------
    >>> from hushtable.datasets import sample, sample_schema
    >>> from hushtable.engine import connect
    >>> groups = Mondrian(k=10).groups(connect(sample(), sample_schema()))
    >>> int(groups.counts.sum()), bool(groups.counts.sum(axis=1).min() >= 10)
    (12000, True)
    """

    name: ClassVar[str] = "mondrian"
    sees_exact_counts: ClassVar[str] = (
        "groups are split by exact counts, which are published as they are."
    )

    k: int = parameter(read=whole(at_least=2))
    relaxed: bool = parameter(default=False)
    by_class: bool = parameter(default=False)
    cuts: Cuts = parameter(default="median")
    target: str | None = parameter(default=None)

    def _problems(self, *, fields_are_right: bool) -> list[str]:
        """Check that public cuts are not combined with options that use the rows."""
        if fields_are_right and self.cuts == "middle" and (self.relaxed or self.by_class):
            return ["relaxed and by_class use the rows; they require cuts = 'median'."]
        return []

    def plan(self, schema: Schema) -> MondrianPlan:
        """Return the columns to group by, or refuse."""
        target = schema.target if self.target is None else self.target
        problems = schema_problems(schema, self.name, (GROUP, COUNT), target)
        if target is None and self.by_class:
            problems.append("by_class needs a target; name one, or set it in the schema.")
        axes = tuple(
            ordered_axis_of(name, column)
            for name, column in schema.attributes.items()
            if name != target
        )
        if not axes:
            problems.append(
                f"target {target!r} is the only column; publish at least one more to group by."
            )
        ParameterError.raise_if_any(problems)
        return MondrianPlan(self, schema, axes, target)

    def groups(self, engine: Engine) -> MondrianGroups:
        """Divide the rows of a table.

        Raises
        ------
        Refused
            If there are fewer than k rows.
        """
        sealed = seal(engine, RunAccount(None, sees_exact_counts=self.sees_exact_counts))
        return self.plan(engine.schema).groups(sealed.exact_engine("rows"))

    def divide(self, whole: _MondrianGroup, sizes: Integers) -> Iterator[_MondrianGroup]:
        """Split groups as long as both halves have at least k rows."""
        open_groups = [whole]
        while open_groups:
            group = open_groups.pop()
            halves = self._halves(group, sizes) if group.n_rows >= 2 * self.k else None
            if halves is None:
                yield group
            else:
                open_groups += reversed(halves)

    def _halves(
        self, group: _MondrianGroup, sizes: Integers
    ) -> tuple[_MondrianGroup, _MondrianGroup] | None:
        if group.region is not None:
            # The region decides on one split. If others were tried when it leaves too few rows, the
            # rows would decide which column is split.
            halves = group.halved_in_the_middle(sizes)
            small = halves is None or min(half.n_rows for half in halves) < self.k
            return None if small else halves
        widths = (group.last - group.first) / sizes
        allowed = []
        for at in np.argsort(-widths, kind="stable").tolist():
            if widths[at] == 0:
                break
            halves = group.halved(at, relaxed=self.relaxed)
            if min(half.n_rows for half in halves) >= self.k:
                if not self.by_class:
                    return halves
                allowed.append(halves)
        if not allowed:
            return None
        return min(allowed, key=lambda halves: sum(half.disorder for half in halves))


@dataclass(frozen=True)
class MondrianPlan(Plan[SealedTable]):
    """The columns to group by, and the column that is published unchanged."""

    method: Mondrian
    schema: Schema
    axes: tuple[PartitionAxis, ...]
    target: str | None

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """k-anonymity in all columns except the target; not counted in a ledger."""
        return (KAnonymity(k=self.method.k),)

    def forecast(self, rows: int | None = None) -> Forecast:
        """Forecast the number of groups."""
        rows = self.schema.expected_rows(rows)
        lines: dict[str, str | float | int] = {
            "warning": "rows and classes of groups are counted exactly; this is not differential "
            "privacy",
        }
        if rows is not None:
            lines["groups, at most"] = rows // self.method.k
            lines |= inside_cells(
                n_cells=rows / self.method.k,
                sizes=[axis.size for axis in self.axes],
                n_columns=len(self.schema.attributes),
            )
        held = TYPICAL_ROWS if rows is None else max(rows, 1)
        n_cells = math.prod(axis.size for axis in self.axes)
        memory = held * 8 * (3 * len(self.axes) + 4) / 1e6 + 1
        return Forecast(lines=lines, split={}, n_cells=n_cells, memory_mb=memory)

    @property
    def n_classes(self) -> int:
        """Number of values of the target; 1 without one."""
        return 1 if self.target is None else self.schema.attributes[self.target].size

    def groups(self, table: Engine) -> MondrianGroups:
        """Divide the rows of an unsealed table."""
        names, method = [axis.name for axis in self.axes], self.method
        cells = table.counts(names if self.target is None else [*names, self.target])
        positions = np.stack(
            [axis.positions(cells.column(at)) for at, axis in enumerate(self.axes)], axis=1
        ).astype(np.int64)
        classes = (
            cells.column(len(self.axes)) if self.target else np.zeros(len(positions), np.int64)
        )
        if cells.counts.sum() < method.k:
            raise Refused(
                f"the table has fewer than k = {method.k} rows; no group can be published. Lower k "
                "or add rows."
            )
        sizes = np.array([axis.size for axis in self.axes])
        whole = _MondrianGroup(positions, classes, cells.counts, self.n_classes)
        if method.cuts == "middle":
            whole = replace(whole, region=(np.zeros_like(sizes), sizes - 1))
        done = list(method.divide(whole, sizes))
        return MondrianGroups(
            axes=self.axes,
            target=self.target,
            first=np.stack([group.first for group in done]),
            last=np.stack([group.last for group in done]),
            counts=np.stack([group.by_class for group in done]),
        )

    def release(self, source: SealedTable, noise: Noise) -> Released:
        """Divide the rows and publish the boxes; nothing is random."""
        found = self.groups(source.exact_engine("rows"))
        return Released(tables=box_tables(self.schema, found))


def box_tables(schema: Schema, found: MondrianGroups) -> dict[str, pa.Table]:
    """Return the groups as ``data``, with values, and ``boxes``, with positions for estimators."""
    n_groups, n_classes = found.counts.shape
    ends = found.first, found.last
    shown = {
        GROUP: pa.array(np.repeat(np.arange(n_groups), n_classes)),
        **box_columns(schema, found.axes, ends, found.target, n_classes),
        COUNT: pa.array(found.counts.ravel()),
    }
    boxes = {
        GROUP: np.repeat(np.arange(n_groups), len(found.axes)),
        "column": [axis.name for axis in found.axes] * n_groups,
        "first": found.first.ravel(),
        "last": found.last.ravel(),
    }
    return {"data": pa.table(shown), "boxes": pa.table(boxes)}


@dataclass(frozen=True)
class _MondrianGroup:
    """Rows of one group, as cells with counts, and its region if that is public."""

    positions: Integers
    classes: Integers
    counts: Integers
    n_classes: int
    region: tuple[Integers, Integers] | None = None

    @cached_property
    def n_rows(self) -> int:
        return int(self.counts.sum())

    @cached_property
    def first(self) -> Integers:
        return np.asarray(self.positions.min(axis=0)) if self.region is None else self.region[0]

    @cached_property
    def last(self) -> Integers:
        return np.asarray(self.positions.max(axis=0)) if self.region is None else self.region[1]

    @cached_property
    def by_class(self) -> Integers:
        tally = np.zeros(self.n_classes, np.int64)
        np.add.at(tally, self.classes, self.counts)
        return tally

    @cached_property
    def disorder(self) -> float:
        """Entropy of the class times the number of rows."""
        share = self.by_class[self.by_class > 0] / self.n_rows
        return float(-self.n_rows * (share @ np.log2(share)))

    def _part(self, which: Integers, counts: Integers) -> _MondrianGroup:
        return replace(
            self, positions=self.positions[which], classes=self.classes[which], counts=counts
        )

    def halved_in_the_middle(self, sizes: Integers) -> tuple[_MondrianGroup, _MondrianGroup] | None:
        """Split the widest side of the region (the first on ties); None if it is a single cell."""
        first, last = self.first, self.last
        at = int(np.argmax((last - first + 1) / sizes * (last > first)))
        if first[at] == last[at]:
            return None
        middle = (int(first[at]) + int(last[at])) // 2
        below = self.positions[:, at] <= middle
        lower, upper = last.copy(), first.copy()
        lower[at], upper[at] = middle, middle + 1
        return (
            replace(self._part(np.flatnonzero(below), self.counts[below]), region=(first, lower)),
            replace(self._part(np.flatnonzero(~below), self.counts[~below]), region=(upper, last)),
        )

    def halved(self, at: int, *, relaxed: bool) -> tuple[_MondrianGroup, _MondrianGroup]:
        """Split at the median of a column; the left half has the lower values."""
        order = np.argsort(self.positions[:, at], kind="stable")
        counts = self.counts[order]
        until = np.cumsum(counts)
        if relaxed:
            taken = np.clip((self.n_rows + 1) // 2 - (until - counts), 0, counts)
            left, right = taken > 0, taken < counts
            return (
                self._part(order[left], taken[left]),
                self._part(order[right], (counts - taken)[right]),
            )
        values = self.positions[order, at]
        ends = np.flatnonzero(np.diff(values))  # last cell of each value except the highest
        best = int(ends[np.argmax(np.minimum(until[ends], self.n_rows - until[ends]))]) + 1
        return (
            self._part(order[:best], counts[:best]),
            self._part(order[best:], counts[best:]),
        )


# Estimator of published boxes with exact counts.

CUT_NOTE = "The condition splits groups; rows are assumed to be spread evenly inside them."


class BoxEstimator(BoxesEstimator):
    """Estimator from boxes with exact counts; errors come only from split boxes."""

    box: ClassVar[str] = "group"

    def _open(self) -> None:
        """Extract what answers need from the statement and the tables."""
        plan = Mondrian(**self.parameters).plan(self.schema)
        self.axes, self.target, self.n_classes = plan.axes, plan.target, plan.n_classes
        self._counts = as_numpy(self.table[COUNT]).astype(np.float64)

    @cached_property
    def ends(self) -> tuple[Integers, Integers]:
        """Parts of the groups, as two arrays (groups, axes)."""
        boxes, shape = self.tables["boxes"], (-1, len(self.axes))
        return as_numpy(boxes["first"]).reshape(shape), as_numpy(boxes["last"]).reshape(shape)

    def count(self, where: str) -> Estimate:
        """Estimate how many rows satisfy a condition."""
        predicate = parse(where, self.schema)
        shares = predicate.shares(*self.coverings(predicate.columns))
        cut = (shares > 0.0) & (shares < 1.0)
        error = cut_error(shares[cut], self._counts[cut])
        value = float(shares @ self._counts)
        return Estimate(
            value=value,
            low=value - error.below,
            high=value + error.above,
            privacy_std=0.0,
            model_std=error.std,
            notes=(CUT_NOTE,) * bool(cut.any()),
        )

    def sums(self, functions: Sequence[RowFunction], *, together: bool = True) -> SumEstimates:
        """Estimate sums over rows."""
        cells = self.cells(functions)
        values = np.array([float(cells.means(one) @ self._counts) for one in functions])
        model = cells.inside(functions, self._counts, together=together)
        return SumEstimates(
            values, np.zeros_like(model), model, notes=(CUT_NOTE,) * bool(model.any())
        )
