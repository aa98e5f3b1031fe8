"""What a draft proposes for one column."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MOST_LISTED = 100
"""A longer list of texts is taken for an identifier."""


@dataclass(frozen=True)
class Proposal:
    """Hold what is proposed for a column.

    Parameters
    ----------
    content : dict
        Its part of the schema.
    remarks : list of str
        What a person should know about it, from the data.
    by_label : bool
        Whether its cells are read by the labels that the file gives values.
    decimal_comma : bool
        Whether its numbers have a comma for the decimal point.
    public : bool
        Whether nothing of it was taken from the data.
    """

    content: dict[str, Any]
    remarks: list[str] = field(default_factory=list)
    by_label: bool = False
    decimal_comma: bool = False
    public: bool = False


def identifier(why: str) -> Proposal:
    """Propose not to publish a column, and say why."""
    return Proposal({"role": "identifier"}, [f"not published: {why}."])
