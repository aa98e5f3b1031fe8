"""Drawing of specializations as one tree per attribute, as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from hushtable.methods.diffgen.cuts import Specialization
from hushtable.methods.diffgen.parts import CutPart

_ROW, _INDENT, _WIDTH, _MARGIN = 20, 24, 720, 14


def draw_cuts(rounds: Sequence[Specialization], title: str) -> str:
    """Draw the specializations as trees; each split has the number of its round.

    `rounds` are the specializations in order; `title` is the name of the table.
    """
    number = {done.part: (at, done) for at, done in enumerate(rounds, start=1)}
    tops = [done.part for done in rounds if not _is_child(done.part, rounds)]
    lines = [line for part in tops for line in _lines(part, number, 0, last=True)]
    height = 2 * _MARGIN + _ROW * (len(lines) + 1)
    body = [
        f'<text x="{_MARGIN}" y="{_MARGIN + 8}" font-weight="bold">'
        f"{escape(title)}: {len(rounds)} specializations</text>"
    ]
    heights: dict[int, int] = {}
    for at, (depth, text, is_top) in enumerate(lines, start=1):
        x, y = _MARGIN + _INDENT * depth, _MARGIN + 8 + _ROW * at
        if depth:
            above = heights[depth - 1]
            body.append(
                f'<path d="M{x - _INDENT + 5} {above + 5}V{y - 4}H{x - 4}" fill="none" '
                'stroke="#888"/>'
            )
        heights[depth] = y
        weight = ' font-weight="bold"' if is_top else ""
        body.append(f'<text x="{x}" y="{y}"{weight}>{escape(text)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="13" fill="#222">'
        '<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _is_child(part: CutPart, rounds: Sequence[Specialization]) -> bool:
    return any(part is child for done in rounds for child in done.children)


def _lines(
    part: CutPart, number: dict[CutPart, tuple[int, Specialization]], depth: int, *, last: bool
) -> Iterator[tuple[int, str, bool]]:
    """Yield the lines of the tree of one attribute: depth, text, and whether it is the top."""
    name = f"{part.attribute}: {part.full_label}" if depth == 0 else part.full_label
    if part not in number:
        yield depth, name, False
        return
    at, done = number[part]
    yield depth, f"{name}  (split {at})", depth == 0
    for child in done.children:
        yield from _lines(child, number, depth + 1, last=False)
    for name in part.special_labels:
        yield depth + 1, name, False
