"""Breaks of a schema's rules: their codes while rows are encoded, and their number of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# During encoding, negative codes mark cells that break a rule of the schema.
MISSING, UNREADABLE, OUTSIDE = -1, -2, -3
N_RULES = 3

MisfitKind = Literal["missing", "unreadable", "outside", "nobody", "surplus", "rule"]


@dataclass(frozen=True)
class RuleBreak:
    """Number of rows of a column that break a rule; contains no values.

    With `refused`, the schema refuses the table because of them.
    """

    column: str
    rule: str
    n_rows: int
    kind: MisfitKind
    refused: bool

    def __str__(self) -> str:
        return f"column {self.column!r}: {self.n_rows:,} rows {self.rule}."
