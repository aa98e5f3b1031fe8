"""Proposal of a draft for one column."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MOST_LISTED = 100
"""A column with more distinct texts is proposed as an identifier."""


@dataclass(frozen=True)
class Proposal:
    """Proposed description of a column."""

    content: dict[str, Any]  # the column in the schema
    remarks: list[str] = field(default_factory=list)  # for the custodian, taken from the data
    by_label: bool = False  # whether values are replaced by their labels in the file
    decimal_comma: bool = False
    public: bool = False  # whether nothing was taken from the data


def identifier(why: str) -> Proposal:
    """Return the proposal not to publish a column, with the reason."""
    return Proposal({"role": "identifier"}, [f"not published: {why}."])
