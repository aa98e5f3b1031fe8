"""Self-test of an installation.

It compares noise with exact probabilities, methods with numbers from their papers and with the
auditor, and tests the ledger with concurrent and killed processes. It reads no private data.
"""

from hushtable.selftest.run import CHECKS, run_checks
from hushtable.selftest.verdict import CheckResult, SelfCheck

__all__ = ["CHECKS", "CheckResult", "SelfCheck", "run_checks"]
