"""Dry run screen: the whole plan on a surrogate table, without a charge."""

from __future__ import annotations

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hushtable.errors import ParameterError
from hushtable.publishing.dry_run import MAX_ROWS, USUAL_ROWS
from hushtable.web import words
from hushtable.web.forms import make_method, options
from hushtable.web.pages.frame import (
    bench_of,
    command,
    go,
    jobs_of,
    project_of,
    screen,
    texts,
    writes,
)
from hushtable.web.render import report_page
from hushtable.web.workbench import Project


def show(request: Request) -> Response:
    """Show the plan of a dry run, and earlier dry runs."""
    project = project_of(request)
    method, said = None, ""
    rows = min(project.settings.get("rows") or USUAL_ROWS, MAX_ROWS)
    if isinstance(project.settings.get("method"), str):
        method = make_method(project.settings["method"], project.settings["parameters"])
        said = command(
            project, "plan", method.name, "schema.yaml", *options(method), "--rows", str(rows),
            "--dry-run",
        )  # fmt: skip
    return screen(
        request,
        project,
        "rehearse",
        method=method,
        rows=rows,
        most=MAX_ROWS,
        rehearsals=_rehearsals(project),
        tables=bench_of(request).tables(),
        command=said,
    )


def start(request: Request, form: FormData) -> Response:
    """Start a dry run."""
    project, given = project_of(request), texts(form)
    settings = project.settings
    if not isinstance(settings.get("method"), str):
        raise ParameterError(words.PLAN_FIRST)
    project.schema()
    rows, table = given.get("rows", ""), given.get("table", "").strip()
    if not rows.isdecimal() or not 1 <= int(rows) <= MAX_ROWS:
        raise ParameterError(words.ROWS_BETWEEN.format(rows=rows, most=MAX_ROWS))
    if table:
        path = bench_of(request).require_inside(table)
        if str(path) == project.data:
            raise ParameterError(words.NOT_THE_PRIVATE_TABLE)
        table = str(path)
    known = [int(name) for name in _rehearsals(project, finished=False) if name.isdecimal()]
    job = jobs_of(request).start(
        project, "rehearse", method=settings["method"], parameters=settings["parameters"],
        rows=int(rows), table=table, name=f"{max(known, default=0) + 1:03d}",
    )  # fmt: skip
    return go(request, project, f"jobs/{job.id}")


def report(request: Request) -> Response:
    """Show the report of a dry run."""
    project = project_of(request)
    name = request.path_params["name"]
    path = project.made("rehearsals", name) / "report.html"
    if not path.is_file() or path.is_symlink():
        raise ParameterError(words.NO_REHEARSAL.format(name=name))
    return report_page(path)


def _rehearsals(project: Project, *, finished: bool = True) -> list[str]:
    pattern = "*/report.html" if finished else "*"
    found = (project.folder / "rehearsals").glob(pattern)
    return sorted((path.parent if finished else path).name for path in found)


ROUTES = [
    Route("/p/{project}/rehearse", show),
    Route("/p/{project}/rehearse", writes(start), methods=["POST"]),
    Route("/p/{project}/rehearsals/{name}", report),
]
