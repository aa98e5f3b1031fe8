"""Report screen: releases, evaluations, dossiers, comparisons and downloads."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from hushtable.errors import HushtableError, ParameterError
from hushtable.release.release import STATEMENT, STATEMENT_FOR_PEOPLE, Release
from hushtable.web import words
from hushtable.web.pages.frame import begin, commands, project_of, screen, texts, writes
from hushtable.web.render import report_page, spell
from hushtable.web.workbench import Project


def show(request: Request) -> Response:
    """List releases and reports."""
    project = project_of(request)
    found: list[tuple[str, Release | None, str]] = []
    for name in reversed(project.releases()):
        try:
            found.append((name, project.release(name), ""))
        except HushtableError as error:
            found.append((name, None, str(error)))
    return screen(
        request,
        project,
        "report",
        found=found,
        reports=list(reversed(project.reports())),
        command=_commands(project, [name for name, release, _ in found if release]),
    )


def _commands(project: Project, names: list[str]) -> str:
    """Return the commands equivalent to the buttons, for the newest release or all of them."""
    if not names:
        return ""
    data = project.data or "TABLE"
    said = [
        ["serve", f"releases/{names[0]}"],
        _evaluating(data, names[0], _new_report(project, names[0])),
        _judging(project, names, _new_report(project, "dossier")),
    ]
    if len(names) > 1:
        said.append(_comparing(data, names, _new_report(project, "compare")))
    return commands(project, *said)


def _evaluating(data: str, name: str, target: str) -> list[str]:
    return ["evaluate", f"releases/{name}", data, "--out", f"reports/{target}"]


def _comparing(data: str, names: list[str], target: str) -> list[str]:
    return ["compare", data, *(f"releases/{name}" for name in names), "--out", f"reports/{target}"]


def _judging(project: Project, names: list[str], target: str) -> list[str]:
    ledger = ["--ledger", project.ledger_path.name] if project.ledger_path.exists() else []
    return ["dossier", *(f"releases/{name}" for name in names), *ledger, "-o", f"reports/{target}"]


def evaluate(request: Request, form: FormData) -> Response:
    """Start a job that compares a release with the private table."""
    project, given = project_of(request), texts(form)
    name, data = given.get("release", ""), project.require_data()
    project.release(name)
    target = _new_report(project, name)
    command = spell("hushtable", *_evaluating(data, name, target))
    return begin(
        request, project, "evaluate", data=data, release=name, name=target, command=command
    )


def compare(request: Request, form: FormData) -> Response:
    """Start a job that compares several releases."""
    project, names = project_of(request), _ticked(request, form)
    if len(names) < 2:
        raise ParameterError(words.TICK_TWO)
    target, data = _new_report(project, "compare"), project.require_data()
    command = spell("hushtable", *_comparing(data, names, target))
    return begin(
        request, project, "compare", data=data, releases=names, name=target, command=command
    )


def dossier(request: Request, form: FormData) -> Response:
    """Start a job that writes a dossier."""
    project, names = project_of(request), _ticked(request, form)
    if not names:
        raise ParameterError(words.TICK_SOME)
    target = _new_report(project, "dossier")
    return begin(request, project, "dossier", releases=names, name=target)


def _ticked(request: Request, form: FormData) -> list[str]:
    """Return the selected releases, each checked against its statement."""
    project = project_of(request)
    names = [name for name in form.getlist("release") if isinstance(name, str)]
    for name in names:
        project.release(name)
    return names


def report(request: Request) -> Response:
    """Show a report."""
    project = project_of(request)
    name = request.path_params["name"]
    path = project.made("reports", name)
    if path.suffix != ".html" or not path.is_file():
        raise ParameterError(words.NO_REPORT.format(name=name))
    return report_page(path)


def download(request: Request) -> Response:
    """Return a release as a ZIP file: its tables and its statement."""
    project = project_of(request)
    name = request.path_params["name"]
    release = project.release(name)  # checked against its statement
    out = tempfile.TemporaryFile()  # deleted after the response  # noqa: SIM115
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as bundle:  # Parquet is already compressed
        for file in _files(release):
            bundle.write(release.folder / file, Path(name) / file)
    length = out.tell()
    out.seek(0)
    return StreamingResponse(
        iter(lambda: out.read(2**20), b""),
        media_type="application/zip",
        headers={
            "Content-Disposition": f'attachment; filename="{name}.zip"',
            "Content-Length": str(length),
        },
    )


def _files(release: Release) -> list[str]:
    """Return the files of a release, without others in its folder, such as internal reports."""
    tables = [file for table in release.statement.tables.values() for file in table.digests]
    return [STATEMENT, STATEMENT_FOR_PEOPLE, *tables, *release.statement.attachments]


def _new_report(project: Project, stem: str) -> str:
    """Return an unused name for a report."""
    number, name = 1, f"{stem}.html"
    while (project.folder / "reports" / name).exists():
        number += 1
        name = f"{stem}-{number}.html"
    return name


ROUTES = [
    Route("/p/{project}/report", show),
    Route("/p/{project}/evaluate", writes(evaluate), methods=["POST"]),
    Route("/p/{project}/compare", writes(compare), methods=["POST"]),
    Route("/p/{project}/dossier", writes(dossier), methods=["POST"]),
    Route("/p/{project}/reports/{name}", report),
    Route("/p/{project}/releases/{name}.zip", download),
]
