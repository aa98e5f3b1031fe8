"""The alpha-beta algorithm: method, estimators, proofs, and the baseline FRAPP."""

from hushtable.methods.spec import MethodSpec

SPECS = (
    MethodSpec(
        name="alpha-beta",
        method="hushtable.methods.alpha_beta.alpha_beta:AlphaBeta",
        kind="insertions",
        estimator="hushtable.methods.alpha_beta.insertion_estimator:InsertionEstimator",
    ),
    MethodSpec(
        name="frapp",
        method="hushtable.methods.alpha_beta.frapp:Frapp",
        kind="retention",
        estimator="hushtable.methods.alpha_beta.frapp:RetentionEstimator",
        baseline=True,
    ),
)
