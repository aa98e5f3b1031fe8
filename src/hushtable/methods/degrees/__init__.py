"""Degree sequences with node-level privacy: method, estimator, proofs, and a baseline."""

from hushtable.methods.spec import MethodSpec

SPECS = (
    MethodSpec(
        name="degrees",
        method="hushtable.methods.degrees.degrees:Degrees",
        audit="hushtable.audit.cases.known:DEGREES",
        kind="degrees",
        estimator="hushtable.methods.degrees.estimator:DegreeEstimator",
        takes="graph",
    ),
    MethodSpec(
        name="hay-degrees",
        method="hushtable.methods.degrees.hay:HayDegrees",
        audit="",
        takes="graph",
        baseline=True,
    ),
)
