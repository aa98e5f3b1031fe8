"""The custodian's workbench as an ASGI application."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from hushtable.errors import HushtableError, ParameterError, Refused
from hushtable.release.release import Release
from hushtable.web import words
from hushtable.web.jobs import Jobs
from hushtable.web.pages import data, explore, jobs, ledger, plan, projects, publish, report, schema
from hushtable.web.pages.explore import ReleaseCache, look
from hushtable.web.pages.frame import around, project_of
from hushtable.web.questions import AnswerCache
from hushtable.web.render import STATIC, page
from hushtable.web.security import (
    LOOPBACK,
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
    *publish.DRY_RUN_ROUTES,
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
    cache = ReleaseCache()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        cache.close()

    app = Starlette(
        lifespan=lifespan,
        routes=[*ROUTES, look(cache), Mount("/static", StaticFiles(directory=STATIC))],
        middleware=[
            Middleware(ResponseHeaders, headers={"Cache-Control": "no-store"}),
            Middleware(HostNameCheck, names=own_names(port), message=words.FOREIGN_HOST),
            Middleware(LocalGuard, gate=gate, port=port, max_upload=max_upload),
        ],
        exception_handlers=_ERROR_PAGES,
    )
    app.state.bench = bench
    app.state.jobs = Jobs()
    return app


_STATUSES = {Refused: 409, NotAllowed: 403, RequestTooLarge: 413}


def _error_page(request: Request, error: Exception) -> Response:
    """Return a response that states the problems of a request."""
    if isinstance(error, HTTPException):
        said = words.NOT_FOUND if error.status_code == 404 else words.METHOD_NOT_ALLOWED
        return page(
            request, "refused.html", error.status_code, **_around(request), problems=(said,)
        )
    problems = error.problems if isinstance(error, HushtableError) else ()
    status = next((code for kind, code in _STATUSES.items() if isinstance(error, kind)), 400)
    return page(request, "refused.html", status, **_around(request), problems=problems)


_ERROR_PAGES = {HushtableError: _error_page, HTTPException: _error_page}


def _around(request: Request) -> dict[str, Any]:
    """Return the context of the frame; with the project, if the address refers to one."""
    try:
        return around(request, project_of(request), "")
    except (HushtableError, KeyError):
        return {}


# The release explorer as an ASGI application: one release, read-only.


def make_release_explorer(release: Release, *, names: Collection[str] | None = None) -> Starlette:
    """Create the application that answers queries about one release.

    Parameters
    ----------
    release : Release
        The only data that it reads.
    names : collection of str, optional
        Allowed host names, see `HostNameCheck`. By default, all.
    """
    answers = AnswerCache(release)
    named = (
        [Middleware(HostNameCheck, names=names, message=words.UNKNOWN_NAME)]
        if names is not None
        else []
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        answers.close()

    return Starlette(
        routes=explore.routes(lambda _: answers),
        middleware=[
            Middleware(ResponseHeaders),
            *named,
            Middleware(GZipMiddleware, minimum_size=1000),
        ],
        exception_handlers={HushtableError: _error_text},
        lifespan=lifespan,
    )


def _error_text(_: Request, error: Exception) -> Response:
    return PlainTextResponse(str(error), 400)


# HTTP server without an access log.


def require_loopback(host: str, port: int) -> None:
    """Raise an error if the workbench would be visible to other machines."""
    if host not in LOOPBACK:
        raise ParameterError(words.ONLY_LOOPBACK.format(host=host, port=port or 8000))


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket; port 0 selects any free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    held = socket.socket(family, socket.SOCK_STREAM)
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((host, port))
        held.listen(128)
    except OSError as error:
        held.close()
        raise ParameterError(
            f"cannot listen on {host} port {port}: {error.strerror}; choose another --port, or 0 "
            "for any free port."
        ) from None
    return held


REQUEST_SECONDS = 20.0  # until the headers of a request are complete


class ImpatientProtocol(H11Protocol):
    """HTTP that closes connections whose request stays incomplete; uvicorn waits forever."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait for the first request."""
        super().connection_made(transport)
        self._wait_for_request()

    def data_received(self, data: bytes) -> None:
        """Handle a part of a request, and continue to wait unless it is complete."""
        super().data_received(data)
        self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    def _wait_for_request(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None
        elif self._timer is None:
            self._timer = self.loop.call_later(REQUEST_SECONDS, self._close_if_waiting)

    def _close_if_waiting(self) -> None:
        self._timer = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


def run(
    app: ASGIApp, held: socket.socket, *, root_path: str = "", ready: Callable[[], None]
) -> None:
    """Serve an application until interrupted.

    Parameters
    ----------
    app : ASGI application
        The application.
    held : socket
        Listening socket.
    root_path : str
        Path prefix of a reverse proxy.
    ready : callable
        Function that is called before the first request.
    """
    config = uvicorn.Config(
        app,
        root_path=root_path,
        access_log=False,  # addresses contain names of projects
        log_level="error",
        server_header=False,
        ws="none",
        http=ImpatientProtocol,
        timeout_graceful_shutdown=5,
        lifespan="on",
    )
    ready()
    uvicorn.Server(config).run(sockets=[held])
