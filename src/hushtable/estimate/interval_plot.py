"""Draw answers with their intervals: one line for each, as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from hushtable.estimate.base import Estimate, written
from hushtable.estimate.estimate_table import EstimateTable

_WIDTH, _ROW, _LEFT, _RIGHT, _TOP = 720, 22, 220, 690, 46
_TICKS = 5


def drawing(answer: Estimate | EstimateTable) -> str:
    """Draw an answer, or a table of them, as an SVG document.

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
    parts = [
        f'<text x="{_LEFT}" y="20" font-size="15">{escape(what)}</text>',
        f'<text x="{_LEFT}" y="36" fill="#555">with 95 % intervals</text>',
    ]
    for tick in range(_TICKS):
        value = low + (high - low) * tick / (_TICKS - 1)
        parts.append(
            f'<line x1="{x(value):.1f}" x2="{x(value):.1f}" y1="{_TOP}" y2="{bottom}" '
            'stroke="#ddd"/>'
            f'<text x="{x(value):.1f}" y="{bottom + 18}" text-anchor="middle" fill="#555">'
            f"{written(value, (high - low) / _TICKS, what)}</text>"
        )
    for place, (key, estimate) in enumerate(answer):
        y = _TOP + _ROW * (place + 0.5)
        label = ", ".join("-" if part is None else str(part) for part in key)
        parts.append(
            f'<text x="{_LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{escape(label)}</text>'
        )
        if math.isnan(estimate.value):
            continue
        parts.append(
            f'<line x1="{x(estimate.low):.1f}" x2="{x(estimate.high):.1f}" y1="{y:.1f}" '
            f'y2="{y:.1f}" stroke="#1f5f8b" stroke-width="2"/>'
            f'<circle cx="{x(estimate.value):.1f}" cy="{y:.1f}" r="4" fill="#1f5f8b"/>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {bottom + 34}" '
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
