"""Release explorer inside the workbench."""

from __future__ import annotations

import threading
from collections import OrderedDict

from starlette.requests import Request
from starlette.routing import Mount

from hushtable.release.release import STATEMENT
from hushtable.web.answers import AnswerCache
from hushtable.web.pages import explore
from hushtable.web.pages.frame import around, project_of
from hushtable.web.workbench import Project

_OPEN = 4  # releases kept in memory


class ReleaseCache:
    """Cache of the most recently opened releases, as long as their files do not change."""

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[str, int], AnswerCache] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, request: Request) -> AnswerCache:
        """Return the release of an address."""
        return self.open(project_of(request), request.path_params["release"])

    def open(self, project: Project, name: str) -> AnswerCache:
        """Return a release, opened or from the cache."""
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
        routes=explore.routes(
            shelf.find,
            around=lambda request: around(request, project_of(request), "report"),
            under="releases/",
            keep=False,
        ),
    )
