"""DiffGen with its estimator and proofs, and the baselines it is compared with."""

from functools import partial

from hushtable.methods.spec import MethodSpec

_generalized = partial(
    MethodSpec,
    kind="generalized",
    estimator="hushtable.methods.diffgen.estimator:GeneralizedEstimator",
)

SPECS = (
    _generalized(
        name="diffgen",
        method="hushtable.methods.diffgen.diffgen:DiffGen",
    ),
    _generalized(
        name="contingency-table",
        method="hushtable.methods.diffgen.contingency_table:ContingencyTable",
        baseline=True,
    ),
    MethodSpec(
        name="dp-c45",
        method="hushtable.methods.diffgen.dp_c45:DpC45",
        baseline=True,
    ),
    _generalized(
        name="top-down-specialization",
        method="hushtable.methods.diffgen.top_down_specialization:TopDownSpecialization",
        baseline=True,
    ),
)
