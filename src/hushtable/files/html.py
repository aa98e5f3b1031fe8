"""HTML fragments for notebooks; all texts are escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


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
