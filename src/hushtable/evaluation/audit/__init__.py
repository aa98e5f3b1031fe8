"""Try to falsify what a method promises, by running it on made-up neighbors."""

from hushtable.evaluation.audit.report import Finding, Report
from hushtable.evaluation.audit.run import audit

__all__ = ["Finding", "Report", "audit"]
