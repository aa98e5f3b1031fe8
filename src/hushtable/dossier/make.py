"""Creation of a dossier from releases and related files."""

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
    """Answer the questions that ethics boards, data protection officers and registries ask.

    Every answer comes from a file. A question that no file answers is marked "not stated".

    Parameters
    ----------
    releases : sequence of path
        Release folders. Their files are checked against their statements.
    ledger : path, optional
        Ledger that was charged for the releases.
    evaluations : sequence of path
        Evaluations of these releases, written by ``hushtable evaluate --json``.
    audits : sequence of path
        Audits of the methods of these releases, printed by ``hushtable audit --json``.
    facts : path, optional
        YAML file with the custodian's answers to questions that no other file can answer.
    beside : path, default="."
        Folder in which the dossier will be stored. File paths in the dossier are relative to it.

    Returns
    -------
    Dossier
        All sections with their answers, the table of standards, and the digest of every file used.

    Raises
    ------
    ParameterError
        If a file cannot be read or has the wrong format, or two release folders have the same name.
    Refused
        If the files do not match: an evaluation of another release, an audit of another method, or
        a ledger without the receipt of a release.
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
        internal=f"INTERNAL: {' and '.join(why)}. Do not publish." if why else "",
        sections=answer_all(evidence),
        standards=STANDARDS,
        files=evidence.files,
    )
