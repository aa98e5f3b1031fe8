"""Method partition: recursive partitioning of the domain into regions with noisy counts.

Guarantee, algorithm and proofs: ``partition.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from hushtable.engine.sealed_table import SealedTable
from hushtable.errors import ParameterError, TooLarge
from hushtable.kernels import EVEN, EVEN_UNORDERED, TELLING
from hushtable.methods import parameters
from hushtable.methods.base import (
    TYPICAL_ROWS,
    CountError,
    Forecast,
    Method,
    Plan,
    Released,
    schema_problems,
)
from hushtable.methods.count_error import laplace_error, n_asked, width_line, width_through_cells
from hushtable.methods.parameters import parameter, part, said, whole
from hushtable.methods.partition.region_table import (
    COUNT,
    NODE,
    NOISE_SCALE,
    NOISY_COUNT,
    CountedColumns,
    leaf_table,
    measurements,
    noisy_leaves,
    tree_table,
)
from hushtable.methods.partition.tree import (
    GrowthRules,
    PartitionAxis,
    Split,
    axis_of,
    grow,
    most_leaves,
)
from hushtable.numeric import project_integers_to_simplex
from hushtable.privacy.guarantee import Guarantee, PureDP
from hushtable.privacy.mechanisms.sealed_regions import SealedRegions
from hushtable.privacy.noise.distributions import laplace_variance
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.samplers import MAX_SCALE
from hushtable.schema import Schema

Summarize = Literal["sample", "midpoint", "lower"]

MAX_CLASSES = 1000
"""Maximum number of values of a target; each region has a count for each of them."""

MAX_COUNTS = 20_000_000
"""Maximum number of counts, over all regions and classes."""


@dataclass(frozen=True, kw_only=True)
class Partition(Method):
    """Split the domain into regions with similar numbers of rows, and publish noisy counts.

    Parameters
    ----------
    epsilon : number or str
        Epsilon of the whole release, such as 1 or ln(5).
    max_depth : int
        Maximum number of splits on a path, at least 1. Public: it must not be tuned on the data.
    stop_count : int
        Regions with a smaller noisy count are not split further, from level `test_from` on.
    test_from : int
        First level on which regions are counted before a split; from `max_depth` on, none are.
    target : str, optional
        Column whose classes are counted separately; by default, the schema's target. Splits try to
        separate them.
    split : {"median", "class", "random-attribute", "midpoint"}
        How regions are split: ``median`` chooses among all splits of all columns for equal halves,
        ``class`` for information about the target, ``random-attribute`` among the splits of a
        column drawn at random, ``midpoint`` halves the widest column at no cost.
    budget : number or str
        Share of epsilon for the counts of the leaves, such as 1/2. The rest is divided evenly over
        the levels; a leaf gets what its path does not use.
    test_share : number or str
        Share of a level's epsilon for its stopping test, on levels that have one.
    column_share : number or str
        Share of epsilon for one-way counts of each column, such as 1/4. With 0 there are none, and
        rows are assumed to be spread evenly inside regions.
    summarize : {"sample", "midpoint", "lower"}
        How rows are made from a region: with values sampled from it (``sample``), or with its
        middle or lowest values.
    consistent : bool
        Fit the counts of leaves to the noisy counts of the stopping tests, by least squares. If
        most levels are tested, this reduces the noise of large sums. But those counts decided which
        regions were split, so sums are biased upward, and intervals have less than 95% coverage.
    max_regions : int
        Maximum number of regions.

    Examples
    --------
    >>> from hushtable.datasets import sample_schema
    >>> method = Partition(epsilon=1)
    >>> for step, part in method.forecast(sample_schema()).split.items():
    ...     print(step, part)
    counts of leaves 3/8
    splits 27/80
    stopping tests 3/80
    counts of columns 1/4
    >>> Partition(epsilon=0, max_depth=0, budget=1)
    Traceback (most recent call last):
    ...
    hushtable.errors.ParameterError: epsilon is 0; it must be above 0. Typical values are 0.1 to 5.
    max_depth is 0; it must be a whole number from 1 to 1,000.
    budget is 1; it must be above 0 and below 1.
    """

    name: ClassVar[str] = "partition"

    epsilon: Fraction = parameter(read=parameters.epsilon)
    max_depth: int = parameter(read=whole(1, 1000), default=10)
    stop_count: int = parameter(read=whole(at_least=None), default=5)
    test_from: int = parameter(read=whole(at_least=0), default=8)
    target: str | None = parameter(default=None)
    split: Split = parameter(default="median")
    budget: Fraction = parameter(read=part, default=Fraction(1, 2))
    test_share: Fraction = parameter(read=part, default=Fraction(1, 2))
    column_share: Fraction = parameter(read=parameters.share, default=Fraction(1, 4))
    summarize: Summarize = parameter(default="sample")
    consistent: bool = parameter(default=False)
    max_regions: int = parameter(read=whole(), default=200_000)

    def plan(self, schema: Schema) -> PartitionPlan:
        """Compute everything that is fixed before the data is read, or refuse."""
        target = schema.target if self.target is None else self.target
        axes = tuple(axis_of(n, column) for n, column in schema.attributes.items() if n != target)
        columns = self._counted_columns(schema)
        rules = self._rules(schema, target, self.epsilon - columns.epsilon)
        problems = self._schema_problems(schema, target)
        if target is None and self.split == "class":
            problems.append(
                "split is 'class', which needs a target; name a target, or choose another split."
            )
        if not axes:
            problems.append(
                f"target {target!r} is the only column; publish at least one more to split by."
            )
        if max(rules.max_rows / rules.epsilon_test, columns.largest_scale) > MAX_SCALE:
            problems.append(
                said("small epsilon of a level", epsilon=self.epsilon, max_depth=self.max_depth)
            )
        ParameterError.raise_if_any(problems)
        n_classes = 1 if target is None else schema.attributes[target].size
        plan = PartitionPlan(self, schema, axes, target, n_classes, rules, columns)
        if plan.most_regions * n_classes > MAX_COUNTS:
            raise TooLarge(
                said(
                    "many regions",
                    most_regions=plan.most_regions,
                    n_classes=n_classes,
                    limit=MAX_COUNTS,
                )
            )
        return plan

    def _schema_problems(self, schema: Schema, target: str | None) -> list[str]:
        """List the parts of the schema that this method cannot publish."""
        reserved = (NODE, COUNT, NOISY_COUNT, NOISE_SCALE)
        problems = schema_problems(schema, self.name, reserved, target)
        if target in schema.attributes and schema.attributes[target].size > MAX_CLASSES:
            problems.append(
                said(
                    "many classes",
                    target=target,
                    size=schema.attributes[target].size,
                    limit=MAX_CLASSES,
                )
            )
        return problems

    def _quality(self, target: str | None) -> int:
        """Return the quality function of splits."""
        if target is None:
            return EVEN
        return TELLING if self.split == "class" else EVEN_UNORDERED

    def _counted_columns(self, schema: Schema) -> CountedColumns:
        """Return the columns with one-way counts; none if there is one column or no budget."""
        axes = tuple(axis_of(name, column) for name, column in schema.attributes.items())
        share = self.column_share if len(axes) > 1 else Fraction(0)
        return CountedColumns(
            axes if share else (), share * self.epsilon, schema.unit.max_rows or 1
        )

    def _rules(self, schema: Schema, target: str | None, epsilon: Fraction) -> GrowthRules:
        level = (1 - self.budget) * epsilon / self.max_depth
        test, rest = level * self.test_share, level * (1 - self.test_share)
        return GrowthRules(
            max_depth=self.max_depth,
            stop_count=self.stop_count,
            test_from=self.test_from,
            split=self.split,
            quality=self._quality(target),
            epsilon=epsilon,
            epsilon_test=test,
            epsilon_split=(level, rest) if self.split != "midpoint" else (Fraction(0), Fraction(0)),
            max_rows=schema.unit.max_rows or 1,
            max_regions=self.max_regions,
        )


@dataclass(frozen=True)
class PartitionPlan(Plan[SealedTable]):
    """Plan of method partition: axes, classes, growth rules of the tree, and one-way counts."""

    method: Partition
    schema: Schema
    axes: tuple[PartitionAxis, ...]
    target: str | None
    n_classes: int
    rules: GrowthRules
    columns: CountedColumns

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """Differential privacy for one added or removed unit."""
        return (PureDP(epsilon=self.method.epsilon, unit=self.schema.unit, neighbors="add-remove"),)

    @cached_property
    def n_cells(self) -> int:
        """Number of cells in the domain of the axes."""
        return math.prod(axis.size for axis in self.axes)

    @property
    def most_regions(self) -> int:
        """Maximum number of regions."""
        return most_leaves(self.axes, self.rules)

    @cached_property
    def split_cost(self) -> Fraction:
        """Maximum epsilon that a path spends on splits."""
        return sum(map(self.rules.split_budget, range(self.rules.max_depth)), Fraction(0))

    @cached_property
    def test_cost(self) -> Fraction:
        """Maximum epsilon that a path spends on stopping tests."""
        n_tests = sum(map(self.rules.is_tested, range(self.rules.max_depth)))
        return n_tests * self.rules.epsilon_test

    @property
    def leaf_epsilon(self) -> Fraction:
        """Minimum epsilon left for the counts of a leaf."""
        return self.rules.epsilon - self.split_cost - self.test_cost

    def forecast(self, rows: int | None = None) -> Forecast:
        """Forecast the number of regions, the noise of their counts, and memory."""
        rows = self.schema.expected_rows(rows)
        rules, n_axes, n_regions = self.rules, len(self.axes), self.most_regions
        is_tested = rules.is_tested(rules.max_depth - 1)
        std = self._noise_std(self.leaf_epsilon)
        lines: dict[str, str | float | int] = {
            "regions, at most": n_regions,
            "standard deviation of a count at full depth": std,
            "classes counted in each region": self.n_classes,
        }
        if is_tested:
            lines["standard deviation of a stopping test"] = self._noise_std(rules.epsilon_test)
        if rows is not None:
            per_cell = rows / (n_regions * self.n_classes)
            lines["rows per count at full depth, if evenly distributed"] = per_cell
            lines |= width_line(self.typical_width(rows))
            if per_cell < std and not is_tested:
                lines["warning"] = said("noisy regions", rows=rows, n_regions=n_regions)
        split = {"counts of leaves": self.leaf_epsilon}
        split |= {"splits": self.split_cost} if self.split_cost else {}
        split |= {"stopping tests": self.test_cost} if self.test_cost else {}
        split |= {"counts of columns": self.columns.epsilon} if self.columns.axes else {}
        held = TYPICAL_ROWS if rows is None else max(rows, 1)
        cells = min(held, self.n_cells)
        # Cells have codes, positions and orders in memory; regions have parts, nodes and counts.
        per_region = 64 * n_axes + 400 + 80 * self.n_classes
        memory = (cells * (16 * n_axes + 40) + n_regions * per_region) / 1e6
        return Forecast(lines=lines, split=split, n_cells=self.n_cells, memory_mb=memory)

    def _noise_std(self, epsilon: Fraction) -> float:
        return math.sqrt(laplace_variance(float(self.rules.max_rows / epsilon)))

    def count_error(self, *, rows: int | None, share: float) -> CountError:
        """Return the expected error of a tree of full depth, which is the noisiest."""
        return laplace_error(
            self.leaf_epsilon / self.rules.max_rows,
            n_asked(share, self.most_regions) * self.n_classes,
            said["regions of a question"],
        )

    def typical_width(self, rows: int) -> float:
        """Return the expected width for paths of full depth whose splits are spread over columns.

        If one-way counts give narrower intervals, return their width.
        """
        through_regions = width_through_cells(
            n_cuts=self.rules.max_depth,
            sizes=[axis.size for axis in self.axes],
            n_columns=len(self.schema.attributes),
            error=self.count_error(rows=rows, share=0.5),
            rows=rows,
        )
        return min(through_regions, self.columns.typical_width(rows))

    def release(self, source: SealedTable, noise: Noise) -> Released:
        """Count the occupied cells once, grow the tree, and publish its leaves with noise."""
        names = [axis.name for axis in self.axes]
        by_class = self.target is not None
        counted = [*names, self.target] if self.target is not None else names
        cells = source.counts(counted)
        columns = self.columns.count(cells, counted, noise)
        rows = SealedRegions.of(cells, self.axes, n_classes=self.n_classes if by_class else None)
        tree, leaves = grow(rows, self.axes, self.rules, noise)
        noisy, scales = noisy_leaves(tree, rows, leaves, self.rules.max_rows, noise)
        nodes = tree_table(tree, self.axes, self.rules)
        measured, node_counts = measurements(
            nodes, scales, total=self.schema.counted_rows, consistent=self.method.consistent
        )
        fitted = measured.fit(noisy.astype(np.float64), node_counts)
        # Nearest whole, non-negative counts, weighted by the variance of the noise.
        total = round(float(fitted.sum()))
        counts = project_integers_to_simplex(
            fitted.ravel(), total, laplace_variance(scales).ravel()
        )
        table = leaf_table(
            self.schema, nodes, self.axes, self.target, counts=counts, noisy=noisy, scales=scales
        )
        tables = {"data": table, "tree": nodes}
        return Released(tables=tables if columns is None else tables | {"columns": columns})
