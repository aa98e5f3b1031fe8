"""Counts that nobody has looked at: what the engine answers, until the noise layer opens it.

Whatever is *sealed* can be carried about, summed, sliced, merged and divided, and stays sealed. It
knows how far one unit can move it, and what it is a part of. It cannot be compared, printed,
converted, counted through or stored. To see something of it, pay: `Noise.open` books the price in
the account of the run and then draws what may be seen. The proofs are in ``sealed.md``.

This guards against accidents, not against intent: Python hides nothing from those who want to see.
`inside` and `paid` are for the noise layer, and a test holds that no method imports them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from hushtable.domain import Domain
from hushtable.errors import SealedError
from hushtable.privacy.spending import Part, Sensitivity

Integers = NDArray[np.int64]

_MOST_SUMMED = 2**20
"""So many counts of up to 2**42 rows add up to less than an int64 holds; one that went around
would tell of the counts."""

_REFUSED = {
    "compared": ("eq", "ne", "lt", "le", "gt", "ge"),
    "taken for true or false": ("bool",),
    "converted to numbers": ("int", "float", "complex", "index", "round", "trunc", "floor", "ceil"),
    "converted to an array": ("array", "dlpack", "buffer"),
    "counted or gone through": ("len", "length_hint", "iter", "reversed", "contains"),
    "written as text": ("format", "bytes", "fspath"),
    "stored, sent or copied": ("reduce", "reduce_ex", "getstate", "setstate", "copy", "deepcopy"),
    "changed": ("setitem", "delitem", "iadd", "isub", "imul"),
    "calculated with in this way": (
        *("getitem", "neg", "pos", "abs", "invert", "call"),
        *(side + name for side in ("", "r") for name in ("add", "sub", "mul", "matmul", "truediv")),
        *(side + name for side in ("", "r") for name in ("floordiv", "mod", "divmod", "pow")),
        *(side + name for side in ("", "r") for name in ("and", "or", "xor", "lshift", "rshift")),
    ),
    "hashed": ("hash",),
}


class Seal:
    """Hold something that nobody may look at without paying.

    Parameters
    ----------
    inside : any
        What is sealed.
    sensitivity : Sensitivity
        How far one unit moves it.
    part : Part
        What it is a part of, in the account of the run.
    """

    __slots__ = ("__inside", "part", "sensitivity")
    sensitivity: Sensitivity
    part: Part
    __array_ufunc__ = None  # NumPy leaves operators to this class

    def __init__(self, inside: Any, sensitivity: Sensitivity, part: Part) -> None:
        self.__inside = inside  # refused where it is set already, and then nothing else is set
        object.__setattr__(self, "sensitivity", sensitivity)
        object.__setattr__(self, "part", part)

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            object.__getattribute__(self, name)
        except AttributeError:
            object.__setattr__(self, name, value)
            return
        raise SealedError(f"sealed counts do not change, and neither does their {name!r}.")

    @property
    def all_parts(self) -> tuple[Part, ...]:
        """The parts that pay for a look: one, where nothing else is said."""
        return (self.part,)

    def __repr__(self) -> str:
        return f"<sealed {type(self).__name__}: open it with noise.open(...)>"

    def __str__(self) -> str:
        return repr(self)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # what is asked for to find out what this is
            raise AttributeError(name)
        raise SealedError(f"sealed counts have no {name!r}. {_WHAT_TO_DO}")

    def __array_function__(self, function: Any, *_: Any) -> NoReturn:
        raise SealedError(
            f"sealed counts do not go into NumPy's {function.__name__}. {_WHAT_TO_DO}"
        )


_WHAT_TO_DO = (
    "They may be summed, sliced, merged and divided; to see anything of them open them with "
    "noise.open(sealed, mechanism, what), which books the price first."
)


def _refusing(what: str) -> Callable[..., NoReturn]:
    def refuse(self: Seal, *_: Any, **__: Any) -> NoReturn:
        raise SealedError(f"sealed counts cannot be {what}. {_WHAT_TO_DO}")

    return refuse


for _what, _names in _REFUSED.items():
    for _name in _names:
        setattr(Seal, f"__{_name}__", _refusing(_what))


def inside(seal: Seal) -> Any:
    """Give what is sealed: for the noise layer, which keeps it or has had it paid."""
    return seal._Seal__inside


def paid(seal: Seal, mechanism: Any, what: str) -> Any:
    """Book a look and give what is sealed: for the noise layer, which draws from it at once."""
    if not isinstance(seal, Seal):
        raise SealedError(
            f"{what}: {type(seal).__name__} is not sealed, and only what the engine sealed is "
            "opened for a price."
        )
    parts = seal.all_parts
    if parts:
        parts[0].account.book(what, parts, seal.sensitivity, mechanism)
    return inside(seal)


class Sealed(Seal):
    """Hold sealed counts, an array of integers whose shape is public.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from hushtable.privacy.spending import Account, Promise
    >>> counts = Sealed(np.array([[4, 1], [2, 2]]), Sensitivity(rows=1), Account(None).root)
    >>> counts.sum(axis=0).shape, counts[1:].shape, (counts.ravel() - counts.ravel()).sensitivity.l1
    ((2,), (1, 2), 2)
    >>> counts.sum() > 5
    Traceback (most recent call last):
    ...
    hushtable.errors.SealedError: sealed counts cannot be compared. They may be summed, sliced, \
