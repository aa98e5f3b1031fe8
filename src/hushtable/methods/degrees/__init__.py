"""Degree sequences with node-level privacy: method, estimator, proofs, and a baseline."""
