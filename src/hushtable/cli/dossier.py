"""``hushtable dossier``: write and verify the dossier of releases, for reviewers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from hushtable.cli.options import AsJson, CommandGroup
from hushtable.cli.plain import visible
from hushtable.cli.screen import tell

WRITE = "write"
"""The default command."""


class _DossierGroup(TyperGroup):
    """Command group in which a first argument that is not a command starts `write`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = [WRITE, *args]
        return super().parse_args(ctx, args)


dossier_group = CommandGroup(
    name="dossier",
    cls=_DossierGroup,
    no_args_is_help=True,
    help="Write a dossier for review boards and data protection officers "
    "(`dossier RELEASE... --out FILE`), or verify one.",
)


@dossier_group.command(WRITE)
def write(
    releases: list[Path],
    *,
    out: Annotated[Path, typer.Option("--out", "-o")],
    ledger: Path | None = None,
    evaluation: list[Path] | None = None,
    audit: list[Path] | None = None,
    facts: Path | None = None,
    key: Path | None = None,
    as_json: AsJson = False,
) -> None:
    """Write a dossier about releases; unanswered questions say "not stated".

    Parameters
    ----------
    releases : RELEASE...
        Folders of releases, or of a series.
    out
        New .html or .json file.
    ledger
        Ledger that was charged.
    evaluation
        Output of `evaluate --json FILE` for a release. Repeatable.
    audit
        Output of `audit --json` for the method. Repeatable.
    facts
        YAML file with the custodian's own answers.
    key
        Sign with this Ed25519 private key, a PEM file.
    """
    from hushtable.dossier import make_dossier  # noqa: PLC0415 - slow to import
    from hushtable.dossier.seal import write_dossier  # noqa: PLC0415
    from hushtable.files.writing import require_new  # noqa: PLC0415

    require_new(out, ".html", ".json")
    folders: list[Path] = []
    for folder in releases:
        if not (folder / "series.yaml").is_file():
            folders.append(folder)
            continue
        from hushtable.series import Series  # noqa: PLC0415 - only for a series

        series = Series.open(folder)
        folders += series.releases().values()
        ledger = ledger or series.ledger.path
    dossier = make_dossier(
        folders,
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
            f"{len(unstated)} of {len(dossier.answers)} answers are 'not stated': "
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
    file: Path, *, key: Path | None = None, folder: Path | None = None, as_json: AsJson = False
) -> None:
    """Check a dossier's signature, and that the files it was made from have not changed.

    Parameters
    ----------
    file : FILE
        The dossier.
    key
        Require a signature by this Ed25519 public key (PEM file).
    folder
        Folder of the files it refers to; default: the dossier's folder.
    """
    from hushtable.dossier import verify_dossier  # noqa: PLC0415 - slow to import

    found = verify_dossier(file, key=key, folder=folder)
    if found.signer is None:
        by = "It is not signed: this rules out accidental changes but does not prove its origin."
    elif found.expected:
        by = "It was signed with the given key."
    else:
        by = (
            f"It was signed with the key {found.signer}. To check the signer, give the expected "
            "key (--key)."
        )
    n_files = len(found.dossier.files)
    tell(
        f"{visible(str(file))} and its {n_files} files are unchanged.\n{by}",
        as_json=as_json,
        dossier=str(file),
        files=n_files,
        signer=found.signer,
        signed_with_key=found.expected,
    )
