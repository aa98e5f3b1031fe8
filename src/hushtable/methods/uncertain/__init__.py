"""Uncertain k-anonymity: method, estimator, proofs, and the baseline condensation."""

from functools import partial

from hushtable.methods.spec import MethodSpec

_uncertain = partial(
    MethodSpec,
    kind="uncertain",
    estimator="hushtable.methods.uncertain.estimator:UncertainEstimator",
)

SPECS = (
    _uncertain(
        name="uncertain",
        method="hushtable.methods.uncertain.uncertain:Uncertain",
    ),
    _uncertain(
        name="condensation",
        method="hushtable.methods.uncertain.condensation:Condensation",
        baseline=True,
    ),
)
