"""A first schema for a table: from its rows, or from a public description of its columns."""

from hushtable.engine.drafting.draft import Draft, draft, drafted
from hushtable.engine.drafting.profile import MISSING_WORDS

__all__ = ["MISSING_WORDS", "Draft", "draft", "drafted"]
