"""SQL WHERE clauses over public columns: evaluate, count, weigh and average them."""

from hushtable.query.where.predicate import Predicate, parse

__all__ = ["Predicate", "parse"]
