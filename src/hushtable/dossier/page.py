"""HTML page of a dossier."""

from __future__ import annotations

from hushtable.dossier.content import Dossier
from hushtable.extras import needing


def render(dossier: Dossier, *, data: str) -> str:
    """Render a dossier as a self-contained HTML page; `data` is its JSON, embedded as is."""
    from hushtable.evaluation.report.pages import fill_page  # noqa: PLC0415 - an extra

    with needing("eval", "the page"):
        from markupsafe import Markup  # noqa: PLC0415 - an extra
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
