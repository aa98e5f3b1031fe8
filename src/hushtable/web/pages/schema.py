"""Schema screen: columns, confirmations, taxonomies, undo, and a check of the table."""

from __future__ import annotations

import threading
from typing import Any
from urllib.parse import quote

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hushtable.drafting.review import (
    TABLE,
    ReviewGroup,
    described,
    review_groups,
    rounded_outward,
    source_of,
)
from hushtable.drafting.schema_check import out_of_domain
from hushtable.drafting.schema_editor import SchemaFile, TaxonomyEditor
from hushtable.engine.output_guard import silenced
from hushtable.errors import HushtableError, ParameterError
from hushtable.schema import Categorical, Schema
from hushtable.schema.column import LEFT_OUT
from hushtable.web import words
from hushtable.web.pages.frame import command, go, project_of, screen, texts, writes
from hushtable.web.render import page
from hushtable.web.workbench import Project, file_of

_CHECKING = threading.Lock()  # allows only one check of a table at a time
CHECKED_AT_ONCE = 64_000_000  # size in bytes up to which a table is checked after every change


def show(request: Request) -> Response:
    """Show the schema."""
    project = project_of(request)
    if not project.schema_path.exists():
        return screen(request, project, "schema", schema=None, **_around(project))
    return _lines(request, project)


def _lines(request: Request, project: Project, problems: tuple[str, ...] = ()) -> Response:
    try:
        schema: Schema | None = project.schema()
    except HushtableError as error:
        schema, problems = None, (*problems, *error.problems)
    return screen(
        request, project, "schema", schema=schema, edited=request.query_params.get("edit"),
        groups=_groups(schema) if schema else [], rows=_rows(project, schema) if schema else {},
        **_around(project, problems),
    )  # fmt: skip


def _groups(schema: Schema) -> list[ReviewGroup]:
    """Return the groups to confirm, and the confirmed columns as the last one."""
    done = [name for name, column in schema.columns.items() if not column.confirm]
    names = (*done, *([] if schema.confirm else [TABLE]))
    return [*review_groups(schema), *([ReviewGroup(words.CONFIRMED, "", names)] if names else [])]


def _rows(project: Project, schema: Schema) -> dict[str, dict[str, Any]]:
    """Return what the grid shows of each column, so that nothing is confirmed unseen."""
    remarks = _file(project).remarks()
    return {
        name: {
            "column": schema.columns.get(name),
            "said": described(schema, name),
            "values": getattr(schema.columns.get(name), "values", ()),
            "source": source_of(remarks.get(name, [])),
            "remarks": [r for r in remarks.get(name, []) if not source_of([r])],
            "marks": schema.columns[name].confirm if name else schema.confirm,
        }
        for name in (TABLE, *schema.columns)
    }


def _around(project: Project, problems: tuple[str, ...] = ()) -> dict[str, Any]:
    exists = project.schema_path.exists()
    return {
        "reasons": _file(project).reasons() if exists else [],
        "problems": problems,
        "text": _file(project).text() if exists else "",
        "can_undo": _file(project).can_undo,
        "command": command(project, "schema", "check", "schema.yaml", project.data or "TABLE"),
    }


def _file(project: Project) -> SchemaFile:
    return SchemaFile(project.schema_path, project.folder / "history")


def change(request: Request, form: FormData) -> Response:
    """Change a column; an invalid change is not saved, and its problems are shown."""
    project, given = project_of(request), texts(form)
    column = given.pop("column", "")
    fields = {name: value for name, value in given.items() if name != "csrf"}
    again = f"schema?edit={quote(column)}#edit"
    return _tried(request, project, lambda: _file(project).set(column, fields), again)


def change_table(request: Request, form: FormData) -> Response:
    """Change settings of the whole table."""
    project, given = project_of(request), texts(form)
    return _tried(request, project, lambda: _file(project).set_table(given))


def change_text(request: Request, form: FormData) -> Response:
    """Replace the whole file."""
    project, text = project_of(request), texts(form).get("text", "").replace("\r\n", "\n")
    return _tried(request, project, lambda: _file(project).replace(text))


def confirm(request: Request, form: FormData) -> Response:
    """Confirm the selected columns with one public source, round their bounds, or leave them out.

    Without a source, columns that were recognized get that of the catalog.
    """
    project, given = project_of(request), texts(form)
    chosen = [value for value in form.getlist("column") if isinstance(value, str)]
    reason, act = given.get("reason", "").strip(), given.get("act", "confirm")

    def change() -> None:
        file, schema = _file(project), project.schema()
        if act == "round":
            rounded = {name: rounded_outward(schema.columns.get(name)) for name in chosen}
            file.set_all({name: fields for name, fields in rounded.items() if fields})
            return
        if act == "leave":
            file.set_all({name: {"role": LEFT_OUT} for name in chosen if name != TABLE})
        remarks = file.remarks()
        file.confirm_all(
            {name or None: reason or source_of(remarks.get(name, [])) for name in chosen}
        )

    return _tried(request, project, change)


