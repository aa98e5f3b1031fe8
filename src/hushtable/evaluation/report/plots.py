"""SVG plots of the reports. Colors come from the page's style, for light and dark mode.

Plots are at most 340 pixels wide, so that labels stay readable on a phone, and show their numbers
as tooltips. Names from the data are escaped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from hushtable.files import svg

WIDTH = 340.0
_LETTER = 5.9  # average character width of labels
_WIDE = 6.6  # width of a wide character
_LINE = 15.0  # minimum line height
MAX_HEAT_COLUMNS = 24  # with more, labels overlap
MAX_BARS = 12


def _figure(height: float, title: str, parts: Sequence[str], width: float = WIDTH) -> str:
    return svg.figure(f"0 0 {width:g} {height:g}", title, parts)


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
    right = WIDTH - left - (40 if missing else 0)
    x = svg.Axis(0, len(binned), left, right)
    y = svg.Axis(0, max(max(a, b) for _, a, b in data) or 1.0, bottom, 8)

    def bar(start: float, width: float, row: tuple[str, float, float], kind: str) -> str:
        label, original, published = row
        tip = f"{label}: original {_percent(original)}, release {_percent(published)}"
        top = y(original if kind == "original" else published)
        return svg.rect(start, top, width, bottom - top, kind, tip)

    parts = [bar(x(n), x(1) - x(0) - 0.6, row, "original") for n, row in enumerate(binned)]
    tops = [(x(n), y(published)) for n, (_, _, published) in enumerate(binned)]
    parts.append(svg.line([*svg.stairs(tops), (right, tops[-1][1])], "release-line"))
    parts.append(svg.line([(left, bottom), (right, bottom)], "axis"))
    first, last = (_thousands(binned[place][0].split(" to ")[place]) for place in (0, -1))
    parts.append(svg.text(left, height - 6, first))
    parts.append(svg.text(right, height - 6, last, anchor="end"))
    if missing:
        start = WIDTH - left - 30
        parts += [
            bar(start, 14, missing, "original"),
            bar(start + 15, 14, missing, "release"),
            svg.line([(start - 2, bottom), (start + 31, bottom)], "axis"),
            svg.text(start + 14, height - 6, "miss.", anchor="middle"),
        ]
    return _figure(height, f"distribution of {name}", parts)


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
    left = min(max(len(row[0]) for row in rows) * _LETTER + 6, 120.0)
    x = svg.Axis(0, max(max(a, b) for _, a, b in rows) or 1.0, left, WIDTH - 42)
    step = 26.0  # two bars of a row, with a label each
    parts = []
    for place, (label, original, published) in enumerate(rows):
        y = place * step + 2
        tip = f"{label}: original {_percent(original)}, release {_percent(published)}"
        parts.append(svg.text(left - 4, y + 14, shorten(label, int(left / _LETTER)), anchor="end"))
        for share, kind, at in ((original, "original", y), (published, "release", y + 10.5)):
            parts.append(svg.rect(left, at + 1, x(share) - left, 9, kind, tip))
            parts.append(svg.text(x(share) + 4, at + 9, _percent(share), f"of-{kind}"))
    return _figure(len(rows) * step + 4, f"distribution of {name}", parts)


# --- association ----------------------------------------------------------------------------------


def association_plots(pairs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Plot heat maps of Cramér's V, for the original and for the release.

    Only the `MAX_HEAT_COLUMNS` columns with the strongest associations in the original are shown.
    """
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
        parts.append(svg.text(left - 4, y + cell / 2 + 3.5, label, anchor="end"))
        for column in range(row):
            strength = strengths.get(frozenset((names[row], names[column])))
            x, pair = left + column * cell, f"{names[column]} × {names[row]}"
            kind, tip = "void", f"{pair}: not published together"
            if strength is not None:
                kind, tip = f"heat h{min(round(strength * 20), 20)}", f"{pair}: {strength:.2f}"
            parts.append(svg.rect(x + 0.5, y + 0.5, cell - 1, cell - 1, kind, tip))
            if strength is not None and cell >= 26:
                middle = (x + cell / 2, y + cell / 2 + 3.5)
                kind = "on-heat" if strength >= 0.5 else "heat-label"
                parts.append(svg.text(*middle, f"{strength:.2f}", kind, anchor="middle"))
    bottom = (n - 1) * cell + 2
    parts += [
        svg.text(left + (column + 0.5) * cell + 3, bottom + 8, label, anchor="end", turn=-50)
        for column, label in enumerate(below)
    ]
    deep = 0.77 * _WIDE * max(map(len, below)) + 16
    return _figure(bottom + deep, f"association of columns: {which}", parts)


