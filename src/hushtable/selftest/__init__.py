"""Check, where hushtable is installed, that it keeps what it claims.

Noise is held against exact probabilities, methods against the numbers of their papers and against
the auditor, the ledger against races and kills. Nothing private is read.
"""

from hushtable.selftest.run import CHECKS, run_checks
from hushtable.selftest.verdict import Check, Verdict

__all__ = ["CHECKS", "Check", "Verdict", "run_checks"]
