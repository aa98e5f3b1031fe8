"""A SQL WHERE clause over the public columns: evaluate it, count it, weigh it, average it."""

from hushtable.predicate.clause import Predicate, parse

__all__ = ["Predicate", "parse"]
