"""SVG plots of the reports. Colors come from the page's style, for light and dark mode.

Plots are at most 340 pixels wide, so that labels stay readable on a phone, and show their numbers
as tooltips. Names from the data are escaped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Literal

WIDTH = 340.0
_LETTER = 5.9  # average character width of labels
_WIDE = 6.6  # width of a wide character
_LINE = 15.0  # minimum line height
MAX_HEAT_COLUMNS = 24  # with more, labels overlap
MAX_BARS = 12


def _svg(height: float, title: str, parts: Sequence[str], width: float = WIDTH) -> str:
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(title)}">'
        + "".join(parts)
        + "</svg>"
    )


def _n(value: float) -> str:
    """Format a coordinate compactly."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


def _rect(  # noqa: PLR0917 - position, size, class, tooltip
    x: float, y: float, width: float, height: float, kind: str, tip: str = ""
) -> str:
    body = f"<title>{escape(tip)}</title>" if tip else ""
    return (
        f'<rect class="{kind}" x="{_n(x)}" y="{_n(y)}" width="{_n(max(width, 0))}" '
        f'height="{_n(max(height, 0))}">{body}</rect>'
    )


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<path class="{kind}" d="M{_n(x1)} {_n(y1)}L{_n(x2)} {_n(y2)}"/>'


def _dot(x: float, y: float, radius: float, kind: str, tip: str = "") -> str:
    body = f"<title>{escape(tip)}</title>" if tip else ""
    return f'<circle class="{kind}" cx="{_n(x)}" cy="{_n(y)}" r="{radius:g}">{body}</circle>'


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    where = "" if anchor == "start" else f' text-anchor="{anchor}"'
    what = f' class="{kind}"' if kind else ""
    return f'<text x="{_n(x)}" y="{_n(y)}"{where}{what}>{escape(text)}</text>'


def shorten(text: str, most: int) -> str:
    """Truncate a long text with an ellipsis.

    Examples
    --------
    >>> shorten("Married-spouse-absent", 12)
    'Married-spo…'
    """
    return text if len(text) <= most else text[: most - 1] + "…"


def _percent(share: float) -> str:
    return f"{share:.1%}" if share >= 0.0005 or share == 0 else "<0.1%"


# --- single columns -------------------------------------------------------------------------------


def column_plot(column: Mapping[str, Any]) -> str:
    """Plot the distribution of a column: a histogram if ordered, else bars by value."""
    shares = column["shares"]
    data = list(zip(shares["labels"], shares["original"], shares["published"], strict=True))
    if column["ordered"] and len(data) > MAX_BARS:
        return _histogram(column["name"], data)
    return _bars(column["name"], data, keep_order=column["ordered"])


def _histogram(name: str, data: Sequence[tuple[str, float, float]]) -> str:
    missing = data[-1] if data[-1][0] == "missing" else None
    binned = data[:-1] if missing else data
    height, left, bottom = 140.0, 4.0, 118.0
    room = WIDTH - 2 * left - (40 if missing else 0)
    step, top = room / len(binned), max(max(a, b) for _, a, b in data) or 1.0

    def y(share: float) -> float:
        return bottom - (bottom - 8) * share / top

    parts = []
    for place, (label, original, published) in enumerate(binned):
        tip = f"{label}: original {_percent(original)}, release {_percent(published)}"
        x = left + place * step
        parts.append(_rect(x, y(original), step - 0.6, bottom - y(original), "original", tip))
    outline = "".join(
        f"{'M' if place == 0 else 'L'}{_n(left + place * step)} {_n(y(published))}"
        f"H{_n(left + (place + 1) * step - 0.6)}"
        for place, (_, _, published) in enumerate(binned)
    )
    parts.append(f'<path class="release-line" d="{outline}"/>')
    parts.append(_line(left, bottom, left + room, bottom, "axis"))
    first, last = (_thousands(binned[place][0].split(" to ")[place]) for place in (0, -1))
    parts.append(_text(left, height - 6, first))
    parts.append(_text(left + room, height - 6, last, anchor="end"))
    if missing:
        label, original, published = missing
        x = WIDTH - left - 30
        tip = f"missing: original {_percent(original)}, release {_percent(published)}"
        parts.append(_rect(x, y(original), 14, bottom - y(original), "original", tip))
        parts.append(_rect(x + 15, y(published), 14, bottom - y(published), "release", tip))
        parts.append(_line(x - 2, bottom, x + 31, bottom, "axis"))
        parts.append(_text(x + 14, height - 6, "miss.", anchor="middle"))
    return _svg(height, f"distribution of {name}", parts)


def _thousands(number: str) -> str:
    return f"{int(number):,}" if number.lstrip("-").isdigit() else number


