"""A paper's figure as measured here: panels with curves of points and their errors.

The points of full measurements are saved in ``points``, one small file for each paper, so that
drawings and tables can be made, and new measurements compared, without repeating them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

POINTS = Path(__file__).with_name("points")
DIGITS = 6
"""Significant digits to save; the errors are far larger than the rounding."""


class Point(NamedTuple):
    """A point: its two coordinates, and the ends of its error bar."""

    x: float
    y: float
    low: float
    high: float

    @classmethod
    def of_runs(cls, x: float, values: Iterable[float]) -> Point:
        """Return the mean over runs, with an error bar of one standard error to each side."""
        found = np.asarray(list(values), float)
        error = found.std(ddof=1) / len(found) ** 0.5 if len(found) > 1 else 0.0
        return cls(x, float(found.mean()), float(found.mean() - error), float(found.mean() + error))

    @classmethod
    def exact(cls, x: float, y: float) -> Point:
        """Return a value without error."""
        return cls(x, y, y, y)


@dataclass(frozen=True)
class Curve:
    """A curve; `printed` means that its values are from the paper and drawn without a line."""

    name: str
    points: Sequence[Point]
    printed: bool = False

    def at(self, x: float) -> Point:
        """Return the point at an x coordinate."""
        return next(point for point in self.points if abs(point.x - x) <= 1e-4 * abs(x))


@dataclass(frozen=True)
class Panel:
    """A part of a figure; `levels` are values that do not depend on the horizontal axis."""

    title: str
    curves: Sequence[Curve]
    levels: Mapping[str, float] = field(default_factory=dict)

    @property
    def names(self) -> set[str]:
        """Names of the curves."""
        return {curve.name for curve in self.curves}

    def __getitem__(self, name: str) -> Curve:
        return next(curve for curve in self.curves if curve.name == name)


@dataclass(frozen=True)
class Figure:
    """A figure: its number in the paper, titles, and panels.

    `repetitions` is the number of runs of a point, and `runs` says it in words. It is 0 for figures
    that differ between machines, such as run times.
    """

    number: str
    title: str
    x_label: str
    y_label: str
    runs: str
    repetitions: int
    panels: Sequence[Panel]
    x_log: bool = False
    y_log: bool = False
    diagonal: bool = False

    def __getitem__(self, title: str) -> Panel:
        return next(panel for panel in self.panels if panel.title == title)

    def to_dict(self) -> dict[str, Any]:
        """Return the figure as plain data."""
        panels = [
            {
                "title": panel.title,
                "levels": {name: _short(value) for name, value in panel.levels.items()},
                "curves": [
                    {
                        "name": curve.name,
                        "printed": curve.printed,
                        "points": [[_short(value) for value in point] for point in curve.points],
                    }
                    for curve in panel.curves
                ],
            }
            for panel in self.panels
        ]
        return {**{name: getattr(self, name) for name in _PLAIN}, "panels": panels}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Figure:
        """Return a figure from the result of `to_dict`."""
        panels = [
            Panel(
                panel["title"],
                [
                    Curve(c["name"], [Point(*point) for point in c["points"]], c["printed"])
                    for c in panel["curves"]
                ],
                panel["levels"],
            )
            for panel in content["panels"]
        ]
        return cls(panels=panels, **{name: content[name] for name in _PLAIN})


_PLAIN = (
    "number",
    "title",
    "x_label",
    "y_label",
    "runs",
    "repetitions",
    "x_log",
    "y_log",
    "diagonal",
)


def _short(value: float) -> float:
    return float(f"{float(value):.{DIGITS}g}")


def load(path: Path) -> dict[str, Figure]:
    """Read figures from a file of points."""
    content = json.loads(path.read_text()) if path.exists() else []
    return {one["number"]: Figure.from_dict(one) for one in content}


def save(path: Path, figures: Mapping[str, Figure]) -> None:
    """Write figures to a file of points, one point per line."""
    text = json.dumps([figures[number].to_dict() for number in sorted(figures)], indent=1)
    text = re.sub(r"\[\s+([^][{}]+?)\s+\]", lambda point: f"[{' '.join(point[1].split())}]", text)
    path.write_text(text + "\n")


def kept(paper: str) -> dict[str, Figure]:
    """Return the saved figures of a paper."""
    return load(POINTS / f"{paper}.json")
