"""Questions of a dossier, in order, and which of them only the custodian can answer."""

from __future__ import annotations

from dataclasses import dataclass


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
