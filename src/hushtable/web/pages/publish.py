"""Publish screen: the charge, the remaining budget, and confirmation by typing the name."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hushtable.errors import HushtableError, ParameterError
from hushtable.methods.base import SUPPOSED_ROWS
from hushtable.publishing.surrogate import MAX_ROWS, USUAL_ROWS
from hushtable.web import words
from hushtable.web.forms import make_method, options
from hushtable.web.pages.frame import begin, bench_of, command, project_of, screen, texts, writes
from hushtable.web.render import report_page, spell
from hushtable.web.workbench import Project, fingerprint, require_name


def show(request: Request) -> Response:
    """Show what publishing would do."""
    project = project_of(request)
    name = request.query_params.get("name") or _new_name(project)
    return screen(request, project, "publish", name=name, **_prepared(project, name))


def _prepared(project: Project, name: str) -> dict[str, Any]:
    """Return the charge, the promise and all problems that prevent publishing."""
    problems: list[str] = []
    quote = method = schema = data = None
    promises: list[str] = []
    uninformative, changed = "", False
    settings = project.settings
    try:
        require_name(name, words.RELEASE_NAME)
        if (project.folder / "releases" / name).exists():
            problems.append(words.NAME_TAKEN.format(name=name))
        data = project.require_data()
        schema = project.schema()
        schema.require_confirmed()
        if not isinstance(settings.get("method"), str):
            raise ParameterError(words.PLAN_FIRST)
        method = make_method(settings["method"], settings["parameters"])
        plan = method.plan(schema)
        uninformative = plan.uninformative(
            schema.expected_rows(settings.get("rows")) or SUPPOSED_ROWS
        )
        promised = plan.guarantees
        promises = [promise.explain() for promise in promised]
        quoted = project.quote(promised, schema)
        if quoted is None:
            raise ParameterError(words.LEDGER_FIRST)
        quote, changed = quoted[0].to_dict(), quoted[1]
        problems += quote["problems"]
    except HushtableError as error:
        problems += error.problems
    said = ""
    if method is not None:
        said = command(
            project, "publish", method.name, data or "TABLE", "schema.yaml",
            "--out", f"releases/{name}", "--ledger", "table.ledger", *options(method),
            *(("--rows", str(settings["rows"])) if settings.get("rows") else ()),
            *(("--anyway",) if uninformative else ()),
            *(("--same-people", words.REASON_TO_GIVE) if changed else ()),
        )  # fmt: skip
    return {
        "problems": problems, "quote": quote, "method": method, "promises": promises,
        "parameters": settings.get("parameters"), "rows": settings.get("rows"),
        "schema": schema, "data": data, "uninformative": uninformative, "command": said,
        "changed": changed,
        "chosen": spell(*options(method)) if method is not None else "",
        "seen": sha256(f"{fingerprint(schema) if schema else ''}\n{said}".encode()).hexdigest(),
    }  # fmt: skip


def start(request: Request, form: FormData) -> Response:
    """Start a job that publishes, if the user has typed the name to confirm."""
    project, given = project_of(request), texts(form)
    name = require_name(given.get("name", ""), words.RELEASE_NAME)
    if given.get("typed", "").strip() != name:
        raise ParameterError(words.TYPE_THE_NAME.format(name=name))
    # The plan may have been changed in another window after the page was shown.
    prepared = _prepared(project, name)
    if prepared["problems"]:
        raise ParameterError(prepared["problems"])
    if given.get("seen") != prepared["seen"]:
        raise ParameterError(words.PLAN_CHANGED)
    if prepared["uninformative"] and "anyway" not in given:
        raise ParameterError(words.TELLS_NOTHING.format(why=prepared["uninformative"]))
    same_people = given.get("same_people", "").strip() or None
    if prepared["changed"] and same_people is None:
        raise ParameterError(words.SAY_SAME_PEOPLE)
    method = prepared["method"]
    return begin(
        request, project, "publish", data=prepared["data"], schema=fingerprint(prepared["schema"]),
        method=method.name, parameters=prepared["parameters"],
        name=name, purpose=given.get("purpose", "").strip() or name,
        rows=prepared["rows"], anyway="anyway" in given, same_people=same_people,
    )  # fmt: skip


def _new_name(project: Project) -> str:
    known, number = set(project.releases()), 1
    while (name := f"{project.name}-{number}") in known:
        number += 1
    return name


ROUTES = [
    Route("/p/{project}/publish", show),
    Route("/p/{project}/publish", writes(start), methods=["POST"]),
]


# Dry run screen: the whole plan on a surrogate table, without a charge.


def show_dry_run(request: Request) -> Response:
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
        request, project, "dry-run", method=method, rows=rows, most=MAX_ROWS, command=said,
        dry_runs=_dry_runs(project), tables=bench_of(request).tables(),
    )  # fmt: skip


def start_dry_run(request: Request, form: FormData) -> Response:
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
        table = bench_of(request).require_table(table)
        if table == project.data:
            raise ParameterError(words.NOT_THE_PRIVATE_TABLE)
    known = [int(name) for name in _dry_runs(project, finished=False) if name.isdecimal()]
    return begin(
        request, project, "dry-run", method=settings["method"], parameters=settings["parameters"],
        rows=int(rows), table=table, name=f"{max(known, default=0) + 1:03d}",
    )  # fmt: skip


def report(request: Request) -> Response:
    """Show the report of a dry run."""
    project = project_of(request)
    name = request.path_params["name"]
    path = project.made("dry-runs", name) / "report.html"
    if not path.is_file() or path.is_symlink():
        raise ParameterError(words.NO_DRY_RUN.format(name=name))
    return report_page(path)


def _dry_runs(project: Project, *, finished: bool = True) -> list[str]:
    pattern = "*/report.html" if finished else "*"
    found = (project.folder / "dry-runs").glob(pattern)
    return sorted((path.parent if finished else path).name for path in found)


DRY_RUN_ROUTES = [
    Route("/p/{project}/dry-run", show_dry_run),
    Route("/p/{project}/dry-run", writes(start_dry_run), methods=["POST"]),
    Route("/p/{project}/dry-runs/{name}", report),
]
