"""Release explorer: promise, columns, queries with answers, and downloads.

It reads only a release, so the promise covers every answer.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from anyio import CapacityLimiter, to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Mount, Route

from hushtable.errors import HushtableError
from hushtable.release.release import STATEMENT, STATEMENT_FOR_PEOPLE
from hushtable.schema import Numeric, Schema
from hushtable.web import words
from hushtable.web.answer_pool import Busy
from hushtable.web.charts import bars_file
from hushtable.web.pages.frame import around, project_of
from hushtable.web.questions import AnswerCache, PageQuestion
from hushtable.web.render import page, spell
from hushtable.web.workbench import Project

_KEPT = 500  # maximum number of cached pages, of about 10 kB each

Find = Callable[[Request], AnswerCache]
"""Function that returns the answers of the release that a request refers to."""


def routes(
    find: Find,
    *,
    around: Callable[[Request], dict[str, Any]] = lambda _: {"frame": "analyst.html"},
    under: str = "",
    keep: bool = True,
) -> list[Route]:
    """Return the routes of the explorer.

    Parameters
    ----------
    find : callable
        Function that returns the release of a request.
    around : callable
        Function that returns the name of the frame template and its context.
    under : str
        Path prefix of the release in commands.
    keep : bool
        Whether to cache pages; their frame must not change.
    """
    kept: Callable[[Callable[[Request], Response]], Any] = (
        _remembered if keep else lambda made: made
    )

    def home(request: Request) -> Response:
        answers = find(request)
        return page(
            request, "ask.html", answers=answers, statement=answers.release.statement,
            columns=list(answers.schema.attributes.items()), numbers=_numbers(answers.schema),
            **around(request), **_asked(request, answers, under),
        )  # fmt: skip

    def answer(request: Request) -> Response:
        answers = find(request)
        return page(request, "answer.html", answers=answers, **_asked(request, answers, under))

    def column(request: Request) -> Response:
        answers = find(request)
        names = list(answers.schema.attributes)
        place = request.path_params["place"]
        if place >= len(names):
            raise HTTPException(404)
        cells = answers.distribution(names[place])
        return page(request, "bars.html", cells=cells, caption=names[place])

    def answer_csv(request: Request) -> Response:
        answers = find(request)
        found = answers.ask(_question(request, answers))
        return _download(found.to_csv(), "answer.csv", "text/csv")

    def answer_svg(request: Request) -> Response:
        answers = find(request)
        found = answers.ask(_question(request, answers))
        title = f"{answers.schema.name}: {found.clause}"
        by = words.BY.format(columns=" × ".join(found.by)) if found.by else ""
        what = words.ROWS_COUNTED if found.value_name == "count" else found.value_name
        drawn = bars_file(found, title, f"{words.INTERVALS_95.format(what=what)}{by}")
        return _download(drawn, "answer.svg", "image/svg+xml")

    one = CapacityLimiter(1)

    async def rows(request: Request) -> Response:
        suffix = f".{request.path_params['kind']}"
        if suffix not in {".csv", ".parquet"}:
            raise HTTPException(404)
        path = await to_thread.run_sync(find(request).rows_file, suffix, limiter=one)
        return FileResponse(path, filename=path.name)

    def statement(request: Request) -> Response:
        kind = request.path_params["kind"]
        name = {"json": STATEMENT, "md": STATEMENT_FOR_PEOPLE}.get(kind)
        if name is None:
            raise HTTPException(404)
        text = (find(request).release.folder / name).read_text(encoding="utf-8")
        return _download(text, name, "application/json" if kind == "json" else "text/markdown")

    return [
        Route("/", kept(home)),
        Route("/answer", kept(answer)),
        Route("/answer.csv", answer_csv),
        Route("/answer.svg", answer_svg),
        Route("/column/{place:int}", kept(column)),
        Route("/rows.{kind}", rows),
        Route("/statement.{kind}", statement),
    ]


def _remembered(answer: Callable[[Request], Response]) -> Callable[[Request], Any]:
    """Cache the pages of an endpoint; they never change, because a release does not.

    Cached pages are returned immediately, even while other queries are being computed.
    """
    kept: OrderedDict[tuple[str, str, str], bytes] = OrderedDict()

    async def remember(request: Request) -> Response:
        key = (request.scope.get("root_path", ""), request.url.path, request.url.query)
        if key not in kept:
            found = await to_thread.run_sync(answer, request)
            if getattr(request.state, "busy", False):
                return found
            kept[key] = bytes(found.body)
            while len(kept) > _KEPT:
                kept.popitem(last=False)
            return found
        kept.move_to_end(key)
        return HTMLResponse(kept[key])  # a new one, because middleware adds headers to it

    return remember


def _numbers(schema: Schema) -> list[str]:
    """Return the numeric columns."""
    return [n for n, column in schema.attributes.items() if isinstance(column, Numeric)]


def _question(request: Request, answers: AnswerCache) -> PageQuestion:
    return PageQuestion.read(request.query_params.multi_items(), answers.schema)


def _asked(request: Request, answers: AnswerCache, under: str) -> dict[str, Any]:
    """Answer the query of an address; problems are shown next to the form."""
    question, problems, found = PageQuestion(), [], None
    try:
        question = _question(request, answers)
        found = answers.ask(question)
    except HushtableError as error:
        problems = list(error.problems)
        request.state.busy = isinstance(error, Busy)
    asked = question.options(answers.schema)
    command = spell("hushtable", "query", f"{under}{answers.release.folder.name}", *asked)
    return {"question": question, "answer": found, "problems": problems, "command": command}


def _download(text: str, name: str, kind: str) -> Response:
    return Response(
        text, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )


# Release explorer inside the workbench.

_OPEN = 4  # releases kept in memory


class ReleaseCache:
    """Cache of the most recently opened releases, as long as their files do not change."""

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[str, int], AnswerCache] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, request: Request) -> AnswerCache:
        """Return the answers of the release that a request refers to."""
        return self.open(project_of(request), request.path_params["release"])

    def open(self, project: Project, name: str) -> AnswerCache:
        """Return the answers of a release, from the cache if possible."""
        with self._lock:
            folder = project.release_folder(name)
            key = (str(folder), (folder / STATEMENT).stat().st_mtime_ns)
            if key not in self._held:
                self._held[key] = AnswerCache(project.release(name))
                while len(self._held) > _OPEN:
                    self._held.popitem(last=False)[1].close()
            self._held.move_to_end(key)
            return self._held[key]

    def close(self) -> None:
        """Close all releases."""
        with self._lock:
            while self._held:
                self._held.popitem()[1].close()


def look(shelf: ReleaseCache) -> Mount:
    """Return the release explorer for all releases of all projects."""
    return Mount(
        "/p/{project}/releases/{release}/look",
        routes=routes(
            shelf.find,
            around=lambda request: around(request, project_of(request), "report"),
            under="releases/",
            keep=False,
        ),
    )
