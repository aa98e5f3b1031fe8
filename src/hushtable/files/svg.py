"""SVG drawings: shapes, axes, and documents around them.

Every shape has a class. A page with a style sheet of its own includes charts with `figure`; a file
is made with `document`, which adds `STYLE`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import chain, pairwise

Point = tuple[float, float]

STYLE = (files("hushtable.files") / "svg.css").read_text("utf-8").replace("\n", "")


def element(tag: str, content: str = "", /, *, tip: str = "", **attributes: str | float) -> str:
    """Return an SVG element; `content` is markup, `tip` is a tooltip.

    Underscores in names of attributes become hyphens. Empty attributes are omitted.

    Examples
    --------
    >>> element("circle", cx=1.5, cy=2, r=3, class_="dot", tip="a < b")
    '<circle cx="1.5" cy="2" r="3" class="dot"><title>a &lt; b</title></circle>'
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_written(value)}"'
        for name, value in attributes.items()
        if value != ""
    )
    inside = content + (f"<title>{escape(tip)}</title>" if tip else "")
    return f"<{tag}{written}>{inside}</{tag}>" if inside else f"<{tag}{written}/>"


def _written(value: str | float) -> str:
    return escape(value) if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")


def text(
    x: float, y: float, content: str, class_: str = "", *, anchor: str = "", turn: float = 0
) -> str:
    """Return a text; `turn` rotates it, in degrees."""
    rotated = f"rotate({turn:g} {_written(x)} {_written(y)})" if turn else ""
    return element(
        "text", escape(content), x=x, y=y, class_=class_, text_anchor=anchor, transform=rotated
    )


def line(points: Iterable[Point], class_: str, tip: str = "", *, color: str = "") -> str:
    """Return a line through points; `color` replaces that of the class."""
    style = f"stroke:{color}" if color else ""
    return element("polyline", points=_points(points), class_=class_, tip=tip, style=style)


def stairs(points: Sequence[Point]) -> list[Point]:
    """Return the corners of a line that stays level until the next point.

    Examples
    --------
    >>> stairs([(0, 1), (2, 3)])
    [(0, 1), (2, 1), (2, 3)]
    """
    corners = (((after[0], before[1]), after) for before, after in pairwise(points))
    return [points[0], *chain.from_iterable(corners)]


def band(
    low: Sequence[Point], high: Sequence[Point], class_: str = "band", *, color: str = ""
) -> str:
    """Return the area between two lines; `color` replaces that of the class."""
    style = f"fill:{color}" if color else ""
    return element("polygon", points=_points([*low, *reversed(high)]), class_=class_, style=style)


