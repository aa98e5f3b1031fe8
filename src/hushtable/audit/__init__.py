"""Empirical audits of methods: attempts to falsify their promises on artificial neighbors."""

from hushtable.audit.report import Finding, Report
from hushtable.audit.run import audit

__all__ = ["Finding", "Report", "audit"]
