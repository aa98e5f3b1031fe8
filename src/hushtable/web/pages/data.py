"""Data screen: location and header of the private table, without rows."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hushtable.drafting.draft import detected_format
from hushtable.engine.open_table import open as open_table
from hushtable.engine.output_guard import silenced
from hushtable.engine.sources.header import is_address
from hushtable.engine.sources.whole_files import sheets_of
from hushtable.errors import HushtableError, ParameterError
from hushtable.schema.file_format import FileFormat
from hushtable.web import words
from hushtable.web.pages.frame import begin, bench_of, go, project_of, screen, texts, writes
from hushtable.web.pages.frame import command as spelled


def show(request: Request) -> Response:
    """Show the tables to choose from, and the header of the chosen one."""
    project, bench = project_of(request), bench_of(request)
    header, problems, sheets, reading = None, [], [], FileFormat()
    if project.data is not None:
        try:
            sheets = [] if is_address(project.data) else sheets_of(Path(project.data))
            sheet = project.settings.get("sheet")
            reading = FileFormat(sheet=sheet if sheet in sheets else next(iter(sheets), None))
            reading = detected_format(project.data, reading)
            header = silenced(open_table)(project.data, reading=reading).header
        except HushtableError as error:
            problems = list(error.problems)
    said = spelled(
        project, "schema", "draft", project.data or "TABLE", "-o", "schema.yaml",
        *(("--sheet", reading.sheet) if reading.sheet else ()),
    )  # fmt: skip
    return screen(
        request, project, "data", header=header, sheets=sheets, reading=reading, problems=problems,
        tables=bench.tables(), bench=bench, command=said,
    )  # fmt: skip


def choose(request: Request, form: FormData) -> Response:
    """Save the path of the table; nothing is copied."""
    project, given = project_of(request), texts(form)
    path = given.get("other", "").strip() or given.get("path", "")
    chosen = bench_of(request).require_table(path)
    project.choose(data=chosen, sheet=given.get("sheet"))
    return go(project, "data")


def upload(request: Request, form: FormData) -> Response:
    """Store an upload in a folder that is deleted when the workbench stops, even if killed."""
    project, sent = project_of(request), form.get("file")
    if not isinstance(sent, UploadFile) or not sent.filename:
        raise ParameterError(words.NO_FILE)
    place = bench_of(request).upload_place(sent.filename)
    with os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        shutil.copyfileobj(sent.file, file)
    project.choose(data=str(place))
    return go(project, "data")


def draft(request: Request, form: FormData) -> Response:
    """Start a job that drafts a schema."""
    project, given = project_of(request), texts(form)
    book = given.get("codebook", "").strip()
    return begin(
        request, project, "draft", data=project.require_data(), sheet=given.get("sheet"),
        codebook=[str(bench_of(request).require_inside(book))] if book else [],
    )  # fmt: skip


ROUTES = [
    Route("/p/{project}/data", show),
    Route("/p/{project}/data", writes(choose), methods=["POST"]),
    Route("/p/{project}/upload", writes(upload), methods=["POST"]),
    Route("/p/{project}/draft", writes(draft), methods=["POST"]),
]
