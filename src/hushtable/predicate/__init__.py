"""SQL WHERE clauses over public columns: evaluate, count, weigh and average them."""

from hushtable.predicate.clause import Predicate, parse

__all__ = ["Predicate", "parse"]
