"""``hushtable dossier``: one file for those who judge releases, and whether it is still true."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from hushtable.cli.options import AsJson
from hushtable.cli.plain import visible
from hushtable.cli.screen import tell
from hushtable.errors import ParameterError

WRITE = "write"
"""The command that need not be named."""


class _Group(TyperGroup):
    """Take a release for what it is, and not for the name of a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = [WRITE, *args]
        return super().parse_args(ctx, args)


dossier_group = typer.Typer(
    name="dossier",
    cls=_Group,
    no_args_is_help=True,
    help="Answer what boards and officers ask: `dossier RELEASE... --out FILE`, `dossier verify`.",
)


@dossier_group.command(WRITE)
def write(  # noqa: PLR0917 - the options of a command
    releases: Annotated[list[Path], typer.Argument(metavar="RELEASE...", help="Release folders.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="New .html or .json file.")],
    ledger: Annotated[Path | None, typer.Option(help="The ledger that paid for them.")] = None,
    evaluation: Annotated[
        list[Path] | None, typer.Option(help="What `evaluate --json FILE` wrote of one of them.")
    ] = None,
    audit: Annotated[
        list[Path] | None, typer.Option(help="What `audit --json` printed of their method.")
    ] = None,
    facts: Annotated[
        Path | None, typer.Option(help="YAML file with what only the custodian can say.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="Sign with this Ed25519 private key, a PEM file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a dossier about releases; what no file says is "not stated"."""
    from hushtable.dossier import make_dossier  # noqa: PLC0415 - slow to import
    from hushtable.dossier.seal import write_dossier  # noqa: PLC0415
    from hushtable.files.whole_file import require_new  # noqa: PLC0415

    require_new(out)
    if out.suffix not in {".html", ".json"}:
        raise ParameterError(f"{str(out)!r} must end in .html or .json.")
    dossier = make_dossier(
        releases,
        ledger=ledger,
        evaluations=evaluation or (),
        audits=audit or (),
        facts=facts,
        beside=out.parent,
    )
    write_dossier(out, dossier, key=key)
    unstated = [name for name, answer in dossier.answers.items() if not answer.is_stated]
    said = [f"Wrote {out}."]
    if unstated:
        said.append(
            f"{len(unstated)} of {len(dossier.answers)} questions say 'not stated': "
            f"{', '.join(unstated)}."
        )
    if dossier.internal:
        said.append(dossier.internal)
    tell(
        visible("\n".join(said)),
        as_json=as_json,
        dossier=str(out),
        not_stated=unstated,
        internal=dossier.internal,
    )


@dossier_group.command("verify")
def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The dossier.")],
    key: Annotated[
        Path | None, typer.Option(help="The signer's public key, a PEM file; it must have signed.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Where its files lie; by default beside it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a dossier's signature, and that all it was made from is still the same."""
    from hushtable.dossier import verify_dossier  # noqa: PLC0415 - slow to import

    found = verify_dossier(file, key=key, folder=folder)
    if found.signer is None:
        by = "It is not signed: this shows no change by mistake, not who made it."
    elif found.expected:
        by = "It was signed with the key that you gave."
    else:
        by = (
            f"It was signed with the key {found.signer}. Give the key that you expect (--key) to "
            "know whose that is."
        )
    n_files = len(found.dossier.files)
    tell(
        f"{visible(str(file))} is as it was written, and so are its {n_files} files.\n{by}",
        as_json=as_json,
        dossier=str(file),
        files=n_files,
        signer=found.signer,
        signed_with_key=found.expected,
    )
