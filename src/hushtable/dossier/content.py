"""Contents of a dossier: questions with answers, references from standards, and file digests."""

from __future__ import annotations

from importlib.resources import files
from typing import Literal

from pydantic import Field

from hushtable.files.yaml_text import read_yaml
from hushtable.privacy.values import FrozenValue

NOT_STATED = "not stated"

AnswerSource = Literal[
    "statement", "ledger", "evaluation", "audit", "custodian", "hushtable", "none"
]
"""Origin of an answer; ``hushtable`` marks facts about every release that the software makes."""


class Figures(FrozenValue):
    """A small table in an answer."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class DossierAnswer(FrozenValue):
    """A question and its answer; the source is "none" if the answer is not stated."""

    id: str = Field(pattern=r"^[a-z-]+$")
    question: str
    answer: tuple[str, ...] = (NOT_STATED,)
    figures: Figures | None = None
    source: AnswerSource = "none"

    @property
    def is_stated(self) -> bool:
        """True if the question has an answer."""
        return self.source != "none"


class Section(FrozenValue):
    """Questions on one topic, with answers."""

    title: str
    answers: tuple[DossierAnswer, ...]


class StandardReference(FrozenValue):
    """An item of a standard and the answers that address it.

    Parameters
    ----------
    answers
        IDs of answers.
    """

    item: str
    answers: tuple[str, ...] = Field(min_length=1)


class Standard(FrozenValue):
    """A standard and the answers that address each of its items."""

    name: str
    places: tuple[StandardReference, ...]


class EvidenceFile(FrozenValue):
    """A file that the dossier is based on, with its digest.

    Parameters
    ----------
    path
        Path relative to the folder of the dossier.
    digest
        SHA-256 of the file; for a ledger, the digest of its last record.
    """

    kind: Literal["statement", "table", "attachment", "evaluation", "audit", "facts", "ledger"]
    path: str
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")


class Dossier(FrozenValue):
    """Questions and answers about one or more releases, for readers who must assess them.

    ``internal`` states why the dossier must not be published; it is empty if it may be.

    Parameters
    ----------
    created
        Date of creation.
    version
        Version of hushtable that made it.
    """

    format: Literal[1] = 1
    name: str
    created: str
    version: str
    internal: str
    sections: tuple[Section, ...]
    standards: tuple[Standard, ...]
    files: tuple[EvidenceFile, ...]

    @property
    def answers(self) -> dict[str, DossierAnswer]:
        """All answers by ID."""
        return {answer.id: answer for section in self.sections for answer in section.answers}


class DossierSeal(FrozenValue):
    """Digest of a dossier, with an optional signature of that digest.

    Parameters
    ----------
    signature
        Ed25519 signature, base64.
    public_key
        Raw public key of the signer, base64.
    """

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    signature: str | None = None
    public_key: str | None = None


class SealedDossier(FrozenValue):
    """Content of a dossier's ``.json`` file: the dossier and its seal."""

    dossier: Dossier
    seal: DossierSeal


# Questions of a dossier, and the items of standards that they address.

_QUESTIONS = read_yaml((files(__package__) / "questions.yaml").read_text(encoding="utf-8"))

SECTIONS: dict[str, dict[str, str]] = _QUESTIONS["sections"]
"""Questions in order: by section, the text of each question ID."""

STATEABLE: frozenset[str] = frozenset(_QUESTIONS["custodian"].split())
"""Questions that a file of facts may answer; all other answers come from hushtable's own files."""

STANDARDS = tuple(
    Standard(
        name=name,
        places=tuple(
            StandardReference(item=item, answers=tuple(ids.split())) for item, ids in places.items()
        ),
    )
    for name, places in _QUESTIONS["standards"].items()
)
