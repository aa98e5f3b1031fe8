"""``hushtable schema``: draft a schema, and check a table against it."""

from __future__ import annotations

import dataclasses
import fnmatch
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import hushtable as ht
from hushtable.cli.options import AsJson, CommandGroup
from hushtable.cli.plain import print_json
from hushtable.cli.screen import console, print_lines, tell, text
from hushtable.errors import HushtableError, ParameterError

if TYPE_CHECKING:
    from hushtable.drafting.schema_editor import SchemaFile
    from hushtable.schema.file_format import FileFormat

schema_group = CommandGroup(
    name="schema", no_args_is_help=True, help="Draft and check the public schema."
)


@schema_group.command("draft")
def draft(
    data: str,
    *,
    out: Annotated[Path | None, typer.Option("-o", "--out")] = None,
    codebook: list[str] | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
    sheet: str | None = None,
    dates: str | None = None,
    force: bool = False,
    first_line_is_names: bool = False,
    as_json: AsJson = False,
) -> None:
    """Propose a schema for a table; parts taken from the data are marked `confirm`.

    Parameters
    ----------
    out
        New file for the schema; default: standard output.
    codebook : FILE
        Take domains from a public description: DDI .xml, data dictionary .csv or .json,
        Frictionless or CSVW .json, schema .yaml, release folder or COLUMN=HIERARCHY.csv.
        Repeatable.
    encoding
        Encoding of a text file, such as latin-1.
    delimiter
        Delimiter of a text file; 'tab' for tabs.
    sheet
        Sheet of an Excel workbook that has several.
    dates
        Order of the parts of dates, such as day-month-year.
    force
        Overwrite the file of --out.
    first_line_is_names
        Use the first line as column names even if it looks like a data row.
    """
    from hushtable.drafting import drafted  # noqa: PLC0415 - slow to import

    if out is not None and out.exists() and not force:
        raise ParameterError(
            f"{str(out)!r} exists; choose another file, or overwrite it with --force."
        )
    given = {"encoding": encoding, "delimiter": delimiter, "sheet": sheet, "dates": dates}
    made = drafted(
        data,
        codebook=codebook or (),
        reading=_reading(given),
        first_line_is_names=first_line_is_names,
    )
    content = {
        "schema": made.schema.to_dict(),
        "remarks": {name: list(said) for name, said in made.remarks.items()},
        "unconfirmed": {where: list(parts) for where, parts in made.schema.unconfirmed.items()},
    }
    written = text["draft_header"] + made.to_yaml()
    if out is None:
        print_json(content) if as_json else sys.stdout.write(written)
        return
    from hushtable.files.writing import write_failures_as  # noqa: PLC0415 - one option

    with write_failures_as(ParameterError, f"cannot write {str(out)!r}"):
        if force:
            out.unlink(missing_ok=True)
        # A draft contains private information, so only the owner may read the file.
        descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(written)
    if as_json:
        print_json(content)
        return
    print_lines(made.remarks.get("", ()))
    console.print(text("drafted", out=out))


def _reading(given: dict[str, str | None]) -> FileFormat:
    from pydantic import ValidationError  # noqa: PLC0415 - slow to import

    from hushtable.schema.file_format import FileFormat  # noqa: PLC0415

    try:
        return FileFormat(**{name: said for name, said in given.items() if said is not None})
    except ValidationError as error:
        raise ParameterError(
            [
                f"--{'-'.join(map(str, problem['loc'])) or 'delimiter'}: "
                f"{problem['msg'].removeprefix('Value error, ')}."
                for problem in error.errors()
            ]
        ) from None


@schema_group.command("review")
def review(schema: Path) -> None:
    """Confirm or correct a draft in the terminal, group by group."""
    from hushtable.drafting.review import review_groups  # noqa: PLC0415 - slow to import
    from hushtable.drafting.schema_editor import SchemaFile  # noqa: PLC0415

    file, reason = SchemaFile(schema), ""
    for title in [group.title for group in review_groups(ht.Schema.load(schema))]:
        reason = _review_group(file, title, reason)
    left = ht.Schema.load(schema).unconfirmed
    if left:
        console.print(f"Not confirmed yet: {', '.join(left)}.", soft_wrap=True)
        raise typer.Exit(1)
    console.print(f"Everything in {schema} is confirmed.")


_ACTIONS = (
    "[a]ccept, [r]ound bounds outward, [e]dit one column, [l]eave columns out, [s]kip, [q]uit"
)


def _review_group(file: SchemaFile, title: str, reason: str) -> str:
    """Ask about one group until nothing of it is left; return the last reason."""
    from hushtable.drafting import review as parts  # noqa: PLC0415 - slow to import

    while True:
        public = ht.Schema.load(file.path)
        group = next((one for one in parts.review_groups(public) if one.title == title), None)
        if group is None:
            return reason
        sources = {name: parts.source_of(file.remarks().get(name, [])) for name in group.columns}
        console.print(f"\n{group.title[0].upper()}{group.title[1:]}", style="bold")
        for name in group.columns:
            said = f"  ({sources[name].partition(':')[0]})" if sources[name] else ""
            shown = f"{name}: " if name else ""
            console.print(f"  {shown}{parts.described(public, name)}{said}", soft_wrap=True)
            for remark in file.remarks().get(name, []) if not sources[name] else ():
                console.print(f"      {remark}", style="dim", soft_wrap=True)
        action = typer.prompt(f"{group.question}\n{_ACTIONS}", default="a")[:1].lower()
        try:
            if action == "q":
                raise typer.Exit(1)
            if action == "s":
                return reason
            if action == "a":
                reason = _accept(file, sources, reason)
            elif action == "l":
                chosen = _chosen(group.columns)
                file.set_all({name: {"role": "left out"} for name in chosen})
                file.confirm_all(dict.fromkeys(chosen, "left out by decision"))
            elif action == "e":
                (name,) = _chosen(group.columns, most=1)
                file.set(name, parts.fields_of(typer.prompt("Bounds LOW HIGH, or values A, B, C")))
            elif action == "r":
                rounded = {n: parts.rounded_outward(public.columns.get(n)) for n in group.columns}
                file.set_all({name: fields for name, fields in rounded.items() if fields})
        except HushtableError as error:
            print_lines(error.problems)


