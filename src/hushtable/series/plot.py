"""SVG plot of a count over the waves of a series, with its intervals."""

from __future__ import annotations

from collections.abc import Sequence

from hushtable.query.answers.estimator import Estimate, written
from hushtable.query.answers.interval_plot import N_TICKS, captions, document, mark, ticks

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 720, 320, 90, 690, 50, 270
_MOST_LABELS = 12


def drawing(where: str, waves: Sequence[int], levels: Sequence[Estimate]) -> str:
    """Return an SVG plot of the count at each wave, with 95% intervals and a band through them.

    Examples
    --------
    >>> one = Estimate(value=120.0, low=112.0, high=128.0, privacy_std=4.0, model_std=0.0)
    >>> drawing("age >= 65", [1, 2], [one, one]).count("<circle")
    2
    """
    low, high = min(level.low for level in levels), max(level.high for level in levels)
    low, high = (low, high) if high > low else (low - 0.5, high + 0.5)
    first, last = min(waves), max(*waves, min(waves) + 1)

    def x(wave: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * (wave - first) / (last - first)

    def y(value: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * (value - low) / (high - low)

    parts = captions(_LEFT, f"rows with {where}", "by wave, with 95% intervals")
    for value in ticks(low, high):
        parts.append(
            f'<line x1="{_LEFT}" x2="{_RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}" '
            'stroke="#ddd"/>'
            f'<text x="{_LEFT - 10}" y="{y(value) + 4:.1f}" text-anchor="end" fill="#555">'
            f"{written(value, (high - low) / N_TICKS)}</text>"
        )
    edge = [f"{x(w):.1f},{y(e.high):.1f}" for w, e in zip(waves, levels, strict=True)]
    edge += [f"{x(w):.1f},{y(e.low):.1f}" for w, e in zip(waves, levels, strict=True)][::-1]
    parts.append(f'<polygon points="{" ".join(edge)}" fill="#1f5f8b" fill-opacity="0.15"/>')
    every = -(-len(waves) // _MOST_LABELS)
    for place, (wave, level) in enumerate(zip(waves, levels, strict=True)):
        at = x(wave)
        parts.append(mark((at, y(level.low)), (at, y(level.value)), (at, y(level.high))))
        if place % every == 0:
            parts.append(
                f'<text x="{x(wave):.1f}" y="{_BOTTOM + 20}" text-anchor="middle" fill="#555">'
                f"{wave}</text>"
            )
    return document(_WIDTH, _HEIGHT, parts)
