"""Intentionally broken mechanisms, one module per kind of mistake.

Each breaks the promise of a method in a way that looks harmless in a review. The auditor must
detect every one of them with its default settings. Exact counts that a method must not have are
read with `exact`, which bypasses the seals: the auditor detects what the types forbid as well.
"""

from audit.broken import (
    budgets,
    conditional,
    generators,
    inputs,
    outside,
    surroundings,
    unseen,
    written,
)
from audit.broken.kind import Broken

BROKEN: tuple[Broken, ...] = (
    *written.BROKEN,
    *inputs.BROKEN,
    *generators.BROKEN,
    *budgets.BROKEN,
    *outside.BROKEN,
    *unseen.BROKEN,
    *conditional.BROKEN,
    *surroundings.BROKEN,
)

__all__ = ["BROKEN", "Broken"]
