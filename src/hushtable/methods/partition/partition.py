"""Recursive partitioning and summarization: publish regions of the table with noisy counts.

The promise, the algorithm and the proofs are in ``partition.md`` beside this file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from hushtable.engine.base import Engine
from hushtable.errors import ParameterError, TooLarge
from hushtable.methods.base import CountError, Forecast, Method, Released
from hushtable.methods.count_error import laplace_error, n_asked
from hushtable.methods.partition.axes import Axis, axis_of
from hushtable.methods.partition.consistency import discrete_laplace_variance, whole_counts
from hushtable.methods.partition.regions import (
    COUNT,
    NODE,
    NOISE_SCALE,
    NOISY_COUNT,
    leaf_table,
    measurements,
    tree_table,
)
from hushtable.methods.partition.tree import Rows, Rules, Split, Tree, grow
from hushtable.privacy.guarantee import Guarantee, PureDP, check_epsilon
from hushtable.privacy.noise import MAX_SCALE, Noise, add_noise
from hushtable.privacy.rational import as_rational
from hushtable.schema import Schema

Summarize = Literal["sample", "midpoint", "lower"]
Integers = NDArray[np.int64]

MAX_CLASSES = 1000
"""Most values of a target: each region has a count for each of them."""

MAX_COUNTS = 20_000_000
"""Most counts, over all regions and classes."""

TYPICAL_ROWS = 1_000_000
"""What the forecast takes for the number of rows where it is not told."""


_NUMBERS = (
    *("epsilon", "max_depth", "stop_count", "test_from"),
    *("budget", "test_share", "max_regions"),
)


@dataclass(frozen=True, kw_only=True)
class Partition(Method):
    """Split the table's domain into regions of similar size and publish their noisy counts.

    Parameters
    ----------
    epsilon : number or str
        Bound on the privacy loss, for the whole release.
    max_depth : int
        Number of times a region may be split. Public: it must not be chosen by trying.
    stop_count : int
        From level `test_from` on, a region with a smaller noisy count is not split.
    test_from : int
        First level with this test; from `max_depth` on there is none.
    target : str, optional
        Column whose classes are kept apart in the counts, and which splits are made to separate.
        The schema's target if not given.
    split : {"median", "random-attribute", "midpoint"}
        ``median`` chooses among all splits of all attributes at once, ``random-attribute`` among
        those of an attribute drawn beforehand. ``midpoint`` halves the widest one, at no cost.
    budget : number or str
        Share of epsilon that is kept for the counts of the leaves. The rest is divided evenly over
        the levels; what a path does not use goes to its leaf.
    test_share : number or str
        Share of a level's part that its test gets, on levels that have one.
    summarize : {"sample", "midpoint", "lower"}
        How `frame` fills in values: drawn evenly from the region, or its middle or lowest one.
    consistent : bool
        Whether counts of leaves are fitted to the noisy counts of the tests, by least squares.
    max_regions : int
        Growth ends at so many regions.

    Examples
    --------
    >>> from hushtable.datasets import sample_schema
    >>> method = Partition(epsilon=1)
    >>> {step: str(part) for step, part in method.forecast(sample_schema()).split.items()}
    {'counts of leaves': '1/2', 'splits': '9/20', 'stopping tests': '1/20'}
    >>> Partition(epsilon=0, max_depth=0, budget=1)
    Traceback (most recent call last):
    ...
    hushtable.errors.ParameterError: epsilon is 0; it must be above 0. Typical values are 0.1 to 5.
    max_depth is 0; it must be a whole number of at least 1.
    budget is 1; it must be above 0 and below 1.
    """

    name: ClassVar[str] = "partition"
    paper: ClassVar[str] = (
        "Qardaji and Li, recursive partitioning and summarization (sections 3 and 4), repaired."
    )
    summary: ClassVar[str] = "Publish regions of similar size with noisy counts."
    estimator: ClassVar[str] = "regions"

    epsilon: Fraction = field(
        metadata={"help": "Bound on the privacy loss of the whole release, such as 1 or ln(5)."}
    )
    max_depth: int = field(
        default=10, metadata={"help": "Number of times a region may be split, 1 or more."}
    )
    stop_count: int = field(
        default=5, metadata={"help": "Regions with a smaller noisy count are not split further."}
    )
    test_from: int = field(
        default=8, metadata={"help": "First level on which regions are counted before a split."}
    )
    target: str | None = field(
        default=None, metadata={"help": "Column whose classes are kept apart; else the schema's."}
    )
    split: Split = field(
        default="median",
        metadata={
            "help": "median: among all splits of all columns; random-attribute: of one column; "
            "midpoint: halve the widest column, at no cost."
        },
    )
    budget: Fraction = field(
        default=Fraction(1, 2),
        metadata={"help": "Share of epsilon kept for the counts of the leaves, such as 1/2."},
    )
    test_share: Fraction = field(
        default=Fraction(1, 2),
        metadata={"help": "Share of a level's part of epsilon that its counting test gets."},
    )
    summarize: Summarize = field(
        default="sample",
        metadata={"help": "How rows are made from a region: sample, midpoint or lower values."},
    )
    consistent: bool = field(
        default=True, metadata={"help": "Fit the counts of leaves to those of the tests."}
    )
    max_regions: int = field(default=200_000, metadata={"help": "Growth ends at so many regions."})

    def __post_init__(self) -> None:
        problems: list[str] = []
        for name in _NUMBERS:
            try:
                self._read(name)
            except ParameterError as error:
                problems += error.problems
        for name, kind in (("split", Split), ("summarize", Summarize)):
            if getattr(self, name) not in get_args(kind):
                allowed = ", ".join(get_args(kind))
                problems.append(f"{name} is {getattr(self, name)!r}; it must be one of {allowed}.")
        if not isinstance(self.consistent, bool):
            problems.append(f"consistent is {self.consistent!r}; it must be true or false.")
        if problems:
            raise ParameterError(problems)

    def _read(self, name: str) -> None:
        """Turn a parameter into an exact number and check its range."""
        given = getattr(self, name)
        value: Fraction | int = as_rational(given, name=name)
        least = {"max_depth": 1, "max_regions": 1, "test_from": 0}.get(name)
        if name == "epsilon":
            check_epsilon(Fraction(value))
        elif name in {"budget", "test_share"}:
            if not 0 < value < 1:
                raise ParameterError(f"{name} is {given}; it must be above 0 and below 1.")
        elif value.denominator != 1 or (least is not None and value < least):
            bound = "" if least is None else f" of at least {least}"
            raise ParameterError(f"{name} is {given}; it must be a whole number{bound}.")
        else:
            value = int(value)
        object.__setattr__(self, name, value)

    # --- the method -------------------------------------------------------------------------------

    def guarantee(self, schema: Schema) -> tuple[Guarantee, ...]:
        """Promise differential privacy for one added or removed unit."""
        self.plan(schema)
        return (PureDP(epsilon=self.epsilon, unit=schema.unit, neighbors="add-remove"),)

    def forecast(self, schema: Schema, rows: int | None = None) -> Forecast:
        """Say how many regions there may be, how noisy their counts are, and what is held."""
        plan = self.plan(schema)
        rows = schema.rows if rows is None else rows
        rules, n_axes = plan.rules, len(plan.axes)
        leaf_epsilon = self.epsilon - plan.split_cost - plan.test_cost
        scale = np.array([float(rules.max_rows / leaf_epsilon)])
        std = float(discrete_laplace_variance(scale)[0]) ** 0.5
        n_regions = self._most_regions(plan)
        lines: dict[str, str | float | int] = {
            "regions, at most": n_regions,
            "standard deviation of a count at full depth": std,
            "classes counted apart in each region": plan.n_classes,
        }
        if plan.rules.is_tested(self.max_depth - 1):
            test_scale = np.array([float(rules.max_rows / rules.epsilon_test)])
            lines["standard deviation of a stopping test"] = (
                float(discrete_laplace_variance(test_scale)[0]) ** 0.5
            )
        if rows is not None:
            per_cell = rows / (n_regions * plan.n_classes)
            lines["rows per count at full depth, if spread evenly"] = per_cell
            if per_cell < std and not rules.is_tested(self.max_depth - 1):
                lines["warning"] = (
                    f"{rows:,} rows over {n_regions:,} regions: the noise is larger than a typical "
                    "count. Lower max_depth, or test from an earlier level on."
                )
        split = {"counts of leaves": leaf_epsilon}
        split |= {"splits": plan.split_cost} if plan.split_cost else {}
        split |= {"stopping tests": plan.test_cost} if plan.test_cost else {}
        held = TYPICAL_ROWS if rows is None else max(rows, 1)
        cells = min(held, plan.n_cells)
        # Codes, positions and orders of the cells; parts, nodes and counts of the regions.
        per_region = 64 * n_axes + 400 + 80 * plan.n_classes
        memory = (cells * (16 * n_axes + 40) + n_regions * per_region) / 1e6
        return Forecast(lines=lines, split=split, n_cells=plan.n_cells, memory_mb=memory)

    def count_error(self, schema: Schema, *, rows: int | None, share: float) -> CountError:
        """Add up the noise of the leaves, as many and as noisy as they may be."""
        plan = self.plan(schema)
        leaf_epsilon = self.epsilon - plan.split_cost - plan.test_cost
        n_regions = n_asked(share, self._most_regions(plan))
        return laplace_error(
            leaf_epsilon / plan.rules.max_rows,
            n_regions * plan.n_classes,
            "The question takes the same share of the regions as of the rows, which median splits "
            "aim for, and asks for all classes; the tree is grown to its full depth. Trees that "
            "stop earlier have fewer and less noisy counts.",
        )

    def run(self, engine: Engine, noise: Noise) -> Released:
        """Count the occupied cells once, grow the tree on them, publish its leaves with noise."""
        schema = engine.schema
        plan = self.plan(schema)
        names = [axis.name for axis in plan.axes]
        cells = engine.counts(names if plan.target is None else [*names, plan.target])
        classes = np.zeros(len(cells.counts), np.int64)
        if plan.target is not None:
            classes = cells.codes[:, -1]
        codes = cells.codes[:, : len(names)]
        rows = Rows(plan.axes, codes, classes, plan.n_classes, cells.counts)
        tree, exact = grow(rows, plan.rules, noise)
        noisy, scales = _noisy_leaves(tree, exact, plan.rules, noise)
        nodes = tree_table(tree, plan.axes, plan.rules)
        measured, node_counts = measurements(
            nodes, scales, total=schema.counted_rows, consistent=self.consistent
        )
        fitted = measured.fit(noisy.astype(np.float64), node_counts)
        counts = whole_counts(fitted.ravel(), discrete_laplace_variance(scales).ravel())
        leaves = leaf_table(
            schema, nodes, plan.axes, plan.target, counts=counts, noisy=noisy, scales=scales
        )
        return Released(tables={"data": leaves, "tree": nodes})

    # --- what follows from parameters and schema --------------------------------------------------

    def plan(self, schema: Schema) -> Plan:
        """Work out everything that is fixed before the data is read, or refuse."""
        target = schema.target if self.target is None else self.target
        problems = [
            f"column {name!r}: the published table has a column of that name; rename the column in "
            "schema and data."
            for name in (NODE, COUNT, NOISY_COUNT, NOISE_SCALE)
            if name in schema.attributes
        ]
        if schema.unit.kind == "node":
            problems.append(
                "unit is node: partition publishes tables of rows. Use unit row or person, or the "
                "method degrees for graphs."
            )
        if target is not None and target not in schema.attributes:
            known = ", ".join(schema.attributes)
            problems.append(f"target is {target!r}; it must be a published column: {known}.")
        elif target is not None and schema.attributes[target].size > MAX_CLASSES:
            problems.append(
                f"target {target!r} has {schema.attributes[target].size:,} values; at most "
                f"{MAX_CLASSES:,} classes can be counted apart. Give it a coarser domain."
            )
        axes = tuple(axis_of(n, column) for n, column in schema.attributes.items() if n != target)
        if not axes:
            problems.append(f"target {target!r} is the only column; there is nothing to split.")
        rules = self._rules(schema, target)
        if rules.max_rows / rules.epsilon_test > MAX_SCALE:
            problems.append(
                f"epsilon is {self.epsilon}; divided over max_depth = {self.max_depth} levels it "
                "leaves nothing but noise. Raise epsilon, or lower max_depth."
            )
        if problems:
            raise ParameterError(problems)
        n_classes = 1 if target is None else schema.attributes[target].size
        plan = Plan(axes=axes, target=target, n_classes=n_classes, rules=rules)
        if self._most_regions(plan) * n_classes > MAX_COUNTS:
            raise TooLarge(
                f"up to {self._most_regions(plan):,} regions times {n_classes:,} classes are more "
                f"than {MAX_COUNTS:,} counts. Lower max_regions or max_depth, or give the target a "
                "coarser domain."
            )
        return plan

    def _most_regions(self, plan: Plan) -> int:
        return min(self.max_regions, 1 << self.max_depth, plan.n_cells)

    def _rules(self, schema: Schema, target: str | None) -> Rules:
        level = (1 - self.budget) * self.epsilon / self.max_depth
        test, rest = level * self.test_share, level * (1 - self.test_share)
        return Rules(
            max_depth=self.max_depth,
            stop_count=self.stop_count,
            test_from=self.test_from,
            split=self.split,
            by_class=target is not None,
            epsilon=self.epsilon,
            epsilon_test=test,
            epsilon_split=(level, rest) if self.split != "midpoint" else (Fraction(0), Fraction(0)),
            max_rows=schema.unit.max_rows or 1,
            max_regions=self.max_regions,
        )


@dataclass(frozen=True)
class Plan:
    """Hold what parameters and schema fix: the axes, the classes and the rules of growth."""

    axes: tuple[Axis, ...]
    target: str | None
    n_classes: int
    rules: Rules

    @cached_property
    def n_cells(self) -> int:
        """Size of the domain of the axes."""
        return math.prod(axis.size for axis in self.axes)

    @cached_property
    def split_cost(self) -> Fraction:
        """What a path spends on its splits, at most."""
        return sum(map(self.rules.split_budget, range(self.rules.max_depth)), Fraction(0))

    @cached_property
    def test_cost(self) -> Fraction:
        """What a path spends on its stopping tests, at most."""
        n_tests = sum(map(self.rules.is_tested, range(self.rules.max_depth)))
        return n_tests * self.rules.epsilon_test


def _noisy_leaves(
    tree: Tree, exact: Integers, rules: Rules, noise: Noise
) -> tuple[Integers, NDArray[np.float64]]:
    """Add to each count of a leaf the noise that what is left on its path pays for."""
    with_same: dict[Fraction, list[int]] = {}
    for at, leaf in enumerate(tree.leaves.tolist()):
        with_same.setdefault(tree.epsilon[leaf], []).append(at)
    noisy, scales = np.empty_like(exact), np.empty(exact.shape)
    for epsilon, these in with_same.items():
        scale = rules.max_rows / epsilon
        drawn = noise.discrete_laplace(scale, size=len(these) * exact.shape[1])
        noisy[these] = add_noise(exact[these], drawn.reshape(len(these), -1))
        scales[these] = float(scale)
    return noisy, scales
