"""Ledger screen: cap, spending and remaining budget."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hushtable.errors import ParameterError
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.web import words
from hushtable.web.charts import steps
from hushtable.web.pages.frame import command, go, project_of, screen, texts, writes


def show(request: Request) -> Response:
    """Show the ledger, after verifying its chain."""
    project = project_of(request)
    book = project.ledger()
    schema = project.schema_or_none()
    if book is None:
        said = command(
            project, "ledger", "init", "table.ledger", "--epsilon", "3", "--delta", "0.00001",
            "--schema", "schema.yaml",
        )  # fmt: skip
        return screen(request, project, "ledger", book=None, schema=schema, command=said)
    book.verify()
    content = book.show()
    return screen(
        request,
        project,
        "ledger",
        book=content,
        schema=schema,
        protects=book.unit.describe(),
        drawn=_drawn(content),
        command=command(project, "ledger", "show", "table.ledger"),
        voiding=command(
            project, "ledger", "void", "table.ledger", words.ENTRY_TO_GIVE,
            "--reason", words.REASON_TO_GIVE,
        ),
    )  # fmt: skip


def _drawn(content: dict[str, Any]) -> str:
    total, stairs = Fraction(0), []
    for entry in content["entries"]:
        if entry["status"] != "void":
            total += Fraction(entry["cost"]["epsilon"])
            stairs.append((entry["time"][:16].replace("T", " "), float(total)))
    return steps(
        stairs,
        cap=float(Fraction(content["cap"]["epsilon"])),
        reserved=float(Fraction(content["reserved"]["epsilon"])),
        labels=(words.CAP, words.SPENT, words.RESERVED),
    )


def start(request: Request, form: FormData) -> Response:
    """Create the ledger of the project."""
    project, given = project_of(request), texts(form)
    Ledger.create(
        project.ledger_path,
        epsilon=given.get("epsilon", "").strip(),
        delta=given.get("delta", "").strip() or "0",
        schema=project.schema(),
    )
    return go(project, "ledger")


def void(request: Request, form: FormData) -> Response:
    """Void a charge without a release, and record the reason."""
    project, given = project_of(request), texts(form)
    book, entry = project.ledger(), given.get("entry", "")
    if book is None or not entry.isdecimal():
        raise ParameterError(words.NO_ENTRY)
    book.void(int(entry), given.get("reason", ""))
    return go(project, "ledger")


ROUTES = [
    Route("/p/{project}/ledger", show),
    Route("/p/{project}/ledger", writes(start), methods=["POST"]),
    Route("/p/{project}/ledger/void", writes(void), methods=["POST"]),
]
