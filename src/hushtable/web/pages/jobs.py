"""Job screen: progress, result and cancellation."""

from __future__ import annotations

import time
from typing import Any

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hushtable.files.progress import duration, seconds_left
from hushtable.web import words
from hushtable.web.jobs import Job
from hushtable.web.pages.frame import go, jobs_of, project_of, screen, writes
from hushtable.web.render import page
from hushtable.web.workbench import Project

_STARTED_AT = {"draft": "data", "dry-run": "dry-run", "publish": "publish"}


def show(request: Request) -> Response:
    """Show a job."""
    project = project_of(request)
    job = jobs_of(request).find(project, request.path_params["job"])
    here = _STARTED_AT.get(job.kind, "report")
    return screen(request, project, "job", here=here, job=job, **_told(request, project, job))


def state(request: Request) -> Response:
    """Return the state of a job as a fragment, which pages request until the job ends."""
    project = project_of(request)
    job = jobs_of(request).find(project, request.path_params["job"])
    return page(request, "job_state.html", project=project, job=job, **_told(request, project, job))


def _told(request: Request, project: Project, job: Job) -> dict[str, Any]:
    now = job.state
    begun = float(now.get("started", job.begun))
    elapsed = float(now.get("ended", time.time())) - begun
    over = job.is_over
    left = None if over else _left(request, project, job, elapsed)
    return {"state": now, "elapsed": elapsed, "left": left, "over": over}


def _left(request: Request, project: Project, job: Job, elapsed: float) -> str | None:
    """Return the remaining time, estimated from the last similar run or the progress."""
    usual = jobs_of(request).seconds_before(project, job)
    if usual is not None and usual - elapsed >= 1:
        return str(words.LEFT_AS_BEFORE.format(time=duration(usual - elapsed)))
    # Only publishing reports its total progress; other jobs report that of each phase.
    left = seconds_left(elapsed, float(job.state["share"])) if job.kind == "publish" else None
    return None if left is None else str(words.LEFT_AT_THIS_PACE.format(time=duration(left)))


def cancel(request: Request, form: FormData) -> Response:
    """Cancel a job."""
    project = project_of(request)
    job = jobs_of(request).find(project, request.path_params["job"])
    job.cancel()
    return go(project, f"jobs/{job.id}")


ROUTES = [
    Route("/p/{project}/jobs/{job}", show),
    Route("/p/{project}/jobs/{job}/state", state),
    Route("/p/{project}/jobs/{job}/cancel", writes(cancel), methods=["POST"]),
]
