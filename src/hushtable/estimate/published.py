"""What a release says, in a form that can be laid beside the original.

A release becomes one or more blocks. A block is a set of columns whose values are published
together, as rows. Most releases are one block of all columns; a release of groups of columns is
one block for each. Generalized values are drawn anew from inside their cells, so that a cell that
is too wide counts as the loss it is. Rows that are mostly noise carry the expected noise with them,
to be taken off every count.

Each estimator says so of its own kind of release, see `Estimator.published`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.codes import to_codes
from hushtable.errors import ReleaseError
from hushtable.estimate.drawing import Generator, draw_inside
from hushtable.recoding import Recoding
from hushtable.schema import Schema

ByColumn = Mapping[str, NDArray[np.int64]]
"""Rows as one array of codes per column."""

About = Literal["rows", "distinct tuples", "people", "nodes"]

DRAWN = (
    "Generalized values are compared after drawing a value evenly from inside each of them, so "
    "that wide cells count as error."
)


@dataclass(frozen=True, eq=False)
class Background:
    """Describe rows that a method added as noise, whose law is known.

    Parameters
    ----------
    n_rows : float
        How many of the published rows are noise, on average.
    shares : mapping of str to array
        How they are distributed in each column, independently of the others; a column that is not
        named is filled evenly.
    """

    n_rows: float
    shares: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    def share(self, name: str, size: int) -> NDArray[np.float64]:
        """Give the share of each code of a column."""
        return self.shares.get(name, np.full(size, 1.0 / size))


@dataclass(frozen=True, eq=False)
class Block:
    """Hold columns that are published together.

    Parameters
    ----------
    schema : Schema
        The columns.
    released : mapping of str to array
        The published rows as codes of the released values.
    recode : mapping of str to Recoding
        How generalized columns were cut.
    background : Background or None
        The noise among the rows, if there is any.
    redraw : callable, optional
        Makes rows where the release leaves values open by itself.
    """

    schema: Schema
    released: ByColumn
    recode: Mapping[str, Recoding] = field(default_factory=dict)
    background: Background | None = None
    redraw: Callable[[Generator], ByColumn] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(self.schema.attributes)

    def select(self, names: Sequence[str]) -> Block:
        """Take some columns."""
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
        """Whether rows differ from one drawing to the next."""
        return bool(self.recode) or self.redraw is not None

    def cells(self, rng: Generator) -> ByColumn:
        """Give rows in the released values, however coarse."""
        return self.released if self.redraw is None else self.redraw(rng)

    def rows(self, rng: Generator) -> ByColumn:
        """Give rows with values as precise as the original's, drawn where the release is not."""
        return {
            name: draw_inside(self.recode[name], codes, rng) if name in self.recode else codes
            for name, codes in self.cells(rng).items()
        }


@dataclass(frozen=True, eq=False)
class ItemGroups:
    """Describe groups of items of a long table, such as ratings: people are rows, items columns.

    Parameters
    ----------
    item, value : str
        The columns of the long table that hold an item and its value.
    groups : sequence of sequence of str
        The items of each group.
    block : callable
        Takes the number of a group and some of its items, and gives the block of people who have
        any of them.
    """

    item: str
    value: str
    groups: Sequence[Sequence[str]]
    block: Callable[[int, Sequence[str]], Block]


@dataclass(frozen=True, eq=False)
class Published:
    """Hold what is to be compared.

    Parameters
    ----------
    schema : Schema
        The columns that are published.
    blocks : tuple of Block
        Which of them are published together.
    about : str
        What the release counts.
    whole_rows : table or None
        The rows as published, if they are whole.
    notes : tuple of str
        What a reader must know.
    items : ItemGroups or None
        For a long table, what blocks are made of: there are too many to make them all.
    """

    schema: Schema
    blocks: tuple[Block, ...]
    about: About = "rows"
    whole_rows: pa.Table | None = None
    notes: tuple[str, ...] = ()
    items: ItemGroups | None = None


def published_rows(
    schema: Schema,
    frame: pa.Table,
    recode: Mapping[str, Recoding] | None = None,
    *,
    about: About = "rows",
    background: Background | None = None,
    redraw: Callable[[Generator], ByColumn] | None = None,
    notes: tuple[str, ...] = (),
) -> Published:
    """Hold whole rows of the columns that are there."""
    there = schema.of_rows([name for name in schema.attributes if name in frame.column_names])
    cut = {name: recode[name] for name in there.attributes if recode and name in recode}
    block = Block(there, encoded(there, frame, cut), cut, background, redraw)
    return Published(
        schema=there,
        blocks=(block,),
        about=about,
        whole_rows=frame,
        notes=(*notes, DRAWN) if cut else notes,
    )


def encoded(
    schema: Schema, frame: pa.Table, recode: Mapping[str, Recoding] | None = None
) -> dict[str, NDArray[np.int64]]:
    """Read published values, generalized or not, as codes."""
    recode = recode or {}
    try:
        return {
            name: to_codes(column, frame.column(name), recode.get(name))
            for name, column in schema.attributes.items()
        }
    except KeyError as error:
        raise ReleaseError(
            f"the release holds a value that is not in its schema or its cuts: {error}."
        ) from None


def absent(schema: Schema, published: Schema) -> tuple[str, ...]:
    """Say which columns are not published, if any."""
    names = [name for name in schema.attributes if name not in published.attributes]
    return (f"Not published, and so not compared: {', '.join(names)}.",) if names else ()
