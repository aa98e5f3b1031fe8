"""Texts that a spreadsheet would run as formulas, made harmless."""

from __future__ import annotations

import re

_NUMBER = r"[+-]?[0-9]+([.,][0-9]+)?"
_PLAIN_NUMBER = re.compile(rf"{_NUMBER}( to {_NUMBER})?( or missing)?")  # and labels of intervals
_SIGNS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")  # with their full-width twins


def no_formula(text: str) -> str:
    """Put a quote before a text that a spreadsheet would run.

    Examples
    --------
    >>> no_formula("=1+1"), no_formula("-5"), no_formula("plain")
    ("'=1+1", '-5', 'plain')
    """
    runs = text.lstrip(" ").startswith(_SIGNS) and not _PLAIN_NUMBER.fullmatch(text)
    return "'" + text if runs else text
