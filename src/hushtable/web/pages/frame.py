"""Shared parts of the workbench's screens: project, frame and form handling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from hushtable.web.jobs import Jobs
from hushtable.web.render import page, spell
from hushtable.web.security import require_csrf
from hushtable.web.workbench import Project, Workbench, done_steps

SCREENS = ("data", "schema", "ledger", "plan", "dry-run", "publish", "report")
_STANDS_AT = {"advisor": "plan", "tree": "schema"}  # subpages of a screen

Write = Callable[[Request, FormData], Response]


def bench_of(request: Request) -> Workbench:
    """Return the workbench."""
    bench: Workbench = request.app.state.bench
    return bench


def jobs_of(request: Request) -> Jobs:
    """Return the registry of jobs."""
    jobs: Jobs = request.app.state.jobs
    return jobs


def project_of(request: Request) -> Project:
    """Return the project that a request refers to."""
    return bench_of(request).project(request.path_params["project"])


def screen(request: Request, project: Project, name: str, /, **content: Any) -> Response:
    """Return a response with a screen of a project."""
    here = _STANDS_AT.get(name, name)
    return page(request, f"{name}.html", **(around(request, project, here) | content))


def schema_first(request: Request, project: Project) -> Response:
    """Return a response that refers the user of the plan screen to that of the schema."""
    return page(request, "not_yet.html", **around(request, project, "plan"))


def around(request: Request, project: Project, here: str) -> dict[str, Any]:
    """Return the context of the frame of a project's screens."""
    return {
        "project": project,
        "here": here,
        "screens": SCREENS,
        "done": done_steps(project),
        "running": [job for job in jobs_of(request).all(project) if not job.is_over],
    }


def writes(act: Write) -> Callable[[Request], Any]:
    """Return an endpoint for a form action; the form must contain the CSRF token."""

    async def endpoint(request: Request) -> Response:
        form = await request.form(max_files=1, max_fields=2000, max_part_size=2**20)
        require_csrf(request, form.get("csrf"))
        try:
            return await run_in_threadpool(act, request, form)
        finally:
            await form.close()

    return endpoint


def texts(form: FormData) -> dict[str, str]:
    """Return the text fields of a form; if a name is repeated, the last one counts."""
    return {name: value for name, value in form.multi_items() if isinstance(value, str)}


def go(project: Project, where: str = "") -> Response:
    """Redirect the browser to a screen of the project."""
    return RedirectResponse(f"/p/{project.name}/{where}", 303)


def begin(request: Request, project: Project, kind: str, **what: Any) -> Response:
    """Start a job, and show it."""
    job = jobs_of(request).start(project, kind, **what)
    return go(project, f"jobs/{job.id}")


def command(project: Project, *said: str) -> str:
    """Return a command to run in the project's folder."""
    return commands(project, said)


def commands(project: Project, *each: Sequence[str]) -> str:
    """Return several commands to run in the project's folder."""
    lines = [spell("hushtable", *said) for said in each]
    return "\n".join([spell("cd", str(project.folder)), *lines])
