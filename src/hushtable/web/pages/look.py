"""Look: a release of a project as an analyst sees it, inside the desk."""

from __future__ import annotations

import threading
from collections import OrderedDict

from starlette.requests import Request
from starlette.routing import Mount

from hushtable.release import STATEMENT
from hushtable.web.answers import Answers
from hushtable.web.pages import ask
from hushtable.web.pages.frame import around, project_of
from hushtable.web.workbench import Project

_OPEN = 4  # releases that are held in memory


class Shelf:
    """Hold the releases that were looked at last, for as long as they are what lies on the disk."""

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[str, int], Answers] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, request: Request) -> Answers:
        """Give the release that an address is about."""
        return self.open(project_of(request), request.path_params["release"])

    def open(self, project: Project, name: str) -> Answers:
        """Open a release, or take up the one that is open."""
        with self._lock:
            folder = project.release_folder(name)
            key = (str(folder), (folder / STATEMENT).stat().st_mtime_ns)
            if key not in self._held:
                self._held[key] = Answers(project.release(name))
                while len(self._held) > _OPEN:
                    self._held.popitem(last=False)[1].close()
            self._held.move_to_end(key)
            return self._held[key]

    def close(self) -> None:
        """Let go of all of them."""
        with self._lock:
            while self._held:
                self._held.popitem()[1].close()


def look(shelf: Shelf) -> Mount:
    """Give the analyst's page of every release of every project."""
    return Mount(
        "/p/{project}/releases/{release}/look",
        routes=ask.routes(
            shelf.find,
            around=lambda request: around(request, project_of(request), "report"),
            under="releases/",
            keep=False,
        ),
    )
