"""quilt beside today's best synthesizers on the same rows: ``python -m benchmarks.peers``."""
