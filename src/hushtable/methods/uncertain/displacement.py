"""How far pseudo-records lie from the records they stand for, in numbers that are published.

A pseudo-record is paired with a record of its group. Where both satisfy a condition, or neither, it
counts rightly; a condition on a column tells them apart only if the pair lies on both sides of one
of its ends. So the most pairs that any value parts bound how far every count is off, and sums over
whole groups bound how far moments are. Nothing is assumed; the proof is in ``condensation.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtable.estimate.row_functions import RowFunction
from hushtable.predicate.classes import classify
from hushtable.predicate.clause import independent_parts
from hushtable.predicate.formula import Formula, Junction, evaluate
from hushtable.schema import Column, Schema

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Along:
    """How records are displaced along one column; each number is the largest over its values.

    Parameters
    ----------
    more, fewer : int
        So many records more, or fewer, lie at or below a value than pseudo-records do.
    up, down : int
        So many records at or below a value have a pseudo-record above it, or the other way.
    steps : int
        How far all pairs are apart together, in steps of the column.
    """

    more: int
    fewer: int
    up: int
    down: int
    steps: int

    @classmethod
    def of(cls, true: Integers, pseudo: Integers) -> Along:
        """Compare records with the pseudo-records they are paired with, along a column."""
        values = np.unique(np.concatenate((true, pseudo)))
        rises = true < pseudo
        up, down = (
            _up_to(true[which], values) - _up_to(pseudo[which], values) for which in (rises, ~rises)
        )
        more = up + down  # of those that fall, fewer lie at or below a value
        return cls(
            more=int(max(more.max(initial=0), 0)),
            fewer=int(max((-more).max(initial=0), 0)),
            up=int(up.max(initial=0)),
            down=int((-down).max(initial=0)),
            steps=int(np.abs(true - pseudo).sum()),
        )

    @classmethod
    def unknown(cls, n: int, size: int) -> Along:
        """Say that any of so many records may be anywhere."""
        return cls(more=n, fewer=n, up=n, down=n, steps=n * size)


def _up_to(codes: Integers, values: Integers) -> Integers:
    return np.searchsorted(np.sort(codes), values, side="right")


@dataclass(frozen=True)
class Displacement:
    """Bound how far counts and sums over pseudo-records are from those over the records.

    Parameters
    ----------
    columns : mapping of str to Along
        How records are displaced along each condensed column.
    moments : float array (1 + columns, 1 + columns)
        How far the sums of products of two columns' places, from -1 to 1, are off in each group,
        added up over the groups; the first row and column stand for 1.
    """

    columns: Mapping[str, Along]
    moments: Floats

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        true: Integers,
        pseudo: Integers,
        *,
        groups: Sequence[Integers],
        n_values: Integers,
    ) -> Displacement:
        """Compare records, by their codes, with the pseudo-records of their groups."""
        places = [_with_one(codes, n_values) for codes in (true, pseudo)]
        moments = np.zeros((1 + len(names), 1 + len(names)))
        for rows in groups:
            one, other = (place[rows] for place in places)
            moments += np.abs(one.T @ one - other.T @ other)
        # Sums of floats are off by less than this.
        moments *= 1 + 1e-9
        moments[0, 0] = 0.0
        columns = {name: Along.of(true[:, j], pseudo[:, j]) for j, name in enumerate(names)}
        return cls(columns, moments)

    @classmethod
    def read(
        cls, settings: Mapping[str, Any] | None, n_rows: int, sizes: Mapping[str, int]
    ) -> Displacement:
        """Read what a release says; one that says nothing leaves all open."""
        if settings is None:
            columns = {name: Along.unknown(n_rows, size) for name, size in sizes.items()}
            return cls(columns, np.full((1 + len(sizes), 1 + len(sizes)), 2.0 * n_rows))
        columns = {name: Along(**one) for name, one in settings["columns"].items()}
        return cls(columns, np.asarray(settings["moments"], np.float64))

    def to_settings(self) -> dict[str, Any]:
        """Write it as it is published."""
        return {
            "columns": {name: asdict(one) for name, one in self.columns.items()},
            "moments": self.moments.tolist(),
        }

    # --- counts -----------------------------------------------------------------------------------

    def bounds(
        self, formula: Formula, *, seen: Callable[[Formula], int], schema: Schema, n_rows: int
    ) -> tuple[int, int]:
        """Bound how many records satisfy a condition; `seen` counts pseudo-records that do.

        Parts of the condition are bounded by themselves, too, which bounds all or any of them
        (Frechet).
        """
        more, fewer = self._off(formula, schema, n_rows)
        count = seen(formula)
        low, high = max(0, count - fewer), min(n_rows, count + more)
        if not isinstance(formula, Junction) or len(formula.columns) == 1:
            return low, high
        found = [
            self.bounds(part, seen=seen, schema=schema, n_rows=n_rows) for part in _parts(formula)
        ]
        if formula.every:
            lacking = sum(n_rows - one for one, _ in found)
            return max(low, n_rows - lacking), min(high, *(one for _, one in found))
        return max(low, *(one for one, _ in found)), min(high, sum(one for _, one in found))

    def _off(self, formula: Formula, schema: Schema, n_rows: int) -> tuple[int, int]:
        """Say how many records more, and how many fewer, may match than pseudo-records do."""
        if len(formula.columns) != 1 or formula.columns[0] not in self.columns:
            return self._changed(formula, schema, n_rows)
        along = self.columns[formula.columns[0]]
        begins, ends = _turns(formula, schema.attributes[formula.columns[0]])
        return (
            ends * along.more + begins * along.fewer,
            ends * along.fewer + begins * along.more,
        )

    def _changed(self, formula: Formula, schema: Schema, n_rows: int) -> tuple[int, int]:
        """Say for how many pairs the record alone may match, and the pseudo-record alone.

        Where all or any of several parts change, one of them does in the same direction.
        """
        condensed = [name for name in formula.columns if name in self.columns]
        if not condensed:
            return 0, 0
        if len(formula.columns) == 1:
            along = self.columns[condensed[0]]
            begins, ends = _turns(formula, schema.attributes[condensed[0]])
            return ends * along.up + begins * along.down, ends * along.down + begins * along.up
        if not isinstance(formula, Junction):  # columns that are compared with each other
            return n_rows, n_rows
        changed = [self._changed(part, schema, n_rows) for part in _parts(formula)]
        return sum(record for record, _ in changed), sum(pseudo for _, pseudo in changed)

    # --- sums -------------------------------------------------------------------------------------

    def of_sum(self, function: RowFunction, n_rows: int) -> float:
        """Bound how far the sum of a function over pseudo-records is from that over records."""
        condensed = [name for name in function.columns if name in self.columns]
        if not condensed:
            return 0.0
        most = {name: float(np.abs(one).max()) for name, one in function.factors.items()}
        whole = math.prod(most.values())
        best = 2.0 * n_rows * whole
        if any(name in self.columns for name in function.tied):
            return best
        along = 0.0
        for name in condensed:
            others = math.prod(one for other, one in most.items() if other != name)
            alone = function.columns == (name,)
            along += others * _varies(function.factors[name], self.columns[name], alone=alone)
        best = min(best, along)
        powers = [name for name in condensed for _ in range(function.powers.get(name, 3))]
        if len(powers) <= 2:
            names = list(self.columns)
            one, two = ([1 + names.index(name) for name in powers] + [0, 0])[:2]
            carried = math.prod(one for name, one in most.items() if name not in self.columns)
            best = min(best, carried * float(self.moments[one, two]))
        return best


def _parts(formula: Junction) -> list[Formula]:
    """Give what a junction joins, what is about one column together."""
    parts = independent_parts(formula)
    return list(formula.parts) if len(parts) == 1 else parts


def _turns(formula: Formula, column: Column) -> tuple[int, int]:
    """Count the values at which a condition on one column begins to hold, and ends to."""
    (name,) = formula.columns
    classes = classify(formula, name, column.size, column.n_values)
    found = np.broadcast_to(evaluate(formula, {name: classes.starts}), classes.starts.shape)
    turns = np.diff(found.astype(np.int64))
    return int((turns > 0).sum()), int((turns < 0).sum())


def _varies(factor: Floats, along: Along, *, alone: bool) -> float:
    """Bound how much a factor of one column changes over all pairs: by its turns, or its slope."""
    changes = np.abs(np.diff(factor))
    crossed = max(along.more, along.fewer) if alone else along.up + along.down
    return float(min(changes.sum() * crossed, changes.max(initial=0.0) * along.steps))


def _with_one(codes: Integers, n_values: Integers) -> Floats:
    """Put 1 before the places of codes between the ends of their columns, from -1 to 1."""
    places = 2.0 * codes / np.maximum(n_values - 1, 1) - 1.0
    return np.column_stack((np.ones(len(codes)), places))
