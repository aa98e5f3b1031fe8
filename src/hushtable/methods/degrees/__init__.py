"""Degree sequences with node-level privacy: method, estimator, proofs, and a baseline."""

from hushtable.methods.spec import MethodSpec

SPECS = (
    MethodSpec(
        name="degrees",
        method="hushtable.methods.degrees.degrees:Degrees",
        kind="degrees",
        estimator="hushtable.methods.degrees.estimator:DegreeEstimator",
        takes="graph",
    ),
    MethodSpec(
        name="hay-degrees",
        method="hushtable.methods.degrees.hay:HayDegrees",
        takes="graph",
        baseline=True,
    ),
)
