"""SVG charts, which need no scripts."""

from __future__ import annotations

from collections.abc import Sequence

from hushtable.files import svg

_BOX = "-20 -8 660 308"
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 620, 26, 250


def steps(
    spent: Sequence[tuple[str, float]], *, cap: float, reserved: float, labels: tuple[str, str, str]
) -> str:
    """Return a chart of the cumulative spending by entry; the page's styles apply.

    `spent` contains times and cumulative sums. `labels` are the names of cap, spent and reserved.
    """
    n, total = max(len(spent), 1), spent[-1][1] if spent else 0.0
    step = (_RIGHT - _LEFT) / (n + 1)
    x = svg.Axis(-0.5, n + 0.5, _LEFT, _RIGHT)
    y = svg.Axis(0, max(cap, 1e-9) * 1.08, _BOTTOM, 20)
    dots = [(x(place), y(value)) for place, (_, value) in enumerate(spent)]
    corners = [*svg.stairs([(_LEFT, y(0)), *dots]), (_RIGHT, y(total))]
    parts = [
        svg.band([(_LEFT, y(0)), (_RIGHT, y(0))], corners, "area"),
        *svg.grid(x, y, x_text=None),
        svg.line(corners, "line line-0"),
    ]
    for dot, (when, value) in zip(dots, spent, strict=True):
        parts.append(svg.marker(dot, 3.5, "dot dot-0", f"{when}: {value:g}"))
        if n <= 8:
            day = when[:10] if n <= 5 else when[5:10]
            parts.append(svg.text(dot[0], _BOTTOM + 18, day, "soft", anchor="middle"))
    if reserved:
        left, top = _RIGHT - step, y(total + reserved)
        note = f"{labels[2]} {reserved:g}"
        parts += [
            svg.rect(left, top, step, y(total) - top, "reserved"),
            svg.text(left - 4, top + 12, note, "soft", anchor="end"),
        ]
    at_cap, at_total = f"{labels[0]} {cap:g}", f"{labels[1]} {total:g}"
    parts += [
        svg.line([(_LEFT, y(cap)), (_RIGHT, y(cap))], "cap"),
        svg.text(_RIGHT - 8, y(cap) - 6, at_cap, "soft", anchor="end"),
        svg.text(_RIGHT - 8, max(y(total) - 8, 34), at_total, anchor="end"),
    ]
    return svg.figure(_BOX, f"{at_total}, {at_cap}", parts, "chart")
