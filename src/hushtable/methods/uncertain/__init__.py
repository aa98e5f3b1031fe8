"""Uncertain k-anonymity: method, estimator, proofs, and the baseline condensation."""
