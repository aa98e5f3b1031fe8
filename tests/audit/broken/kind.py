"""What a broken mechanism is, and how exact counts are read where nobody should."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from hushtable.methods.base import Released
from hushtable.methods.parameters import Parameters
from hushtable.privacy.sealed import Seal, inside

Patch = pytest.MonkeyPatch
Run = Callable[..., Released]


@dataclass(frozen=True)
class Broken:
    """A method, and what breaks it.

    Parameters
    ----------
    name : str
        What is wrong, in words.
    method : Parameters
        The method that is broken.
    breaks : callable
        Breaks it, for as long as the patch holds.
    quick : bool
        Whether it is tried in every run of the tests.
    is_refused : bool
        Whether it cannot be written: the plan itself is refused.
    """

    name: str
    method: Parameters
    breaks: Callable[[Patch], None]
    quick: bool = False
    is_refused: bool = False


def exact(answer: Any) -> Any:
    """Read the exact numbers of an answer, by force where it is sealed."""
    found = inside(answer) if isinstance(answer, Seal) else answer
    return found if hasattr(found, "codes") else np.asarray(found)


def n_rows(source: Any) -> int:
    """Count the rows of a table exactly."""
    return int(exact(source.n_rows()).ravel()[0])


def cells_of(plan: Any, source: Any) -> tuple[Any, Any]:
    """Give the codes of occupied cells and their exact counts."""
    cells = exact(source.counts(list(plan.schema.attributes)))
    return cells.codes, cells.counts


def histogram(source: Any, name: str) -> Any:
    """Count the values of a column exactly."""
    return exact(source.histograms([name])[name])


def around(kind: type, change: Callable[[Run, Any, Any, Any], Released]) -> Callable[[Patch], None]:
    """Break how a plan makes its release: `change` gets the real way and what it is given."""

    def breaks(patch: Patch) -> None:
        name = "release" if "release" in vars(kind) else "run"
        real = vars(kind)[name]
        patch.setattr(kind, name, lambda self, source, noise: change(real, self, source, noise))

    return breaks


def beside(released: Released, **settings: Any) -> Released:
    """Add to what is published beside the tables."""
    return replace(released, settings={**released.settings, **settings})


def noted(released: Released, note: str) -> Released:
    """Add a note."""
    return beside(released, notes=[*released.settings.get("notes", []), note])


def reordered(released: Released, order: Any) -> Released:
    """Bring the rows of the table into another order."""
    return replace(
        released, tables={**released.tables, "data": released.tables["data"].take(order)}
    )
