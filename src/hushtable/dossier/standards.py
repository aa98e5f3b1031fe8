"""References from the items of four standards to the answers of a dossier.

- NIST SP 800-226 (2025), "Guidelines for evaluating differential privacy guarantees": the
  components of its pyramid.
- ISO/IEC 27559:2022, "Privacy enhancing data de-identification framework": its clauses.
- OpenDP's registry of deployments: the fields of its records.
- Opinion 05/2014 of the Article 29 Working Party on anonymisation techniques: its three criteria.
"""

from __future__ import annotations

from hushtable.dossier.content import Standard, StandardReference

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
