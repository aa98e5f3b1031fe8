"""The questions of a dossier, in their order, and who may answer them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """Ask something; ``by_custodian`` where no file of hushtable's can know it."""

    id: str
    text: str
    by_custodian: bool = False


def _c(name: str, text: str) -> Question:
    return Question(name, text, by_custodian=True)


_Q = Question

SECTIONS: dict[str, tuple[Question, ...]] = {
    "The data": (
        _Q("data-set", "Which data set is it about?"),
        _c("curator", "Who holds the data and publishes about it?"),
        _c("collection", "How was the data collected, on what legal basis, and who saw it then?"),
        _c("region", "Which region does it describe, and whose law applies?"),
        _c("sector", "Which sector does it belong to?"),
        _Q("columns", "Which columns are published, with which values?"),
        _Q("cells", "What happens to cells that are missing or do not fit?"),
        _Q("size", "How large is what is published?"),
        _c("changes", "Does new data come in over time, or is the data set fixed?"),
    ),
    "What is published": (
        _Q("product", "What is the data product, and when was it published?"),
        _c("product-type", "Which type of data product is it?"),
        _c("intended-use", "What is it meant to be used for?"),
        _c("recipients", "Who gets it, under which terms?"),
        _Q("access", "How may recipients ask about the data?"),
    ),
    "The promise": (
        _Q("unit", "Who or what is protected?"),
        _Q("neighbors", "What may two data sets differ in that nobody can tell apart?"),
        _Q("promise", "What is promised, in words?"),
        _Q("formula", "What is promised, as a formula?"),
        _Q("variant", "Which kind of privacy is it, with which parameters?"),
        _Q("worst-case", "Does the bound hold for everybody, or on average?"),
        _Q("left-out", "What does the promise not cover?"),
        _Q("responsible", "Who chose the parameters and answers for them?"),
        _Q("reason", "Why these parameters?"),
        _Q("total", "What do all releases about the same people come to?"),
        _Q("accounting", "How is that added up?"),
        _Q("further-releases", "May there be more releases, and how many?"),
    ),
    "The mechanism": (
        _Q("mechanism", "How was it made, after which work?"),
        _Q("parameters", "With which settings?"),
        _Q("split", "How is epsilon divided over its steps?"),
        _Q("proof", "Where is the proof that it keeps the promise?"),
        _Q("post-processing", "What is done to the data after the noise?"),
        _c("tuning", "Were settings tried on the private data before, and was that paid for?"),
        _Q("randomness", "Where does the randomness come from?"),
        _Q("arithmetic", "What guards against the flaws of floating-point numbers?"),
        _Q("side-channels", "Which side channels are known?"),
        _Q("versions", "With which versions was it made?"),
    ),
    "The surroundings": (
        _Q("trust", "Who is trusted with the private data?"),
        _Q("attackers", "Against whom does the promise hold, and whatever do they know?"),
        _c("access-control", "Who may reach the private data, and how is it kept?"),
        _c("retention", "How long are private data and releases kept?"),
        _c("environment", "What else keeps recipients from harm: contracts, controls, training?"),
    ),
    "What was measured": (
        _Q("audit", "Did anybody try to falsify the promise, with what result?"),
        _Q("utility", "How close are answers of the release to those of the data?"),
        _Q("subgroups", "For which groups is it off, and by how much?"),
        _Q("singling-out", "Can somebody be singled out?"),
        _Q("linkability", "Can records of the same person be linked?"),
        _Q("inference", "Can something be inferred about a person?"),
        _Q("other-attacks", "Which other attacks were tried?"),
        _Q("anonymity", "How many published rows look alike?"),
    ),
    "Governance": (
        _Q("review", "When is it to be looked at again?"),
        _c("policies", "Which principles, policies and procedures apply?"),
        _c("harms", "Which harms may come to people, and who has weighed them?"),
        _c("stakeholders", "How were the people concerned and other parties told and heard?"),
        _c("monitoring", "Who watches for new data or attacks that change the risk?"),
        _c("incident", "What is done if something goes wrong?"),
        _c("sources", "Where is more to be read?"),
    ),
}

QUESTIONS = {question.id: question for section in SECTIONS.values() for question in section}

STATEABLE = {
    *(name for name, question in QUESTIONS.items() if question.by_custodian),
    "responsible",
    "reason",
    "review",
}
"""What a custodian may state in a file of facts; all else is taken from what hushtable wrote."""
