"""Plots of estimates with their intervals, as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from hushtable.query.answers.estimator import Estimate, written
from hushtable.query.answers.table import EstimateTable

_WIDTH, _ROW, _LEFT, _RIGHT, _TOP = 720, 22, 220, 690, 46
N_TICKS = 5

Point = tuple[float, float]


def drawing(answer: Estimate | EstimateTable) -> str:
    """Plot an estimate, or a table of them, as an SVG document.

    Examples
    --------
    >>> one = Estimate(value=120.0, low=112.0, high=128.0, privacy_std=4.0, model_std=0.0)
    >>> drawing(one).count("<circle")
    1
    """
    if isinstance(answer, Estimate):
        answer = EstimateTable(("",), (("",),), (answer,))
    header, _ = answer.rows()
    low, high = _range(answer.estimates)
    bottom = _TOP + _ROW * len(answer)

    def x(value: float) -> float:
        inside = min(max(value, low), high)
        return _LEFT + (_RIGHT - _LEFT) * (inside - low) / (high - low)

    what = header[len(answer.by)]
    parts = captions(_LEFT, what, "with 95% intervals")
    for value in ticks(low, high):
        parts.append(
            f'<line x1="{x(value):.1f}" x2="{x(value):.1f}" y1="{_TOP}" y2="{bottom}" '
            'stroke="#ddd"/>'
            f'<text x="{x(value):.1f}" y="{bottom + 18}" text-anchor="middle" fill="#555">'
            f"{written(value, (high - low) / N_TICKS, what)}</text>"
        )
    for place, (key, estimate) in enumerate(answer):
        y = _TOP + _ROW * (place + 0.5)
        label = ", ".join("-" if part is None else str(part) for part in key)
        parts.append(
            f'<text x="{_LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{escape(label)}</text>'
        )
        if math.isnan(estimate.value):
            continue
        parts.append(mark((x(estimate.low), y), (x(estimate.value), y), (x(estimate.high), y)))
    return document(_WIDTH, bottom + 34, parts)


def captions(left: int, title: str, below: str) -> list[str]:
    """Return the title of a plot and the line below it."""
    return [
        f'<text x="{left}" y="20" font-size="15">{escape(title)}</text>',
        f'<text x="{left}" y="36" fill="#555">{escape(below)}</text>',
    ]


def ticks(low: float, high: float) -> list[float]:
    """Return evenly spaced tick positions from end to end."""
    return [low + (high - low) * tick / (N_TICKS - 1) for tick in range(N_TICKS)]


def mark(start: Point, value: Point, end: Point) -> str:
    """Draw an interval as a line, and its value as a point on it."""
    return (
        f'<line x1="{start[0]:.1f}" x2="{end[0]:.1f}" y1="{start[1]:.1f}" y2="{end[1]:.1f}" '
        'stroke="#1f5f8b" stroke-width="2"/>'
        f'<circle cx="{value[0]:.1f}" cy="{value[1]:.1f}" r="4" fill="#1f5f8b"/>'
    )


def document(width: int, height: int, parts: Sequence[str]) -> str:
    """Combine parts into an SVG document."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _range(estimates: Sequence[Estimate]) -> tuple[float, float]:
    ends = [
        end
        for estimate in estimates
        for end in (estimate.low, estimate.value, estimate.high)
        if math.isfinite(end)
    ]
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    if all(estimate.low >= 0 for estimate in estimates) and low < (high - low):
        low = 0.0
    return (low, high) if high > low else (low - 0.5, low + 0.5)
