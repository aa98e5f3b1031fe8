"""SQL WHERE clauses over the columns of a schema: parsing, evaluation, counts, probabilities."""

from hushtable.query.where.predicate import Predicate, parse

__all__ = ["Predicate", "parse"]
