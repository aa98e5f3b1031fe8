"""Comparison of measured figures with the saved points."""

from __future__ import annotations

import math
from typing import NamedTuple

from hushtable_papers.figure import Figure, Panel

ERRORS = 6
"""Standard errors by which new and saved means may differ."""

ROUNDING = 1e-5
"""Relative difference due to the digits that are saved."""


class Difference(NamedTuple):
    """A measured value, the saved one, and the largest difference that chance explains."""

    where: str
    measured: float
    saved: float
    allowed: float

    @property
    def is_explained(self) -> bool:
        """Whether chance explains the difference."""
        return abs(self.measured - self.saved) <= self.allowed


def differences(new: Figure, saved: Figure) -> list[Difference]:
    """Compare all measured points that both figures have; empty if machines differ by design.

    The standard deviation of a run is the largest of a panel's curves. A wrong mechanism or another
    protocol is noticed; a small shift is not.
    """
    if not saved.repetitions:
        return []
    old_panels = {panel.title: panel for panel in saved.panels}
    return [
        Difference(
            f"{panel.title}, {curve.name}, at {point.x:g}",
            point.y,
            old.y,
            ERRORS * _deviation(old_panels[panel.title], saved.repetitions)
            * math.sqrt(1 / new.repetitions + 1 / saved.repetitions)
            + ROUNDING * abs(old.y),
        )
        for panel in new.panels
        if panel.title in old_panels
        for curve in panel.curves
        if not curve.printed and curve.name in old_panels[panel.title].names
        for point in curve.points
        for old in old_panels[panel.title][curve.name].points
        if math.isclose(old.x, point.x, rel_tol=1e-4)
    ]  # fmt: skip


def _deviation(panel: Panel, repetitions: int) -> float:
    """Return the largest standard deviation of a single run in a panel."""
    errors = [
        (point.high - point.low) / 2
        for curve in panel.curves
        if not curve.printed
        for point in curve.points
    ]
    return max(errors, default=0.0) * math.sqrt(repetitions)
