"""Method dp-c45 (DiffP-C4.5, Friedman and Schuster 2010): a private decision tree.

A baseline for comparison: it publishes one classifier and no data. Guarantee and proof:
``dp_c45.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import ClassVar

import numpy as np

from hushtable.arrays import ColumnCodes, Integers
from hushtable.engine.engine import Engine
from hushtable.engine.sealed_table import SealedTable, accounted
from hushtable.methods import parameters
from hushtable.methods.diffgen.generalized_table import target_and_predictors
from hushtable.methods.parameters import Parameters, parameter, whole
from hushtable.privacy.accounting.run_account import RunAccount, SpendingLimit
from hushtable.privacy.accounting.sealed import SealedCells, SealedCounts
from hushtable.privacy.guarantee import Guarantee, PureDP
from hushtable.privacy.mechanisms.mechanism import Laplace
from hushtable.privacy.mechanisms.scored_splits import (
    Max,
    ScoreChoice,
    SealedClassTable,
    SealedSplits,
    SealedSplitsOfParts,
    SplitChoice,
    scores_of_ways,
)
from hushtable.privacy.noise.noise import Noise
from hushtable.schema import Categorical, Schema

_Z = 0.6745  # C4.5's default: upper end of a one-sided 75% interval of errors


@dataclass(frozen=True)
class DecisionTree:
    """A node of the published tree.

    Parameters
    ----------
    counts : tuple of int
        Noisy counts of the classes; at an inner node, the sums of its children's.
    column : str or None
        Column that the node tests; None at a leaf.
    split : int or None
        For a numeric column, the first code of the second child.
    children : tuple of DecisionTree
        One per value of the column, or two.
    """

    counts: tuple[int, ...]
    column: str | None = None
    split: int | None = None
    children: tuple[DecisionTree, ...] = ()

    def predict(self, codes: ColumnCodes) -> Integers:
        """Return the class code of each row; rows are codes of the schema's columns."""
        n_rows = len(next(iter(codes.values())))
        found = np.full(n_rows, int(np.argmax(self.counts)), np.int64)
        if self.column is None:
            return found
        asked = codes[self.column]
        branch = asked if self.split is None else (asked >= self.split).astype(np.int64)
        for at, child in enumerate(self.children):
            rows = np.flatnonzero(branch == at)
            if len(rows) and sum(child.counts) > 0:
                found[rows] = child.predict({name: c[rows] for name, c in codes.items()})
        return found

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return sum(child.n_leaves for child in self.children) if self.children else 1


@dataclass(frozen=True, kw_only=True)
class DpC45(Parameters):
    """Train one decision tree under pure differential privacy.

    Parameters
    ----------
    epsilon : number or str
        Epsilon of the whole tree, such as 1 or ln(5).
    depth : int
        Maximum number of tests from the root to a leaf.
    target : str, optional
        Column to predict; by default, the schema's target.

    Examples
    --------
    >>> from hushtable.datasets import sample, sample_schema
    >>> from hushtable.engine import connect
    >>> from hushtable.privacy.noise.sources import SecureNoise
    >>> tree = DpC45(epsilon=2, depth=2).fit(connect(sample(), sample_schema()), SecureNoise())
    >>> len(tree.counts)
    7
    """

    name: ClassVar[str] = "dp-c45"

    epsilon: Fraction = parameter(read=parameters.epsilon)
    depth: int = parameter(read=whole(), default=5)
    target: str | None = parameter(default=None)

    def guarantee(self, schema: Schema) -> tuple[Guarantee, ...]:
        """Return pure differential privacy for one added or removed unit."""
        self._columns(schema)
        return (PureDP(epsilon=self.epsilon, unit=schema.unit, neighbors="add-remove"),)

    def step_epsilon(self, schema: Schema) -> Fraction:
        """Return the epsilon of a single query: B / ((2 + |A_n|) d + 2)."""
        _, predictors = self._columns(schema)
        n_numeric = sum(not isinstance(schema.attributes[n], Categorical) for n in predictors)
        return self.epsilon / ((2 + n_numeric) * self.depth + 2)

    def fit(self, engine: Engine, noise: Noise) -> DecisionTree:
        """Load the distinct rows, grow the tree by private queries, and prune it."""
        schema = engine.schema
        # Some paths are shorter than the budget allows.
        account = RunAccount(SpendingLimit.among(self.guarantee(schema)), spends_all=False)
        return accounted(engine, account, partial(self._grown, noise))

    def _grown(self, noise: Noise, source: SealedTable) -> DecisionTree:
        schema = source.schema
        target, predictors = self._columns(schema)
        grower = _Grower(
            schema=schema,
            target=target,
            epsilon=self.step_epsilon(schema),
            max_rows=schema.unit.max_rows or 1,
            noise=noise,
        )
        rows = source.counts([*predictors, target])
        return _pruned(grower.grow(rows, predictors, self.depth))

    def _columns(self, schema: Schema) -> tuple[str, tuple[str, ...]]:
        return target_and_predictors(schema, self.target, method=self.name)


