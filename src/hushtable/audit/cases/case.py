"""Audit case of a method: a schema, neighbors, and how to run it."""

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
"""Class of the audited method."""


def planned(method: Method, schema: Schema) -> Prepared:
    """Plan a method once, as `publish` does."""
    plan = method.plan(schema)
    return Prepared(plan.guarantees, plan.run)


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
