"""The release explorer as an ASGI application: one release, read-only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from hushtable.errors import HushtableError
from hushtable.release.release import Release
from hushtable.web import words
from hushtable.web.answers import AnswerCache
from hushtable.web.pages import explore
from hushtable.web.render import STATIC, page
from hushtable.web.security import HostNameCheck, ResponseHeaders


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
        routes=[
            *explore.routes(lambda _: answers),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        middleware=[
            Middleware(ResponseHeaders),
            *named,
            Middleware(GZipMiddleware, minimum_size=1000),
        ],
        exception_handlers={HushtableError: _refused, HTTPException: _not_there},
        lifespan=lifespan,
    )


def _refused(request: Request, error: Exception) -> Response:
    problems = error.problems if isinstance(error, HushtableError) else ()
    return page(request, "refused.html", 400, frame="analyst.html", problems=problems)


def _not_there(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    said = words.NOT_FOUND if status == 404 else words.METHOD_NOT_ALLOWED
    return page(request, "refused.html", status, frame="analyst.html", problems=(said,))
