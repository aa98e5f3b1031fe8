"""Mechanisms: the only code that opens sealed counts."""
