"""A job: how far it is, how it ended, and a way to cancel it."""

from __future__ import annotations

import time
from typing import Any

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hushtable.web.jobs import Job
from hushtable.web.pages.frame import go, jobs_of, project_of, screen, writes
from hushtable.web.render import page
from hushtable.web.workbench import Project


def show(request: Request) -> Response:
    """Show a job."""
    project = project_of(request)
    job = jobs_of(request).find(project, request.path_params["job"])
    return screen(request, project, "job", job=job, **_told(request, project, job))


def state(request: Request) -> Response:
    """Show how far it is, again and again; a page whose job is over asks no more."""
    project = project_of(request)
    job = jobs_of(request).find(project, request.path_params["job"])
    return page(request, "job_state.html", project=project, job=job, **_told(request, project, job))


def _told(request: Request, project: Project, job: Job) -> dict[str, Any]:
    now = job.state
    begun = float(now.get("started", job.begun))
    elapsed = float(now.get("ended", time.time())) - begun
    before = None
    if job.kind in {"publish", "rehearse"} and not job.is_over:
        usual = jobs_of(request).seconds_before(project, str(job.what.get("method")))
        before = None if usual is None else max(usual - elapsed, 0.0)
    return {"state": now, "elapsed": elapsed, "left": before, "over": job.is_over}


def cancel(request: Request, form: FormData) -> Response:
    """Interrupt it."""
    project = project_of(request)
    job = jobs_of(request).find(project, request.path_params["job"])
    job.cancel()
    return go(request, project, f"jobs/{job.id}")


ROUTES = [
    Route("/p/{project}/jobs/{job}", show),
    Route("/p/{project}/jobs/{job}/state", state),
    Route("/p/{project}/jobs/{job}/cancel", writes(cancel), methods=["POST"]),
]
