"""Evaluation of releases: utility, attacks, and comparisons with the private table."""
