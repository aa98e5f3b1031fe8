"""The codes of each of many columns, counted in one query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import lazy_loader
import numpy as np
from numpy.typing import NDArray

from hushtable.engine.cells import Counts
from hushtable.engine.sources.source import TableSource
from hushtable.engine.sql.answers import RuleBreakCounts, integers, union
from hushtable.schema import Schema

ibis = lazy_loader.load("ibis")


def count_each(
    rows: TableSource, columns: Sequence[str], *, by: str | None = None, only_broken: bool = False
) -> Iterator[tuple[str, NDArray[np.int64], Counts]]:
    """Count the codes of each column, or its pairs of codes with `by`; with `only_broken`, few."""
    asked = {} if by is None else {"by": by}
    parts = []
    for number, name in enumerate(columns):
        part = rows.select({"code": name, **asked})
        if only_broken:
            part = part.filter(part.code < 0)
        counted = part.group_by(["code", *asked]).agg(n=ibis._.count())
        keys = {key: counted[key].cast("int64") for key in ("code", *asked)}
        parts.append(counted.select(**keys, n=counted.n, number=ibis.literal(number, "int32")))
    answer = rows.fetch(union(parts))
    numbers, counts = integers(answer["number"]), integers(answer["n"])
    found = np.stack([integers(answer[key]) for key in ("code", *asked)], axis=1)
    for number, name in enumerate(columns):
        mine = numbers == number
        yield name, found[mine], counts[mine]


def broken_rules(rows: TableSource, schema: Schema, columns: Sequence[str]) -> RuleBreakCounts:
    """Gather the rows that break a rule of some columns."""
    broken = RuleBreakCounts(schema)
    for name, codes, counts in count_each(rows, columns, only_broken=True):
        broken.set_aside([name], codes, counts)
    return broken
