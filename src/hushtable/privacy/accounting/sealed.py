"""Sealed counts: answers of the engine that only the noise layer can open.

Sealed values can be summed, sliced, merged and divided, and stay sealed. Each has a sensitivity and
belongs to a part of the run's account. They cannot be compared, printed, converted, iterated or
stored. To see anything of them, a method must pay: `Noise.open` records the cost in the account of
the run and then draws a noisy result. The proofs are in ``sealed.md``.

This guards against accidents, not against intent: Python hides nothing from code that wants to see
it. `unseal` is for the noise layer; a test checks that no method imports it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import EllipsisType
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from hushtable.arrays import Floats, Integers
from hushtable.domain import Domain
from hushtable.errors import SealedError
from hushtable.privacy.accounting.run_account import DataPart
from hushtable.privacy.accounting.sensitivity import Sensitivity

_MOST_SUMMED = 2**20
"""This many counts of up to 2**42 rows each sum to less than an int64 holds; an overflow would
reveal something about the counts."""

_REFUSED = {
    "compared": ("eq", "ne", "lt", "le", "gt", "ge"),
    "used as a condition": ("bool",),
    "converted to numbers": ("int", "float", "complex", "index", "round", "trunc", "floor", "ceil"),
    "converted to an array": ("array", "dlpack", "buffer"),
    "measured or iterated": ("len", "length_hint", "iter", "reversed", "contains"),
    "written as text": ("format", "bytes", "fspath"),
    "stored, sent or copied": ("reduce", "reduce_ex", "getstate", "setstate", "copy", "deepcopy"),
    "changed": ("delattr", "setitem", "delitem", "iadd", "isub", "imul"),
    "used in this operation": (
        *("getitem", "neg", "pos", "abs", "invert", "call"),
        *(side + name for side in ("", "r") for name in ("add", "sub", "mul", "matmul", "truediv")),
        *(side + name for side in ("", "r") for name in ("floordiv", "mod", "divmod", "pow")),
        *(side + name for side in ("", "r") for name in ("and", "or", "xor", "lshift", "rshift")),
    ),
    "hashed": ("hash",),
}


class SealedValue:
    """Value that can be seen only after its cost is recorded."""

    __slots__ = ("__inside", "part", "sensitivity")
    sensitivity: Sensitivity  # how much one unit changes it
    part: DataPart  # the part of the run's account that it belongs to
    __array_ufunc__ = None  # makes NumPy defer operators to this class

    def __init__(self, inside: Any, sensitivity: Sensitivity, part: DataPart) -> None:
        self.__inside = inside  # raises if it is already set, before anything else is set
        object.__setattr__(self, "sensitivity", sensitivity)
        object.__setattr__(self, "part", part)

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            object.__getattribute__(self, name)
        except AttributeError:
            object.__setattr__(self, name, value)
            return
        raise SealedError(f"sealed counts are immutable; {name!r} cannot be set.")

    @property
    def all_parts(self) -> tuple[DataPart, ...]:
        """Parts that pay for a query; by default one."""
        return (self.part,)

    def __repr__(self) -> str:
        return f"<sealed {type(self).__name__}: open it with noise.open(...)>"

    def __str__(self) -> str:
        return repr(self)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # protocol checks, such as those of NumPy
            raise AttributeError(name)
        raise SealedError(f"sealed counts have no attribute {name!r}. {_WHAT_TO_DO}")

    def __array_function__(self, function: Any, *_: Any) -> NoReturn:
        raise SealedError(
            f"NumPy's {function.__name__} does not accept sealed counts. {_WHAT_TO_DO}"
        )


_WHAT_TO_DO = (
    "Sum, slice, merge or divide them; to see them, open them with noise.open(sealed, mechanism, "
    "what), which records the cost first."
)


def _refusing(what: str) -> Callable[..., NoReturn]:
    def refuse(self: SealedValue, *_: Any, **__: Any) -> NoReturn:
        raise SealedError(f"sealed counts cannot be {what}. {_WHAT_TO_DO}")

    return refuse


for _what, _names in _REFUSED.items():
    for _name in _names:
        setattr(SealedValue, f"__{_name}__", _refusing(_what))


def unseal(seal: SealedValue) -> Any:
    """Return the exact value; only for the noise layer, which seals it again or recorded a cost."""
    return seal._SealedValue__inside


class SealedCounts(SealedValue):
    """Sealed counts: an array of integers whose shape is public.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from hushtable.privacy.accounting.run_account import RunAccount, SpendingLimit
    >>> counts = SealedCounts(
    ...     np.array([[4, 1], [2, 2]]),
    ...     Sensitivity(rows=1),
    ...     RunAccount(None).root,
    ... )
    >>> counts.sum(axis=0).shape, counts[1:].shape, (counts.ravel() - counts.ravel()).sensitivity.l1
    ((2,), (1, 2), 2)
    >>> counts.sum() > 5
    Traceback (most recent call last):
    ...
    hushtable.errors.SealedError: sealed counts cannot be compared. Sum, slice, merge or divide \
