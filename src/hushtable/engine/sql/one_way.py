"""The codes of each of many columns, counted in one query.

Raw values are grouped first, which engines do fastest, and only the groups are encoded. The groups
of all columns are encoded together, with the rules as a table: an expression of its own for each
column would take longer to compile than a million rows to count. So every column becomes groups
with the number of the column, and these meet in three heaps, by how they are read: texts, which are
looked up in one list of all columns' values; whole numbers, one heap for each raw type; and what
has its code already. The heaps become one table of number, code and count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import lazy_loader
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.engine.cells import Counts
from hushtable.engine.encode import (
    Expression,
    RuleCodes,
    as_text,
    encode,
    listed_codes,
    numeric_code,
    read_number,
    reads_as_it_is,
)
from hushtable.engine.source import Source
from hushtable.engine.sql.answers import Broken, integers, union
from hushtable.schema import Categorical, Column, Number, OnCalendar, Schema

ibis = lazy_loader.load("ibis")


def count_each(
    rows: Source,
    schema: Schema,
    columns: Sequence[str],
    *,
    by: str | None = None,
    only_broken: bool = False,
) -> Iterator[tuple[str, NDArray[np.int64], Counts]]:
    """Count the codes of each column, or its pairs of codes with `by`; with `only_broken`, few."""
    with_by: dict[str, Expression] = {}
    if by is not None:
        with_by["by"], by_is_code = _groupable(rows, schema, by)
    heaps = _Heaps(schema, [schema.attributes[name] for name in columns], list(with_by))
    for number, name in enumerate(columns):
        raw, is_code = _groupable(rows, schema, name)
        heaps.add(number, rows.table.group_by(raw=raw, **with_by).agg(n=ibis._.count()), is_code)
    codes = heaps.codes()
    if by is not None and not by_is_code:
        codes = encode(codes, schema, {"by": by})
    if only_broken:
        codes = codes.filter(codes.code < 0)
    keys = ["code", *with_by]
    answer = rows.fetch(codes.group_by(["number", *keys]).agg(n=codes.n.sum().cast("int64")))
    numbers, counts = integers(answer["number"]), integers(answer["n"])
    found = np.stack([integers(answer[key]) for key in keys], axis=1)
    for number, name in enumerate(columns):
        mine = numbers == number
        yield name, found[mine], counts[mine]


def broken_rules(rows: Source, schema: Schema, columns: Sequence[str]) -> Broken:
    """Gather the rows that break a rule of some columns."""
    broken = Broken(schema)
    for name, codes, counts in count_each(rows, schema, columns, only_broken=True):
        broken.set_aside([name], codes, counts)
    return broken


def _groupable(rows: Source, schema: Schema, name: str) -> tuple[Expression, bool]:
    """Give a raw column, or its codes where too many raw values would differ; and which."""
    column, raw = schema.attributes[name], rows.table[rows.columns[name]]
    if isinstance(column, Number | OnCalendar) and not raw.type().is_string():
        # Grouping measurements as they are would make nearly as many groups as rows.
        return numeric_code(raw, column, schema.missing_values), True
    return raw, False


@dataclass
class _Heaps:
    """Gather groups of raw values by how they are read."""

    schema: Schema
    columns: Sequence[Column]
    others: Sequence[str]
    texts: list[Expression] = field(default_factory=list)
    wholes: dict[Any, list[Expression]] = field(default_factory=dict)  # each type is read once
    coded: list[Expression] = field(default_factory=list)

    def add(self, number: int, groups: Expression, is_code: bool) -> None:
        """Add the groups of one column."""
        column, missing_values = self.columns[number], self.schema.missing_values
        asked = {"number": ibis.literal(number, "int32"), "n": groups.n}
        asked |= {name: groups[name] for name in self.others}
        if is_code:
            self.coded.append(groups.select(**asked, code=groups.raw))
        elif isinstance(column, Categorical):
            listed = (*column.spellings, *missing_values)
            self.texts.append(groups.select(**asked, text=as_text(groups.raw, listed)))
        elif reads_as_it_is(groups.raw, column):
            same = self.wholes.setdefault(groups.raw.type(), [])
            same.append(groups.select(**asked, raw=groups.raw))
        else:
            code = numeric_code(groups.raw, column, missing_values)
            self.coded.append(groups.select(**asked, code=code))

    def codes(self) -> Expression:
        """Encode each heap, and put them together."""
        missing_values = self.schema.missing_values
        rules, coded = _rules_table(self.columns), [*self.coded]
        if self.texts:
            known = _known_table(self.columns, missing_values)
            joined = union(self.texts).join(rules, "number").left_join(known, ["number", "text"])
            code = _rules_of(joined).listed_code(joined.text, joined.known)
            coded.append(joined.select("number", "n", *self.others, code=code))
        for same in self.wholes.values():
            joined = union(same).join(rules, "number")
            code = _rules_of(joined).integer_code(read_number(joined.raw, missing_values))
            coded.append(joined.select("number", "n", *self.others, code=code))
        return union([part.select("number", "n", "code", *self.others) for part in coded])


def _rules_table(columns: Sequence[Column]) -> Expression:
    """Write the rules of columns as a table, one row for each."""
    rules = [RuleCodes.of(column) for column in columns]
    content = {
        part.name: pa.array([getattr(rule, part.name) for rule in rules], pa.int64())
        for part in fields(RuleCodes)
    }
    content["number"] = pa.array(range(len(columns)), pa.int32())
    return ibis.memtable(pa.table(content))


def _rules_of(joined: Expression) -> RuleCodes:
    return RuleCodes(**{part.name: joined[part.name] for part in fields(RuleCodes)})


def _known_table(columns: Sequence[Column], missing_values: Sequence[str]) -> Expression:
    """Write the codes of listed texts as a table."""
    known = [
        (number, text, code)
        for number, column in enumerate(columns)
        if isinstance(column, Categorical)
        for text, code in listed_codes(column, missing_values).items()
    ]
    numbers, texts, codes = zip(*known, strict=True)
    return ibis.memtable(
        pa.table(
            {
                "number": pa.array(numbers, pa.int32()),
                "text": pa.array(texts, pa.string()),
                "known": pa.array(codes, pa.int64()),
            }
        )
    )
