"""Release explorer on a server: its page, answers to questions, and downloads.

It reads only a release, so the promise covers every answer.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from anyio import CapacityLimiter, to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route

from hushtable.errors import HushtableError
from hushtable.release.release import STATEMENT, STATEMENT_FOR_PEOPLE
from hushtable.web.explorer_page import served_page
from hushtable.web.pages.frame import project_of
from hushtable.web.questions import AnswerCache, PageQuestion
from hushtable.web.workbench import Project

Find = Callable[[Request], AnswerCache]
"""Function that returns the answers of the release that a request refers to."""


def routes(find: Find, *, in_workbench: bool = False) -> list[Route]:
    """Return the routes of the explorer."""

    def home(request: Request) -> Response:
        release = find(request).release
        frame = (
            {"under": "releases/", "back": f"/p/{project_of(request).name}/report"}
            if in_workbench
            else {}
        )
        page, policy = served_page(release, **frame)
        return HTMLResponse(page, headers={"Content-Security-Policy": policy})

    def answer(request: Request) -> Response:
        answers = find(request)
        try:
            question = PageQuestion.read(request.query_params.multi_items(), answers.schema)
            return JSONResponse(answers.ask(question))
        except HushtableError as error:
            return JSONResponse({"problems": error.problems})

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
        return FileResponse(find(request).release.folder / name, filename=name)

    return [
        Route("/", home),
        Route("/answer", answer),
        Route("/rows.{kind}", rows),
        Route("/statement.{kind}", statement),
    ]


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
        "/p/{project}/releases/{release}/look", routes=routes(shelf.find, in_workbench=True)
    )
