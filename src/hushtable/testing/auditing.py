"""Checks that use the auditor: it accepts a method, and detects a broken one."""

from __future__ import annotations

from typing import Any

from hushtable.audit.report import Report
from hushtable.audit.run import audit
from hushtable.methods.parameters import Parameters
from hushtable.testing.expect import expect


def check_audit(method: Parameters, **options: Any) -> Report:
    """Audit a method; raise unless it was tested and no violation was found.

    Parameters
    ----------
    method : Parameters
        The method. Its listing names the neighbors that it is tested on.
    **options
        Options of `hushtable.audit.audit`, such as ``runs`` and ``seconds``. By default, a method
        that keeps its promise is accused with probability at most 1e-6 (``confidence``).

    Returns
    -------
    Report
        The audit report.

    Raises
    ------
    ContractError
        If the auditor found a violation, or could not test a promise.

    Examples
    --------
    >>> from hushtable.methods import ContingencyTable
    >>> check_audit(ContingencyTable(epsilon=1), runs=400, largest=1, tests=["loss"]).verdict
    'NO VIOLATION FOUND'
    """
    report = audit(method, **options)
    expect(report.verdict == "NO VIOLATION FOUND", "\n".join(report.lines()))
    return report


def check_audit_sees(broken: Parameters, **options: Any) -> Report:
    """Audit an intentionally broken method; raise unless the violation is found.

    An audit that passes proves little if its neighbors would pass any method. Break the method
    where a mistake is likely, in a subclass of the same name, and check that its neighbors detect
    it. Insufficient noise needs no audit: the account of the run refuses it, and nothing is
    published.

    Parameters
    ----------
    broken : Parameters
        The broken method.
    **options
        As for `check_audit`.

    Returns
    -------
    Report
        The audit report.

    Raises
    ------
    ContractError
        If the auditor did not find a violation.
    """
    report = audit(broken, **options)
    expect(report.verdict == "VIOLATION", f"not detected: {chr(10).join(report.lines())}")
    return report
