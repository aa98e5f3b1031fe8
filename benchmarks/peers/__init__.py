"""Comparison of quilt with other synthesizers on the same rows: ``python -m benchmarks.peers``."""
