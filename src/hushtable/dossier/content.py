"""What a dossier is: questions with their answers, where standards find them, and digests."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hushtable.privacy.values import Value

NOT_STATED = "not stated"

Source = Literal["statement", "ledger", "evaluation", "audit", "custodian", "hushtable", "nobody"]
"""Who says it; ``hushtable`` is what holds for every release that it makes."""


class Figures(Value):
    """Hold a small table of an answer."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Answer(Value):
    """Answer a question, or say that it is not stated."""

    id: str = Field(pattern=r"^[a-z-]+$")
    question: str
    answer: tuple[str, ...] = (NOT_STATED,)
    figures: Figures | None = None
    source: Source = "nobody"

    @property
    def is_stated(self) -> bool:
        """Whether there is an answer."""
        return self.source != "nobody"


class Section(Value):
    """Gather the answers about one matter."""

    title: str
    answers: tuple[Answer, ...]


class Place(Value):
    """Say which answers belong to one item of a standard."""

    item: str
    answers: tuple[str, ...] = Field(min_length=1, description="Ids of answers.")


class Standard(Value):
    """Say where what a standard asks for stands."""

    name: str
    places: tuple[Place, ...]


class File(Value):
    """Name a file that the dossier was made from, and what proves that it is the same."""

    kind: Literal["statement", "table", "attachment", "evaluation", "audit", "facts", "ledger"]
    path: str = Field(description="From the folder of the dossier.")
    digest: str = Field(
        pattern=r"^[0-9a-f]{64}$",
        description="Its SHA-256; of a ledger, which grows, the digest of its last record.",
    )


class Dossier(Value):
    """Hold all that is to be known about releases, for those who judge them.

    ``internal`` says whom it is for and why it is not for publication, if it is not.
    """

    format: Literal[1] = 1
    name: str
    created: str = Field(description="The day it was made.")
    version: str = Field(description="Of the hushtable that made it.")
    internal: str
    sections: tuple[Section, ...]
    standards: tuple[Standard, ...]
    files: tuple[File, ...]

    @property
    def answers(self) -> dict[str, Answer]:
        """All answers by their ids."""
        return {answer.id: answer for section in self.sections for answer in section.answers}


class Seal(Value):
    """Show that a dossier is as it was written and, with a signature, by whom."""

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    signature: str | None = Field(None, description="Ed25519, in base 64.")
    public_key: str | None = Field(None, description="The signer's, raw, in base 64.")


class SealedDossier(Value):
    """Hold a dossier and its seal: what a file with the ending .json holds."""

    dossier: Dossier
    seal: Seal