@dataclass(frozen=True, kw_only=True)
class _Grower:
    schema: Schema
    target: str
    epsilon: Fraction
    max_rows: int
    noise: Noise

    @property
    def n_classes(self) -> int:
        return self.schema.attributes[self.target].size

    def grow(self, rows: SealedCells, names: tuple[str, ...], depth: int) -> DecisionTree:
        """Grow a subtree; nodes of one level have disjoint rows and share one budget."""
        total = self._noisy(rows.total(), "rows of a node")[0]
        columns = self.schema.attributes
        widest = max(
            (columns[n].size if isinstance(columns[n], Categorical) else 2 for n in names),
            default=1,
        )
        # Stop if there are too few rows to distinguish classes from noise in the children.
        enough = total / (widest * self.n_classes) >= math.sqrt(2) / float(self.epsilon)
        ways = [way for name in names for way in self._ways(rows, name)] if depth and enough else []
        if not ways:
            counts = self._noisy(rows.table([self.target]), "classes of a leaf")
            return DecisionTree(tuple(map(int, counts)))
        scores = scores_of_ways([(sealed, way) for _, sealed, way in ways])
        name, _, way = ways[self.noise.open(scores, ScoreChoice(self._eta), "questions")]
        split = None if way < 0 else way
        size = columns[name].size
        branch = np.arange(size) if split is None else (np.arange(size) >= split).astype(np.int64)
        left = tuple(n for n in names if n != name or split is not None)
        children = tuple(
            self.grow(part, left, depth - 1) for part in rows.divided(name, branch.tolist())
        )
        sums = tuple(map(sum, zip(*(child.counts for child in children), strict=True)))
        return DecisionTree(sums, name, split, children)

    @property
    def _eta(self) -> Fraction:
        """Factor of a score in the exponent, as published for scores that are not monotone."""
        return self.epsilon / (2 * self.max_rows)

    def _ways(self, rows: SealedCells, name: str) -> list[tuple[str, SealedSplits, int]]:
        """Return the possible tests of a column, scored by the rows of the majority class."""
        column = self.schema.attributes[name]
        if column.size < 2:
            return []
        ordered = not isinstance(column, Categorical)
        table = SealedClassTable.of(rows.table([name, self.target]), column.size, ordered)
        if not ordered:
            values = [[code] for code in range(column.size)]
            return [(name, table.score_groups(values, Max(), with_special=False), -1)]
        # Splits between the same two occupied codes have equal scores. They are sampled as one run,
        # whose weight is multiplied by its length.
        ways = table.score_spans(0, column.size - 1, Max(), with_special=False)
        choice = SplitChoice(self._eta, (1,), by_levels=False)
        _, split = self.noise.open(SealedSplitsOfParts.of_one(ways), choice, "splits")
        return [(name, ways, split)]

    def _noisy(self, counts: SealedCounts, what: str) -> Integers:
        drawn: Integers = self.noise.open(counts, Laplace(self.max_rows / self.epsilon), what)
        return drawn


def _pruned(tree: DecisionTree) -> DecisionTree:
    """Replace subtrees that are no better than a leaf, by C4.5's pessimistic error estimate."""
    if tree.column is None:
        return tree
    children = tuple(map(_pruned, tree.children))
    kept = DecisionTree(tree.counts, tree.column, tree.split, children)
    leaf = DecisionTree(tree.counts)
    return leaf if _errors(leaf) <= _errors(kept) else kept


def _errors(tree: DecisionTree) -> float:
    if tree.children:
        return sum(map(_errors, tree.children))
    counts = [max(0, count) for count in tree.counts]
    n = sum(counts)
    if n == 0:
        return 0.0
    wrong = (n - max(counts)) / n
    upper = wrong + _Z**2 / (2 * n) + _Z * math.sqrt(wrong * (1 - wrong) / n + _Z**2 / (4 * n * n))
    return n * upper / (1 + _Z**2 / n)