def undo(request: Request, form: FormData) -> Response:
    """Undo the last change."""
    project, column = project_of(request), texts(form).get("column", "")
    if not column:
        return _tried(request, project, lambda: _file(project).undo())
    _file(project).undo()  # requested on the page of a tree, which is shown again
    return go(project, f"schema/tree?column={quote(column)}")


def _tried(request: Request, project: Project, act: Any, where: str = "schema") -> Response:
    try:
        act()
    except HushtableError as error:
        return _lines(request, project, error.problems)
    return go(project, where) if "hx-request" not in request.headers else _lines(
        request, project
    )  # fmt: skip


def check(request: Request) -> Response:
    """Show counts of out-of-domain values, like `hushtable schema check`; they are internal."""
    project, found, problems, skipped = project_of(request), [], [], False
    schema = project.schema_or_none()
    if schema is not None and project.data is not None:
        public, data = schema, project.data
        file = file_of(data)
        large = file is None or file.stat().st_size > CHECKED_AT_ONCE
        skipped = large and "now" not in request.query_params
        if not skipped:
            try:
                with _CHECKING:
                    found = silenced(lambda: out_of_domain(data, public))()
            except HushtableError as error:
                problems = list(error.problems)
    return page(
        request, "schema_check.html", project=project, schema=schema, found=found,
        problems=problems, skipped=skipped,
    )  # fmt: skip


# --- taxonomies -----------------------------------------------------------------------------------


def tree(request: Request) -> Response:
    """Show the taxonomy of a column as a tree."""
    return _tree_page(request, project_of(request), request.query_params.get("column", ""))


def _tree_page(
    request: Request, project: Project, name: str, problems: tuple[str, ...] = ()
) -> Response:
    column = _listed_column(project, name)
    return screen(
        request, project, "tree", column=name, tree=_tree_of(column), problems=problems,
        has_tree=column.taxonomy is not None, can_undo=_file(project).can_undo,
    )  # fmt: skip


def change_tree(request: Request, form: FormData) -> Response:
    """Edit the taxonomy of a column: move, group, rename, dissolve or remove."""
    project, given = project_of(request), texts(form)
    name, act = given.get("column", ""), given.get("act", "")
    grown = _tree_of(_listed_column(project, name))
    try:
        if act == "drop":
            _file(project).set_tree(name, None)
            return go(project, "schema")
        if act == "move":
            grown.move(given.get("node", ""), given.get("to", ""))
        elif act == "group":
            chosen = [place for place in form.getlist("members") if isinstance(place, str)]
            grown.group(chosen, given.get("label", ""))
        elif act == "rename":
            grown.rename(given.get("node", ""), given.get("label", ""))
        elif act == "ungroup":
            grown.remove_group(given.get("node", ""))
        else:
            raise ParameterError(words.NO_SUCH_ACT.format(act=act))
        _file(project).set_tree(name, grown.nested())
    except HushtableError as error:
        return _tree_page(request, project, name, error.problems)
    return _tree_page(request, project, name)


def _listed_column(project: Project, name: str) -> Categorical:
    column = project.schema().attributes.get(name)
    if not isinstance(column, Categorical):
        raise ParameterError(words.NO_LIST.format(name=name))
    return column


def _tree_of(column: Categorical) -> TaxonomyEditor:
    if column.taxonomy is not None:
        return TaxonomyEditor.of(column.taxonomy)
    return TaxonomyEditor.of_values(list(column.values))


ROUTES = [
    Route("/p/{project}/schema", show),
    Route("/p/{project}/schema/check", check),
    Route("/p/{project}/schema/column", writes(change), methods=["POST"]),
    Route("/p/{project}/schema/table", writes(change_table), methods=["POST"]),
    Route("/p/{project}/schema/text", writes(change_text), methods=["POST"]),
    Route("/p/{project}/schema/confirm", writes(confirm), methods=["POST"]),
    Route("/p/{project}/schema/undo", writes(undo), methods=["POST"]),
    Route("/p/{project}/schema/tree", tree),
    Route("/p/{project}/schema/tree", writes(change_tree), methods=["POST"]),
]
