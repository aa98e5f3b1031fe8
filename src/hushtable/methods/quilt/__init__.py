"""quilt, with the field it fits, its estimator and its proof."""

from hushtable.methods.listing import Listing

LISTINGS = (
    Listing(
        name="quilt",
        method="hushtable.methods.quilt.quilt:Quilt",
        audit="hushtable.audit.cases.quilt:QUILT",
        kind="quilt",
        estimator="hushtable.methods.quilt.estimator:QuiltEstimator",
    ),
)
