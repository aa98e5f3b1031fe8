"""Plots of answers with 95% intervals: bars, dots or lines, as SVG without other libraries."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hushtable.errors import ParameterError
from hushtable.files import svg
from hushtable.files.writing import require_new, write_whole
from hushtable.schema import Value

if TYPE_CHECKING:
    from hushtable.query.answers.estimator import Estimate

Key = tuple[Value, ...]
Write = Callable[[float, float, str], str]  # format a number, by the width of an interval

_WIDTH, _ROW, _LEFT, _RIGHT, _TOP, _HEIGHT = 720, 22, 220, 690, 46, 300
_FEW = 12  # up to this many ordered values are drawn as rows, more of them as a line
_MOST_ROWS = 200
_MOST_LETTERS = 30  # of the name of a row, which fit left of the chart
_COLORS = ("#0b5cad", "#c2571a", "#2e7d32", "#7b3fa0", "#8a6d00", "#b3261e")
_CLIPPED = "An arrow marks an interval that continues outside the chart."
_DATE = re.compile(r"\d{4}-\d\d|\d\d:\d\d")


@dataclass(frozen=True)
class Plot:
    """A plot as an SVG document, which notebooks show.

    Parameters
    ----------
    svg : str
        The document.
    """

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return "Plot; save(path) writes an .svg file, and notebooks show it."

    def save(self, path: str | Path) -> None:
        """Write the plot to a new ``.svg`` file.

        Parameters
        ----------
        path : str or Path
            The file, which must not exist.

        Raises
        ------
        ParameterError
            If the file exists, has another suffix, or cannot be written.
        """
        write_whole(require_new(path, ".svg"), self.svg)


def plot(
    by: Sequence[str],
    answers: Mapping[Key, Estimate],
    what: str,
    write: Write,
    *,
    bars: bool,
    few: int = _FEW,
) -> Plot:
    """Plot answers by group with their intervals.

    More than `few` ordered values of the first column become a line with a band, one line for each
    value of the second column. Other groups become rows: dots, or bars if `bars` is True and the
    axis starts at 0. `write` formats the numbers at the axes.

    Examples
    --------
    >>> from hushtable.query.answers.estimator import Estimate, written
    >>> one = Estimate(value=120.0, low=112.0, high=128.0, privacy_std=4.0, model_std=0.0)
    >>> plot((), {(): one}, "rows", written, bars=True).svg.count("<polyline")
    1
    """
    if tuple(by) == ("term",):
        answers = {key: one for key, one in answers.items() if key != ("(intercept)",)}
        what = "coefficient"
    known = {key: one for key, one in answers.items() if not math.isnan(one.value)}
    places = list(dict.fromkeys(key[0] for key in known if key and _is_ordered(key[0])))
    series = list(dict.fromkeys(key[1:] for key in known if key and key[0] in places))
    if len(places) > few and len(series) <= len(_COLORS) and len(by) <= 2:
        return _lines(by, known, places, series, what, write=write)
    if len(answers) > _MOST_ROWS:
        raise ParameterError(
            f"the answer has {len(answers):,} groups; a plot shows at most {_MOST_ROWS}. Group by "
            "fewer columns, or select rows with where."
        )
    return _rows(by, answers, what, write, bars=bars)


def _rows(
    by: Sequence[str], answers: Mapping[Key, Estimate], what: str, write: Write, *, bars: bool
) -> Plot:
    bottom = _TOP + _ROW * len(answers)
    low, high = _range(list(answers.values()))
    bars = bars and low == 0
    x, y = svg.Axis(low, high, _LEFT, _RIGHT), svg.Axis(0, len(answers), _TOP, bottom)
    parts = svg.grid(x, y, x_text=lambda tick: write(tick, (high - low) / 5, what), y_text=None)
    is_clipped = False
    for place, (key, one) in enumerate(answers.items()):
        at = y(place + 0.5)
        name = _name(key)
        name = name if len(name) <= _MOST_LETTERS else f"{name[: _MOST_LETTERS - 1]}\u2026"
        parts.append(svg.text(_LEFT - 10, at + 4, name, anchor="end"))
        if math.isnan(one.value):
            parts.append(svg.text(_LEFT + 6, at + 4, "unknown", "soft"))
            continue
        first, middle, last = (x(end) for end in (one.low, one.value, one.high))
        if bars:
            parts.append(svg.rect(x.start, at - 7, middle - x.start, 14, "bar", str(one)))
        parts.append(svg.line([(first, at), (last, at)], "whisker" if bars else "line", str(one)))
        if not bars:
            parts.append(svg.marker((middle, at), 4, "dot", str(one)))
        for edge, back, outside in ((x.start, 6, one.low < low), (x.stop, -6, one.high > high)):
            if outside:
                is_clipped = True
                arrow = [(edge + back, at - 4), (edge, at), (edge + back, at + 4)]
                parts.append(svg.line(arrow, "whisker"))
    return _document(by, what, parts, bottom, [_CLIPPED] if is_clipped else [])


def _lines(
    by: Sequence[str],
    known: Mapping[Key, Estimate],
    places: list[Value],
    series: list[Key],
    what: str,
    *,
    write: Write,
) -> Plot:
    numeric = not any(isinstance(place, str) for place in places)
    at = {p: float(str(p)) if numeric else float(i) for i, p in enumerate(places)}
    shown = {key: one for key, one in known.items() if key[0] in at}
    low, high = _range(list(shown.values()))
    bottom, left = _TOP + _HEIGHT, 84
    x = svg.Axis(min(at.values()), max(at.values()), left, _RIGHT)
    y = svg.Axis(low, high, bottom, _TOP)

    def tick(value: float) -> str:
        if numeric:
            return svg.plain_number(value)
        return str(places[int(value)]) if value == int(value) else ""

    parts = svg.grid(x, y, x_text=tick, y_text=lambda tick: write(tick, (high - low) / 5, what))
    parts.append(svg.text((left + _RIGHT) / 2, bottom + 36, by[0], anchor="middle"))
    for number, (color, rest) in enumerate(zip(_COLORS, series, strict=False)):
        line = [(x(at[p]), shown[p, *rest]) for p in places if (p, *rest) in shown]
        ends = [[(place, y(getattr(one, end))) for place, one in line] for end in ("low", "high")]
        parts.append(svg.band(ends[0], ends[1], color=color))
        parts.append(svg.line([(place, y(one.value)) for place, one in line], "line", color=color))
        if rest:
            parts.append(svg.element("circle", cx=_RIGHT - 114, cy=_TOP + 6 + 18 * number, r=5,
                                     fill=color))  # fmt: skip
            parts.append(svg.text(_RIGHT - 102, _TOP + 18 * number + 11, _name(rest)))
    missing = dict.fromkeys(_name(key[:1]) for key in known if key not in shown)
    notes = [f"Not shown: {', '.join(missing)}."] if missing else []
    return _document(by, what, parts, bottom + 20, notes)


def _document(
    by: Sequence[str], what: str, parts: list[str], bottom: float, notes: Sequence[str]
) -> Plot:
    title = f"{what} by {' and '.join(by)}" if by else what
    parts = [*svg.titles(24, title, "with 95% intervals"), *parts]
    parts += [svg.text(24, bottom + 40, note, "soft") for note in notes]
    return Plot(svg.document(_WIDTH, bottom + (52 if notes else 34), parts))


def _is_ordered(value: Value) -> bool:
    return _DATE.match(value) is not None if isinstance(value, str) else value is not None


def _name(key: Key) -> str:
    return ", ".join("(missing)" if part is None else str(part) for part in key)


def _range(estimates: Sequence[Estimate]) -> tuple[float, float]:
    """Return the ends of an axis: all values, and intervals as far as they are not much wider."""
    values = [one.value for one in estimates if math.isfinite(one.value)]
    if not values:
        return 0.0, 1.0
    widths = sorted(one.high - one.low for one in estimates if math.isfinite(one.high - one.low))
    typical = widths[len(widths) // 2] if widths else 0.0
    space = max(values) - min(values) + 2 * typical
    low = max(min((e.low for e in estimates if math.isfinite(e.low)), default=0.0),
              min(values) - space)  # fmt: skip
    high = min(max((e.high for e in estimates if math.isfinite(e.high)), default=0.0),
               max(values) + space)  # fmt: skip
    if all(one.low >= 0 for one in estimates if math.isfinite(one.low)) and low < high - low:
        low = 0.0
    return low, max(high, *values)
