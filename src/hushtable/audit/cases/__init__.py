"""Audit cases: the worst known neighbors of each method.

`known.CASES` lists them by method name. The `MethodSpec` of a method of another package names its
case. If a pair tests a mistake in one of the papers, its name contains the number of the erratum.
"""

from hushtable.audit.cases.case import Case

__all__ = ["Case"]
