"""Linked tables: persons and their child tables, under one promise."""

from hushtable.methods.spec import MethodSpec

SPECS = (
    MethodSpec(
        name="linked",
        method="hushtable.methods.linked.linked:Linked",
        kind="linked",
        estimator="hushtable.methods.linked.estimator:LinkedEstimator",
        takes="tables",
    ),
)
