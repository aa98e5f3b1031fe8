"""Audit cases: the worst known neighbors of each method, one module per family.

The listing of a method names its case (`hushtable.methods.spec`), so that methods of other
packages can provide their own. If a pair tests a mistake in one of the papers, its name contains
the number of the erratum.
"""

from hushtable.audit.cases.case import Case

__all__ = ["Case"]
