"""Noisy counts of tuples, of whole rows or of groups of columns, with estimators and proofs."""

from hushtable.methods.spec import MethodSpec

SPECS = (
    MethodSpec(
        name="noisy-counts",
        method="hushtable.methods.counts.noisy_counts:NoisyCounts",
        kind="cells",
        estimator="hushtable.methods.counts.cell_estimator:CellEstimator",
    ),
    MethodSpec(
        name="columns",
        method="hushtable.methods.counts.columns:Columns",
        kind="columns",
        estimator="hushtable.methods.counts.columns_estimator:ColumnsEstimator",
    ),
    MethodSpec(
        name="generalize-suppress",
        method="hushtable.methods.counts.generalize_suppress:GeneralizeSuppress",
        kind="suppressed-cells",
        estimator="hushtable.methods.counts.cell_estimator:SuppressedEstimator",
        baseline=True,
    ),
    MethodSpec(
        name="random-sampling",
        method="hushtable.methods.counts.random_sampling:RandomSampling",
        kind="sampled-rows",
        estimator="hushtable.methods.counts.random_sampling:SampleEstimator",
        baseline=True,
    ),
)
