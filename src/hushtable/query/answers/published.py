"""Releases in a form that can be compared with the original.

A release becomes one or more blocks. A block is a set of columns whose values are published
together, as rows. Most releases are one block of all columns; a release of column groups has one
block per group. Generalized values are replaced by values sampled from inside their cells, so that
a wide cell shows as error. If some rows are noise of known distribution, the block carries their
expected number, to be subtracted from every count.

Each estimator implements this for its kind of release; see `Estimator.published`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa

from hushtable.arrays import Floats, Integers
from hushtable.errors import ReleaseError
from hushtable.query.where.code_classes import CodeSets
from hushtable.schema import Schema
from hushtable.schema.codes import to_codes
from hushtable.schema.recoding import Recoding

# Sampling of values from a release.
#
# A release is public, so sampling from it needs no secure randomness: any generator is fine, and
# analysts can pass a seeded one to reproduce a sample. `hushtable.privacy.noise.noise` has the
# noise that protects people.

Generator: TypeAlias = "np.random.Generator"  # a string: numpy.random is loaded on demand


def fresh() -> Generator:
    """Return a generator with an unpredictable seed."""
    return np.random.default_rng()


def draw_inside(coarser: Recoding | CodeSets, codes: Integers, rng: Generator) -> Integers:
    """Sample a value of the original column uniformly from inside each generalized value.

    Examples
    --------
    >>> from hushtable.schema.recoding import Intervals
    >>> halves = Intervals(("low", "high"), 10, False, (0, 5))
    >>> drawn = draw_inside(halves, np.array([0, 1, 1]), fresh())
    >>> (drawn >= 5).tolist()
    [False, True, True]
    """
    return place_inside(coarser, codes, rng.random(len(codes)))


def place_inside(coarser: Recoding | CodeSets, codes: Integers, places: Floats) -> Integers:
    """Return the original value at a relative position (0 to 1) inside each generalized value.

    Examples
    --------
    >>> from hushtable.schema.recoding import Intervals
    >>> halves = Intervals(("low", "high"), 10, False, (0, 5))
    >>> place_inside(halves, np.array([0, 1]), np.array([0.5, 0.0])).tolist()
    [2, 5]
    """
    sets = CodeSets.of(coarser)
    order = np.argsort(sets.owner, kind="stable")
    last, widths = sets.last[order], (sets.last + 1 - sets.first)[order]
    sizes = np.bincount(sets.owner[order], widths, sets.size).astype(np.int64)
    starts, ends = np.cumsum(sizes) - sizes, np.cumsum(widths)
    picks = starts[codes] + (places * sizes[codes]).astype(np.int64)
    run = np.searchsorted(ends, picks, side="right")
    return np.asarray(last[run] - (ends[run] - 1 - picks))


ByColumn = Mapping[str, Integers]
"""Rows as one array of codes per column."""

About = Literal["rows", "distinct tuples", "people", "nodes"]

DRAWN = (
    "For comparison, a value is sampled uniformly from inside each generalized value, so "
    "that wide cells show as error."
)


@dataclass(frozen=True, eq=False)
class KnownNoiseRows:
    """Noise rows added by a method, whose distribution is known."""

    n_rows: float  # expected number of noise rows among the published rows
    # Distribution over the codes of each column, independent between columns; uniform by default.
    shares: Mapping[str, Floats] = field(default_factory=dict)

    def share(self, name: str, size: int) -> Floats:
        """Return the share of each code of a column."""
        return self.shares.get(name, np.full(size, 1.0 / size))


@dataclass(frozen=True, eq=False)
class Block:
    """Columns that are published together."""

    schema: Schema  # the columns
    released: ByColumn  # published rows, as codes of the released values
    recode: Mapping[str, Recoding] = field(default_factory=dict)  # of generalized columns
    background: KnownNoiseRows | None = None  # expected noise among the rows
    redraw: Callable[[Generator], ByColumn] | None = None  # samples rows that vary

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.schema.attributes)

    def select(self, names: Sequence[str]) -> Block:
        """Return a block of some of the columns."""
        redraw = self.redraw
        return Block(
            self.schema.of_rows(names),
            {name: self.released[name] for name in names},
            {name: self.recode[name] for name in names if name in self.recode},
            self.background,
            None if redraw is None else lambda rng: {name: redraw(rng)[name] for name in names},
        )

    @property
    def is_random(self) -> bool:
        """True if rows differ between samples."""
        return bool(self.recode) or self.redraw is not None

    def cells(self, rng: Generator) -> ByColumn:
        """Return rows in the released values, which may be generalized."""
        return self.released if self.redraw is None else self.redraw(rng)

    def rows(self, rng: Generator) -> ByColumn:
        """Return rows in the values of the original; generalized values are sampled."""
        return {
            name: draw_inside(self.recode[name], codes, rng) if name in self.recode else codes
            for name, codes in self.cells(rng).items()
        }


@dataclass(frozen=True, eq=False)
class PublishedItemGroups:
    """Groups of items of a long table, such as ratings: people are rows, items columns."""

    item: str  # column of the long table with the item
    value: str  # column of the long table with its value
    groups: Sequence[Sequence[str]]  # items of each group
    # Takes the number of a group and some of its items; returns the block of people who have any of
    # these items.
    block: Callable[[int, Sequence[str]], Block]


@dataclass(frozen=True, eq=False)
class ComparableRelease:
    """A release in comparable form."""

    schema: Schema  # published columns
    blocks: tuple[Block, ...]  # columns that are published together
    about: About = "rows"  # unit of counts
    whole_rows: pa.Table | None = None  # the rows as published, if they have all columns
    notes: tuple[str, ...] = ()  # notes for readers
    items: PublishedItemGroups | None = None  # of a long table, whose blocks are made on demand


def published_rows(
    schema: Schema,
    frame: pa.Table,
    recode: Mapping[str, Recoding] | None = None,
    *,
    about: About = "rows",
    background: KnownNoiseRows | None = None,
    redraw: Callable[[Generator], ByColumn] | None = None,
    notes: tuple[str, ...] = (),
) -> ComparableRelease:
    """Return a release of rows, with all its published columns, in comparable form."""
    there = schema.of_rows([name for name in schema.attributes if name in frame.column_names])
    cut = {name: recode[name] for name in there.attributes if recode and name in recode}
    block = Block(there, encoded(there, frame, cut), cut, background, redraw)
    return ComparableRelease(
        schema=there,
        blocks=(block,),
        about=about,
        whole_rows=frame,
        notes=(*notes, DRAWN) if cut else notes,
    )


def encoded(
    schema: Schema, frame: pa.Table, recode: Mapping[str, Recoding] | None = None
) -> dict[str, Integers]:
    """Encode published values, generalized or not."""
    recode = recode or {}
    try:
        return {
            name: to_codes(column, frame.column(name), recode.get(name))
            for name, column in schema.attributes.items()
        }
    except KeyError as error:
        raise ReleaseError(
            f"the release contains a value that is not in its schema or its cuts: {error}."
        ) from None


def absent(schema: Schema, published: Schema) -> tuple[str, ...]:
    """Return a note that lists columns that are not published, if any."""
    names = [name for name in schema.attributes if name not in published.attributes]
    return (f"Not published, so not compared: {', '.join(names)}.",) if names else ()
