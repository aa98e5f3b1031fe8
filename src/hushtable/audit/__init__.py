"""Try to falsify what a method promises, by running it on made-up neighbors."""

from hushtable.audit.report import Finding, Report
from hushtable.audit.run import audit

__all__ = ["Finding", "Report", "audit"]
