"""Mechanisms that are broken on purpose, one file per kind of mistake.

Each breaks the promise of a method in a way that looks harmless in a review. The auditor must see
every one of them with its defaults. Exact counts that a method must not have are read through
`exact`, which breaks whatever keeps them closed: what the types forbid, the auditor sees as well.
"""

from audit.broken import budgets, generators, inputs, outside, unseen, written
from audit.broken.kind import Broken

BROKEN: tuple[Broken, ...] = (
    *written.BROKEN,
    *inputs.BROKEN,
    *generators.BROKEN,
    *budgets.BROKEN,
    *outside.BROKEN,
    *unseen.BROKEN,
)

__all__ = ["BROKEN", "Broken"]
