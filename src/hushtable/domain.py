"""Product domains of any size: number of cells and numbering of cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hushtable.arrays import Codes64

_WORD = 2**63  # packed keys are int64


@dataclass(frozen=True)
class Domain:
    """Product of finite columns, given by their sizes in order.

    Parameters
    ----------
    sizes : mapping of str to int
        Number of codes of each column; a code runs from 0 to size - 1.

    Examples
    --------
    >>> domain = Domain({"age": 100, "sex": 2})
    >>> domain.size
    200
    >>> domain.rank((41, 1))
    83
    >>> domain.unrank(83)
    (41, 1)
    >>> Domain({f"x{i}": 40 for i in range(20)}).size == 40**20
    True
    """

    sizes: Mapping[str, int]

    def __post_init__(self) -> None:
        for name, size in self.sizes.items():
            if size < 1:
                raise ValueError(f"column {name!r} has size {size}; a domain needs at least 1 code")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Column names, in order."""
        return tuple(self.sizes)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Sizes, in order."""
        return tuple(self.sizes.values())

    @cached_property
    def size(self) -> int:
        """Number of cells, an exact integer of any size."""
        return math.prod(self.shape)

    def project(self, names: Iterable[str]) -> Domain:
        """Return the domain of the named columns, in the order given."""
        return Domain({name: self.sizes[name] for name in names})

    def rank(self, row: Sequence[int]) -> int:
        """Return the mixed-radix number of a cell; the last column varies fastest."""
        value = 0
        for code, size in zip(row, self.shape, strict=True):
            value = value * size + int(code)
        return value

    def unrank(self, value: int) -> tuple[int, ...]:
        """Return the cell with this number; the inverse of `rank`."""
        row = []
        for size in reversed(self.shape):
            value, code = divmod(value, size)
            row.append(code)
        return tuple(reversed(row))

    @cached_property
    def limbs(self) -> tuple[slice, ...]:
        """Runs of adjacent columns whose combined code fits in one 63-bit key."""
        runs: list[slice] = []
        start, product = 0, 1
        for position, size in enumerate(self.shape):
            if product * size >= _WORD and position > start:
                runs.append(slice(start, position))
                start, product = position, 1
            product *= size
        runs.append(slice(start, len(self.shape)))
        return tuple(runs)

    def pack(self, codes: Codes64) -> Codes64:
        """Encode rows of codes as sortable keys: one int64 column per limb, first limb first.

        Examples
        --------
        >>> Domain({"a": 3, "b": 4}).pack(np.array([[0, 1], [2, 3]])).ravel().tolist()
        [1, 11]
        """
        keys = np.zeros((len(codes), len(self.limbs)), np.int64)
        for limb, run in enumerate(self.limbs):
            for position in range(run.start, run.stop):
                keys[:, limb] *= self.shape[position]
                keys[:, limb] += codes[:, position]
        return keys

    def unpack(self, keys: Codes64) -> Codes64:
        """Decode keys of `pack` to rows of codes."""
        codes = np.empty((len(keys), len(self.shape)), np.int64)
        for limb, run in enumerate(self.limbs):
            rest = keys[:, limb].copy()
            for position in reversed(range(run.start, run.stop)):
                rest, codes[:, position] = np.divmod(rest, self.shape[position])
        return codes

    def column(self, keys: Codes64, place: int) -> Codes64:
        """Decode the codes of one column, at `place` in the domain, from keys of `pack`."""
        limb, run = next((at, run) for at, run in enumerate(self.limbs) if place < run.stop)
        below = math.prod(self.shape[place + 1 : run.stop])
        codes = keys[:, limb] // below if below > 1 else keys[:, limb]
        return codes % self.shape[place] if place > run.start else codes

    def grid(self) -> Codes64:
        """Return all cells in rank order; the caller checks the size first."""
        return np.stack([axis.ravel() for axis in np.indices(self.shape)], axis=1).astype(np.int64)
