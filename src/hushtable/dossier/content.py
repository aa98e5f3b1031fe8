"""Contents of a dossier: questions with answers, references from standards, and file digests."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

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


# Questions of a dossier in order: by section, the text of each question ID.

SECTIONS = {
    "The data": {
        "data-set": "Data set",
        "curator": "Organization that holds the data and publishes the release",
        "collection": "Collection of the data: procedure, legal basis and access",
        "region": "Region that the data describes, and applicable law",
        "sector": "Sector that the data is from",
        "columns": "Published columns and their domains",
        "cells": "Treatment of empty cells and out-of-domain values",
        "size": "Size of the release",
        "changes": "Changes over time: a fixed or a growing data set",
    },
    "The data product": {
        "product": "Data product and date of publication",
        "product-type": "Type of data product",
        "intended-use": "Intended use",
        "recipients": "Recipients, and the terms under which they receive it",
        "access": "Access of recipients to the data",
    },
    "The promise": {
        "unit": "Unit of privacy",
        "neighbors": "Difference between neighboring data sets",
        "promise": "Promise in words",
        "formula": "Promise as a formula",
        "variant": "Definition of privacy, with its parameters",
        "worst-case": "Scope of the bound: every person, or on average",
        "left-out": "Limits of the promise",
        "responsible": "Person responsible for the choice of parameters",
        "reason": "Reason for the choice of parameters",
        "total": "Total privacy loss of all releases about the same people",
        "accounting": "Computation of the total",
        "further-releases": "Further releases that are possible",
    },
    "The mechanism": {
        "mechanism": "Method, and the publication that describes it",
        "parameters": "Parameters of the method",
        "split": "Division of epsilon among the steps of the method",
        "proof": "Proof of the promise",
        "post-processing": "Post-processing of the noisy results",
        "tuning": "Tuning of parameters on the private data, and its privacy cost",
        "randomness": "Source of randomness",
        "arithmetic": "Protection against attacks on floating-point arithmetic",
        "side-channels": "Known side channels",
        "versions": "Software versions",
    },
    "The environment": {
        "trust": "Parties trusted with the private data",
        "attackers": "Attackers that the promise covers, and their knowledge",
        "access-control": "Access to the private data, and its storage",
        "retention": "Retention of private data and releases",
        "environment": "Other controls on recipients: contracts, access, training",
    },
    "Measurements": {
        "audit": "Empirical test of the promise, and its result",
        "utility": "Accuracy of estimates from the release",
        "subgroups": "Groups for which the release is inaccurate, and by how much",
        "singling-out": "Singling out of a person",
        "linkability": "Linkage of records of the same person",
        "inference": "Inference of a person's attributes",
        "other-attacks": "Other attacks",
        "anonymity": "Number of published rows with the same quasi-identifiers",
    },
    "Governance": {
        "review": "Date of the next review",
        "policies": "Applicable principles, policies and procedures",
        "harms": "Possible harms to people, and their assessment",
        "stakeholders": "Information and consultation of data subjects and other stakeholders",
        "monitoring": "Monitoring of new data sources and attacks that change the risk",
        "incident": "Incident response plan",
        "sources": "Further documentation",
    },
}

QUESTIONS = {name: text for section in SECTIONS.values() for name, text in section.items()}

_BY_CUSTODIAN = (
    "curator collection region sector changes product-type intended-use recipients responsible "
    "reason tuning access-control retention environment review policies harms stakeholders "
    "monitoring incident sources"
)
STATEABLE = frozenset(_BY_CUSTODIAN.split())
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


STANDARDS = tuple(
    Standard(
        name=name,
        places=tuple(
            StandardReference(item=item, answers=tuple(ids.split())) for item, ids in places.items()
        ),
    )
    for name, places in {
        "NIST SP 800-226, the differential privacy pyramid": _NIST,
        "ISO/IEC 27559:2022": _ISO,
        "OpenDP's deployment registry": _REGISTRY,
        "Three criteria of anonymization (WP 216)": _CRITERIA,
    }.items()
)
