"""``hushtable schema``: draft a schema, and check a table against it."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import hushtable as ht
from hushtable.cli.options import AsJson, DataPath, SchemaPath
from hushtable.cli.plain import print_json
from hushtable.cli.screen import console, print_lines
from hushtable.errors import ParameterError

if TYPE_CHECKING:
    from hushtable.schema.file_format import FileFormat

schema_group = typer.Typer(
    name="schema", no_args_is_help=True, help="Draft and check the public schema."
)

_DRAFT_HEADER = """\
# Drafted from the private table, for the custodian only. The parts listed under 'confirm' were
# taken from the data: check each against public knowledge, correct it, and delete the line. A
# schema must contain public knowledge, not what occurs in the data: one row can change any part.
# 'missing' and 'outside' set how empty cells and out-of-domain values are recorded: as missing
# (category, missing), as the nearest bound (clip), or as a value of the list (other: the first
# value, unless a line 'other: VALUE' names another).
"""


_FOR_THE_CUSTODIAN = (
    "These counts are exact, so do not publish them. They can show mistakes in the table or in the "
    "schema. Choose domains from public knowledge, never to make single rows fit."
)


@schema_group.command("draft")
def draft(  # noqa: PLR0917 - the options of a command
    data: DataPath,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="New file for the schema; default: standard output."),
    ] = None,
    codebook: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Take domains from a public description: DDI .xml, data dictionary .csv, "
            "Frictionless or CSVW .json, schema .yaml, release folder or COLUMN=HIERARCHY.csv. "
            "Repeatable.",
        ),
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(help="Encoding of a text file, such as latin-1.")
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option(help="Delimiter of a text file; 'tab' for tabs.")
    ] = None,
    sheet: Annotated[
        str | None, typer.Option(help="Sheet of an Excel workbook; default: the first.")
    ] = None,
    first_line_is_names: Annotated[
        bool,
        typer.Option(
            "--first-line-is-names",
            help="Use the first line as column names even if it looks like a data row.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Propose a schema for a table; parts taken from the data are marked `confirm`."""
    from hushtable.drafting import drafted  # noqa: PLC0415 - slow to import

    if out is not None and out.exists():
        raise ParameterError(f"{str(out)!r} exists; choose another file or remove it.")
    given = {"encoding": encoding, "delimiter": delimiter, "sheet": sheet}
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
    text = _DRAFT_HEADER + made.to_yaml()
    if out is None:
        print_json(content) if as_json else sys.stdout.write(text)
        return
    from hushtable.files.writing import write_failures_as  # noqa: PLC0415 - one option

    with write_failures_as(ParameterError, f"cannot write {str(out)!r}"):
        # A draft contains private information, so only the owner may read the file.
        descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    if as_json:
        print_json(content)
        return
    print_lines(made.remarks.get("", ()))
    console.print(
        f"Wrote {out}. Check every part listed under 'confirm' against public knowledge, correct "
        "it and delete the mark; publish refuses the schema until then."
    )


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


@schema_group.command("check")
def check(schema: SchemaPath, data: DataPath, as_json: AsJson = False) -> None:
    """Count out-of-domain values of a table and show how they are handled (custodian only)."""
    from hushtable.drafting.schema_check import out_of_domain  # noqa: PLC0415
    from hushtable.engine.output_guard import silenced  # noqa: PLC0415 - keeps other commands quick

    if data.endswith((".yaml", ".yml")) and schema.suffix not in (".yaml", ".yml"):
        raise ParameterError(
            f"{data!r} seems to be the schema; give it first: hushtable schema check SCHEMA DATA."
        )
    public = ht.Schema.load(schema)
    found = silenced(lambda: out_of_domain(data, public))()
    unconfirmed = list(public.unconfirmed)
    if as_json:
        print_json(
            {
                "misfits": [dataclasses.asdict(misfit) for misfit in found],
                "unconfirmed": unconfirmed,
                "conditions": list(public.conditions),
            }
        )
    else:
        print_lines(found)
        if found:
            console.print(_FOR_THE_CUSTODIAN, soft_wrap=True)
        print_lines(public.conditions)
        if unconfirmed:
            console.print(f"Not confirmed yet: {', '.join(unconfirmed)}.")
        if not found and not unconfirmed:
            console.print("The table fits its schema.")
    if any(misfit.refused for misfit in found):
        raise typer.Exit(1)


@schema_group.command("spec")
def spec(as_json: AsJson = True) -> None:
    """Print the JSON Schema of schema files, for editors."""
    print_json(ht.Schema.model_json_schema())
