"""Audit case of a method: a schema, neighbors, and how to run it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from hushtable.audit.inputs import Pair, Row, corner_cells, searched_pairs, with_and_without
from hushtable.audit.recorder import run_plan
from hushtable.audit.subject import Prepared
from hushtable.methods.base import Method
from hushtable.privacy.guarantee import Neighbors
from hushtable.schema import Schema

Audited = TypeVar("Audited")
"""Class of the audited method."""


def planned(method: Method, schema: Schema) -> Prepared:
    """Plan a method once, as `publish` does."""
    plan = method.plan(schema)
    return Prepared(plan.guarantees, partial(run_plan, plan))


def small_tables(method: Any, schema: Schema, relation: Neighbors, largest: int) -> Iterator[Pair]:
    """Return the neighbors among all small tables."""
    return searched_pairs(schema, relation, largest)


def no_pairs(method: Any, schema: Schema) -> Iterator[Pair]:
    """Return no neighbors, for promises that are not about neighbors."""
    return iter(())


@dataclass(frozen=True)
class Case(Generic[Audited]):
    """Audit case of a method.

    Parameters
    ----------
    schema : callable
        Function of the method that returns a small schema that fits its parameters.
    pairs : callable
        Function of the method and a schema, this one or another that fits, that yields the worst
        known neighbors.
    prepare : callable
        Function of the method and the schema that returns its promises and what to run on opened
        inputs.
    search : callable
        Function of the method, the schema, the neighbor relation and a size that yields all
        neighbors up to that size.
    """

    schema: Callable[[Audited], Schema]
    pairs: Callable[[Audited, Schema], Iterator[Pair]]
    prepare: Callable[[Audited, Schema], Prepared]
    search: Callable[[Audited, Schema, Neighbors, int], Iterator[Pair]] = small_tables


# Schemas and neighbors that several audit cases share.


def made_schema(columns: Mapping[str, Any], unit: Any = "row") -> Schema:
    """Return the schema of an artificial table."""
    return Schema.from_dict({"name": "audit", "unit": unit, "columns": columns})


def whole(n_values: int, **more: Any) -> dict[str, Any]:
    """Return the definition of a column with this many integers."""
    return {"type": "integer", "low": 0, "high": n_values - 1, **more}


def words(*values: str, **more: Any) -> dict[str, Any]:
    """Return the definition of a categorical column."""
    return {"type": "categorical", "values": list(values), **more}


def generalized(rules: Mapping[str, Any]) -> dict[str, Any]:
    """Return numeric columns in which each generalization rule leaves at least two values."""
    columns = {}
    for name, rule in rules.items():
        cuts = rule if isinstance(rule, list) else [0, rule]
        high = int(max(cuts)) + int(max(cuts) - min(cuts)) + 1
        columns[name] = {"type": "integer", "low": int(min(cuts)) - 1, "high": high}
    return columns


def counted_schema(rules: Mapping[str, Any]) -> Schema:
    """Return a schema with six cells, or with the generalized columns."""
    return made_schema(generalized(rules) if rules else {"x": whole(3), "sex": words("F", "M")})


def predicted_schema(target: str | None) -> Schema:
    """Return a schema with a number, a category and a class to predict."""
    classes = words("Y", "N", role="target")
    return made_schema({"x": whole(4), "sex": words("F", "M"), target or "class": classes})


def copies(schema: Schema, counts: Sequence[int]) -> Iterator[Pair]:
    """Yield tables of copies of one row, with and without one more unit."""
    row = corner_cells(schema)[0]
    for count in dict.fromkeys(max(0, count) for count in counts):
        yield with_and_without(
            schema, f"{count} copies of a row and one more", [row] * count, [row]
        )


def rows_by_name(schema: Schema) -> Callable[[Mapping[str, int]], Row]:
    """Return a function that makes a row from named codes; other codes are 0."""

    def row(codes: Mapping[str, int]) -> Row:
        return tuple(codes.get(name, 0) for name in schema.attributes)

    return row