def _points(points: Iterable[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def rect(  # noqa: PLR0917 - position, size, class, tooltip
    x: float, y: float, width: float, height: float, class_: str, tip: str = ""
) -> str:
    """Return a rectangle."""
    return element(
        "rect", x=x, y=y, width=max(width, 0), height=max(height, 0), class_=class_, tip=tip
    )


def marker(at: Point, radius: float, class_: str, tip: str = "") -> str:
    """Return a circle around a point."""
    return element("circle", cx=at[0], cy=at[1], r=radius, class_=class_, tip=tip)


class Axis:
    """Linear or logarithmic scale from values to coordinates; values outside are clipped."""

    def __init__(
        self, low: float, high: float, start: float, stop: float, *, log: bool = False
    ) -> None:
        self._log = log
        self._ends = low, high
        self.low, self.high = (math.log10(low), math.log10(high)) if log else (low, high)
        if self.high - self.low < 1e-12:
            self.low, self.high = self.low - 0.5, self.high + 0.5
        self.start, self.stop = start, stop

    @classmethod
    def log_around(cls, values: Iterable[float], start: float, stop: float) -> Axis:
        """Return a logarithmic axis with some space on both sides of the values."""
        logarithms = [math.log10(value) for value in values]
        low, high = min(logarithms), max(logarithms)
        # At least half a decade, so that there is a tick and a flat line looks flat.
        space = max(0.05, (0.5 - (high - low)) / 2)
        return cls(10 ** (low - space), 10 ** (high + space), start, stop, log=True)

    def __call__(self, value: float) -> float:
        """Return the coordinate of a value."""
        inside = min(max(value, self._ends[0]), self._ends[1])
        part = (math.log10(inside) if self._log else inside) - self.low
        return self.start + part / (self.high - self.low) * (self.stop - self.start)

    @property
    def ticks(self) -> list[float]:
        """A few round values."""
        length = self.high - self.low
        if self._log:
            decades = range(math.floor(self.low), math.ceil(self.high) + 1)
            steps = (1, 2, 5) if length < 2.5 else (1,)
            places = [step * 10.0**decade for decade in decades for step in steps]
            return [t for t in places if self.low - 1e-9 <= math.log10(t) <= self.high + 1e-9]
        unit = 10.0 ** math.floor(math.log10(length / 4))
        step = next(unit * s for s in (1, 2, 5, 10) if length / (unit * s) <= 5)
        first = math.ceil(self.low / step - 1e-9)
        return [n * step for n in range(first, math.floor(self.high / step + 1e-9) + 1)]


def plain_number(value: float) -> str:
    """Format a tick."""
    return f"{value:,.10g}"


def grid(
    x: Axis,
    y: Axis,
    *,
    x_text: Callable[[float], str] | None = plain_number,
    y_text: Callable[[float], str] | None = plain_number,
) -> list[str]:
    """Return grid lines and labels at the ticks of both axes.

    `x_text` and `y_text` format the labels; None omits the lines and labels of that axis.
    """
    lines, labels, bottom = [], [], max(y.start, y.stop)
    if x_text is not None:
        lines += [f"M{x(tick):.1f} {y.start:.1f}V{y.stop:.1f}" for tick in x.ticks]
        labels += [text(x(t), bottom + 17, x_text(t), "soft", anchor="middle") for t in x.ticks]
    if y_text is not None:
        lines += [f"M{x.start:.1f} {y(tick):.1f}H{x.stop:.1f}" for tick in y.ticks]
        labels += [text(x.start - 7, y(t) + 4, y_text(t), "soft", anchor="end") for t in y.ticks]
    return [element("path", d="".join(lines), class_="grid"), *labels]


def titles(x: float, title: str, note: str) -> list[str]:
    """Return the title of a chart and the note below it."""
    return [text(x, 20, title, "strong"), text(x, 38, note, "soft")]


def document(width: float, height: float, parts: Iterable[str]) -> str:
    """Return the text of an SVG file."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="hushtable" width="{width:g}" '
        f'height="{height:g}" viewBox="0 0 {width:g} {height:g}"><style>{STYLE}</style>'
        '<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def figure(box: str, title: str, parts: Iterable[str], class_: str = "") -> str:
    """Return an SVG element for a page; `box` is its view box and `title` its description."""
    content = "".join(parts)
    return element("svg", content, class_=class_, viewBox=box, role="img", aria_label=title)


# --- line charts with two logarithmic axes --------------------------------------------------------

_WIDTH, _HEIGHT = 640, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 620, 52, 350


@dataclass(frozen=True)
class DrawnLine:
    """Line of a chart."""

    points: Sequence[Point]  # all coordinates above 0
    label: str = ""  # empty: not in the legend
    class_: str = "line"
    dotted: bool = False  # whether each point gets a dot


@dataclass(frozen=True)
class Band:
    """Area between two lines over the same x values."""

    low: Sequence[Point]
    high: Sequence[Point]
    label: str


def draw_lines(
    title: str,
    note: str,
    x_label: str,
    lines: Sequence[DrawnLine],
    *,
    behind: Band | None = None,
    mark: tuple[float, float, str] | None = None,
    limit: float | None = None,
    in_page: bool = False,
) -> str:
    """Return a chart of lines as an SVG file, with an optional area, marked point and limit.

    Later lines are drawn over earlier ones. `title` and `note` are written above the chart; `mark`
    is a point and its name; `limit` is the x value of a dashed vertical line. `in_page` returns an
    element for a page that has styles for the class `chart`.

    Examples
    --------
    >>> drawing = draw_lines("error", "in rows", "epsilon", [DrawnLine([(0.1, 100), (1, 10)])])
    >>> drawing.startswith("<svg"), "epsilon" in drawing
    (True, True)
    """
    drawn = [point for one in lines for point in one.points]
    drawn += [*behind.low, *behind.high] if behind else []
    drawn += [mark[:2]] if mark else []
    x = Axis.log_around((place for place, _ in drawn), _LEFT, _RIGHT)
    y = Axis.log_around((height for _, height in drawn), _BOTTOM, _TOP)

    def placed(points: Iterable[Point]) -> list[Point]:
        return [(x(place), y(height)) for place, height in points]

    parts = [
        *titles(_LEFT, title, note),
        *grid(x, y),
        text((_LEFT + _RIGHT) / 2, _BOTTOM + 40, x_label, anchor="middle"),
    ]
    if limit is not None:
        parts.append(line([(x(limit), _TOP), (x(limit), _BOTTOM)], "limit"))
    if behind is not None:
        parts.append(band(placed(behind.low), placed(behind.high)))
    for one in lines:
        points = placed(one.points)
        parts.append(line(points, one.class_))
        for at, (place, height) in zip(points if one.dotted else (), one.points, strict=False):
            parts.append(marker(at, 3.5, "dot", f"{place:g}: {height:,.3g}" if in_page else ""))
    if mark is not None:
        at = (x(mark[0]), y(mark[1]))
        parts += [marker(at, 6, "mark"), text(at[0] + 10, at[1] - 8, mark[2], "warn")]
    named = [(one.label, one.class_) for one in lines if one.label]
    named += [(behind.label, "band")] if behind else []
    parts += _legend(named)
    if in_page:
        return figure(f"0 0 {_WIDTH} {_HEIGHT}", f"{note}, {x_label}", parts, "chart")
    return document(_WIDTH, _HEIGHT, parts)


def _legend(named: Sequence[tuple[str, str]]) -> list[str]:
    """Return the legend in the lower left corner, from labels and classes."""
    parts = []
    for number, (label, class_) in enumerate(reversed(named)):
        left, foot = _LEFT + 10, _BOTTOM - 12 - 18 * number
        corners = [(left, foot - 4), (left + 18, foot - 4)]
        parts.append(
            rect(left, foot - 8, 18, 8, class_) if class_ == "band" else line(corners, class_)
        )
        parts.append(text(left + 24, foot, label))
    return parts
