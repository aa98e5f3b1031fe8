"""Disclosure risk of a release: anonymity measures, and one module per attack."""
