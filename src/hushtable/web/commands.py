"""How a command is spelled for a shell, so that a person can read it and copy it."""

from __future__ import annotations

import shlex


def spell(*words: str) -> str:
    r"""Write a command.

    Examples
    --------
    >>> print(spell("hushtable", "query", "release", "sex = 'F'"))
    hushtable query release "sex = 'F'"
    >>> print(spell("hushtable", "query", "release", "\"work-class\" = 'Private'"))
    hushtable query release "\"work-class\" = 'Private'"
    """
    return " ".join(map(_word, words))


def _word(word: str) -> str:
    # Double quotes are easier on the eye than what single ones take to hold a single one.
    if "'" in word and not any(sign in word for sign in "$`\\!"):
        return '"' + word.replace('"', '\\"') + '"'
    return shlex.quote(word)
