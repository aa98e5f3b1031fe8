"""HTML fragments for notebooks; all texts are escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment


def html_table(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return an HTML table.

    Examples
    --------
    >>> html_table(["a"], [["<b>"]])
    '<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_list(sentences: Iterable[str]) -> str:
    """Return an HTML list of sentences.

    Examples
    --------
    >>> html_list(["a & b."])
    '<ul><li>a &amp; b.</li></ul>'
    """
    return "<ul>" + "".join(f"<li>{escape(one)}</li>" for one in sentences) + "</ul>"


# Jinja templates with escaping; an undefined variable is an error.


def templates(package: str) -> Environment:
    """Return the environment of a package's templates."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - optional

    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
