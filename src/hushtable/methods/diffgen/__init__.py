"""DiffGen, with its estimator, proofs and the methods it is compared with."""

from hushtable.methods.listing import Listing

LISTINGS = (
    Listing(
        name="diffgen",
        method="hushtable.methods.diffgen.diffgen:DiffGen",
        audit="hushtable.audit.cases.diffgen:DIFFGEN",
        kind="generalized",
        estimator="hushtable.methods.diffgen.estimator:GeneralizedEstimator",
    ),
    Listing(
        name="contingency-table",
        method="hushtable.methods.diffgen.contingency_table:ContingencyTable",
        audit="hushtable.audit.cases.diffgen:CONTINGENCY_TABLE",
        kind="generalized",
        estimator="hushtable.methods.diffgen.estimator:GeneralizedEstimator",
        baseline=True,
    ),
    Listing(
        name="dp-c45",
        method="hushtable.methods.diffgen.dp_c45:DpC45",
        audit="",
        baseline=True,
    ),
    Listing(
        name="top-down-specialization",
        method="hushtable.methods.diffgen.top_down_specialization:TopDownSpecialization",
        audit="hushtable.audit.cases.diffgen:TOP_DOWN_SPECIALIZATION",
        kind="generalized",
        estimator="hushtable.methods.diffgen.estimator:GeneralizedEstimator",
        baseline=True,
    ),
)
