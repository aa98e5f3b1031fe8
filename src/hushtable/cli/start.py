"""``hushtable start``: from a table to a release, one question after the other."""

from __future__ import annotations

import shlex
from pathlib import Path

import typer

from hushtable.cli.screen import console


def start(data: str, *, folder: Path = Path(), codebook: list[str] | None = None) -> None:
    """Walk through draft, review, plan, ledger and publication; print each command.

    Parameters
    ----------
    folder
        Folder for schema, ledger and releases.
    codebook : FILE
        See hushtable schema draft.
    """
    schema, ledger = folder / "schema.yaml", folder / "table.ledger"
    folder.mkdir(parents=True, exist_ok=True)
    if not schema.exists():
        books = [word for file in codebook or () for word in ("--codebook", file)]
        _run("schema", "draft", data, "-o", schema, *books)
    _run("schema", "review", schema)
    _run("schema", "check", data, schema)
    rows = typer.prompt("About how many rows does the table have, as is publicly known?")
    while True:
        epsilon = typer.prompt(
            "Epsilon; 1 is strict and common, more is more accurate", default="1"
        )
        promise = ("--epsilon", epsilon, "--delta", "1e-6")
        _run("plan", "quilt", schema, *promise, "--rows", rows)
        if typer.confirm("Publish with this promise and these errors?"):
            break
    if not ledger.exists():
        cap = typer.prompt("Epsilon of all releases of this table together", default=epsilon)
        _run("ledger", "init", ledger, "--epsilon", cap, "--delta", "1e-5", "--schema", schema)
    out = folder / typer.prompt("Name of the release", default="release-1")
    _run(
        "publish", "quilt", data, schema, "--out", out, "--ledger", ledger, "--rows", rows, *promise
    )
    console.print(f'Next: hushtable query {out} "...", or hushtable explore {out}.')


def _run(*words: object) -> None:
    """Print a command and run it; end if it fails."""
    from hushtable.cli.app import app  # noqa: PLC0415 - imports this module

    said = list(map(str, words))
    console.print(f"\n$ {shlex.join(['hushtable', *said])}", style="bold", soft_wrap=True)
    code = app(said, standalone_mode=False)
    if code:
        raise typer.Exit(code)
