"""The part of ``hushtable plan`` that is about error and epsilon: words, a table, a drawing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hushtable.cli.screen import bars
from hushtable.errors import HushtableError, ParameterError, Refused
from hushtable.methods.base import CountError, Method
from hushtable.planning import SHARE, Curve, Want, error_curve, needed_epsilon
from hushtable.schema import Schema

_WIDTH, _HEIGHT = 640, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 620, 56, 340  # of the drawing's frame


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Hold the epsilon that gives a wanted error, as parameters of the method."""

    want: Want
    epsilon: Fraction
    error: CountError
    parameters: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Write as plain data."""
        return {
            "want": str(self.want),
            "epsilon": float(self.epsilon),
            "parameters": self.parameters,
            "half_width": self.error.half_width,
            "std": self.error.std,
        }

    def __str__(self) -> str:
        options = [f"--{name.replace('_', '-')} {value}" for name, value in self.parameters.items()]
        return (
            f"{' '.join(options)}: with 95 % confidence a count of {_percent(self.want.share)} of "
            f"the rows is off by at most {_number(self.error.half_width)}."
        )


def solve(method: Method, schema: Schema, want: str, *, rows: int | None) -> tuple[Method, Answer]:
    """Find the parameters that give what is wanted, and the method with them."""
    wanted = Want.parse(want)
    epsilon, error = needed_epsilon(method, schema, wanted, rows=rows)
    solved = method.at_epsilon(schema, epsilon)
    before = method.parameters()
    changed = {
        name: _short(value)
        for name, value in solved.parameters().items()
        if name == "epsilon" or value != before.get(name)
    }
    return solved, Answer(want=wanted, epsilon=epsilon, error=error, parameters=changed)


def curve_or_reason(
    method: Method, schema: Schema, *, rows: int | None, answer: Answer | None
) -> Curve | str:
    """Give the error against epsilon, or why it is not known before the data is read."""
    share = SHARE if answer is None else float(answer.want.share)
    try:
        return error_curve(method, schema, rows=rows, share=share)
    except HushtableError as refusal:
        return str(refusal)


def plan_to_dict(curve: Curve | str, answer: Answer | None) -> dict[str, Any]:
    """Write as plain data."""
    return {
        "curve": {"why_not": curve} if isinstance(curve, str) else curve.to_dict(),
        "want": answer and answer.to_dict(),
    }


def show_plan(console: Console, curve: Curve | str, answer: Answer | None) -> None:
    """Print the answer, and the error against epsilon."""
    if answer is not None:
        console.print(Text.assemble(("Wanted", "bold"), f": {answer.want}"))
        console.print(f"  {answer}", highlight=False)
    if isinstance(curve, str):
        console.print("Error against epsilon", style="bold")
        console.print(f"  not known beforehand: {curve}", highlight=False)
        return
    console.print(
        Text.assemble(
            ("Error against epsilon", "bold"),
            f" {sparkline(curve)} (95 % confidence, a count of {_percent(curve.share)} of the rows"
            ")",
        )
    )
    errors = [(point.epsilon, point.error) for point in curve.points if point.error is not None]
    by_column = all(error.typical is not None for _, error in errors)
    table = Table(box=None, header_style="bold")
    table.add_column("epsilon", justify="right")
    for whose in ("a typical column: ", "the worst: ") if by_column else ("",):
        table.add_column(f"{whose}off by at most", justify="right")
        if curve.rows:
            table.add_column("of the count", justify="right")
    for epsilon, error in errors:
        row = [f"{float(epsilon):g}"]
        for width in (error.typical, error.half_width) if by_column else (error.half_width,):
            row += _in_rows(width or 0.0, curve)
        table.add_row(*row)
    console.print(table)
    for name in dict.fromkeys(error.worst for _, error in errors if error.worst):
        console.print(f"  the worst column: {name!r}", highlight=False)
    console.print(f"  {curve.assumes}", highlight=False)


def _in_rows(width: float, curve: Curve) -> list[str]:
    said = [f"{_number(width)} rows"]
    if curve.rows:
        part = width / (curve.share * curve.rows)
        said.append(_percent(part) if part < 10 else "more than 1,000 %")
    return said


def sparkline(curve: Curve) -> str:
    """Draw the error as bars of characters, by its logarithm.

    Examples
    --------
    >>> from hushtable.planning import Point
    >>> points = [
    ...     Point(Fraction(e), CountError(half_width=h, std=h / 2, assumes=""))
    ...     for e, h in ((1, 100.0), (2, 50.0), (5, 20.0), (10, 10.0))
    ... ]
    >>> sparkline(Curve(share=0.01, rows=None, points=tuple(points)))
    '█▆▃▁'
    """
    heights = [math.log(max(error, 1e-3)) for _, error in curve.known]
    low = min(heights)
    # The whole height is at least a factor of 2: what hardly changes must look so.
    reach = max(max(heights) - low, math.log(2))
    # The smallest error is a bar, too.
    return bars(max((height - low) / reach, 0.01) for height in heights)


def write_drawing(path: Path, curve: Curve | str, answer: Answer | None, title: str) -> None:
    """Draw the curve to a new SVG file."""
    from hushtable.files.whole_file import write_whole  # noqa: PLC0415 - only for drawings

    if path.suffix != ".svg":
        raise ParameterError(f"cannot draw to {path.name!r}: use a .svg file.")
    if isinstance(curve, str):
        raise Refused(f"there is nothing to draw: {curve}")
    mark = None if answer is None else (float(answer.epsilon), answer.error.half_width)
    write_whole(path, draw_curve(curve, title, mark=mark))


def draw_curve(curve: Curve, title: str, *, mark: tuple[float, float] | None = None) -> str:
    """Draw error against epsilon as SVG, both axes logarithmic.

    Parameters
    ----------
    curve : Curve
        What to draw.
    title : str
        What it is about.
    mark : pair of float, optional
        A point to mark: epsilon and error.
    """
    points = [(epsilon, max(error, 0.1)) for epsilon, error in curve.known]
    shown = [*points, *([mark] if mark else [])]
    x = _Axis([epsilon for epsilon, _ in shown], _LEFT, _RIGHT)
    y = _Axis([error for _, error in shown], _BOTTOM, _TOP)
    body = [
        f'<text x="{_LEFT}" y="22" font-weight="bold">{escape(title)}</text>',
        f'<text x="{_LEFT}" y="40" fill="#555">error of a count of {_percent(curve.share)} of the '
        "rows (95 % confidence), in rows</text>",
    ]
    for tick in x.ticks:
        body.append(
            f'<path d="M{x(tick):.1f} {_TOP}V{_BOTTOM}" stroke="#ddd"/><text x="{x(tick):.1f}" '
            f'y="{_BOTTOM + 18}" text-anchor="middle">{tick:g}</text>'
        )
    for tick in y.ticks:
        body.append(
            f'<path d="M{_LEFT} {y(tick):.1f}H{_RIGHT}" stroke="#ddd"/><text x="{_LEFT - 8}" '
            f'y="{y(tick) + 4:.1f}" text-anchor="end">{tick:,.10g}</text>'
        )
    middle = (_LEFT + _RIGHT) / 2
    body.append(f'<text x="{middle:g}" y="{_BOTTOM + 40}" text-anchor="middle">epsilon</text>')
    line = " ".join(f"{x(epsilon):.1f},{y(error):.1f}" for epsilon, error in points)
    body.append(f'<polyline points="{line}" fill="none" stroke="#0b5cad" stroke-width="2"/>')
    body += [
        f'<circle cx="{x(epsilon):.1f}" cy="{y(error):.1f}" r="3.5" fill="#0b5cad"/>'
        for epsilon, error in points
    ]
    if mark is not None:
        body.append(
            f'<circle cx="{x(mark[0]):.1f}" cy="{y(max(mark[1], 0.1)):.1f}" r="6" fill="none" '
            f'stroke="#b3261e" stroke-width="2"/><text x="{x(mark[0]) + 10:.1f}" '
            f'y="{y(max(mark[1], 0.1)) - 8:.1f}" fill="#b3261e">epsilon {mark[0]:g}</text>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="13" fill="#222">'
        '<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


class _Axis:
    """Place numbers on a logarithmic axis, between two ends of the drawing."""

    def __init__(self, values: Sequence[float], start: float, stop: float) -> None:
        low, high = math.log10(min(values)), math.log10(max(values))
        # At least half a decade, which has a tick in it and shows what is flat as flat.
        room = max(0.05, (0.5 - (high - low)) / 2)
        self.low, self.high = low - room, high + room
        self.start, self.stop = start, stop

    def __call__(self, value: float) -> float:
        part = (math.log10(value) - self.low) / (self.high - self.low)
        return self.start + part * (self.stop - self.start)

    @property
    def ticks(self) -> list[float]:
        decades = range(math.floor(self.low), math.ceil(self.high) + 1)
        steps = (1, 2, 5) if self.high - self.low < 3 else (1,)
        places = [step * 10.0**decade for decade in decades for step in steps]
        return [tick for tick in places if self.low <= math.log10(tick) <= self.high]


def _number(error: float) -> str:
    return f"{error:,.0f}" if error >= 100 else f"{error:.3g}"


def _percent(share: Fraction | float) -> str:
    return f"{float(100 * share):.3g} %"


def _short(value: Any) -> str:
    """Write an exact number as a decimal where it is one."""
    try:
        exact = Fraction(value)
    except (TypeError, ValueError):
        return str(value)
    return f"{float(exact):.12g}" if Fraction(f"{float(exact):.12g}") == exact else str(exact)
