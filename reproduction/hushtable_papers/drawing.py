"""SVG drawing of a figure: panels with error bars and one legend, in light and dark colors.

The drawing has its own background, so that it is readable on any page.
"""

from __future__ import annotations

from html import escape

from hushtable.files.svg import Axis
from hushtable_papers.figure import Curve, Figure, Panel

WIDTH, PLOT_WIDTH, HEIGHT = 420.0, 330.0, 230.0
"""Width of a panel, and width and height of its plot area."""

LABELED_WIDTH, LABEL_HEIGHT = 280.0, 14.0
"""Width of the plot area if levels are labeled to the right of it, and the height of a label."""

LEFT, TOP, FOOT, LINE, LETTER = 56.0, 34.0, 46.0, 18.0, 6.6
COLORS = (
    "#0b5cad", "#c2410c", "#15803d", "#7e22ce", "#b91c6a", "#8a6d00", "#0e7490", "#57534e",
)  # fmt: skip
DARK = (
    "#6cb2f5", "#fb923c", "#5fd38a", "#c79bff", "#ff8ac0", "#e6c84f", "#5fd4e8", "#c5beb6",
)  # fmt: skip
DECADES = 5
"""Maximum number of decades of a logarithmic axis; lower values are drawn at its lower end."""

DASHES = ("", "6 3", "2 3")
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#1a2027}.soft{fill:#5c6773}.strong{font-weight:600}"
    ".ground{fill:#fff}.lead{stroke:#5c6773;fill:none}"
    ".grid{stroke:#e3e7eb;fill:none}.level{stroke:#5c6773;stroke-dasharray:3 4}"
    + "".join(f".c{n}{{stroke:{color};fill:{color}}}" for n, color in enumerate(COLORS))
    + "@media(prefers-color-scheme:dark){text{fill:#e8ecf0}.soft{fill:#a3adb8}.ground{fill:#15191e}"
    ".grid{stroke:#2f363d}.level,.lead{stroke:#a3adb8}"
    + "".join(f".c{n}{{stroke:{color};fill:{color}}}" for n, color in enumerate(DARK))
    + "}.line{fill:none;stroke-width:1.8}.bar{fill:none;stroke-width:1.2}"
    ".printed{fill:none;stroke-width:2.2}"
)


def drawn(figure: Figure) -> str:
    """Return the text of the SVG file."""
    columns = min(len(figure.panels), 2)
    lines = -(-len(figure.panels) // columns)
    names = list(dict.fromkeys(c.name for panel in figure.panels for c in panel.curves))
    wide, room = _rooms(figure)
    width = columns * wide
    body = []
    for place, panel in enumerate(figure.panels):
        x, y = place % columns * wide, place // columns * (TOP + HEIGHT + FOOT)
        panel_text = _panel(figure, panel, names, room)
        body.append(f'<g transform="translate({x:g} {y:g})">{panel_text}</g>')
    legend, deep = _legend(figure, names, width)
    top = lines * (TOP + HEIGHT + FOOT) + 4
    body.append(f'<g transform="translate(0 {top:g})">{legend}</g>')
    height = top + deep + 8
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="img" aria-label="{escape(figure.title)}">'
        f'<style>{STYLE}</style><rect class="ground" width="100%" height="100%"/>'
        + "\n".join(body)
        + "</svg>\n"
    )


def _panel(figure: Figure, panel: Panel, names: list[str], room: float) -> str:
    points = [point for curve in panel.curves for point in curve.points]
    xs = [point.x for point in points]
    x_low, x_high = min(xs), max(xs)
    if figure.x_log:
        x_low, x_high = x_low / 1.15, x_high * 1.15
    else:
        x_low, x_high = x_low - 0.04 * (x_high - x_low), x_high + 0.04 * (x_high - x_low)
    x = Axis(x_low, x_high, LEFT, LEFT + room, log=figure.x_log)
    y = _upright(figure)
    parts = [f'<text class="strong" x="{LEFT:g}" y="18">{escape(panel.title)}</text>']
    for tick in x.ticks:
        parts.append(
            f'<path class="grid" d="M{x(tick):.1f} {TOP:g}v{HEIGHT:g}"/><text class="soft" '
            f'x="{x(tick):.1f}" y="{TOP + HEIGHT + 16:g}" text-anchor="middle">{tick:,.10g}</text>'
        )
    for tick in y.ticks:
        parts.append(
            f'<path class="grid" d="M{LEFT:g} {y(tick):.1f}h{room:g}"/><text class="soft" '
            f'x="{LEFT - 6:g}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:,.10g}</text>'
        )
    if figure.diagonal:
        low, high = max(x.low, y.low), min(x.high, y.high)
        parts.append(
            f'<path class="level" d="M{x(low):.1f} {y(low):.1f}L{x(high):.1f} {y(high):.1f}"/>'
        )
    for value in panel.levels.values():
        parts.append(f'<path class="level" d="M{LEFT:g} {y(value):.1f}h{room:g}"/>')
    for curve in panel.curves:
        parts.append(_curve(figure, curve, names.index(curve.name), x, y))
    parts += _level_names(panel, room, y)
    parts.append(
        f'<text class="soft" x="{LEFT + room / 2:g}" y="{TOP + HEIGHT + 34:g}" '
        f'text-anchor="middle">{escape(figure.x_label)}</text>'
        f'<text class="soft" transform="rotate(-90 12 {TOP + HEIGHT / 2:g})" x="12" '
        f'y="{TOP + HEIGHT / 2:g}" text-anchor="middle">{escape(figure.y_label)}</text>'
    )
    return "\n".join(parts)


