"""Making a dossier from releases and what goes with them."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

import hushtable
from hushtable.dossier.answers import answer_all, is_internal
from hushtable.dossier.content import Dossier
from hushtable.dossier.evidence import gather
from hushtable.dossier.standards import STANDARDS


def make_dossier(
    releases: Sequence[str | Path],
    *,
    ledger: str | Path | None = None,
    evaluations: Sequence[str | Path] = (),
    audits: Sequence[str | Path] = (),
    facts: str | Path | None = None,
    beside: str | Path = ".",
) -> Dossier:
    """Answer what boards, officers and registries ask about releases; what is not known says so.

    Parameters
    ----------
    releases : sequence of path
        Release folders, checked against their statements.
    ledger : path, optional
        The ledger that paid for them.
    evaluations : sequence of path
        Files that ``hushtable evaluate --json`` wrote, of these releases.
    audits : sequence of path
        Files that ``hushtable audit --json`` printed, of the methods of these releases.
    facts : path, optional
        A YAML file in which the custodian states what no other file can know.
    beside : path
        The folder that the dossier will lie in; its files are named from there.
    """
    evidence = gather(
        releases,
        ledger=ledger,
        evaluations=evaluations,
        audits=audits,
        facts=facts,
        beside=Path(beside),
    )
    why = is_internal(evidence)
    names = {str(r.statement.public_schema["name"]): None for r in evidence.releases.values()}
    return Dossier(
        name=", ".join(names),
        created=datetime.datetime.now(datetime.UTC).date().isoformat(),
        version=hushtable.__version__,
        internal=f"INTERNAL: {', and '.join(why)}. Do not publish it." if why else "",
        sections=answer_all(evidence),
        standards=STANDARDS,
        files=evidence.files,
    )
