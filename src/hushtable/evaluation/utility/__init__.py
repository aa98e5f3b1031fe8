"""Utility of a release: distributions, counts and machine learning."""
