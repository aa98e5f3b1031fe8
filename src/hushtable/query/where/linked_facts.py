"""Facts of linked tables: conditions on one column, as the set of codes that satisfy them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushtable.errors import HushtableError, SchemaError
from hushtable.query.where.predicate import parse
from hushtable.schema import Schema
from hushtable.schema.linked_schema import LinkedSchema

MAX_CODES = 1 << 24
"""Maximum number of codes of a column in a fact; each is evaluated."""


@dataclass(frozen=True, eq=False)
class LinkedFact:
    """A condition on one column."""

    column: str  # name of the column
    truth: NDArray[np.bool_]  # whether the condition holds, for each code

    def is_same(self, other: LinkedFact) -> bool:
        """Return whether two conditions are equivalent."""
        return self.column == other.column and np.array_equal(self.truth, other.truth)

    @property
    def runs(self) -> list[tuple[int, int]]:
        """First and last code of each run of codes that satisfy the condition."""
        edges = np.flatnonzero(np.diff(self.truth.astype(np.int8), prepend=0, append=0))
        return [(int(start), int(stop) - 1) for start, stop in edges.reshape(-1, 2)]


def fact_of(where: str, schema: Schema) -> LinkedFact:
    """Parse a condition on one column of a table.

    Examples
    --------
    >>> schema = Schema.parse("{name: t, columns: {age: {type: integer, low: 0, high: 9}}}")
    >>> fact_of("age < 3 or age = 8", schema).runs
    [(0, 2), (8, 8)]
    """
    predicate = parse(where, schema)
    if len(predicate.columns) != 1:
        raise SchemaError(f"{where!r} must use exactly one column of the table.")
    (name,) = predicate.columns
    size = schema.attributes[name].size
    if size > MAX_CODES:
        raise SchemaError(f"{where!r}: column {name!r} has more than {MAX_CODES:,} values.")
    return LinkedFact(name, predicate.mask({name: np.arange(size)}))


def facts_of(schema: LinkedSchema) -> dict[str, dict[str, LinkedFact]]:
    """Parse all facts, by table and name; raise one error that lists all problems."""
    problems: list[str] = []
    found: dict[str, dict[str, LinkedFact]] = {}
    for name, table in schema.tables.items():
        found[name] = {}
        for fact, where in table.facts.items():
            try:
                found[name][fact] = fact_of(where, schema.own(name))
            except HushtableError as error:
                problems += [f"table {name!r}: fact {fact!r}: {why}" for why in error.problems]
    if problems:
        raise SchemaError(problems)
    return found
