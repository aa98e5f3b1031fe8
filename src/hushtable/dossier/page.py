"""HTML page of a dossier."""

from __future__ import annotations

from hushtable.dossier.content import Dossier
from hushtable.evaluation.report.page import fill_page
from hushtable.extras import needing

with needing("eval", "the page"):
    from markupsafe import Markup


def render(dossier: Dossier, *, data: str) -> str:
    """Render a dossier as a self-contained HTML page; `data` is its JSON, embedded as is."""
    answers = dossier.answers
    return fill_page(
        "dossier.html",
        dossier=dossier,
        name=dossier.name,
        internal=dossier.internal,
        answers=answers,
        open_questions=[answer for answer in answers.values() if not answer.is_stated],
        data=Markup(data),  # noqa: S704 - escaped JSON
    )
