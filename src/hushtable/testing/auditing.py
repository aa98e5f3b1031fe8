"""The auditor as a check: it finds nothing in a method, and something in a broken one."""

from __future__ import annotations

from typing import Any

from hushtable.audit.report import Report
from hushtable.audit.run import audit
from hushtable.methods.parameters import Parameters
from hushtable.testing.expect import expect


def check_audit(method: Parameters, **options: Any) -> Report:
    """Set the auditor on a method; it must have tested it, and found no violation.

    Parameters
    ----------
    method : Parameters
        The method. Its listing names the neighbors that it is tried on.
    **options
        Those of `hushtable.audit.audit`, such as ``runs`` and ``seconds``. A method that keeps its
        promise is accused with a probability of 1e-6 at most (``confidence``).

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
    """Set the auditor on a method that was broken on purpose; it must find the violation.

    An audit that passes says little if its neighbors would pass anything. Break the method where
    you fear a mistake, in a subclass of the same name, and see that its neighbors tell. Noise that
    is too small needs no audit: the account of the run refuses it, and nothing is published.

    Parameters
    ----------
    broken : Parameters
        The broken method.
    **options
        As for `check_audit`.
    """
    report = audit(broken, **options)
    expect(report.verdict == "VIOLATION", f"not seen: {chr(10).join(report.lines())}")
    return report