merged and divided; to see anything of them open them with noise.open(sealed, mechanism, what), \
which books the price first.
    """

    __slots__ = ("shape",)

    def __init__(self, inside: Integers, sensitivity: Sensitivity, part: Part) -> None:
        super().__init__(inside, sensitivity, part)
        self.shape: tuple[int, ...] = inside.shape

    def __repr__(self) -> str:
        return f"<sealed counts of shape {self.shape}: open them with noise.open(...)>"

    def _made(
        self, inside: Any, sensitivity: Sensitivity | None = None, part: Part | None = None
    ) -> Self:
        return type(self)(
            np.asarray(inside),
            self.sensitivity if sensitivity is None else sensitivity,
            self.part if part is None else part,
        )

    # --- what stays sealed ------------------------------------------------------------------------

    def __getitem__(self, places: Any) -> Self:
        """Take some of the counts, each at most once, by places that are public."""
        each = places if isinstance(places, tuple) else (places,)
        return self._made(inside(self)[tuple(map(_place, each))])

    def sum(self, axis: int | tuple[int, ...] | None = None) -> Self:
        """Add counts up."""
        return self._made(inside(self).sum(axis=axis), self.sensitivity.merged())

    def merged(self, groups: Sequence[int] | Integers, n_groups: int) -> Self:
        """Add up the counts of the first axis by groups, which are public."""
        exact, of_count = inside(self), np.asarray(groups)
        if of_count.shape != self.shape[:1] or of_count.dtype.kind not in "iu":
            raise SealedError(
                f"groups are {of_count.dtype} of shape {of_count.shape}; each of the "
                f"{self.shape[:1]} counts is in one group, told by its number."
            )
        sums = np.zeros((n_groups, *exact.shape[1:]), np.int64)
        np.add.at(sums, of_count, exact)
        return self._made(sums, self.sensitivity.merged())

    def reshape(self, *shape: int) -> Self:
        """Arrange the counts otherwise."""
        return self._made(inside(self).reshape(*shape))

    def ravel(self) -> Self:
        """Arrange the counts in a row."""
        return self._made(inside(self).ravel())

    def transpose(self, *axes: int) -> Self:
        """Exchange axes."""
        return self._made(inside(self).transpose(*axes))

    def __add__(self, other: Any) -> Self:
        return self._with(other, 1)

    def __sub__(self, other: Any) -> Self:
        return self._with(other, -1)

    def _with(self, other: Any, sign: int) -> Self:
        if not isinstance(other, Sealed) or other.shape != self.shape:
            raise SealedError(
                "sealed counts are added to, and taken off, sealed counts of the same shape, "
                f"here {self.shape}; of any other shape each would be there several times and paid "
                "once. Calculate with public numbers after counts are opened."
            )
        both = self.sensitivity.plus(other.sensitivity)
        if both.step > _MOST_SUMMED:
            raise SealedError(f"more than {_MOST_SUMMED:,} counts are added to one.")
        return self._made(inside(self) + sign * inside(other), both, self.part.common(other.part))

    def divided(self, starts: Sequence[int]) -> list[Self]:
        """Divide a row of counts into runs from each start to the next: disjoint parts."""
        if len(self.shape) != 1 or list(starts) != sorted({0, *starts}) or not starts:
            raise SealedError(f"starts are {list(starts)}; they must rise from 0 on, in a row.")
        require_one_cell(self.sensitivity)
        ends = [*starts[1:], self.shape[0]]
        runs = list(zip(starts, ends, strict=True))
        parts = self.part.divided(f"{start} to {end - 1}" for start, end in runs)
        return [
            self._made(inside(self)[start:end], part=part)
            for (start, end), part in zip(runs, parts, strict=True)
        ]


class SealedCells(Seal):
    """Hold the occupied cells of a projection, sealed: which they are is private, and how many.

    What is inside is a `hushtable.engine.cells.Cells`.
    """

    __slots__ = ("domain",)

    def __init__(self, inside: Any, sensitivity: Sensitivity, part: Part) -> None:
        super().__init__(inside, sensitivity, part)
        self.domain: Domain = inside.domain

    def __repr__(self) -> str:
        columns = ", ".join(self.domain.names)
        return f"<sealed cells of {columns}: open them with noise.open(...)>"

    def dense(self) -> Sealed:
        """Give the counts of all cells of the domain, empty ones too, in its shape."""
        return self.table(self.domain.names)

    def total(self) -> Sealed:
        """Count the rows: one count."""
        return self.table(()).reshape(1)

    def table(self, columns: Sequence[str]) -> Sealed:
        """Count all cells of some of the columns, empty ones too, in the order given."""
        cells, names = inside(self), list(self.domain.names)
        key, shape = np.zeros(len(cells.counts), np.int64), []
        for place in map(names.index, columns):
            shape.append(self.domain.shape[place])
            key = key * shape[-1] + cells.codes[:, place]
        counts = np.zeros(math.prod(shape), np.int64)
        np.add.at(counts, key, cells.counts)
        return Sealed(counts.reshape(shape), self.sensitivity, self.part)

    def divided(self, column: str, part_of: Sequence[int] | Integers) -> list[SealedCells]:
        """Divide the cells by what part each code of a column is in: disjoint parts."""
        require_one_cell(self.sensitivity)
        place = list(self.domain.names).index(column)
        if len(part_of) != self.domain.shape[place]:
            raise SealedError(
                f"column {column!r} has {self.domain.shape[place]} codes, and the part of "
                f"{len(part_of)} is told; tell that of each."
            )
        cells = inside(self)
        belongs = np.asarray(part_of)[cells.codes[:, place]]
        parts = self.part.divided(map(str, range(max(part_of) + 1)))
        return [
            SealedCells(cells.only(belongs == at), self.sensitivity, part)
            for at, part in enumerate(parts)
        ]


def require_one_cell(sensitivity: Sensitivity) -> None:
    """Refuse to divide what one step moves in several places: it would be in several parts."""
    if sensitivity.cells != 1:
        raise SealedError(
            f"one row moves {sensitivity.cells} of these counts, so no division into parts keeps "
            "it to one of them; they are paid one after the other."
        )


def _place(given: Any) -> Any:
    """Give what counts are taken by, along one axis: whatever it is, none is taken twice."""
    if isinstance(given, Seal):
        raise SealedError(f"sealed counts are no places. {_WHAT_TO_DO}")
    if given is None or isinstance(given, int | np.integer | slice | EllipsisType):
        return given
    places = np.array(given)
    if places.dtype != np.bool_ and not _each_once(places):
        raise SealedError(
            "a sealed count that is taken several times would be paid once; take each place once, "
            "by a row of numbers from 0 on."
        )
    return places


def _each_once(places: NDArray[Any]) -> bool:
    listed = places.tolist()
    return places.ndim == 1 and len(set(listed)) == len(listed) and min(listed, default=0) >= 0
