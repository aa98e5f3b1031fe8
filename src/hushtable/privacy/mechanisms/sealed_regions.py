"""Recursive division of a table into regions that are counted and scored while sealed.

Regions of one division contain different rows, so parallel composition applies to queries of them.
The costs of queries of a region and of the region it was divided from add up. Splits are scored
by the quality functions of Qardaji and Li or by `hushtable.kernels.TELLING`;
``methods/partition/partition.md`` proves their sensitivities.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from hushtable import kernels
from hushtable.arrays import Integers
from hushtable.errors import SealedError
from hushtable.kernels import MOVES
from hushtable.privacy.accounting.run_account import DataPart, RunAccount
from hushtable.privacy.accounting.sealed import SealedCells, SealedValue, require_one_cell, unseal
from hushtable.privacy.accounting.sensitivity import Sensitivity
from hushtable.privacy.mechanisms.scored_splits import (
    ScoredSplits,
    SealedSplits,
    SealedSplitsOfParts,
    require_counts,
)


class OrderedAxis(Protocol):
    """Axis with the positions of codes; it is cut into intervals or into arbitrary subsets."""

    @property
    def subsets(self) -> bool:
        """True if any subset of its values may be cut off."""
        ...

    @property
    def size(self) -> int:
        """Number of positions."""
        ...

    def positions(self, codes: Integers) -> Any:
        """Return the positions of codes."""
        ...


class OrderedCells:
    """Occupied cells, ordered by region.

    Parameters
    ----------
    axes : sequence of OrderedAxis
        The attributes that are cut.
    columns : iterable of arrays
        Codes of the occupied cells on each axis.
    classes : array
        Class of each cell.
    n_classes : int
        Number of classes.
    counts : array
        Rows in each cell.
    """

    def __init__(
        self,
        axes: Sequence[OrderedAxis],
        columns: Iterable[Integers],
        classes: Integers,
        n_classes: int,
        counts: Integers,
    ) -> None:
        self.axes, self.n_classes = axes, n_classes
        self.classes, self.counts = classes.astype(np.int32), counts
        self.order = np.arange(len(counts), dtype=np.int32)
        few = all(axis.size <= np.iinfo(np.int16).max for axis in axes)
        self.positions = np.empty((len(axes), len(counts)), np.int16 if few else np.int32)
        for at, (axis, codes) in enumerate(zip(axes, columns, strict=True)):
            self.positions[at] = axis.positions(codes)
        self._subsets = np.array([axis.subsets for axis in axes], np.bool_)

    def class_counts(self, begins: Integers, ends: Integers) -> Integers:
        """Return the number of rows of each region by class."""
        tally: Integers = kernels.split_scores.class_counts(
            self.order, self.counts, self.classes, begins, ends, self.n_classes
        )
        return tally

    def runs(
        self, at: int, part: tuple[int, int], where: slice, *, whole: Integers, quality: int
    ) -> ScoredSplits:
        """Score the splits of a region along one axis."""
        cells, positions = self.order[where], self.positions[at]
        known = positions, self.counts, self.classes
        if self.axes[at].subsets:
            out = np.empty((3, 1 << part[0].bit_count()), np.int64)
            n_runs = kernels.split_scores.score_subsets(
                cells, *known, whole, part[0], quality, *out
            )
            return ScoredSplits(out[0, :n_runs], out[1, :n_runs], out[2, :n_runs])
        first, last = part
        if (last - first + 1) * self.n_classes <= len(cells):
            # Counting is faster than sorting if there are few positions.
            table = kernels.split_scores.tabulate(
                cells, *known, first, last - first + 1, self.n_classes
            )
            occupied = np.flatnonzero(table)
            places, classes = np.divmod(occupied, self.n_classes)
            order = np.arange(len(occupied), dtype=np.int32)
            known = (
                (first + places).astype(positions.dtype),
                table[occupied],
                classes.astype(np.int32),
            )
        else:
            order = cells[np.argsort(positions[cells], kind="stable")]
        out = np.empty((3, len(order) + 1), np.int64)
        n_runs = kernels.split_scores.score_interval(
            order, *known, whole, first, last, quality, *out
        )
        return ScoredSplits(out[0, :n_runs], out[1, :n_runs], out[2, :n_runs])

    def divide(self, begins: Integers, ends: Integers, axes: Integers, cuts: Integers) -> Integers:
        """Apply splits; return the position in `order` at which each left half ends."""
        middles: Integers = kernels.split_scores.divide(
            self.order, self.positions, begins, ends, axes, self._subsets, cuts
        )
        return middles


class SealedRegions(SealedValue):
    """Sealed table that is divided into regions, which are numbered from 0."""

    __slots__ = ("__begins", "__ends", "__open", "n_classes", "parts")

    def __init__(self, inside: OrderedCells, sensitivity: Sensitivity, part: DataPart) -> None:
        super().__init__(inside, sensitivity, part)
        require_one_cell(sensitivity)
        require_counts(sensitivity)
        self.n_classes = inside.n_classes
        self.parts = [part]
        # The bounds of regions among occupied cells are as private as the cells.
        self.__begins, self.__ends = [0], [len(inside.counts)]
        self.__open = {0}  # regions that are not yet divided

    @classmethod
    def of(
        cls,
        cells: SealedCells,
        axes: Sequence[OrderedAxis],
        *,
        places: Sequence[int] | None = None,
        n_classes: int | None = None,
    ) -> SealedRegions:
        """Order cells along axes, which are their first columns or those at `places`.

        With `n_classes`, the last column contains the class.
        """
        exact = unseal(cells)
        last = len(exact.domain.shape) - 1
        classes = np.zeros(len(exact.counts), np.int64) if n_classes is None else exact.column(last)
        columns = map(exact.column, range(len(axes)) if places is None else places)
        ordered = OrderedCells(axes, columns, classes, n_classes or 1, exact.counts)
        return cls(ordered, cells.sensitivity, cells.part)

    def _where(self, regions: Sequence[int]) -> tuple[Integers, Integers]:
        begins = np.array([self.__begins[region] for region in regions], np.int64)
        return begins, np.array([self.__ends[region] for region in regions], np.int64)

    def class_counts(self, regions: Sequence[int]) -> SealedOfParts:
        """Return the sealed number of rows of each region by class."""
        counts = unseal(self).class_counts(*self._where(regions))
        return SealedOfParts(counts, self.sensitivity, [self.parts[r] for r in regions])

    def totals(self, regions: Sequence[int]) -> SealedOfParts:
        """Return the sealed number of rows of each region."""
        counts = unseal(self).class_counts(*self._where(regions)).sum(axis=1)
        return SealedOfParts(counts, self.sensitivity, [self.parts[r] for r in regions])

    def ways(
        self, region: int, spans: Mapping[int, tuple[int, int]], n_ways: int, *, quality: int
    ) -> SealedSplitsOfParts:
        """Score all splits of a region along some axes.

        `spans` contains the extent of the region on each axis, and `n_ways` is the number of
        splits; both are public.
        """
        exact: OrderedCells = unseal(self)
        begins, ends = self._where([region])
        whole = exact.class_counts(begins, ends)[0]
        where = slice(int(begins[0]), int(ends[0]))
        moved = self.sensitivity.times(MOVES[quality])
        part = self.parts[region]
        ways = [
            SealedSplits(
                exact.runs(axis, span, where, whole=whole, quality=quality), moved, part, n_ways
            )
            for axis, span in spans.items()
        ]
        return SealedSplitsOfParts.of(ways)

    def divide(self, regions: Sequence[int], axes: Integers, cuts: Integers) -> list[int]:
        """Apply splits; return the numbers of the halves, left before right for each region."""
        if len(set(regions)) < len(regions) or not self.__open.issuperset(regions):
            raise SealedError(
                "a region can be divided only once: dividing it reorders its cells, so the bounds "
                "of halves from an earlier division would be wrong."
            )
        self.__open.difference_update(regions)
        begins, ends = self._where(regions)
        middles = unseal(self).divide(begins, ends, axes, cuts).tolist()
        made = []
        for at, region in enumerate(regions):
            self.parts.extend(self.parts[region].divided(("left", "right")))
            self.__begins.extend((self.__begins[region], middles[at]))
            self.__ends.extend((middles[at], self.__ends[region]))
            made += [len(self.parts) - 2, len(self.parts) - 1]
        self.__open.update(made)
        return made


class SealedOfParts(SealedValue):
    """Sealed counts of several parts, stacked on the first axis; each part pays."""

    __slots__ = ("parts",)

    def __init__(
        self, inside: Integers, sensitivity: Sensitivity, parts: Sequence[DataPart]
    ) -> None:
        super().__init__(inside, sensitivity, parts[0] if parts else _NOWHERE)
        self.parts = tuple(parts)

    @property
    def all_parts(self) -> tuple[DataPart, ...]:
        """Parts that pay for a query, each for itself."""
        return self.parts


_NOWHERE = RunAccount(None).root
