"""A release and the original, read and laid side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hushtable.engine.edges import EDGE_COLUMNS, read_graph
from hushtable.engine.header import Data
from hushtable.errors import ParameterError
from hushtable.estimate import Estimate
from hushtable.estimate.published import Block, Published
from hushtable.evaluation.items import open_items
from hushtable.evaluation.rows import CodedRows, read_rows
from hushtable.release import Release
from hushtable.schema import Integer, Schema


@dataclass(frozen=True, kw_only=True, eq=False)
class SideBySide:
    """Hold a release and the original, ready to be compared.

    Parameters
    ----------
    release : Release or None
        The release; None for a plain table.
    schema : Schema
        The public schema.
    published : Published
        What the release says.
    originals : sequence of CodedRows
        The original's rows that each published block is about.
    whole : CodedRows or None
        What the release counts: all rows, or the distinct ones; None for a long table.
    all_rows : CodedRows or None
        The rows of the original as they are; None for graphs and long tables.
    """

    release: Release | None
    schema: Schema
    published: Published
    originals: Sequence[CodedRows]
    whole: CodedRows | None
    all_rows: CodedRows | None

    @property
    def count(self) -> Callable[[str], Estimate] | None:
        """What answers a WHERE clause; None where rows are all there is."""
        return None if self.release is None else self.release.count

    @property
    def n_original(self) -> int:
        """How many rows, tuples, people or nodes the original has."""
        if self.whole is not None:
            return self.whole.n_rows
        return max(rows.n_rows for rows in self.originals)


def lay_side_by_side(
    release: Any,
    data: Data,
    *,
    schema: Schema | None = None,
    nodes: Any = None,
    edge_columns: tuple[str, str] = EDGE_COLUMNS,
) -> SideBySide:
    """Read a release and the original; the parameters are those of `evaluate`."""
    if isinstance(release, str | Path) and Path(release).is_dir():
        release = Release.load(release)
    if not isinstance(release, Release):
        if schema is None:
            raise ParameterError(
                "the release is a plain table, which says nothing about its columns: give the "
                "schema, too."
            )
        original = read_rows(data, schema)
        return SideBySide(
            release=None, schema=schema, published=_plain(read_rows(release, schema)),
            originals=[original], whole=original, all_rows=original,
        )  # fmt: skip
    if schema is not None:
        raise ParameterError("a release brings its own schema; leave the schema out.")
    # Rows that are attacked are drawn once, the same in every evaluation.
    published = release.published(np.random.default_rng(0))
    if published.items is not None:
        published, originals = open_items(published, release.schema, data)
        return SideBySide(
            release=release, schema=release.schema, published=published,
            originals=originals, whole=None, all_rows=None,
        )  # fmt: skip
    if published.about == "nodes":
        degrees = read_graph(data, nodes=nodes, columns=edge_columns).degrees()
        column = published.schema.attributes["degree"]
        assert isinstance(column, Integer)  # noqa: S101 - degrees are whole numbers
        codes = np.clip(degrees - column.low, 0, column.n_values - 1)
        whole = CodedRows.of(published.schema, {"degree": codes}).in_order()
        return SideBySide(
            release=release, schema=release.schema, published=published, originals=[whole],
            whole=whole, all_rows=None,
        )  # fmt: skip
    all_rows = read_rows(data, published.schema)
    whole = all_rows.distinct() if published.about == "distinct tuples" else all_rows
    originals = [whole]
    if len(published.blocks) > 1 or published.whole_rows is None:
        originals = [whole.select(block.names).with_values() for block in published.blocks]
    return SideBySide(
        release=release, schema=release.schema, published=published, originals=originals,
        whole=whole, all_rows=all_rows,
    )  # fmt: skip


def _plain(rows: CodedRows) -> Published:
    """Take a plain table for a release of itself."""
    codes = {name: codes.astype(np.int64) for name, codes in rows.codes.items()}
    return Published(
        schema=rows.schema,
        blocks=(Block(rows.schema, codes),),
        whole_rows=rows.table(),
        notes=("This is a plain table: it comes with no promise, and with no intervals.",),
    )
