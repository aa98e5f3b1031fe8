"""One noisy histogram per column: a method that joins hushtable from a package of its own."""

from hushtable.methods.spec import MethodSpec

LISTING = MethodSpec(
    name="histograms",
    method="hushtable_histograms.method:Histograms",
    audit="hushtable_histograms.case:HISTOGRAMS",
    kind="histograms",
    estimator="hushtable_histograms.estimator:HistogramEstimator",
)
