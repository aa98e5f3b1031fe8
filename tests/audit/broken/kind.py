"""Definition of a broken mechanism, and access to exact counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from hushtable.methods.base import Released
from hushtable.methods.parameters import Parameters
from hushtable.privacy.accounting.sealed import SealedValue, unseal

Patch = pytest.MonkeyPatch
Run = Callable[..., Released]


@dataclass(frozen=True)
class Broken:
    """A method, and a patch that breaks it."""

    name: str
    method: Parameters
    breaks: Callable[[Patch], None]  # applies the patch
    quick: bool = False  # whether every test run audits it
    is_refused: bool = False  # whether the plan itself is refused


def exact(answer: Any) -> Any:
    """Return the exact numbers of an answer, bypassing the seal."""
    found = unseal(answer) if isinstance(answer, SealedValue) else answer
    return found if hasattr(found, "codes") else np.asarray(found)


def n_rows(source: Any) -> int:
    """Return the exact number of rows."""
    return int(exact(source.n_rows()).ravel()[0])


def cells_of(plan: Any, source: Any) -> tuple[Any, Any]:
    """Return the codes of occupied cells and their exact counts."""
    cells = exact(source.counts(list(plan.schema.attributes)))
    return cells.codes, cells.counts


def histogram(source: Any, name: str) -> Any:
    """Return the exact histogram of a column."""
    return exact(source.histograms([name])[name])


def around(kind: type, change: Callable[[Run, Any, Any, Any], Released]) -> Callable[[Patch], None]:
    """Patch the release of a plan: `change` gets the original function and its arguments."""

    def breaks(patch: Patch) -> None:
        name = "release" if "release" in vars(kind) else "run"
        real = vars(kind)[name]
        patch.setattr(kind, name, lambda self, source, noise: change(real, self, source, noise))

    return breaks


def beside(released: Released, **settings: Any) -> Released:
    """Add a published setting."""
    return replace(released, settings={**released.settings, **settings})


def noted(released: Released, note: str) -> Released:
    """Add a note."""
    return beside(released, notes=[*released.settings.get("notes", []), note])


def reordered(released: Released, order: Any) -> Released:
    """Change the order of the table's rows."""
    return replace(
        released, tables={**released.tables, "data": released.tables["data"].take(order)}
    )
