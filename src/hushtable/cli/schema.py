"""``hushtable schema``: draft what is public about a table, and check the table against it."""

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
    from hushtable.file_format import FileFormat

schema_group = typer.Typer(
    name="schema", no_args_is_help=True, help="Draft and check the public schema."
)

_DRAFT_HEADER = """\
# Drafted from the private table, for the custodian's eyes. What stands under 'confirm' was taken
# from the data: check it against public knowledge, correct it, and delete the line. All of it must
# be what anybody could know, not what happens to occur: one person's row can change any of it.
# 'missing' and 'outside' say what a cell counts as that has no value or none of the column's:
# a category of its own (missing), the nearest bound (clip), or one of the values (other; the
# first, unless a line 'other: VALUE' names another).
"""


_FOR_THE_CUSTODIAN = (
    "These counts are exact, so keep them to yourself. They may show a mistake in the table or in "
    "the schema; choose the domain from public knowledge, never to let one row fit."
)


@schema_group.command("draft")
def draft(  # noqa: PLR0917 - the options of a command
    data: DataPath,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="File to write.")] = None,
    codebook: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Public description to take domains from: DDI .xml, data dictionary .csv, "
            "Frictionless or CSVW .json, schema .yaml, a release, COLUMN=HIERARCHY.csv.",
        ),
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(help="Encoding of a text file, such as latin-1.")
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option(help="What separates the fields of a text file; tab is a tab.")
    ] = None,
    sheet: Annotated[
        str | None, typer.Option(help="Sheet of a workbook; by default the first.")
    ] = None,
    first_line_is_names: Annotated[
        bool,
        typer.Option(
            "--first-line-is-names", help="Even if the first line looks like somebody's row."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Propose a schema for a table; what it took from the data is marked `confirm`."""
    from hushtable.engine.drafting import drafted  # noqa: PLC0415 - slow to import

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
    try:
        # What it took from the data is not public yet, so the file is the owner's alone.
        descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ParameterError(f"cannot write {str(out)!r}: {error.strerror}.") from None
    if as_json:
        print_json(content)
        return
    print_lines(made.remarks.get("", ()))
    console.print(
        f"Wrote {out}. Check every line marked 'confirm' against public knowledge, correct it "
        "and delete the mark; publish refuses until then."
    )


def _reading(given: dict[str, str | None]) -> FileFormat:
    from pydantic import ValidationError  # noqa: PLC0415 - slow to import

    from hushtable.file_format import FileFormat  # noqa: PLC0415

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
    """Tell how many cells of a table do not fit, and what becomes of them (custodian only)."""
    from hushtable.engine.fitting import misfits  # noqa: PLC0415
    from hushtable.engine.silence import silenced  # noqa: PLC0415 - keeps other commands quick

    if data.endswith((".yaml", ".yml")) and schema.suffix not in (".yaml", ".yml"):
        raise ParameterError(
            f"{data!r} seems to be the schema: it comes first, as in hushtable schema check "
            "SCHEMA DATA."
        )
    public = ht.Schema.load(schema)
    found = silenced(lambda: misfits(data, public))()
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
            console.print(f"Still to confirm: {', '.join(unconfirmed)}.")
        if not found and not unconfirmed:
            console.print("The table fits its schema.")
    if any(misfit.refused for misfit in found):
        raise typer.Exit(1)


@schema_group.command("spec")
def spec(as_json: AsJson = True) -> None:
    """Write the JSON Schema of schema files, for editors."""
    print_json(ht.Schema.model_json_schema())
