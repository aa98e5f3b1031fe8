"""Projects screen: list, creation and overview of projects."""

from __future__ import annotations

from pathlib import Path

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hushtable.web.pages.frame import bench_of, go, jobs_of, project_of, screen, texts, writes
from hushtable.web.render import page
from hushtable.web.workbench import next_step


def home(request: Request) -> Response:
    """List the projects."""
    bench = bench_of(request)
    found = [(project, next_step(project)) for project in bench.projects()]
    return page(request, "projects.html", bench=bench, found=found)


def create(request: Request, form: FormData) -> Response:
    """Create a project and redirect to its first screen."""
    project = bench_of(request).create(texts(form).get("name", "").strip())
    return go(project, "data")


def overview(request: Request) -> Response:
    """Show the contents of a project and the next step."""
    project = project_of(request)
    ledger = project.ledger()
    return screen(
        request,
        project,
        "overview",
        next=next_step(project),
        table=Path(project.data) if project.data else None,
        schema=project.schema_or_none(),
        left=ledger.show() if ledger else None,
        releases=project.releases(),
        jobs=list(reversed(jobs_of(request).all(project)))[:10],
    )


ROUTES = [
    Route("/", home),
    Route("/projects", writes(create), methods=["POST"]),
    Route("/p/{project}/", overview),
]
