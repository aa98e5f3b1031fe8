"""SVG charts, which need no scripts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from hushtable.query.answers.estimator import COUNTED, Estimate
from hushtable.web.questions import AnswerCell, PageAnswer

_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1a2027}.soft{fill:#5c6773}"
    ".bar{fill:#4a8fd8}.whisker{stroke:#1a2027;stroke-width:1.5}"
)


@dataclass(frozen=True)
class Bar:
    """Position of a bar and its interval, in percent of the width."""

    start: float
    length: float
    low: float
    high: float


class BarScale:
    """Common scale of several bars, from zero or the lowest negative value.

    Unknown and unbounded values do not extend the scale.
    """

    def __init__(self, cells: Sequence[AnswerCell]) -> None:
        ends = [(c.estimate.low, c.estimate.value, c.estimate.high) for c in cells]
        known = [end for group in ends for end in group if math.isfinite(end)]
        self._bottom, self._top = min([0.0, *known]), max([0.0, *known])
        if all(cell.estimate.what in COUNTED for cell in cells):
            self._bottom, self._top = 0.0, max(1.0, self._top)

    def along(self, estimate: Estimate) -> Bar | None:
        """Return the position of an answer's bar; None if the answer is not known."""
        if math.isnan(estimate.value) or self._top == self._bottom:
            return None
        zero, value, low, high = (
            self._place(end) for end in (0.0, estimate.value, estimate.low, estimate.high)
        )
        return Bar(min(zero, value), abs(value - zero), low, high)

    def _place(self, number: float) -> float:
        inside = min(max(number, self._bottom), self._top)
        return 100 * (inside - self._bottom) / (self._top - self._bottom)


def bars_file(answer: PageAnswer, title: str, subtitle: str) -> str:
    """Return an answer as a standalone SVG with bars and 95% intervals."""
    rows = [(", ".join(part.label for part in cell.parts), cell) for cell in answer.cells]
    if not rows:
        rows = [(answer.clause, AnswerCell((), answer.clause, answer.whole))]
    left = 16 + 7 * min(max(len(label) for label, _ in rows), 40)
    width, height = left + 560, 78 + 26 * len(rows)
    reach = BarScale([cell for _, cell in rows])
    body = [
        f'<text x="12" y="24" font-weight="600">{escape(title)}</text>',
        f'<text x="12" y="44" class="soft">{escape(subtitle)}</text>',
    ]
    for n, (label, cell) in enumerate(rows):
        y = 62 + 26 * n
        shown = label if len(label) <= 40 else label[:39] + "…"
        said = str(cell.estimate).replace("95% interval ", "").rpartition(": ")[2]
        body.append(
            f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{escape(shown)}</text>'
            f'<text x="{left + 412}" y="{y + 13}">{escape(said)}</text>'
        )
        if at := reach.along(cell.estimate):
            start, low, high = (left + 4 * place for place in (at.start, at.low, at.high))
            body.append(
                f'<rect class="bar" x="{start:.1f}" y="{y}" width="{4 * at.length:.1f}" '
                f'height="18"/><path class="whisker" d="M{low:.1f} {y + 9}H{high:.1f}'
                f'M{low:.1f} {y + 5}v8M{high:.1f} {y + 5}v8"/>'
            )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}"><style>{_STYLE}</style><rect width="100%" height="100%" fill="#fff"/>'
        + "".join(body)
        + "</svg>\n"
    )


class ChartAxis:
    """Linear or logarithmic scale from values to coordinates."""

    def __init__(
        self, low: float, high: float, start: float, stop: float, *, log: bool = False
    ) -> None:
        self._log = log
        self.low, self.high = (math.log10(low), math.log10(high)) if log else (low, high)
        if self.high - self.low < 1e-12:
            self.low, self.high = self.low - 0.5, self.high + 0.5
        self.start, self.stop = start, stop

    def __call__(self, value: float) -> float:
        """Return the coordinate of a value."""
        part = (math.log10(value) if self._log else value) - self.low
        return self.start + part / (self.high - self.low) * (self.stop - self.start)

    @property
    def ticks(self) -> list[float]:
        """A few round values."""
        if self._log:
            decades = range(math.floor(self.low), math.ceil(self.high) + 1)
            steps = (1, 2, 5) if self.high - self.low < 2.5 else (1,)
            places = [step * 10.0**decade for decade in decades for step in steps]
            return [t for t in places if self.low - 1e-9 <= math.log10(t) <= self.high + 1e-9]
        reach = self.high - self.low
        unit = 10.0 ** math.floor(math.log10(reach / 4))
        step = next(unit * s for s in (1, 2, 5, 10) if reach / (unit * s) <= 5)
        first = math.ceil(self.low / step - 1e-9)
        return [n * step for n in range(first, math.floor(self.high / step + 1e-9) + 1)]


