"""Contents of a dossier: questions with answers, references from standards, and file digests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from hushtable.privacy.values import FrozenValue

NOT_STATED = "not stated"

AnswerSource = Literal[
    "statement", "ledger", "evaluation", "audit", "custodian", "hushtable", "nobody"
]
"""Origin of an answer; ``hushtable`` marks facts about every release that the software makes."""


class Figures(FrozenValue):
    """A small table in an answer."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class DossierAnswer(FrozenValue):
    """A question and its answer; the source is "nobody" if it is not stated."""

    id: str = Field(pattern=r"^[a-z-]+$")
    question: str
    answer: tuple[str, ...] = (NOT_STATED,)
    figures: Figures | None = None
    source: AnswerSource = "nobody"

    @property
    def is_stated(self) -> bool:
        """Whether the question has an answer."""
        return self.source != "nobody"


class Section(FrozenValue):
    """Questions on one topic, with answers."""

    title: str
    answers: tuple[DossierAnswer, ...]


class StandardReference(FrozenValue):
    """An item of a standard and the answers that address it."""

    item: str
    answers: tuple[str, ...] = Field(min_length=1, description="IDs of answers.")


class Standard(FrozenValue):
    """A standard and the answers that address each of its items."""

    name: str
    places: tuple[StandardReference, ...]


class EvidenceFile(FrozenValue):
    """A file that the dossier is based on, with its digest."""

    kind: Literal["statement", "table", "attachment", "evaluation", "audit", "facts", "ledger"]
    path: str = Field(description="Path relative to the folder of the dossier.")
    digest: str = Field(
        pattern=r"^[0-9a-f]{64}$",
        description="SHA-256 of the file; for a ledger, the digest of its last record.",
    )


class Dossier(FrozenValue):
    """Questions and answers about one or more releases, for readers who must assess them.

    ``internal`` states why the dossier must not be published; it is empty if it may be.
    """

    format: Literal[1] = 1
    name: str
    created: str = Field(description="Date of creation.")
    version: str = Field(description="Version of hushtable that made it.")
    internal: str
    sections: tuple[Section, ...]
    standards: tuple[Standard, ...]
    files: tuple[EvidenceFile, ...]

    @property
    def answers(self) -> dict[str, DossierAnswer]:
        """All answers by ID."""
        return {answer.id: answer for section in self.sections for answer in section.answers}


class DossierSeal(FrozenValue):
    """Digest of a dossier, with an optional signature of that digest."""

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    signature: str | None = Field(None, description="Ed25519 signature, base64.")
    public_key: str | None = Field(None, description="Raw public key of the signer, base64.")


class SealedDossier(FrozenValue):
    """Content of a dossier's ``.json`` file: the dossier and its seal."""

    dossier: Dossier
    seal: DossierSeal


# Questions of a dossier, in order, and which of them only the custodian can answer.


@dataclass(frozen=True)
class DossierQuestion:
    """A question; ``by_custodian`` if only the custodian can answer it."""

    id: str
    text: str
    by_custodian: bool = False


def _c(name: str, text: str) -> DossierQuestion:
    return DossierQuestion(name, text, by_custodian=True)


_Q = DossierQuestion

