"""A release and the original, read into a common form for comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hushtable.engine.edges import EDGE_COLUMNS, read_graph
from hushtable.engine.sources.header import Data
from hushtable.errors import ParameterError
from hushtable.evaluation.items import open_items
from hushtable.evaluation.rows import CodedRows, read_rows
from hushtable.query.answers import Estimate
from hushtable.query.answers.published import Block, ComparableRelease
from hushtable.release.release import Release
from hushtable.schema import Integer, Schema


@dataclass(frozen=True, kw_only=True, eq=False)
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
                f"{', '.join(map(repr, absent))}: not published; the published columns are "
                f"{', '.join(published.schema.attributes)}."
            )
        if self.whole is None or published.about == "nodes":
            raise ParameterError(
                "columns can only be chosen for releases of rows; omit them for graphs and for "
                "item groups."
            )
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
    opened = _lay(release, data, schema=schema, nodes=nodes, edge_columns=edge_columns)
    return opened if columns is None else opened.on(columns)


def _lay(
    release: Any,
    data: Data,
    *,
    schema: Schema | None,
    nodes: Any,
    edge_columns: tuple[str, str],
) -> AlignedTables:
    if isinstance(release, str | Path) and Path(release).is_dir():
        release = Release.load(release)
    if not isinstance(release, Release):
        if schema is None:
            raise ParameterError(
                "the release is a plain table without a statement; pass its schema as well."
            )
        original = read_rows(data, schema)
        return AlignedTables(
            release=None, schema=schema, published=_plain(read_rows(release, schema)),
            originals=[original], whole=original, all_rows=original,
        )  # fmt: skip
    if schema is not None:
        raise ParameterError("a release contains its own schema; omit the schema.")
    # A fixed seed: every evaluation attacks the same sampled rows.
    published = release.published(np.random.default_rng(0))
    if published.items is not None:
        published, originals = open_items(published, release.schema, data)
        return AlignedTables(
            release=release, schema=release.schema, published=published,
            originals=originals, whole=None, all_rows=None,
        )  # fmt: skip
    if published.about == "nodes":
        degrees = read_graph(data, nodes=nodes, columns=edge_columns).degrees()
        column = published.schema.attributes["degree"]
        assert isinstance(column, Integer)  # noqa: S101 - degrees are integers
        codes = np.clip(degrees - column.low, 0, column.n_values - 1)
        whole = CodedRows.of(published.schema, {"degree": codes}).in_order()
        return AlignedTables(
            release=release, schema=release.schema, published=published, originals=[whole],
            whole=whole, all_rows=None,
        )  # fmt: skip
    all_rows = read_rows(data, published.schema, release.schema.reading)
    whole = all_rows.distinct() if published.about == "distinct tuples" else all_rows
    originals = [whole]
    if len(published.blocks) > 1 or published.whole_rows is None:
        originals = [whole.select(block.names).with_values() for block in published.blocks]
    return AlignedTables(
        release=release, schema=release.schema, published=published, originals=originals,
        whole=whole, all_rows=all_rows,
    )  # fmt: skip


def _plain(rows: CodedRows) -> ComparableRelease:
    """Wrap a plain table as published content."""
    codes = {name: codes.astype(np.int64) for name, codes in rows.codes.items()}
    return ComparableRelease(
        schema=rows.schema,
        blocks=(Block(rows.schema, codes),),
        whole_rows=rows.table(),
        notes=("This is a plain table: it has no promise and no intervals.",),
    )
