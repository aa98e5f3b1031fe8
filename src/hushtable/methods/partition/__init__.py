"""Recursive partitioning with its estimator and proof, and the baseline Mondrian."""