SECTIONS: dict[str, tuple[DossierQuestion, ...]] = {
    "The data": (
        _Q("data-set", "Which data set is described?"),
        _c("curator", "Which organization holds the data and publishes the release?"),
        _c(
            "collection",
            "How was the data collected, on what legal basis, and who had access?",
        ),
        _c("region", "Which region does it describe, and which law applies?"),
        _c("sector", "Which sector is it from?"),
        _Q("columns", "Which columns are published, and with which domains?"),
        _Q("cells", "How are empty cells and out-of-domain values handled?"),
        _Q("size", "How large is the release?"),
        _c("changes", "Is the data set fixed, or does it grow over time?"),
    ),
    "What is published": (
        _Q("product", "What is the data product, and when was it published?"),
        _c("product-type", "Which type of data product is it?"),
        _c("intended-use", "What is its intended use?"),
        _c("recipients", "Who receives it, and under which terms?"),
        _Q("access", "How can recipients query the data?"),
    ),
    "The promise": (
        _Q("unit", "What is the unit of privacy?"),
        _Q(
            "neighbors",
            "How do neighboring data sets differ?",
        ),
        _Q("promise", "What is promised, in words?"),
        _Q("formula", "What is promised, as a formula?"),
        _Q("variant", "Which definition of privacy is used, with which parameters?"),
        _Q("worst-case", "Does the bound hold for every person, or on average?"),
        _Q("left-out", "What does the promise not cover?"),
        _Q("responsible", "Who chose the parameters and is responsible for them?"),
        _Q("reason", "Why were these parameters chosen?"),
        _Q("total", "What is the total privacy loss of all releases about the same people?"),
        _Q("accounting", "How is the total computed?"),
        _Q("further-releases", "Are further releases possible, and how many?"),
    ),
    "The mechanism": (
        _Q("mechanism", "Which method was used, and from which publication?"),
        _Q("parameters", "With which parameters was it run?"),
        _Q("split", "How is epsilon divided among the steps of the method?"),
        _Q("proof", "Where is the proof that it keeps the promise?"),
        _Q("post-processing", "How are the noisy results post-processed?"),
        _c("tuning", "Were parameters tuned on the private data, and was that charged?"),
        _Q("randomness", "Where does the randomness come from?"),
        _Q("arithmetic", "How are attacks on floating-point arithmetic prevented?"),
        _Q("side-channels", "Which side channels are known?"),
        _Q("versions", "Which software versions were used?"),
    ),
    "The environment": (
        _Q("trust", "Who is trusted with the private data?"),
        _Q("attackers", "Which attackers does the promise cover, and what may they know?"),
        _c("access-control", "Who has access to the private data, and how is it stored?"),
        _c("retention", "How long are private data and releases kept?"),
        _c("environment", "Which other controls apply to recipients: contracts, access, training?"),
    ),
    "Measurements": (
        _Q("audit", "Was the promise tested empirically, and with what result?"),
        _Q("utility", "How close are estimates from the release to the original data?"),
        _Q("subgroups", "For which groups is the release inaccurate, and by how much?"),
        _Q("singling-out", "Can a person be singled out?"),
        _Q("linkability", "Can records of the same person be linked?"),
        _Q("inference", "Can attributes of a person be inferred?"),
        _Q("other-attacks", "Which other attacks were tried?"),
        _Q("anonymity", "How many published rows share the same quasi-identifiers?"),
    ),
    "Governance": (
        _Q("review", "When will it be reviewed?"),
        _c("policies", "Which principles, policies and procedures apply?"),
        _c("harms", "Which harms could people suffer, and who assessed them?"),
        _c("stakeholders", "How were data subjects and other stakeholders informed and consulted?"),
        _c("monitoring", "Who monitors new data sources and attacks that change the risk?"),
        _c("incident", "What is the incident response plan?"),
        _c("sources", "Where is further documentation?"),
    ),
}

QUESTIONS = {question.id: question for section in SECTIONS.values() for question in section}

STATEABLE = {
    *(name for name, question in QUESTIONS.items() if question.by_custodian),
    "responsible",
    "reason",
    "review",
}
"""Questions that a file of facts may answer; all other answers come from hushtable's own files."""


# References from the items of four standards to the answers of a dossier.
#
# - NIST SP 800-226 (2025), "Guidelines for evaluating differential privacy guarantees": the
#   components of its pyramid.
# - ISO/IEC 27559:2022, "Privacy enhancing data de-identification framework": its clauses.
# - OpenDP's registry of deployments: the fields of its records.
# - Opinion 05/2014 of the Article 29 Working Party on anonymisation techniques: its three criteria.

