"""The quilt method, with its model, estimator and proof."""

from hushtable.methods.spec import MethodSpec

SPECS = (
    MethodSpec(
        name="quilt",
        method="hushtable.methods.quilt.quilt:Quilt",
        kind="quilt",
        estimator="hushtable.methods.quilt.estimator:QuiltEstimator",
    ),
)
