"""Noisy counts of tuples, of whole rows or of groups of columns, with estimators and proofs."""
