"""Noisy counts of tuples, of whole rows or of groups of columns, with estimators and proofs."""

from hushtable.methods.spec import MethodSpec

SPECS = (
    MethodSpec(
        name="noisy-counts",
        method="hushtable.methods.counts.noisy_counts:NoisyCounts",
        audit="hushtable.audit.cases.known:NOISY_COUNTS",
        kind="cells",
        estimator="hushtable.methods.counts.cell_estimator:CellEstimator",
    ),
    MethodSpec(
        name="columns",
        method="hushtable.methods.counts.columns:Columns",
        audit="hushtable.audit.cases.known:COLUMNS",
        kind="columns",
        estimator="hushtable.methods.counts.columns_estimator:ColumnsEstimator",
    ),
    MethodSpec(
        name="generalize-suppress",
        method="hushtable.methods.counts.generalize_suppress:GeneralizeSuppress",
        audit="hushtable.audit.cases.known:GENERALIZE_SUPPRESS",
        kind="suppressed-cells",
        estimator="hushtable.methods.counts.cell_estimator:SuppressedEstimator",
        baseline=True,
    ),
    MethodSpec(
        name="random-sampling",
        method="hushtable.methods.counts.random_sampling:RandomSampling",
        audit="hushtable.audit.cases.known:RANDOM_SAMPLING",
        kind="sampled-rows",
        estimator="hushtable.methods.counts.random_sampling:SampleEstimator",
        baseline=True,
    ),
)
