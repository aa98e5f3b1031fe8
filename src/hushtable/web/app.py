"""The custodian's workbench as an ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from hushtable.errors import HushtableError, Refused
from hushtable.web import words
from hushtable.web.jobs import Jobs
from hushtable.web.pages import (
    data,
    jobs,
    ledger,
    plan,
    projects,
    publish,
    rehearse,
    report,
    schema,
)
from hushtable.web.pages.frame import around, project_of
from hushtable.web.pages.look import ReleaseCache, look
from hushtable.web.render import STATIC, page
from hushtable.web.security import (
    HostNameCheck,
    LocalGuard,
    NotAllowed,
    RequestTooLarge,
    ResponseHeaders,
    TokenGate,
    own_names,
)
from hushtable.web.workbench import Workbench

ROUTES = [
    *projects.ROUTES,
    *data.ROUTES,
    *schema.ROUTES,
    *ledger.ROUTES,
    *plan.ROUTES,
    *rehearse.ROUTES,
    *publish.ROUTES,
    *jobs.ROUTES,
    *report.ROUTES,
]


def make_workbench(bench: Workbench, *, gate: TokenGate, port: int, max_upload: int) -> Starlette:
    """Create the application of the workbench.

    Parameters
    ----------
    bench : Workbench
        Folders that it may use.
    gate : TokenGate
        Token and cookies.
    port : int
        Port that it listens on.
    max_upload : int
        Maximum size of an upload in bytes.
    """
    shelf = ReleaseCache()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        shelf.close()

    desk = Starlette(
        lifespan=lifespan,
        routes=[*ROUTES, look(shelf), Mount("/static", StaticFiles(directory=STATIC))],
        middleware=[
            Middleware(ResponseHeaders, headers={"Cache-Control": "no-store"}),
            Middleware(HostNameCheck, names=own_names(port), message=words.FOREIGN_HOST),
            Middleware(LocalGuard, gate=gate, port=port, max_upload=max_upload),
        ],
        exception_handlers={HushtableError: _refused, HTTPException: _not_there},
    )
    desk.state.bench = bench
    desk.state.jobs = Jobs()
    return desk


def _refused(request: Request, error: Exception) -> Response:
    problems = error.problems if isinstance(error, HushtableError) else ()
    statuses = {Refused: 409, NotAllowed: 403, RequestTooLarge: 413}
    status = next((code for kind, code in statuses.items() if isinstance(error, kind)), 400)
    return page(request, "refused.html", status, **_around(request), problems=problems)


def _around(request: Request) -> dict[str, Any]:
    """Return the context of the frame, if the address refers to a project."""
    try:
        return around(request, project_of(request), "")
    except (HushtableError, KeyError):
        return {"frame": "desk.html"}


def _not_there(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    said = words.NOT_FOUND if status == 404 else words.METHOD_NOT_ALLOWED
    return page(request, "refused.html", status, **_around(request), problems=(said,))
