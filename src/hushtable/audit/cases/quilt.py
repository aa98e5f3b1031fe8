"""Worst cases of quilt."""

from __future__ import annotations

from collections.abc import Iterator

from hushtable.audit.cases.case import Case, planned
from hushtable.audit.cases.made_up import copies, made_schema, whole
from hushtable.audit.neighbors import Pair, corner_cells, with_and_without
from hushtable.methods.quilt.quilt import Quilt
from hushtable.schema import Schema


def paired_schema(method: Quilt) -> Schema:
    """Return a schema with two binary columns, one of which may be the target."""
    return made_schema({"x": whole(2), method.target or "y": whole(2)})


def paired_pairs(method: Quilt, schema: Schema) -> Iterator[Pair]:
    """Yield empty and full tables, and two columns that one more row makes dependent."""
    yield from copies(schema, (0, 5, 60))
    low, high, *others = corner_cells(schema)
    even = [low, high, *others] * 15
    for row in (low, *others[:1]):
        yield with_and_without(schema, "a pair of columns that becomes dependent", even, [row])


QUILT = Case(paired_schema, paired_pairs, planned)
