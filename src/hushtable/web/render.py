"""Rendering of templates, with HTML escaping and texts from `words`."""

from __future__ import annotations

import shlex
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from hushtable import __version__
from hushtable.files.html import templates
from hushtable.files.progress import duration
from hushtable.privacy.rational import as_rational
from hushtable.privacy.values import brief, rounded
from hushtable.web import words
from hushtable.web.security import REPORT_POLICY

STATIC = Path(__file__).parent / "static"


@cache
def _environment() -> Environment:
    made = templates("hushtable.web")
    made.filters |= {
        "number": brief,
        "amount": amount,
        "drawing": Markup,
        "duration": duration,
        "sentence": sentence,
    }
    made.globals |= {"t": words, "version": __version__}
    return made


def page(request: Request, template: str, /, status: int = 200, **content: Any) -> HTMLResponse:
    """Return a response with a page or a page fragment."""
    return HTMLResponse(fill(request, template, **content), status)


def report_page(path: Path) -> HTMLResponse:
    """Return a response with a self-contained report and a policy that forbids scripts."""
    return HTMLResponse(
        path.read_text(encoding="utf-8"), headers={"Content-Security-Policy": REPORT_POLICY}
    )


def fill(request: Request, template: str, /, **content: Any) -> str:
    """Render a template."""
    csrf = getattr(request.state, "csrf", "")
    return _environment().get_template(template).render(csrf=csrf, **content)


def sentence(text: str) -> str:
    """Capitalize the first letter only.

    Examples
    --------
    >>> sentence("pairs of columns"), sentence("")
    ('Pairs of columns', '')
    """
    return text[:1].upper() + text[1:]


def amount(written: str | Fraction) -> str:
    """Format an exact amount as a decimal, rounded to four digits if it needs more than twelve.

    Examples
    --------
    >>> amount("1/4"), amount("1/1000000"), amount("2/3")
    ('0.25', '0.000001', 'about 0.6667')
    """
    return rounded(as_rational(written, name="amount"))


# Commands quoted for a shell, for people to read and copy.


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
