"""DiffP-C4.5 (Friedman and Schuster 2010): a decision tree learned by private questions.

A baseline to compare with: it publishes one classifier and no data. The promise and the proof are
in ``dp_c45.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from hushtable.engine.base import Engine
from hushtable.methods import parameters
from hushtable.methods.diffgen.scores import Integers
from hushtable.methods.diffgen.target import target_and_predictors
from hushtable.methods.parameters import Parameters, parameter, whole
from hushtable.privacy.guarantee import Guarantee, PureDP
from hushtable.privacy.noise import Noise, add_noise
from hushtable.schema import Categorical, Schema

Codes = Mapping[str, Integers]

_Z = 0.6745  # C4.5's default: errors are read at the upper end of a one-sided 75 % interval


@dataclass(frozen=True)
class DecisionTree:
    """A node of the published tree.

    Parameters
    ----------
    counts : tuple of int
        Noisy counts of the classes; at an inner node the sums of its children's.
    column : str or None
        What the node asks for; None at a leaf.
    split : int or None
        For a numeric column: the first code that goes to the second child.
    children : tuple of DecisionTree
        One per value of the column, or two.
    """

    counts: tuple[int, ...]
    column: str | None = None
    split: int | None = None
    children: tuple[DecisionTree, ...] = ()

    def predict(self, codes: Codes) -> Integers:
        """Give the class code of each row, rows being codes of the schema's columns."""
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
    """Learn one decision tree under pure differential privacy.

    Parameters
    ----------
    epsilon : number or str
        Bound on the privacy loss of the whole tree, such as 1 or ln(5).
    depth : int
        Questions from the root to a leaf, at most.
    target : str, optional
        The column to predict; the schema's target if it is not given.

    Examples
    --------
    >>> from hushtable.datasets import sample, sample_schema
    >>> from hushtable.engine import connect
    >>> from hushtable.privacy.noise import SecureNoise
    >>> tree = DpC45(epsilon=2, depth=2).fit(connect(sample(), sample_schema()), SecureNoise())
    >>> len(tree.counts)
    7
    """

    name: ClassVar[str] = "dp-c45"
    paper: ClassVar[str] = "Friedman and Schuster 2010 (DiffP-C4.5); what DiffGen is compared with."
    summary: ClassVar[str] = "Learn one decision tree by private questions; publishes no data."

    epsilon: Fraction = parameter(read=parameters.epsilon)
    depth: int = parameter(read=whole(), default=5)
    target: str | None = parameter(default=None)

    def guarantee(self, schema: Schema) -> tuple[Guarantee, ...]:
        """Promise pure differential privacy for one added or removed unit."""
        self._columns(schema)
        return (PureDP(epsilon=self.epsilon, unit=schema.unit, neighbors="add-remove"),)

    def step_epsilon(self, schema: Schema) -> Fraction:
        """Give what a single question costs: B / ((2 + |A_n|) d + 2)."""
        _, predictors = self._columns(schema)
        n_numeric = sum(not isinstance(schema.attributes[n], Categorical) for n in predictors)
        return self.epsilon / ((2 + n_numeric) * self.depth + 2)

    def fit(self, engine: Engine, noise: Noise) -> DecisionTree:
        """Hold the distinct rows, grow the tree by private questions, prune it."""
        schema = engine.schema
        target, predictors = self._columns(schema)
        cells = engine.counts([*predictors, target])
        rows = _ClassedRows(
            {name: cells.codes[:, at] for at, name in enumerate(predictors)},
            cells.codes[:, -1],
            cells.counts,
        )
        grower = _Grower(
            schema=schema,
            n_classes=schema.attributes[target].size,
            epsilon=self.step_epsilon(schema),
            max_rows=schema.unit.max_rows or 1,
            noise=noise,
        )
        return _pruned(grower.grow(rows, predictors, self.depth))

    def _columns(self, schema: Schema) -> tuple[str, tuple[str, ...]]:
        return target_and_predictors(schema, self.target, method=self.name)


