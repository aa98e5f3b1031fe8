"""A release and the original, read into a common form for comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hushtable.arrays import Bools, Codes32, Integers
from hushtable.engine import connect, open_table
from hushtable.engine.baskets import ItemColumns, Tuples
from hushtable.engine.edges import read_graph
from hushtable.engine.graph import EDGE_COLUMNS
from hushtable.engine.memory_engine import MemoryEngine
from hushtable.engine.sources.header import Data
from hushtable.errors import ParameterError
from hushtable.evaluation.findings import TEXTS
from hushtable.query.answers import Estimate
from hushtable.query.answers.published import DRAWN, Block, ByColumn, ComparableRelease
from hushtable.release.release import Release
from hushtable.schema import Identifier, Integer, Schema
from hushtable.schema.codes import to_values
from hushtable.schema.file_format import FileFormat

# Tables as integer codes: original, control and published rows in one public domain.


@dataclass(frozen=True, eq=False)
class CodedRows:
    """Rows as one array of codes per column."""

    schema: Schema
    codes: Mapping[str, Codes32]  # by column; missing has its own code
    n_rows: int

    @classmethod
    def of(cls, schema: Schema, codes: ByColumn) -> CodedRows:
        """Create from arrays of codes, one per column."""
        narrow = {name: np.asarray(codes[name], np.int32) for name in schema.attributes}
        return cls(schema, narrow, len(next(iter(narrow.values()))))

    @classmethod
    def drawn(cls, block: Block, rng: np.random.Generator) -> CodedRows:
        """Return the rows of a block, sampling exact values inside generalized cells."""
        return cls.of(block.schema, block.rows(rng))

    def take(self, places: Integers) -> CodedRows:
        """Return the rows at these positions."""
        return CodedRows(self.schema, {n: c[places] for n, c in self.codes.items()}, len(places))

    def select(self, names: Sequence[str]) -> CodedRows:
        """Return the rows with only these columns."""
        codes = {name: self.codes[name] for name in names}
        return CodedRows(self.schema.of_rows(names), codes, self.n_rows)

    def in_order(self) -> CodedRows:
        """Return the rows sorted, so that random samples do not depend on the input order."""
        return self.take(self._sorted()[0])

    def distinct(self) -> CodedRows:
        """Return the distinct rows."""
        order, is_first = self._sorted()
        return self.take(order[is_first])

    def _sorted(self) -> tuple[Integers, Bools]:
        domain = self.schema.domain
        keys = domain.pack(np.column_stack([self.codes[name] for name in domain.names]))
        order = np.lexsort(keys.T[::-1])
        is_first = np.ones(self.n_rows, np.bool_)
        is_first[1:] = (keys[order[1:]] != keys[order[:-1]]).any(axis=1)
        return order, is_first

    def with_values(self) -> CodedRows:
        """Return the rows in which at least one column has a value."""
        present = np.zeros(self.n_rows, np.bool_)
        for name, column in self.schema.attributes.items():
            present |= self.codes[name] != column.missing_code  # no code equals None
        return self if present.all() else self.take(np.flatnonzero(present))

    def table(self) -> pa.Table:
        """Return the rows as an Arrow table of values; missing is null."""
        return pa.table(
            {
                name: to_values(column, self.codes[name].astype(np.int64))
                for name, column in self.schema.attributes.items()
            }
        )


def read_rows(data: Data, schema: Schema, layout: FileFormat | None = None) -> CodedRows:
    r"""Read a table by the schema's rules, in sorted order.

    `layout` is the file format, by default that of the schema.

    Examples
    --------
    >>> schema = Schema.parse("name: t\ncolumns:\n  age: {type: integer, low: 40, high: 43}\n")
    >>> read_rows(pa.table({"age": [43, 41, 43]}), schema).codes["age"].tolist()
    [1, 3, 3]
    """
    layout = schema.reading if layout is None else layout
    table = open_table.open(data, reading=layout, engine="memory")
    public = schema.of_rows(schema.attributes)
    lowered = {name.lower() for name in public.columns}
    # Other columns are marked as identifiers, so that their types do not matter.
    others = [name for name in table.header.names if name.lower() not in lowered and name]
    ignored = dict.fromkeys(others, Identifier(role="identifier"))
    changes = {"columns": {**public.columns, **ignored}, "reading": layout}
    engine = table.connect(public.model_copy(update=changes))
    assert isinstance(engine, MemoryEngine)  # noqa: S101 - asked for
    return CodedRows.of(public, engine.codes(list(public.attributes))).in_order()


# Releases of item groups from a long table, such as ratings: people as rows, items as columns.
#
# The matrix of people and items is sparse and is never built. The groups with the most popular
# items are compared, each among the people who have at least one of its items.

MAX_ITEMS = 24
MAX_PER_BLOCK = 6


def open_items(
    published: ComparableRelease, schema: Schema, data: Data
) -> tuple[ComparableRelease, list[CodedRows]]:
    """Choose the item groups to compare, and read the original people for each of them."""
    items = published.items
    assert items is not None  # noqa: S101 - the caller checks it
    item_columns = ItemColumns(items.item, items.value)
    engine = connect(data, schema, engine="memory")
    names = list(published.schema.attributes)
    place = {name: code for code, name in enumerate(names)}
    popularity = engine.histograms([item_columns.item])[item_columns.item]
    chosen = _chosen(items.groups, popularity, place)
    groups = [[place[name] for name in some] for some in chosen.values()]
    tuples = engine.tuples(groups, max_groups=len(groups), item_columns=item_columns)
    blocks = [items.block(number, some) for number, some in chosen.items()]
    originals = [
        _people(block.schema, tuples.take(tuples.groups == number), place)
        for number, block in enumerate(blocks)
    ]
    unique = list(dict.fromkeys(name for block in blocks for name in block.names))
    n_left_out = len(names) - len(unique)
    notes = (
        TEXTS["items compared"].format(n=len(unique), n_left_out=n_left_out),
        TEXTS["groups of items"],
        *((DRAWN,) if any(block.recode for block in blocks) else ()),
    )
    chosen_schema = published.schema.of_rows(unique)
    return replace(published, schema=chosen_schema, blocks=tuple(blocks), notes=notes), originals


def _chosen(
    columns: Sequence[Sequence[str]], popularity: Integers, place: dict[str, int]
) -> dict[int, list[str]]:
    """Choose the groups with the most popular items, and the most popular items of each."""
    ranked = {
        column: sorted(names, key=lambda name: -int(popularity[place[name]]))[:MAX_PER_BLOCK]
        for column, names in enumerate(columns)
        if names
    }
    chosen: dict[int, list[str]] = {}
    for column in sorted(ranked, key=lambda column: -int(popularity[place[ranked[column][0]]])):
        left = MAX_ITEMS - sum(map(len, chosen.values()))
        if left > 0:
            chosen[column] = ranked[column][:left]
    return dict(sorted(chosen.items()))


def _people(schema: Schema, tuples: Tuples, place: dict[str, int]) -> CodedRows:
    """Return one row per person by repeating each tuple according to its count."""
    of_tuple = np.repeat(np.arange(len(tuples.counts)), tuples.lengths)
    codes = {}
    for name, column in schema.attributes.items():
        mine = np.full(len(tuples.counts), column.missing_code, np.int64)
        here = tuples.items == place[name]
        mine[of_tuple[here]] = tuples.values[here]
        codes[name] = np.repeat(mine, tuples.counts)
    return CodedRows.of(schema, codes).in_order()


@dataclass(frozen=True, eq=False)
class AlignedTables:
    """A release and the original, ready to be compared."""

    release: Release | None  # None for a plain table
    schema: Schema
    published: ComparableRelease
    originals: Sequence[CodedRows]  # the original rows that each published block describes
    # all rows, or the distinct ones if the release counts tuples; None for a long table
    whole: CodedRows | None
    all_rows: CodedRows | None  # all original rows; None for graphs and long tables

    @property
    def count(self) -> Callable[[str], Estimate] | None:
        """The function that answers a WHERE clause; None for a plain table."""
        return None if self.release is None else self.release.count

    def on(self, columns: Sequence[str]) -> AlignedTables:
        """Restrict the comparison to some columns; not supported for graphs and item groups."""
        published = self.published
        names = [name for name in published.schema.attributes if name in columns]
        absent = [name for name in columns if name not in published.schema.attributes]
        if absent:
            raise ParameterError(
                TEXTS["absent columns"].format(
                    absent=", ".join(map(repr, absent)),
                    published=", ".join(published.schema.attributes),
                )
            )
        if self.whole is None or published.about == "nodes":
            raise ParameterError(TEXTS["no columns to choose"])
        kept = [
            (block, rows, [name for name in block.names if name in names])
            for block, rows in zip(published.blocks, self.originals, strict=True)
        ]
        kept = [(block, rows, here) for block, rows, here in kept if here]
        whole_rows = published.whole_rows
        whole = self.whole.select(names)
        return replace(
            self,
            published=replace(
                published,
                schema=published.schema.of_rows(names),
                blocks=tuple(block.select(here) for block, _, here in kept),
                whole_rows=None if whole_rows is None else whole_rows.select(names),
            ),
            originals=[rows.select(here) for _, rows, here in kept],
            whole=whole.distinct() if published.about == "distinct tuples" else whole,
            all_rows=None if self.all_rows is None else self.all_rows.select(names),
        )

    @property
    def n_original(self) -> int:
        """Number of rows, tuples, people or nodes in the original."""
        if self.whole is not None:
            return self.whole.n_rows
        return max(rows.n_rows for rows in self.originals)


def align_tables(
    release: Any,
    data: Data,
    *,
    schema: Schema | None = None,
    nodes: Any = None,
    edge_columns: tuple[str, str] = EDGE_COLUMNS,
    columns: Sequence[str] | None = None,
) -> AlignedTables:
    """Read a release and the original; the parameters are those of `evaluate`."""
    if isinstance(release, str | Path) and Path(release).is_dir():
        release = Release.load(release)
    if isinstance(release, Release):
        if schema is not None:
            raise ParameterError("a release contains its own schema; omit the schema.")
        opened = _align_release(release, data, nodes, edge_columns)
    elif schema is None:
        raise ParameterError(
            "the release is a plain table without a statement; pass its schema as well."
        )
    else:
        rows, published = read_rows(data, schema), _plain(read_rows(release, schema))
        opened = AlignedTables(None, schema, published, [rows], whole=rows, all_rows=rows)
    return opened if columns is None else opened.on(columns)


def _align_release(
    release: Release, data: Data, nodes: Any, edge_columns: tuple[str, str]
) -> AlignedTables:
    # A fixed seed: every evaluation attacks the same sampled rows.
    published = release.published(np.random.default_rng(0))
    whole = all_rows = None
    if published.items is not None:
        published, originals = open_items(published, release.schema, data)
    elif published.about == "nodes":
        degrees = read_graph(data, nodes=nodes, columns=edge_columns).degrees()
        column = published.schema.attributes["degree"]
        assert isinstance(column, Integer)  # noqa: S101 - degrees are integers
        codes = np.clip(degrees - column.low, 0, column.n_values - 1)
        whole = CodedRows.of(published.schema, {"degree": codes}).in_order()
        originals = [whole]
    else:
        all_rows = read_rows(data, published.schema, release.schema.reading)
        whole = all_rows.distinct() if published.about == "distinct tuples" else all_rows
        originals = [whole]
        if len(published.blocks) > 1 or published.whole_rows is None:
            originals = [whole.select(block.names).with_values() for block in published.blocks]
    return AlignedTables(release, release.schema, published, originals, whole, all_rows)


def _plain(rows: CodedRows) -> ComparableRelease:
    """Wrap a plain table as published content."""
    codes = {name: codes.astype(np.int64) for name, codes in rows.codes.items()}
    return ComparableRelease(
        schema=rows.schema,
        blocks=(Block(rows.schema, codes),),
        whole_rows=rows.table(),
        notes=(TEXTS["plain table"],),
    )
