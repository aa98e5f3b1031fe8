"""The worst neighbors known for each method, one file per family.

A listing names the case of its method (`hushtable.methods.listing`), so that a method of another
package brings its own. Where a mistake of one of the papers lies behind a pair, its number in the
errata is named.
"""

from hushtable.audit.cases.case import Case

__all__ = ["Case"]