them; to see them, open them with noise.open(sealed, mechanism, what), which records the cost first.
    """

    __slots__ = ("shape",)

    def __init__(self, inside: Integers, sensitivity: Sensitivity, part: DataPart) -> None:
        super().__init__(inside, sensitivity, part)
        self.shape: tuple[int, ...] = inside.shape

    def __repr__(self) -> str:
        return f"<sealed counts of shape {self.shape}: open them with noise.open(...)>"

    def _made(
        self, inside: Any, sensitivity: Sensitivity | None = None, part: DataPart | None = None
    ) -> Self:
        return type(self)(
            np.asarray(inside),
            self.sensitivity if sensitivity is None else sensitivity,
            self.part if part is None else part,
        )

    # --- operations whose result stays sealed -----------------------------------------------------

    def __getitem__(self, places: Any) -> Self:
        """Select counts by public positions, each at most once."""
        each = places if isinstance(places, tuple) else (places,)
        return self._made(unseal(self)[tuple(map(_place, each))])

    def sum(self, axis: int | tuple[int, ...] | None = None) -> Self:
        """Sum counts over axes."""
        return self._made(unseal(self).sum(axis=axis), self.sensitivity.merged())

    def merged(self, groups: Sequence[int] | Integers, n_groups: int) -> Self:
        """Sum the counts of the first axis by public groups."""
        exact, of_count = unseal(self), np.asarray(groups)
        if of_count.shape != self.shape[:1] or of_count.dtype.kind not in "iu":
            raise SealedError(
                f"groups are {of_count.dtype} of shape {of_count.shape}; pass one group number for "
                f"each of the {self.shape[:1]} counts."
            )
        sums = np.zeros((n_groups, *exact.shape[1:]), np.int64)
        np.add.at(sums, of_count, exact)
        return self._made(sums, self.sensitivity.merged())

    def reshape(self, *shape: int) -> Self:
        """Change the shape."""
        return self._made(unseal(self).reshape(*shape))

    def ravel(self) -> Self:
        """Flatten to one dimension."""
        return self._made(unseal(self).ravel())

    def transpose(self, *axes: int) -> Self:
        """Permute the axes."""
        return self._made(unseal(self).transpose(*axes))

    def __add__(self, other: Any) -> Self:
        return self._with(other, 1)

    def __sub__(self, other: Any) -> Self:
        return self._with(other, -1)

    def _with(self, other: Any, sign: int) -> Self:
        if not isinstance(other, SealedCounts) or other.shape != self.shape:
            raise SealedError(
                "sealed counts can only be added to or subtracted from sealed counts of the same "
                f"shape, here {self.shape}; broadcasting would use a count repeatedly but charge "
                "it once. Calculate with public numbers after counts are opened."
            )
        both = self.sensitivity.plus(other.sensitivity)
        if both.step > _MOST_SUMMED:
            raise SealedError(f"more than {_MOST_SUMMED:,} counts would be added to one.")
        return self._made(unseal(self) + sign * unseal(other), both, self.part.common(other.part))

    def divided(self, starts: Sequence[int]) -> list[Self]:
        """Divide a vector of counts at the given starts into disjoint parts."""
        if len(self.shape) != 1 or list(starts) != sorted({0, *starts}) or not starts:
            raise SealedError(f"starts are {list(starts)}; they must increase from 0.")
        require_one_cell(self.sensitivity)
        ends = [*starts[1:], self.shape[0]]
        runs = list(zip(starts, ends, strict=True))
        parts = self.part.divided(f"{start} to {end - 1}" for start, end in runs)
        return [
            self._made(unseal(self)[start:end], part=part)
            for (start, end), part in zip(runs, parts, strict=True)
        ]


class SealedCells(SealedValue):
    """Sealed occupied cells of a projection; which cells are occupied, and how many, is private.

    The sealed value is a `hushtable.engine.cells.OccupiedCells`.
    """

    __slots__ = ("domain",)

    def __init__(self, inside: Any, sensitivity: Sensitivity, part: DataPart) -> None:
        super().__init__(inside, sensitivity, part)
        self.domain: Domain = inside.domain

    def __repr__(self) -> str:
        columns = ", ".join(self.domain.names)
        return f"<sealed cells of {columns}: open them with noise.open(...)>"

    def dense(self) -> SealedCounts:
        """Return the counts of all cells of the domain, including empty ones, in its shape."""
        return self.table(self.domain.names)

    def total(self) -> SealedCounts:
        """Return the number of rows as one count."""
        return self.table(()).reshape(1)

    def table(self, columns: Sequence[str]) -> SealedCounts:
        """Return the counts of all cells of some columns, empty ones included, in that order."""
        cells, names = unseal(self), list(self.domain.names)
        key, shape = np.zeros(len(cells.counts), np.int64), []
        for place in map(names.index, columns):
            shape.append(self.domain.shape[place])
            key = key * shape[-1] + cells.column(place)
        counts = np.zeros(math.prod(shape), np.int64)
        np.add.at(counts, key, cells.counts)
        return SealedCounts(counts.reshape(shape), self.sensitivity, self.part)

    def sums(self, functions: Sequence[Mapping[str, Floats]], scale: int) -> SealedCounts:
        """Return sums over rows of `scale` times functions of a row, rounded to integers per row.

        A function is a product of factors of single columns, given by code.
        """
        require_one_cell(self.sensitivity)
        domain, cells = self.domain, unseal(self)
        sizes = dict(zip(domain.names, domain.shape, strict=True))
        moved = self.sensitivity.of_sums(functions, sizes, scale)
        if moved.step > _MOST_SUMMED:
            raise SealedError(f"a row would change a sum by {moved.step:,}; at most 2**20 is safe.")
        sums = np.zeros(len(functions), np.int64)
        for start in range(0, len(cells.counts), _MOST_SUMMED):
            part = cells.only(slice(start, start + _MOST_SUMMED))
            codes, counts = part.codes, part.counts
            for place, function in enumerate(functions):
                values = np.full(len(codes), float(scale))
                for name, factor in function.items():
                    values *= factor[codes[:, list(sizes).index(name)]]
                sums[place] += counts @ np.rint(values).astype(np.int64)
        return SealedCounts(sums, moved, self.part)

    def divided(self, column: str, part_of: Sequence[int] | Integers) -> list[SealedCells]:
        """Divide the cells into disjoint parts by the codes of a column; `part_of` is public."""
        require_one_cell(self.sensitivity)
        place = list(self.domain.names).index(column)
        if len(part_of) != self.domain.shape[place]:
            raise SealedError(
                f"column {column!r} has {self.domain.shape[place]} codes, but part_of has "
                f"{len(part_of)} entries; pass one per code."
            )
        cells = unseal(self)
        belongs = np.asarray(part_of)[cells.column(place)]
        parts = self.part.divided(map(str, range(max(part_of) + 1)))
        return [
            SealedCells(cells.only(belongs == at), self.sensitivity, part)
            for at, part in enumerate(parts)
        ]


def require_one_cell(sensitivity: Sensitivity) -> None:
    """Raise `SealedError` if one step changes several counts, which may be in several parts."""
    if sensitivity.cells != 1:
        raise SealedError(
            f"one row changes {sensitivity.cells} of these counts, so it may be in several parts; "
            "parallel composition does not apply. Query the counts one after the other."
        )


def _place(given: Any) -> Any:
    """Return a valid index along one axis; raise `SealedError` if it selects a count twice."""
    if isinstance(given, SealedValue):
        raise SealedError(f"sealed counts cannot be used as an index. {_WHAT_TO_DO}")
    if given is None or isinstance(given, int | np.integer | slice | EllipsisType):
        return given
    places = np.array(given)
    if places.dtype != np.bool_ and not _each_once(places):
        raise SealedError(
            "a sealed count that is selected several times would be charged once; select each "
            "position once, with a list of numbers from 0."
        )
    return places


def _each_once(places: NDArray[Any]) -> bool:
    listed = places.tolist()
    return places.ndim == 1 and len(set(listed)) == len(listed) and min(listed, default=0) >= 0
