"""One noisy histogram per column: a method for hushtable in a separate package."""

from hushtable.methods.spec import MethodSpec

LISTING = MethodSpec(
    name="histograms",
    method="hushtable_histograms.method:Histograms",
    audit="hushtable_histograms.case:HISTOGRAMS",
    kind="histograms",
    estimator="hushtable_histograms.estimator:HistogramEstimator",
)