# --- correlations and count queries ---------------------------------------------------------------


def slope_plot(each: Sequence[Mapping[str, Any]]) -> str:
    """Plot correlations in the release against those in the original."""
    left, right, top, bottom = 60.0, 320.0, 14.0, 274.0
    x, y = svg.Axis(-1, 1, left, right), svg.Axis(-1, 1, bottom, top)
    parts = [*svg.grid(x, y), svg.line([(left, bottom), (right, top)], "axis")]
    for one in each:
        original, published = one["correlation"]["original"], one["correlation"]["published"]
        tip = f"{' and '.join(one['names'])}{', ' * bool(one['group'])}{one['group']}: "
        tip += f"{original:.2f} in the original, {published:.2f} in the release"
        kind = "original" if one["group"] else "release"
        parts.append(svg.marker((x(original), y(published)), 4, kind, tip))
    parts += _axis_names(x, y, "original", "release")
    return _figure(bottom + 40, "correlations in the original and in the release", parts)


def _axis_names(x: svg.Axis, y: svg.Axis, x_name: str, y_name: str) -> list[str]:
    return [
        svg.text((x.start + x.stop) / 2, y.start + 32, x_name, "soft", anchor="middle"),
        svg.text(9, (y.start + y.stop) / 2, y_name, "soft", anchor="middle", turn=-90),
    ]


def workload_plot(workload: Mapping[str, Any]) -> str:
    """Plot answers against true counts, on logarithmic axes."""
    questions = workload["questions"]
    largest = max(max(q["truth"], q["value"]) for q in questions)
    end = 10.0 ** max(1, math.ceil(math.log10(max(largest, 10.0))))
    left, right, top, bottom = 50.0, 300.0, 12.0, 262.0
    x = svg.Axis(1, end, left, right, log=True)
    y = svg.Axis(1, end, bottom, top, log=True)
    parts = svg.grid(x, y, x_text=_power, y_text=_power)
    parts.append(svg.line([(left, bottom), (right, top)], "diagonal"))
    for q in questions:
        held = q["low"] is None or q["low"] <= q["truth"] <= q["high"]
        tip = f"{q['where']}: {q['value']:,.0f}, true {q['truth']:,}"
        kind = "point" if held else "point missed"
        parts.append(svg.marker((x(q["truth"]), y(q["value"])), 2.4, kind, tip))
    parts += _axis_names(x, y, "true count", "answer")
    return _figure(bottom + 38, "answers against true counts", parts, width=right + 16)


def _power(tick: float) -> str:
    """Format a tick, from 10,000 on as a power of ten."""
    exponent = round(math.log10(tick))
    return f"{tick:,.0f}" if exponent < 4 else f"10{'⁰¹²³⁴⁵⁶⁷⁸⁹'[exponent % 10]}"


# --- rates: models and attacks --------------------------------------------------------------------

Mark = tuple[str, Mapping[str, Any], str]
"""Mark class, rate (value, low, high) and description."""


