"""Recursive partitioning with its estimator and proof, and the baseline Mondrian."""

from hushtable.methods.spec import MethodSpec

SPECS = (
    MethodSpec(
        name="partition",
        method="hushtable.methods.partition.partition:Partition",
        kind="regions",
        estimator="hushtable.methods.partition.estimator:RegionEstimator",
    ),
    MethodSpec(
        name="mondrian",
        method="hushtable.methods.partition.mondrian:Mondrian",
        kind="boxes",
        estimator="hushtable.methods.partition.mondrian:BoxEstimator",
        baseline=True,
    ),
)
