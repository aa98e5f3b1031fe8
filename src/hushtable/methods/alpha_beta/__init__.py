"""The alpha-beta algorithm: method, estimators, proofs, and the baseline FRAPP."""

from hushtable.methods.spec import MethodSpec

SPECS = (
    MethodSpec(
        name="alpha-beta",
        method="hushtable.methods.alpha_beta.alpha_beta:AlphaBeta",
        audit="hushtable.audit.cases.known:ALPHA_BETA",
        kind="insertions",
        estimator="hushtable.methods.alpha_beta.insertion_estimator:InsertionEstimator",
    ),
    MethodSpec(
        name="frapp",
        method="hushtable.methods.alpha_beta.frapp:Frapp",
        audit="hushtable.audit.cases.known:FRAPP",
        kind="retention",
        estimator="hushtable.methods.alpha_beta.frapp:RetentionEstimator",
        baseline=True,
    ),
)
