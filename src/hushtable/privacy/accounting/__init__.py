"""Accounting: what the queries of one run cost, against its promise."""
