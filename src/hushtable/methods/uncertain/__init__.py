"""Uncertain k-anonymity, with its estimator, proofs and condensation to compare with."""

from hushtable.methods.listing import Listing

LISTINGS = (
    Listing(
        name="uncertain",
        method="hushtable.methods.uncertain.uncertain:Uncertain",
        audit="hushtable.audit.cases.uncertain:UNCERTAIN",
        kind="uncertain",
        estimator="hushtable.methods.uncertain.estimator:UncertainEstimator",
        attack="hushtable.evaluation.risk.likelihood:likelihood_attack",
    ),
    Listing(
        name="condensation",
        method="hushtable.methods.uncertain.condensation:Condensation",
        audit="hushtable.audit.cases.uncertain:CONDENSATION",
        kind="uncertain",
        estimator="hushtable.methods.uncertain.estimator:UncertainEstimator",
        baseline=True,
    ),
)