def _bars(name: str, data: Sequence[tuple[str, float, float]], *, keep_order: bool) -> str:
    rows = list(data)
    if not keep_order:
        rows.sort(key=lambda row: (row[0] in ("missing", "other values"), -row[1]))
    if len(rows) > MAX_BARS:
        often = sorted(rows, key=lambda row: -max(row[1], row[2]))
        kept = {row[0] for row in often[: MAX_BARS - 1] if row[0] != "other values"}
        rest = [row for row in rows if row[0] not in kept]
        rows = [row for row in rows if row[0] in kept]
        rows.append(("all others", sum(row[1] for row in rest), sum(row[2] for row in rest)))
    label_width = min(max(len(row[0]) for row in rows) * _LETTER + 6, 120.0)
    top = max(max(a, b) for _, a, b in rows) or 1.0
    room, step = WIDTH - label_width - 42, 26.0  # two bars of a row, with a label each
    parts = []
    for place, (label, original, published) in enumerate(rows):
        y = place * step + 2
        tip = f"{label}: original {_percent(original)}, release {_percent(published)}"
        parts.append(
            _text(label_width - 4, y + 14, shorten(label, int(label_width / _LETTER)), anchor="end")
        )
        for share, kind, at in ((original, "original", y), (published, "release", y + 10.5)):
            length = room * share / top
            parts.append(_rect(label_width, at + 1, length, 9, kind, tip))
            parts.append(_text(label_width + length + 4, at + 9, _percent(share), f"of-{kind}"))
    return _svg(len(rows) * step + 4, f"distribution of {name}", parts)


# --- association ----------------------------------------------------------------------------------