@dataclass(frozen=True)
class _ClassedRows:
    """Distinct rows with their class and number."""

    codes: dict[str, Integers]
    classes: Integers
    n: Integers

    def part(self, rows: Integers) -> _ClassedRows:
        return _ClassedRows(
            {name: codes[rows] for name, codes in self.codes.items()},
            self.classes[rows],
            self.n[rows],
        )

    def by_value(self, name: str, size: int, n_classes: int) -> Integers:
        """Count values by class."""
        key = self.codes[name] * n_classes + self.classes
        tally = np.bincount(key, weights=self.n, minlength=size * n_classes)
        return tally.astype(np.int64).reshape(size, n_classes)


@dataclass(frozen=True, kw_only=True)
class _Grower:
    schema: Schema
    n_classes: int
    epsilon: Fraction
    max_rows: int
    noise: Noise

    def grow(self, rows: _ClassedRows, names: tuple[str, ...], depth: int) -> DecisionTree:
        """Grow a subtree; nodes of one level hold different rows and share one budget."""
        total = self._noisy(np.array([int(rows.n.sum())]))[0]
        columns = self.schema.attributes
        widest = max(
            (columns[n].size if isinstance(columns[n], Categorical) else 2 for n in names),
            default=1,
        )
        # Too few rows to tell classes from noise in the children: stop.
        enough = total / (widest * self.n_classes) >= math.sqrt(2) / float(self.epsilon)
        ways = [way for name in names for way in self._ways(rows, name)] if depth and enough else []
        if not ways:
            return DecisionTree(tuple(map(int, self._noisy(self._class_counts(rows)))))
        name, split, _ = ways[self._choose(np.array([score for *_, score in ways]))]
        asked = rows.codes[name]
        branch = asked if split is None else (asked >= split).astype(np.int64)
        left = tuple(n for n in names if n != name or split is not None)
        size = columns[name].size if split is None else 2
        children = tuple(
            self.grow(rows.part(np.flatnonzero(branch == at)), left, depth - 1)
            for at in range(size)
        )
        sums = tuple(map(sum, zip(*(child.counts for child in children), strict=True)))
        return DecisionTree(sums, name, split, children)

    def _ways(self, rows: _ClassedRows, name: str) -> list[tuple[str, int | None, int]]:
        """Give how a column may be asked for, with its score: the rows a majority gets right."""
        column = self.schema.attributes[name]
        table = rows.by_value(name, column.size, self.n_classes)
        if isinstance(column, Categorical):
            return [(name, None, int(table.max(axis=1).sum()))] if column.size > 1 else []
        if column.size < 2:
            return []
        # Splits between the same occupied codes score alike: draw a run by its length.
        occupied = np.flatnonzero(table.any(axis=1))
        below = np.concatenate((np.zeros((1, self.n_classes), np.int64), table[occupied])).cumsum(0)
        starts = np.concatenate(([1], occupied + 1))
        lasts = np.concatenate((occupied, [column.size - 1]))
        runs = np.flatnonzero(lasts >= starts)
        scores = below[runs].max(axis=1) + (below[-1] - below[runs]).max(axis=1)
        lengths = (lasts - starts + 1)[runs]
        at = self._choose(scores, lengths.tolist())
        split = int(starts[runs[at]]) + self.noise.integer_below(int(lengths[at]))
        return [(name, split, int(scores[at]))]

    def _choose(self, scores: Integers, base: list[int] | None = None) -> int:
        return self.noise.choose(
            scores,
            epsilon=self.epsilon,
            sensitivity=Fraction(self.max_rows),
            monotone=False,
            base=base,
        )

    def _noisy(self, counts: Integers) -> Integers:
        scale = self.max_rows / self.epsilon
        return add_noise(counts, self.noise.discrete_laplace(scale, size=len(counts)))

    def _class_counts(self, rows: _ClassedRows) -> Integers:
        tally = np.bincount(rows.classes, weights=rows.n, minlength=self.n_classes)
        return tally.astype(np.int64)


def _pruned(tree: DecisionTree) -> DecisionTree:
    """Cut subtrees that do no better than a leaf, by C4.5's pessimistic errors of noisy counts."""
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
