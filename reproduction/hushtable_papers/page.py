"""Tables of measured points in a paper's page, between two marks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from hushtable_papers.figure import Curve, Figure, Panel, Point

MOST_PLACES = 12
"""Maximum number of columns of a table; the file of points contains all points."""

MARKED = re.compile(r"(<!-- points of (\S+) -->\n).*?(<!-- end of points -->)", re.DOTALL)


def filled(text: str, figures: Mapping[str, Figure]) -> str:
    """Replace the tables between their marks; tables of other figures stay."""

    def replaced(mark: re.Match[str]) -> str:
        figure = figures.get(mark[2])
        return mark[1] + tables(figure) + mark[3] if figure else mark[0]

    return MARKED.sub(replaced, text)


def tables(figure: Figure) -> str:
    """Return a table for each panel: a row for each curve, a column for each x coordinate."""
    return f"\n{figure.runs}.\n\n" + "\n".join(
        table(panel, figure.x_label) for panel in figure.panels
    )


def table(panel: Panel, x_label: str) -> str:
    """Return the table of a panel.

    If there are too many columns, only some are shown, without the values from the paper.
    """
    curves = [curve for curve in panel.curves if not curve.printed]
    places = _places_of(curves)
    some = len(places) > MOST_PLACES
    if some:
        places = places[:: -(-len(places) // MOST_PLACES)]
    else:
        curves = list(panel.curves)
        places = _places_of(curves)
    rows = [
        [panel.title, *(_number(place) for place in places)],
        ["---", *("---:" for _ in places)],
    ]
    for curve in curves:
        by_place = {point.x: point for point in curve.points}
        rows.append([curve.name, *(_cell(by_place.get(place)) for place in places)])
    text = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    levels = "; ".join(f"{name} {value:.4g}" for name, value in panel.levels.items())
    column = f"\nColumns: {x_label}" + ", some of the places" * some + "."
    return text + column + f" Levels: {levels}." * bool(levels) + "\n"


def _places_of(curves: Iterable[Curve]) -> list[float]:
    return sorted({point.x for curve in curves for point in curve.points})


def _cell(point: Point | None) -> str:
    if point is None:
        return ""
    if point.high <= point.low:
        return _number(point.y)
    up, down = point.high - point.y, point.y - point.low
    if abs(up - down) <= 1e-3 * max(abs(point.y), up):  # symmetric except for rounding
        return f"{_number(point.y)} ± {_number(up, 2)}"
    return f"{_number(point.y)} ({_number(point.low)} to {_number(point.high)})"


def _number(value: float, digits: int = 4) -> str:
    return f"{value:,.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"