_NIST = {
    "Privacy parameters (epsilon)": "variant formula responsible reason total",
    "Unit of privacy": "unit neighbors",
    "Algorithms and correctness": "mechanism parameters proof arithmetic randomness audit",
    "Utility": "utility",
    "Bias": "subgroups post-processing",
    "Query model": "access further-releases",
    "Threat model": "trust attackers left-out",
    "Side channels": "side-channels",
    "Security and access control": "access-control",
    "Data collection exposure": "collection retention",
}
_ISO = {
    "6.2.2 Security and privacy practices": "access-control recipients environment",
    "6.2.3 Motives and capacity to re-identify": "attackers recipients",
    "6.3.2 Transparency and stakeholder engagement": "stakeholders",
    "6.3.3 Privacy-related harms": "harms left-out",
    "7.2.2 Data principals": "unit collection",
    "7.2.3 Data type": "product product-type",
    "7.2.4 Attribute types": "columns",
    "7.2.5 Dataset properties": "data-set size cells changes",
    "7.3.2 Maximum or average risk": "worst-case",
    "7.3.3 Population or sample-based attack": "attackers neighbors",
    "7.3.4 Data privacy models": "variant promise",
    "8.2.2 Quantifying identifiability": "formula anonymity total",
    "8.2.3 Adversarial testing": "audit singling-out linkability inference other-attacks",
    "8.3.2 Reconfiguring the environment": "environment recipients",
    "8.3.3 Transforming the data": "mechanism post-processing",
    "8.3.4 Re-evaluation": "review",
    "9.2.2 Roles and responsibilities": "responsible curator",
    "9.2.3 Principles, policies and procedures": "policies",
    "9.2.4 Identifying and managing a disclosure": "total accounting further-releases",
    "9.2.5 Communicating with stakeholders": "stakeholders",
    "9.3 After data are made available: monitoring": "monitoring review retention",
    "9.4 Mitigation in case of incident": "incident",
}
_REGISTRY = {
    "basic.name": "data-set product",
    "basic.data_curators": "curator",
    "basic.description": "product columns",
    "basic.intended_use": "intended-use",
    "basic.data_product_type": "product-type",
    "basic.data_product_region": "region",
    "basic.data_product_sector": "sector",
    "basic.publication_date": "product",
    "dp_variant.variant_name": "variant",
    "dp_variant.data_domain": "columns cells",
    "dp_variant.unprotected_quantities": "left-out",
    "privacy_loss.privacy_unit": "unit",
    "privacy_loss.privacy_unit_details": "neighbors",
    "privacy_loss.privacy_parameters": "variant",
    "privacy_loss.privacy_parameters_details": "formula split",
    "deployment_model.model_name": "trust",
    "deployment_model.model_name_details": "trust",
    "deployment_model.actors": "attackers recipients",
    "deployment_model.release_type": "further-releases",
    "deployment_model.release_type_details": "total",
    "deployment_model.data_source_type": "changes",
    "deployment_model.data_source_type_details": "changes",
    "deployment_model.access_type": "access",
    "deployment_model.access_type_details": "access",
    "accounting.post_processing": "post-processing",
    "accounting.composition": "accounting",
    "implementation.preprocessing_and_hyperparameter_tuning": "cells tuning",
    "implementation.mechanisms": (
        "mechanism randomness arithmetic side-channels access-control versions"
    ),
    "implementation.justification": "reason responsible",
    "administrative.sources": "sources",
    "administrative.notes": "left-out",
    "administrative.registry_authors": "responsible",
}
_CRITERIA = {
    "Singling out": "singling-out",
    "Linkability": "linkability",
    "Inference": "inference",
}


def _standard(name: str, places: dict[str, str]) -> Standard:
    return Standard(
        name=name,
        places=tuple(
            StandardReference(item=item, answers=tuple(ids.split())) for item, ids in places.items()
        ),
    )


STANDARDS = (
    _standard("NIST SP 800-226, the differential privacy pyramid", _NIST),
    _standard("ISO/IEC 27559:2022", _ISO),
    _standard("OpenDP's deployment registry", _REGISTRY),
    _standard("Three criteria of anonymization (WP 216)", _CRITERIA),
)
