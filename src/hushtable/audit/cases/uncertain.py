"""Audit cases of noisy records and condensation; their promises are not about neighbors."""

from __future__ import annotations

from typing import Any

from hushtable.audit.cases.case import Case, no_pairs, planned
from hushtable.audit.cases.made_up import made_schema, whole, words
from hushtable.methods.uncertain.condensation import Condensation
from hushtable.methods.uncertain.uncertain import Uncertain
from hushtable.schema import Schema


def numeric_schema(method: Uncertain | Condensation) -> Schema:
    """Return a schema with a number on a grid, the carried columns and the column of k."""
    columns: dict[str, Any] = {name: whole(20) for name in method.scales} or {"x": whole(20)}
    columns |= {name: words("F", "M") for name in method.carry}
    if isinstance(method, Uncertain) and method.k_column is not None:
        columns[method.k_column] = {"type": "integer", "low": method.k, "high": method.k + 1}
    return made_schema(columns)


UNCERTAIN = Case(numeric_schema, no_pairs, planned)
CONDENSATION = Case(numeric_schema, no_pairs, planned)