def association_plots(pairs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Plot heat maps of Cramér's V, for the original and for the release."""
    strength: dict[str, float] = {}
    for pair in pairs:
        for name in pair["names"]:
            strength[name] = strength.get(name, 0.0) + pair["association"]["original"]
    names = list(strength)
    if len(names) > MAX_HEAT_COLUMNS:
        kept = set(sorted(names, key=lambda name: -strength[name])[:MAX_HEAT_COLUMNS])
        names = [name for name in names if name in kept]
    found = {frozenset(pair["names"]): pair["association"] for pair in pairs}
    return {
        which: _heat_map(which, names, {pair: found[pair][which] for pair in found})
        for which in ("original", "published")
    }


def _heat_map(which: str, names: Sequence[str], strengths: Mapping[frozenset[str], float]) -> str:
    """Draw the lower triangle, with names on the left and along the diagonal."""
    n = len(names)
    below = [shorten(name, 14) for name in names[:-1]]  # rotated by 50 degrees
    left = max(
        min(max(len(name) for name in names) * _LETTER + 6, 96.0), 0.66 * _WIDE * len(below[0])
    )
    cell = min((WIDTH - left - 4) / max(n - 1, 1), 40.0)
    parts = []
    for row in range(1, n):
        y = (row - 1) * cell + 2
        label = shorten(names[row], int(left / _LETTER))
        parts.append(_text(left - 4, y + cell / 2 + 3.5, label, anchor="end"))
        for column in range(row):
            strength = strengths.get(frozenset((names[row], names[column])))
            x, pair = left + column * cell, f"{names[column]} × {names[row]}"
            if strength is None:
                tip = f"{pair}: not published together"
                parts.append(_rect(x + 0.5, y + 0.5, cell - 1, cell - 1, "void", tip))
                continue
            shade = f"heat h{min(round(strength * 20), 20)}"
            parts.append(
                _rect(x + 0.5, y + 0.5, cell - 1, cell - 1, shade, f"{pair}: {strength:.2f}")
            )
            if cell >= 26:
                kind = "on-heat" if strength >= 0.5 else "heat-label"
                parts.append(
                    _text(x + cell / 2, y + cell / 2 + 3.5, f"{strength:.2f}", kind, "middle")
                )
    bottom = (n - 1) * cell + 2
    for column in range(n - 1):
        x, label = left + (column + 0.5) * cell, below[column]
        parts.append(
            f'<text x="{_n(x + 3)}" y="{_n(bottom + 8)}" text-anchor="end" '
            f'transform="rotate(-50 {_n(x + 3)} {_n(bottom + 8)})">{escape(label)}</text>'
        )
    deep = 0.77 * _WIDE * max(map(len, below)) + 16
    return _svg(bottom + deep, f"association of columns: {which}", parts)


# --- correlations and count queries ---------------------------------------------------------------


def slope_plot(each: Sequence[Mapping[str, Any]]) -> str:
    """Plot correlations in the release against those in the original."""
    size, left, top = 300.0, 60.0, 14.0

    def place(value: float) -> float:
        return (min(max(value, -1.0), 1.0) + 1) / 2 * size

    parts = [_line(left, top + size, left + size, top, "axis")]
    for tick in (-1.0, -0.5, 0.0, 0.5, 1.0):
        x, y = left + place(tick), top + size - place(tick)
        parts += [
            _line(x, top, x, top + size, "grid"),
            _line(left, y, left + size, y, "grid"),
            _text(x, top + size + 16, f"{tick:g}", "soft", "middle"),
            _text(left - 8, y + 4, f"{tick:g}", "soft", "end"),
        ]
    for one in each:
        original, published = one["correlation"]["original"], one["correlation"]["published"]
        tip = f"{' and '.join(one['names'])}{', ' * bool(one['group'])}{one['group']}: "
        tip += f"{original:.2f} in the original, {published:.2f} in the release"
        kind = "published" if not one["group"] else "soft"
        parts.append(_dot(left + place(original), top + size - place(published), 4, kind, tip))
    parts.append(_text(left + size / 2, top + size + 34, "original", "soft", "middle"))
    return _svg(top + size + 44, "correlations in the original and in the release", parts)


def workload_plot(workload: Mapping[str, Any]) -> str:
    """Plot answers against true counts, on logarithmic axes."""
    questions = workload["questions"]
    top = max(max(q["truth"], q["value"]) for q in questions)
    decades = max(1, math.ceil(math.log10(max(top, 10.0))))
    left, bottom, size = 44.0, 262.0, 250.0
    scale = size / decades

    def place(value: float) -> float:
        return math.log10(max(value, 1.0)) * scale

    parts = []
    for decade in range(decades + 1):
        at = decade * scale
        parts.append(_line(left, bottom - at, left + size, bottom - at, "grid"))
        parts.append(_line(left + at, bottom, left + at, bottom - size, "grid"))
        label = f"{10**decade:,}" if decade < 4 else f"10{'⁰¹²³⁴⁵⁶⁷⁸⁹'[decade % 10]}"
        parts.append(_text(left - 5, bottom - at + 4, label, "soft", "end"))
        parts.append(_text(left + at, bottom + 14, label, "soft", "middle"))
    parts.append(_line(left, bottom, left + size, bottom - size, "diagonal"))
    for q in questions:
        held = q["low"] is None or q["low"] <= q["truth"] <= q["high"]
        tip = f"{q['where']}: {q['value']:,.0f}, true {q['truth']:,}"
        kind = "point" if held else "point missed"
        parts.append(_dot(left + place(q["truth"]), bottom - place(q["value"]), 2.4, kind, tip))
    parts.append(_text(left + size / 2, bottom + 28, "true count", "soft", "middle"))
    parts.append(
        f'<text class="soft" transform="rotate(-90 9 {_n(bottom - size / 2)})" x="9" '
        f'y="{_n(bottom - size / 2)}" text-anchor="middle">answer</text>'
    )
    return _svg(bottom + 34, "answers against true counts", parts, width=left + size + 16)


# --- rates: models and attacks --------------------------------------------------------------------

Marks = Sequence[tuple[str, Mapping[str, Any], str]]
"""Tuples of mark class, rate (value, low, high) and description."""


def rate_plot(
    groups: Mapping[str, Sequence[tuple[str, Marks]]],
    *,
    title: str,
    line: float | None = None,
    whole: bool = False,
    unit: Literal["share", "distance"] = "share",
) -> str:
    """Plot rates with their intervals, one row each, under headings.

    `groups` maps each heading to rows: a name and its marks. An empty heading is not shown. `title`
    is the accessible description, and `line` a rate to mark in all rows. The axis runs from 0 to 1
    if `whole`, else around the rates.
    """
    rows = [row for things in groups.values() for row in things]
    ends = [rate[end] for _, marks in rows for _, rate, _ in marks for end in ("low", "high")]
    ends += [] if line is None else [line]
    low, high = (0.0, 1.0) if whole else _axis(min(ends), max(ends))
    left = min(max(len(name) for name, _ in rows) * _LETTER + 8, 138.0)
    right = WIDTH - 16.0
    on_axis, in_tip = (".0%", ".1%") if unit == "share" else (".2f", ".3f")

    def x(value: float) -> float:
        return left + (right - left) * (min(max(value, low), high) - low) / (high - low)

    body, y = [], 4.0
    for heading, things in groups.items():
        if heading:
            body.append(_text(0, y + 12, heading, "strong"))
            y += 19
        for name, marks in things:
            height = max(6.0 + 5.0 * len(marks), _LINE)
            first = y + (height - 5.0 * (len(marks) - 1)) / 2
            label = shorten(name, int(left / _LETTER))
            body.append(_text(left - 6, y + height / 2 + 4, label, anchor="end"))
            for number, (kind, rate, what) in enumerate(marks):
                at = first + 5 * number
                value, start, end = (f"{rate[key]:{in_tip}}" for key in ("value", "low", "high"))
                tip = f"{what}: {value} ({start} to {end})"
                body.append(_line(x(rate["low"]), at, x(rate["high"]), at, f"bar-{kind}"))
                body.append(_dot(x(rate["value"]), at, 2.8, kind, tip))
            y += height
        y += 5
    frame = []
    for tick in _ticks(low, high):
        frame.append(_line(x(tick), 2, x(tick), y, "grid"))
        frame.append(_text(x(tick), y + 13, f"{tick:{on_axis}}", "soft", "middle"))
    if line is not None:
        frame.append(_line(x(line), 2, x(line), y, "majority"))
    return _svg(y + 18, title, [*frame, *body])


def _axis(low: float, high: float) -> tuple[float, float]:
    """Return round axis limits around some rates."""
    pad = max((high - low) * 0.08, 0.01)
    step = 0.1 if high - low > 0.2 else 0.02
    return max(math.floor((low - pad) / step) * step, 0.0), min(
        math.ceil((high + pad) / step) * step, 1.0
    )


def _ticks(low: float, high: float) -> list[float]:
    step = next(s for s in (0.01, 0.02, 0.05, 0.1, 0.2, 0.25) if (high - low) / s <= 6.01)
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, 4) for k in range(first, math.floor(high / step + 1e-9) + 1)]


