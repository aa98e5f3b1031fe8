"""Line charts with two logarithmic axes, as SVG text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

BLUE, GRAY, RED = "#0b5cad", "#8a8a8a", "#b3261e"
_WIDTH, _HEIGHT = 640, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 620, 52, 350
_STEEP = 3  # from this many decades on, only powers of ten get a tick


@dataclass(frozen=True)
class DrawnLine:
    """Line of a chart."""

    points: Sequence[tuple[float, float]]  # all coordinates above 0
    color: str = BLUE
    label: str = ""  # empty: not in the legend
    width: float = 2
    dotted: bool = False  # whether each point gets a dot


@dataclass(frozen=True)
class Band:
    """Area between two lines over the same x values."""

    low: Sequence[tuple[float, float]]
    high: Sequence[tuple[float, float]]
    label: str


class _LogAxis:
    """Logarithmic axis between two positions of the drawing."""

    def __init__(self, values: Iterable[float], start: float, stop: float) -> None:
        logarithms = [math.log10(value) for value in values]
        low, high = min(logarithms), max(logarithms)
        # At least half a decade, so that there is a tick and a flat line looks flat.
        room = max(0.05, (0.5 - (high - low)) / 2)
        self.low, self.high = low - room, high + room
        self.start, self.stop = start, stop

    def __call__(self, value: float) -> float:
        part = (math.log10(value) - self.low) / (self.high - self.low)
        return self.start + part * (self.stop - self.start)

    @property
    def ticks(self) -> list[float]:
        """Numbers written beside the axis."""
        decades = range(math.floor(self.low), math.ceil(self.high) + 1)
        steps = (1, 2, 5) if self.high - self.low < _STEEP else (1,)
        places = [step * 10.0**decade for decade in decades for step in steps]
        return [tick for tick in places if self.low <= math.log10(tick) <= self.high]


def draw_lines(
    title: str,
    note: str,
    x_label: str,
    lines: Sequence[DrawnLine],
    *,
    band: Band | None = None,
    mark: tuple[float, float, str] | None = None,
    upright: float | None = None,
) -> str:
    """Return a chart of lines as SVG text, with an optional area, marked point and vertical line.

    Later lines are drawn over earlier ones, and all lines over `band`. `title` and `note` are
    written above the chart; `mark` is a point and its name; `upright` is the x value of a dashed
    vertical line.

    Examples
    --------
    >>> drawing = draw_lines("error", "in rows", "epsilon", [DrawnLine([(0.1, 100), (1, 10)])])
    >>> drawing.startswith("<svg"), "epsilon" in drawing
    (True, True)
    """
    drawn = [point for line in lines for point in line.points]
    drawn += [*band.low, *band.high] if band else []
    drawn += [mark[:2]] if mark else []
    x = _LogAxis((place for place, _ in drawn), _LEFT, _RIGHT)
    y = _LogAxis((height for _, height in drawn), _BOTTOM, _TOP)

    def path(points: Sequence[tuple[float, float]]) -> str:
        return " ".join(f"{x(place):.1f},{y(height):.1f}" for place, height in points)

    body = [
        f'<text x="{_LEFT}" y="22" font-weight="bold">{escape(title)}</text>',
        f'<text x="{_LEFT}" y="40" fill="#555">{escape(note)}</text>',
        *_grid(x, y, x_label),
    ]
    if upright is not None:
        body.append(
            f'<path d="M{x(upright):.1f} {_TOP}V{_BOTTOM}" stroke="#222" stroke-dasharray="2 3"/>'
        )
    if band is not None:
        around = path([*band.low, *reversed(band.high)])
        body.append(f'<polygon points="{around}" fill="{BLUE}" fill-opacity="0.18"/>')
    for line in lines:
        body.append(
            f'<polyline points="{path(line.points)}" fill="none" stroke="{line.color}" '
            f'stroke-width="{line.width:g}"/>'
        )
        body += [
            f'<circle cx="{x(place):.1f}" cy="{y(height):.1f}" r="3.5" fill="{line.color}"/>'
            for place, height in (line.points if line.dotted else ())
        ]
    if mark is not None:
        body.append(
            f'<circle cx="{x(mark[0]):.1f}" cy="{y(mark[1]):.1f}" r="6" fill="none" '
            f'stroke="{RED}" stroke-width="2"/><text x="{x(mark[0]) + 10:.1f}" '
            f'y="{y(mark[1]) - 8:.1f}" fill="{RED}">{escape(mark[2])}</text>'
        )
    named = [(line.label, line.color, 1.0) for line in lines if line.label]
    named += [(band.label, BLUE, 0.18)] if band else []
    body += _legend(named)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="13" fill="#222">'
        '<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _grid(x: _LogAxis, y: _LogAxis, x_label: str) -> list[str]:
    """Return the grid lines and ticks of both axes, and the label of the x axis."""
    upright = [
        f'<path d="M{x(tick):.1f} {_TOP}V{_BOTTOM}" stroke="#ddd"/><text x="{x(tick):.1f}" '
        f'y="{_BOTTOM + 18}" text-anchor="middle">{tick:,.10g}</text>'
        for tick in x.ticks
    ]
    level = [
        f'<path d="M{_LEFT} {y(tick):.1f}H{_RIGHT}" stroke="#ddd"/><text x="{_LEFT - 8}" '
        f'y="{y(tick) + 4:.1f}" text-anchor="end">{tick:,.10g}</text>'
        for tick in y.ticks
    ]
    middle = (_LEFT + _RIGHT) / 2
    label = f'<text x="{middle:g}" y="{_BOTTOM + 40}" text-anchor="middle">{x_label}</text>'
    return [*upright, *level, label]


def _legend(named: Sequence[tuple[str, str, float]]) -> list[str]:
    """Return the legend from labels, colors and opacities."""
    body = []
    for number, (label, color, strength) in enumerate(reversed(named)):
        foot = _BOTTOM - 12 - 18 * number
        body.append(
            f'<rect x="{_LEFT + 10}" y="{foot - 8}" width="18" height="8" fill="{color}" '
            f'fill-opacity="{strength:g}"/><text x="{_LEFT + 34}" y="{foot}">{escape(label)}</text>'
        )
    return body
