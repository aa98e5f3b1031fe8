"""What a release says, in a form that can be laid beside the original.

A release becomes one or more blocks. A block is a set of columns whose values are published
together, as rows. Most releases are one block of all columns; a release of groups of columns is
one block for each. Generalized values are drawn anew from inside their cells, so that a cell that
is too wide counts as the loss it is. Rows that are mostly noise carry the expected noise with them,
to be taken off every count.
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
from hushtable.estimate import Estimate, Estimator
from hushtable.evaluation.rows import Rows, draw_inside, some_columns
from hushtable.methods.alpha_beta.alpha_beta import VIEW
from hushtable.methods.alpha_beta.insertion_estimator import InsertionEstimator, expected_insertions
from hushtable.methods.alpha_beta.insertions import UniformNoise
from hushtable.methods.alpha_beta.retention_estimator import RetentionEstimator
from hushtable.methods.counts.column_table import COLUMN, COUNT
from hushtable.methods.counts.columns_estimator import ColumnsEstimator
from hushtable.methods.degrees.estimator import DegreeEstimator
from hushtable.methods.partition.estimator import RegionEstimator
from hushtable.methods.registry import estimator_for
from hushtable.methods.uncertain.estimator import UncertainEstimator
from hushtable.predicate import parse
from hushtable.recoding import Recoding
from hushtable.release import Release
from hushtable.schema import Categorical, Schema

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
About = Literal["rows", "distinct tuples", "people", "nodes"]


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
    shares: Mapping[str, Floats] = field(default_factory=dict)

    def share(self, name: str, size: int) -> Floats:
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
    released: Mapping[str, Integers]
    recode: Mapping[str, Recoding] = field(default_factory=dict)
    background: Background | None = None
    redraw: Callable[[np.random.Generator], Rows] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(self.schema.attributes)

    @property
    def is_random(self) -> bool:
        """Whether rows differ from one drawing to the next."""
        return bool(self.recode) or self.redraw is not None

    def rows(self, rng: np.random.Generator) -> Rows:
        """Give rows with values as precise as the original's, drawn where the release is not."""
        if self.redraw is not None:
            return self.redraw(rng)
        codes = {
            name: draw_inside(self.recode[name], codes, rng) if name in self.recode else codes
            for name, codes in self.released.items()
        }
        return Rows.of(self.schema, codes)


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
    count : callable or None
        Answers a WHERE clause; None where the rows themselves are all there is.
    whole_rows : table or None
        The rows as published, if they are whole.
    notes : tuple of str
        What a reader must know.
    """

    schema: Schema
    blocks: tuple[Block, ...]
    about: About = "rows"
    count: Callable[[str], Estimate] | None = None
    whole_rows: pa.Table | None = None
    notes: tuple[str, ...] = ()


DRAWN = (
    "Generalized values are compared after drawing a value evenly from inside each of them, so "
    "that wide cells count as error."
)


def open_release(release: Release) -> Published:
    """Read a release of rows, cells, regions, degrees or groups of columns of a wide table."""
    estimator = estimator_of(release)
    for kind, read in _READERS:
        if isinstance(estimator, kind):
            return read(release, estimator)
    return _rows(release, estimator)


def estimator_of(release: Release) -> Estimator:
    """Make the estimator of a release."""
    tables = {name: release.table(name) for name in release.statement.tables}
    statement = release.statement
    return estimator_for(statement.estimator, release.schema, statement.parameters, tables)


def open_rows(rows: Rows, table: pa.Table) -> Published:
    """Take a plain table for a release of itself."""
    block = Block(rows.schema, {n: codes.astype(np.int64) for n, codes in rows.codes.items()})
    return Published(
        schema=rows.schema,
        blocks=(block,),
        whole_rows=table,
        notes=("This is a plain table: it comes with no promise, and with no intervals.",),
    )


# --- one reader per kind of release, and one for plain rows or cells ------------------------------


def _encoded(
    schema: Schema, frame: pa.Table, recode: Mapping[str, Recoding] | None = None
) -> dict[str, Integers]:
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


def _rows(release: Release, estimator: Estimator) -> Published:
    frame = estimator.frame()
    schema = some_columns(
        release.schema, [n for n in release.schema.attributes if n in frame.column_names]
    )
    recode = {
        name: estimator.recode[name] for name in schema.attributes if name in estimator.recode
    }
    return Published(
        schema=schema,
        blocks=(Block(schema, _encoded(schema, frame, recode), recode),),
        count=estimator.count,
        whole_rows=frame,
        notes=(DRAWN,) if recode else (),
    )


def _regions(release: Release, estimator: RegionEstimator) -> Published:
    schema = some_columns(release.schema, list(release.schema.attributes))
    frame = estimator.frame(np.random.default_rng(0))

    def redraw(rng: np.random.Generator) -> Rows:
        return Rows.of(schema, _encoded(schema, estimator.frame(rng)))

    return Published(
        schema=schema,
        blocks=(Block(schema, _encoded(schema, frame), redraw=redraw),),
        count=estimator.count,
        whole_rows=frame,
        notes=("Values inside a region are drawn anew for each repetition.",),
    )


def _insertions(release: Release, estimator: InsertionEstimator) -> Published:
    schema = some_columns(release.schema, list(release.schema.attributes))
    noise, n_views, table = estimator.noise, estimator.view, estimator.table
    if estimator.method.views > 1 and estimator.method.view_rule == "algorithm-4":
        # Later views depend on the first one, which alone is a plain draw of two coins.
        table, n_views = table.filter(pa.array(table.column(VIEW).to_numpy() == 1)), 1
    if isinstance(noise, UniformNoise):
        background = Background(n_views * noise.expected)
    else:
        everything = parse(f"{_quoted(next(iter(schema.attributes)))} IS NOT NULL OR TRUE", schema)
        shares = {
            name: np.asarray(weights, np.float64) / sum(weights)
            for name, weights in zip(noise.domain.names, noise.weights, strict=True)
        }
        background = Background(n_views * expected_insertions(everything, noise), shares)
    return Published(
        schema=schema,
        blocks=(Block(schema, _encoded(schema, table), background=background),),
        about="distinct tuples",
        count=estimator.count,
        whole_rows=table.select(list(schema.attributes)),
        notes=(
            "This release is about distinct tuples, so the original is compared without its "
            "repetitions.",
            "Most published tuples are noise of a known law; what it adds on average is taken off "
            "every distribution. Models are trained on the tuples as published, noise included.",
        ),
    )


def _retention(release: Release, estimator: RetentionEstimator) -> Published:
    schema = some_columns(release.schema, list(release.schema.attributes))
    replaced = float(1 - estimator.retention) * estimator.table.num_rows
    frame = estimator.frame()
    return Published(
        schema=schema,
        blocks=(Block(schema, _encoded(schema, frame), background=Background(replaced)),),
        count=estimator.count,
        whole_rows=frame,
        notes=(
            "Most published rows are replaced by random ones of a known law; what they add on "
            "average is taken off every distribution. Models are trained on the rows as published, "
            "noise included.",
        ),
    )


def _uncertain(release: Release, estimator: UncertainEstimator) -> Published:
    frame = estimator.frame()
    schema = some_columns(
        release.schema, [n for n in release.schema.attributes if n in frame.column_names]
    )
    noisy = list(release.statement.estimator["noisy"])
    kept = [name for name in schema.attributes if name not in noisy]
    codes = _encoded(some_columns(schema, kept), frame) if kept else {}
    for name in noisy:
        codes[name] = _nearest(schema, name, frame)
    return Published(
        schema=schema,
        blocks=(Block(schema, {name: codes[name] for name in schema.attributes}),),
        count=estimator.count,
        whole_rows=frame,
        notes=(
            "Noisy values are rounded to the column's grid, and to its nearest end outside it.",
            *_absent(release.schema, schema),
        ),
    )


def _absent(schema: Schema, published: Schema) -> tuple[str, ...]:
    """Name the columns that are not published."""
    names = [name for name in schema.attributes if name not in published.attributes]
    return (f"Not published, and so not compared: {', '.join(names)}.",) if names else ()


def _nearest(schema: Schema, name: str, frame: pa.Table) -> Integers:
    column = schema.attributes[name]
    assert not isinstance(column, Categorical)  # noqa: S101 - the method refuses these
    values = np.asarray(frame.column(name).to_numpy(), np.float64)
    steps = np.rint((values - float(column.exact_low)) / float(column.exact_step))
    return np.clip(steps, 0, column.n_values - 1).astype(np.int64)


def _degrees(release: Release, estimator: DegreeEstimator) -> Published:
    schema, frame = some_columns(release.schema, ["degree"]), estimator.frame()
    return Published(
        schema=schema,
        blocks=(Block(schema, _encoded(schema, frame)),),
        about="nodes",
        count=estimator.count,
        notes=(
            "A release of degrees has one column: there are no pairs of columns to compare and "
            "nothing to predict.",
        ),
    )


def _wide_columns(release: Release, estimator: ColumnsEstimator) -> Published:
    table, recode = estimator.table, estimator.recode
    number, counts = table.column(COLUMN).to_numpy(), table.column(COUNT).to_numpy()
    blocks = []
    for position, names in enumerate(estimator.columns):
        schema = some_columns(release.schema, _in_order(release.schema, names))
        mine = np.flatnonzero(number == position)
        tuples = _encoded(schema, table.take(pa.array(mine)), recode)
        blocks.append(
            Block(
                schema,
                {name: np.repeat(codes, counts[mine]) for name, codes in tuples.items()},
                {name: recode[name] for name in names if name in recode},
            )
        )
    there = {name for block in blocks for name in block.names}
    published = some_columns(release.schema, _in_order(release.schema, list(there)))
    return Published(
        schema=published,
        blocks=tuple(blocks),
        count=estimator.count,
        notes=(
            "Groups of columns are published, not whole rows: pairs and triples are compared where "
            "a group holds them, and a model learns from one group.",
            *_absent(release.schema, published),
            *((DRAWN,) if recode else ()),
        ),
    )


def _in_order(schema: Schema, names: Sequence[str]) -> list[str]:
    return [name for name in schema.attributes if name in set(names)]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


_READERS: tuple[tuple[type[Estimator], Callable[..., Published]], ...] = (
    (RegionEstimator, _regions),
    (InsertionEstimator, _insertions),
    (RetentionEstimator, _retention),
    (UncertainEstimator, _uncertain),
    (DegreeEstimator, _degrees),
    (ColumnsEstimator, _wide_columns),
)