# --- degrees --------------------------------------------------------------------------------------


def degree_plot(degrees: Mapping[str, Any]) -> str:
    """Plot the share of nodes with at least each degree, on logarithmic axes."""
    shares = [share for which in ("original", "published") for share in degrees[which] if share > 0]
    n_down = max(1, math.ceil(-math.log10(min(shares, default=0.1))))
    n_right = max(1, math.ceil(math.log10(max(degrees["degrees"][-1], 2))))
    left, top, width, height = 46.0, 8.0, 280.0, 190.0

    def point(degree: float, share: float) -> str:
        x = left + width * math.log10(degree) / n_right
        return f"{_n(x)} {_n(top - height * math.log10(share) / n_down)}"

    parts = []
    for decade in range(n_right + 1):
        x = left + width * decade / n_right
        parts.append(_line(x, top, x, top + height, "grid"))
        parts.append(_text(x, top + height + 14, f"{10**decade:,}", "soft", "middle"))
    for decade in range(n_down + 1):
        y = top + height * decade / n_down
        parts.append(_line(left, y, left + width, y, "grid"))
        parts.append(
            _text(left - 5, y + 4, f"{10.0**-decade:.{max(decade - 2, 0)}%}", "soft", "end")
        )
    for which, kind in (("original", "original-line"), ("published", "release-line")):
        points = [
            point(degree, share)
            for degree, share in zip(degrees["degrees"], degrees[which], strict=True)
            if share > 0
        ]
        if points:
            parts.append(f'<path class="{kind}" d="M{"L".join(points)}"/>')
    parts.append(_text(left + width / 2, top + height + 28, "degree", "soft", "middle"))
    return _svg(top + height + 34, "share of nodes with at least each degree", parts)


# --- a ledger -------------------------------------------------------------------------------------


def steps_plot(
    series: Mapping[str, tuple[str, Sequence[tuple[float, float]]]],
    *,
    title: str,
    ends: tuple[str, str],
) -> str:
    """Plot shares that change in steps over time; shares above 105% are cut off.

    `series` maps each name to its line class and its steps: time from 0 to 1, and share. `ends` are
    the labels of the first and the last time.
    """
    height, left, right, top, bottom = 190.0, 40.0, WIDTH - 6, 12.0, 160.0

    def x(time: float) -> float:
        return left + (right - left) * time

    def y(share: float) -> float:
        return bottom - (bottom - top) * min(share, 1.05)

    parts = []
    for share in (0.0, 0.5, 1.0):
        parts.append(_line(left, y(share), right, y(share), "axis" if share == 0 else "grid"))
        parts.append(_text(left - 6, y(share) + 4, f"{share:.0%}", "soft", "end"))
    for name, (kind, steps) in series.items():
        path = f"M{_n(x(steps[0][0]))} {_n(y(steps[0][1]))}"
        path += "".join(f"H{_n(x(time))}V{_n(y(share))}" for time, share in steps[1:])
        tip = escape(f"{name}: {_percent(steps[-1][1])}")
        parts.append(f'<path class="{kind}" d="{path}H{_n(right)}"><title>{tip}</title></path>')
    parts.append(_text(left, height - 12, ends[0], "soft"))
    parts.append(_text(right, height - 12, ends[1], "soft", "end"))
    return _svg(height, title, parts)