def curve(
    lines: Sequence[tuple[str, Sequence[tuple[float, float]]]],
    *,
    mark: tuple[float, float] | None,
    x_label: str,
    y_label: str,
) -> str:
    """Return a chart of errors by epsilon, with logarithmic axes and styles of the page.

    `lines` contains names and points; the first line is the planned method. `mark` is a point to
    highlight.
    """
    points = [point for _, line in lines for point in line] + ([mark] if mark else [])
    floor = 0.5
    x = ChartAxis(min(p[0] for p in points), max(p[0] for p in points), 64, 620, log=True)
    heights = [max(p[1], floor) for p in points]
    y = ChartAxis(min(heights) / 1.25, max(heights) * 1.25, 250, 26, log=True)
    body = _grid(x, y, x_label, y_label)
    for n, (name, line) in enumerate(lines):
        path = " ".join(f"{x(a):.1f},{y(max(b, floor)):.1f}" for a, b in line)
        body.append(f'<polyline class="line line-{n}" points="{path}"><title>{escape(name)}</title>'
                    "</polyline>")  # fmt: skip
        body += [
            f'<circle class="dot dot-{n}" cx="{x(a):.1f}" cy="{y(max(b, floor)):.1f}" r="3.5">'
            f"<title>{escape(name)}: epsilon {a:g}, {b:,.3g}</title></circle>"
            for a, b in line
        ]
    if mark is not None:
        body.append(
            f'<circle class="mark" cx="{x(mark[0]):.1f}" cy="{y(max(mark[1], floor)):.1f}" r="7"/>'
        )
    return _page_svg(body, f"{y_label}, {x_label}")


def steps(
    spent: Sequence[tuple[str, float]], *, cap: float, reserved: float, labels: tuple[str, str, str]
) -> str:
    """Return a chart of the cumulative spending by entry, with styles of the page.

    `spent` contains times and cumulative sums. `labels` are the names of cap, spent and reserved.
    """
    n = max(len(spent), 1)
    y = ChartAxis(0, max(cap, 1e-9) * 1.08, 250, 20)
    step = 556 / (n + 1)
    body = []
    for tick in y.ticks:
        body.append(
            f'<path class="grid" d="M64 {y(tick):.1f}H620"/><text x="56" y="{y(tick) + 4:.1f}" '
            f'text-anchor="end">{tick:g}</text>'
        )
    path, before = f"M64 {y(0):.1f}", 0.0
    for place, (when, total) in enumerate(spent):
        at = 64 + step * (place + 0.5)
        path += f"H{at:.1f}V{y(total):.1f}"
        body.append(
            f'<circle class="dot dot-0" cx="{at:.1f}" cy="{y(total):.1f}" r="3.5"><title>'
            f"{escape(when)}: {total:g}</title></circle>"
        )
        before = total
        if n <= 8:
            body.append(
                f'<text x="{at:.1f}" y="268" text-anchor="middle" class="soft">'
                f"{escape(when[:10] if n <= 5 else when[5:10])}</text>"
            )
    path += "H620"
    area = f"{path}V{y(0):.1f}H64Z"
    body.insert(0, f'<path class="area" d="{area}"/>')
    if reserved:
        top = y(before + reserved)
        body.append(
            f'<rect class="reserved" x="{620 - step:.1f}" y="{top:.1f}" width="{step:.1f}" '
            f'height="{y(before) - top:.1f}"/><text x="{616 - step:.1f}" y="{top + 12:.1f}" '
            f'text-anchor="end" class="soft">{escape(labels[2])} {reserved:g}</text>'
        )
    body.append(f'<path class="line line-0" d="{path}"/>')
    body.append(
        f'<path class="cap" d="M64 {y(cap):.1f}H620"/><text x="612" y="{y(cap) - 6:.1f}" '
        f'text-anchor="end" class="soft">{escape(labels[0])} {cap:g}</text>'
        f'<text x="612" y="{max(y(before) - 8, 34):.1f}" text-anchor="end">{escape(labels[1])} '
        f"{before:g}</text>"
    )
    return _page_svg(body, f"{labels[1]} {before:g}, {labels[0]} {cap:g}")


def _grid(x: ChartAxis, y: ChartAxis, x_label: str, y_label: str) -> list[str]:
    body = [
        f'<path class="grid" d="M{x(tick):.1f} 26V250"/><text x="{x(tick):.1f}" y="268" '
        f'text-anchor="middle">{tick:g}</text>'
        for tick in x.ticks
    ]
    body += [
        f'<path class="grid" d="M64 {y(tick):.1f}H620"/><text x="56" y="{y(tick) + 4:.1f}" '
        f'text-anchor="end">{tick:,.10g}</text>'
        for tick in y.ticks
    ]
    body.append(f'<text x="342" y="292" text-anchor="middle" class="soft">{escape(x_label)}</text>')
    body.append(f'<text x="64" y="14" class="soft">{escape(y_label)}</text>')
    return body


def _page_svg(body: list[str], described: str) -> str:
    return (
        f'<svg class="chart" viewBox="-20 -8 660 308" role="img" aria-label="{escape(described)}">'
        + "".join(body)
        + "</svg>"
    )
