"""Attacks on methods, run by the custodian: how much a release would give away."""
