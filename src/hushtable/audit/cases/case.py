"""On what a method is audited: a schema, neighbors, and how to run it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from hushtable.audit.neighbors import Pair, searched_pairs
from hushtable.audit.subject import Prepared
from hushtable.methods.base import Method
from hushtable.privacy.guarantee import Neighbors
from hushtable.schema import Schema

Audited = TypeVar("Audited")
"""The class of the method that a case is about."""


def planned(method: Method, schema: Schema) -> Prepared:
    """Plan once, as `publish` does; the plan is run often."""
    plan = method.plan(schema)
    return Prepared(plan.guarantees, plan.run)


def small_tables(method: Any, schema: Schema, relation: Neighbors, largest: int) -> Iterator[Pair]:
    """List the neighbors among all small tables."""
    return searched_pairs(schema, relation, largest)


def no_pairs(method: Any, schema: Schema) -> Iterator[Pair]:
    """Give none: what is promised is not about neighbors."""
    return iter(())


@dataclass(frozen=True)
class Case(Generic[Audited]):
    """Say on what a method is audited.

    Parameters
    ----------
    schema : callable
        Takes the method and gives a small schema that fits its parameters.
    pairs : callable
        Takes the method and a schema, that one or any other that fits, and gives the worst
        neighbors known.
    prepare : callable
        Takes the method and the schema and gives its promises and what is run on opened inputs.
    search : callable
        Takes the method, the schema, who is a neighbor and a size, and gives all neighbors up to
        that size.
    """

    schema: Callable[[Audited], Schema]
    pairs: Callable[[Audited, Schema], Iterator[Pair]]
    prepare: Callable[[Audited, Schema], Prepared]
    search: Callable[[Audited, Schema, Neighbors, int], Iterator[Pair]] = small_tables
