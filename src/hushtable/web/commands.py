"""Commands quoted for a shell, for people to read and copy."""

from __future__ import annotations

import shlex


def spell(*words: str) -> str:
    r"""Return a command with quoted arguments.

    Examples
    --------
    >>> print(spell("hushtable", "query", "release", "sex = 'F'"))
    hushtable query release "sex = 'F'"
    >>> print(spell("hushtable", "query", "release", "\"work-class\" = 'Private'"))
    hushtable query release "\"work-class\" = 'Private'"
    """
    return " ".join(map(_word, words))


def _word(word: str) -> str:
    # Double quotes are easier to read than escaped single quotes.
    if "'" in word and not any(sign in word for sign in "$`\\!"):
        return '"' + word.replace('"', '\\"') + '"'
    return shlex.quote(word)