def _level_names(panel: Panel, room: float, y: Axis) -> list[str]:
    """Write the name of each level to the right of its line, without overlap."""
    right, parts, last = LEFT + room, [], 0.0
    for name, value in sorted(panel.levels.items(), key=lambda level: y(level[1])):
        last = max(y(value), last + LABEL_HEIGHT)
        parts.append(
            f'<path class="lead" d="M{right:g} {y(value):.1f}L{right + 9:g} {last:.1f}"/>'
            f'<text class="soft" x="{right + 12:g}" y="{last + 4:.1f}">'
            f"{escape(_level(name, value))}</text>"
        )
    return parts


def _level(name: str, value: float) -> str:
    return f"{name}: {value:.4g}"


def _rooms(figure: Figure) -> tuple[float, float]:
    """Return the width of a panel with the names of levels, and of its plot area."""
    names = [_level(*level) for panel in figure.panels for level in panel.levels.items()]
    if not names:
        return WIDTH, PLOT_WIDTH
    return LEFT + LABELED_WIDTH + 18 + max(map(len, names)) * LETTER, LABELED_WIDTH


def _height(figure: Figure, y: Axis, value: float) -> float:
    """Return the vertical position of a value; values below the axis are drawn at its lower end."""
    return y(max(value, 10**y.low if figure.y_log else y.low))


def _upright(figure: Figure) -> Axis:
    """Return the vertical axis, shared by all panels, that covers all values and error bars."""
    points = [point for panel in figure.panels for curve in panel.curves for point in curve.points]
    levels = [value for panel in figure.panels for value in panel.levels.values()]
    if figure.y_log:
        values = [value for value in (*(point.y for point in points), *levels) if value > 0]
        high = 1.15 * max([*values, *(point.high for point in points)])
        low = max(min(values) / 1.6, high / 10**DECADES)
        return Axis(low, high, TOP + HEIGHT, TOP, log=True)
    ends = [end for point in points for end in (point.low, point.high, point.y)] + levels
    edge = 0.06 * (max(ends) - min(ends))
    return Axis(min(ends) - edge, max(ends) + edge, TOP + HEIGHT, TOP)


def _curve(figure: Figure, curve: Curve, number: int, x: Axis, y: Axis) -> str:
    color = f"c{number % len(COLORS)}"

    def at(value: float) -> float:
        return _height(figure, y, value)

    parts = []
    if not curve.printed:
        line = " ".join(f"{x(p.x):.1f},{at(p.y):.1f}" for p in curve.points)
        parts.append(f'<polyline class="{color} line"{_dash(number)} points="{line}"/>')
    for p in curve.points:
        place, tip = f"{x(p.x):.1f}", f"{curve.name}: {p.x:g}, {p.y:.4g}"
        if p.high > p.low:
            parts.append(
                f'<path class="{color} bar" d="M{place} {at(p.low):.1f}V{at(p.high):.1f}'
                f'm-3 0h6M{place} {at(p.low):.1f}m-3 0h6"/>'
            )
        parts.append(_mark(color, x(p.x), at(p.y), tip, printed=curve.printed))
    return "".join(parts)


def _mark(color: str, x: float, y: float, tip: str, *, printed: bool) -> str:
    title = f"<title>{escape(tip)}</title>" if tip else ""
    if printed:
        return (
            f'<path class="{color} printed" d="M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6 -6z">{title}</path>'
        )
    return f'<circle class="{color}" cx="{x:.1f}" cy="{y:.1f}" r="2.6">{title}</circle>'


def _dash(number: int) -> str:
    pattern = DASHES[number // len(COLORS) % len(DASHES)]
    return f' stroke-dasharray="{pattern}"' if pattern else ""


def _legend(figure: Figure, names: list[str], width: float) -> tuple[str, float]:
    """Write the legend, as many entries per line as fit, and the number of runs."""
    printed = {c.name for panel in figure.panels for c in panel.curves if c.printed}
    step = max(len(name) for name in names) * LETTER + 48
    per_line = max(1, int((width - 20) // step))
    parts = []
    for number, name in enumerate(names):
        x, y = 16 + number % per_line * step, number // per_line * LINE + 10
        color = f"c{number % len(COLORS)}"
        if name not in printed:
            parts.append(f'<path class="{color} line"{_dash(number)} d="M{x:g} {y:g}h26"/>')
        parts.append(_mark(color, x + 13, y, "", printed=name in printed))
        parts.append(f'<text x="{x + 33:g}" y="{y + 4:g}">{escape(name)}</text>')
    deep = -(-len(names) // per_line) * LINE + 10
    parts.append(f'<text class="soft" x="16" y="{deep + 8:g}">{escape(figure.runs)}</text>')
    return "\n".join(parts), deep + 12
