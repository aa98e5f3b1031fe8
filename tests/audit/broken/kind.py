"""What a broken mechanism is, and how exact counts are read where nobody should."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from hushtable.methods.base import Released
from hushtable.methods.parameters import Parameters

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
    """

    name: str
    method: Parameters
    breaks: Callable[[Patch], None]
    quick: bool = False


def exact(answer: Any) -> Any:
    """Read the exact numbers of an engine's answer."""
    return np.asarray(answer)


def n_rows(source: Any) -> int:
    """Count the rows of a table exactly."""
    return int(exact(source.n_rows()))


def cells_of(plan: Any, source: Any) -> tuple[Any, Any]:
    """Give the codes of occupied cells and their exact counts."""
    cells = source.counts(list(plan.schema.attributes))
    return exact(cells.codes), exact(cells.counts)


def around(kind: type, change: Callable[[Run, Any, Any, Any], Released]) -> Callable[[Patch], None]:
    """Break a plan's run: `change` gets the real one, the plan, the source and the noise."""

    def breaks(patch: Patch) -> None:
        real = kind.run  # type: ignore[attr-defined]
        patch.setattr(
            kind, "run", lambda self, source, noise: change(real, self, source, noise)
        )

    return breaks


def beside(released: Released, **settings: Any) -> Released:
    """Add to what is published beside the tables."""
    return replace(released, settings={**released.settings, **settings})


def noted(released: Released, note: str) -> Released:
    """Add a note."""
    return beside(released, notes=[*released.settings.get("notes", []), note])


def reordered(released: Released, order: Any) -> Released:
    """Bring the rows of the table into another order."""
    return replace(released, tables={**released.tables, "data": released.tables["data"].take(order)})