def rate_plot(
    groups: Mapping[str, Sequence[tuple[str, Sequence[Mark]]]],
    *,
    title: str,
    line: float | None = None,
    whole: bool = False,
    unit: Literal["share", "distance"] = "share",
) -> str:
    """Plot rates with their intervals, in named rows under headings.

    `groups` maps each heading to rows: a name and its marks. An empty heading is not shown. `title`
    is the accessible description, and `line` a rate to mark in all rows. The axis runs from 0 to 1
    if `whole`, else around the rates. `unit` selects the format of numbers.
    """
    rows = [row for things in groups.values() for row in things]
    ends = [rate[end] for _, marks in rows for _, rate, _ in marks for end in ("low", "high")]
    ends += [] if line is None else [line]
    low, high = (0.0, 1.0) if whole else _limits(min(ends), max(ends))
    left = min(max(len(name) for name, _ in rows) * _LETTER + 8, 138.0)
    x = svg.Axis(low, high, left, WIDTH - 16)
    on_axis, in_tip = (".0%", ".1%") if unit == "share" else (".2f", ".3f")
    body, y = [], 4.0
    for heading, things in groups.items():
        if heading:
            body.append(svg.text(0, y + 12, heading, "strong"))
            y += 19
        for name, marks in things:
            height = max(6.0 + 5.0 * len(marks), _LINE)
            first = y + (height - 5.0 * (len(marks) - 1)) / 2
            label = shorten(name, int(left / _LETTER))
            body.append(svg.text(left - 6, y + height / 2 + 4, label, anchor="end"))
            for number, (kind, rate, what) in enumerate(marks):
                at = first + 5 * number
                value, start, end = (f"{rate[key]:{in_tip}}" for key in ("value", "low", "high"))
                tip = f"{what}: {value} ({start} to {end})"
                body.append(svg.line([(x(rate["low"]), at), (x(rate["high"]), at)], f"bar-{kind}"))
                body.append(svg.marker((x(rate["value"]), at), 2.8, kind, tip))
            y += height
        y += 5
    upright = svg.Axis(0, 1, y, 2)
    frame = svg.grid(x, upright, x_text=lambda tick: f"{tick:{on_axis}}", y_text=None)
    if line is not None:
        frame.append(svg.line([(x(line), 2), (x(line), y)], "majority"))
    return _figure(y + 22, title, [*frame, *body])


def _limits(low: float, high: float) -> tuple[float, float]:
    """Return round axis limits around some rates, so that ticks differ by at least 0.01."""
    pad = max((high - low) * 0.08, 0.025)
    step = 0.1 if high - low > 0.2 else 0.02
    start, stop = math.floor((low - pad) / step) * step, math.ceil((high + pad) / step) * step
    return max(start, 0.0), min(stop, 1.0)


# --- degrees --------------------------------------------------------------------------------------


def degree_plot(degrees: Mapping[str, Any]) -> str:
    """Plot the share of nodes with at least each degree, on logarithmic axes."""
    shares = [share for which in ("original", "published") for share in degrees[which] if share > 0]
    n_down = max(1, math.ceil(-math.log10(min(shares, default=0.1))))
    n_right = max(1, math.ceil(math.log10(max(degrees["degrees"][-1], 2))))
    x = svg.Axis(1, 10.0**n_right, 46, 326, log=True)
    y = svg.Axis(10.0**-n_down, 1, 198, 8, log=True)
    parts = svg.grid(x, y, y_text=lambda share: f"{100 * share:.10g}%")
    for which, kind in (("original", "original-line"), ("published", "release-line")):
        known = zip(degrees["degrees"], degrees[which], strict=True)
        parts.append(svg.line([(x(degree), y(share)) for degree, share in known if share], kind))
    parts.append(svg.text(186, 230, "degree", "soft", anchor="middle"))
    return _figure(236, "share of nodes with at least each degree", parts)


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
    x = svg.Axis(0, 1, 40, WIDTH - 6)
    y = svg.Axis(0, 1.05, 160, 5)
    parts = svg.grid(x, y, x_text=None, y_text=lambda share: f"{share:.0%}")
    for name, (kind, steps) in series.items():
        points = svg.stairs([(x(time), y(share)) for time, share in steps])
        tip = f"{name}: {_percent(steps[-1][1])}"
        parts.append(svg.line([*points, (x.stop, points[-1][1])], kind, tip))
    parts.append(svg.text(x.start, 178, ends[0], "soft"))
    parts.append(svg.text(x.stop, 178, ends[1], "soft", anchor="end"))
    return _figure(190, title, parts)
