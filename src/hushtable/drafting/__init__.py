"""Draft schemas for tables, from the rows or from a public description of the columns."""

from hushtable.drafting.draft import Draft, draft, drafted
from hushtable.drafting.profile import MISSING_WORDS

__all__ = ["MISSING_WORDS", "Draft", "draft", "drafted"]
