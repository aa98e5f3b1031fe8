"""``hushtable linked``: publish linked tables, such as persons and their visits.

Parameters
----------
tables : TABLE=FILE...
    One file for each table of the schema.
rows
    Expected number of persons, from public knowledge; a rough guess.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hushtable.cli.lazy import as_command, lazy_group
from hushtable.cli.options import (
    AsJson,
    EngineOption,
    NoiseName,
    PayingOptions,
    RowsToExpect,
    named_files,
    with_method_options,
)
from hushtable.cli.plain import print_json
from hushtable.cli.plan import as_plain, show_forecast, show_plan
from hushtable.cli.publish import publish_and_show
from hushtable.cli.screen import console, print_lines
from hushtable.errors import ParameterError

if TYPE_CHECKING:
    from hushtable.methods.linked.linked import Linked


def files_of(given: list[str]) -> dict[str, str]:
    """Return the file of each table, from arguments TABLE=FILE."""
    problems: list[str] = []
    files = named_files(given, problems)
    ParameterError.raise_if_any(problems)
    return files


def check(schema: Path, tables: list[str], as_json: AsJson = False) -> None:
    """Report out-of-domain values, bad keys, orphan rows and surplus rows (custodian only)."""
    from hushtable.engine.linked_tables import open_linked  # noqa: PLC0415 - keeps other commands quick
    from hushtable.engine.output_guard import silenced  # noqa: PLC0415
    from hushtable.query.where.rules import facts_of  # noqa: PLC0415
    from hushtable.schema.linked_schema import LinkedSchema  # noqa: PLC0415

    public = LinkedSchema.load(schema)
    facts_of(public)
    opened = open_linked(files_of(tables), public)
    opened.check(public)
    found = silenced(lambda: opened.connect(public).findings())()
    refused = any(finding.refused for finding in found)
    if as_json:
        print_json(
            {
                "findings": [str(finding) for finding in found],
                "refused": refused,
                "conditions": list(public.conditions),
            }
        )
    else:
        print_lines(found)
        if found:
            console.print("These counts are exact: for the custodian only, never publish them.")
        print_lines(public.conditions)
        if not found:
            console.print("The tables fit their schema and each other.")
    if refused:
        raise typer.Exit(1)


def _plan_command(kind: type[Linked]) -> Callable[..., None]:
    @with_method_options(kind)
    def plan(method: Any, schema: Path, rows: RowsToExpect = None, as_json: AsJson = False) -> None:
        from hushtable.methods.base import SUPPOSED_ROWS  # noqa: PLC0415
        from hushtable.schema.linked_schema import LinkedSchema  # noqa: PLC0415

        made = method.plan(LinkedSchema.load(schema))
        forecast = made.forecast(rows)
        uninformative = made.uninformative(SUPPOSED_ROWS if rows is None else rows)
        if as_json:
            print_json({**as_plain(made, forecast), "uninformative": uninformative})
        else:
            show_plan(made, forecast, uninformative)

    plan.__doc__ = "Show promise, budget and expected error of all tables; reads no data."
    return plan


def _publish_command(kind: type[Linked]) -> Callable[..., None]:
    @with_method_options(kind)
    def publish(
        method: Any,
        schema: Path,
        tables: list[str],
        *,
        out: Path,
        pays: PayingOptions,
        engine: EngineOption = "auto",
        noise: NoiseName = "secure",
        memory_limit: str | None = None,
        rows: RowsToExpect = None,
        anyway: bool = False,
        as_json: AsJson = False,
    ) -> None:
        from hushtable.publishing.publish import publish_linked  # noqa: PLC0415 - slow to import

        publish_and_show(
            publish_linked,
            files_of(tables),
            schema,
            method,
            out=out,
            engine=engine,
            noise=noise,
            memory_limit=memory_limit,
            rows=rows,
            anyway=anyway,
            on_forecast=None if as_json else show_forecast,
            as_json=as_json,
            **pays.paying(),
        )

    publish.__doc__ = "Publish private linked tables; foreign keys match in the release."
    return publish


def _command(name: str) -> Any:
    if name == "check":
        return as_command(name, check)
    from hushtable.methods.linked.linked import Linked  # noqa: PLC0415 - keeps other commands quick

    return as_command(name, (_plan_command if name == "plan" else _publish_command)(Linked))


linked_group = lazy_group(
    "linked",
    lambda: ("check", "plan", "publish"),
    _command,
    help_text="Publish linked tables, such as persons and their visits.",
)