def _accept(file: SchemaFile, sources: dict[str, str], reason: str) -> str:
    """Confirm columns with the reason that a person gives, or with the sources of the catalog."""
    if all(sources.values()):
        own = typer.prompt(
            "Public source (Enter: those of the catalog)", default="", show_default=False
        )
        file.confirm_all({name: own or source for name, source in sources.items()})
        return reason
    asked = "Public source: how is this known without the table?"
    said = str(typer.prompt(asked, default=reason or None))
    file.confirm_all({name or None: said for name in sources})
    return said


def _chosen(columns: Sequence[str], *, most: int | None = None) -> list[str]:
    """Ask for names of columns; patterns such as income* are allowed."""
    if most == 1 == len(columns):
        return list(columns)
    given = typer.prompt("Which columns? Names or patterns, separated by commas")
    found = matching(columns, given.split(","))
    if len(found) > (most or len(found)):
        raise ParameterError("more than one column was given; give one.")
    return found


def matching(columns: Sequence[str], given: Sequence[str]) -> list[str]:
    """Return the columns that match names or patterns; raise an error if one matches none."""
    wanted = [pattern.strip() for pattern in given if pattern.strip()]
    unknown = [one for one in wanted if not fnmatch.filter(columns, one) and one not in columns]
    if unknown or not wanted:
        named = ", ".join(map(repr, unknown)) or "nothing"
        raise ParameterError(f"{named} is none of the columns to confirm: {', '.join(columns)}.")
    return [
        name
        for name in columns
        if name in wanted or any(fnmatch.fnmatchcase(name, p) for p in wanted)
    ]


@schema_group.command("confirm")
def confirm(
    schema: Path,
    *,
    because: str,
    columns: str | None = None,
    table: bool = False,
    as_json: AsJson = False,
) -> None:
    """Confirm columns of a draft as public, with one reason; for scripts.

    Parameters
    ----------
    because : REASON
        How this is known without the table; recorded.
    columns : A,B,...
        Columns to confirm; patterns such as 'income*'.
    table
        Confirm the unit, words for missing values and format.
    """
    from hushtable.drafting.schema_editor import SchemaFile  # noqa: PLC0415 - slow to import

    public = ht.Schema.load(schema)
    left = [name for name, column in public.columns.items() if column.confirm]
    chosen: list[str | None] = [*matching(left, columns.split(","))] if columns else []
    if table and public.confirm:
        chosen.append(None)
    if not chosen:
        raise ParameterError("nothing to confirm; give --columns, --table, or both.")
    SchemaFile(schema).confirm_all(dict.fromkeys(chosen, because))
    left = list(ht.Schema.load(schema).unconfirmed)
    said = f"Confirmed {len(chosen)}; {len(left)} left."
    tell(said, as_json=as_json, confirmed=len(chosen), unconfirmed=left)


@schema_group.command("check")
def check(data: str, schema: Path, as_json: AsJson = False) -> None:
    """Count out-of-domain values of a table and show how they are handled (custodian only)."""
    from hushtable.drafting.schema_check import out_of_domain  # noqa: PLC0415
    from hushtable.engine.output_guard import silenced  # noqa: PLC0415 - keeps other commands quick

    if data.endswith((".yaml", ".yml")) and schema.suffix not in (".yaml", ".yml"):
        data, schema = str(schema), Path(data)  # either order is accepted
    public = ht.Schema.load(schema)
    found = silenced(lambda: out_of_domain(data, public))()
    unconfirmed = list(public.unconfirmed)
    hidden = {
        name: one.role for name, one in public.columns.items() if name not in public.attributes
    }
    if as_json:
        print_json(
            {
                "misfits": [dataclasses.asdict(misfit) for misfit in found],
                "unconfirmed": unconfirmed,
                "not_published": hidden,
                "conditions": list(public.conditions),
            }
        )
    else:
        print_lines(found)
        if found:
            console.print(text["for_the_custodian"], soft_wrap=True)
        print_lines(public.conditions)
        if not found:
            console.print(f"All values of the {len(public.attributes)} published columns fit.")
        if hidden:
            listed = ", ".join(f"{name} ({role})" for name, role in hidden.items())
            console.print(f"Not published: {listed}.", soft_wrap=True)
        if unconfirmed:
            console.print(
                f"Not confirmed yet: {', '.join(unconfirmed)}. Run hushtable schema review "
                f"{schema}.", soft_wrap=True,
            )  # fmt: skip
    if unconfirmed or any(misfit.refused for misfit in found):
        raise typer.Exit(1)


@schema_group.command("spec")
def spec(as_json: AsJson = True) -> None:
    """Print the JSON Schema of schema files, for editors."""
    print_json(ht.Schema.model_json_schema())
