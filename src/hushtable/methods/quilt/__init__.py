"""The quilt method, with its model, estimator and proof; and quilts of linked tables."""

from hushtable.methods.listing import MethodSpec

SPECS = (
    MethodSpec(
        name="quilt",
        method="hushtable.methods.quilt.quilt:Quilt",
        audit="hushtable.audit.cases.quilt:QUILT",
        kind="quilt",
        estimator="hushtable.methods.quilt.estimator:QuiltEstimator",
    ),
    MethodSpec(
        name="linked",
        method="hushtable.linked.linked:Linked",
        audit="",
        kind="linked",
        estimator="hushtable.linked.estimator:LinkedEstimator",
        takes="tables",
    ),
)
