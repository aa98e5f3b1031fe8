"""Error against epsilon in ``hushtable plan``: text, table and drawing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hushtable.cli.screen import bars
from hushtable.errors import HushtableError, ParameterError, Refused
from hushtable.files.svg import DrawnLine, draw_lines
from hushtable.methods.base import CountError, Method
from hushtable.privacy.rational import as_rational
from hushtable.privacy.values import brief
from hushtable.publishing.epsilon import SHARE, ErrorCurve, ErrorTarget, error_curve, needed_epsilon
from hushtable.schema import Schema


@dataclass(frozen=True, kw_only=True)
class SolvedEpsilon:
    """Epsilon that reaches a target error, and the method's parameters for it."""

    want: ErrorTarget
    epsilon: Fraction
    error: CountError
    parameters: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data."""
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
            f"{' '.join(options)}: with 95% confidence, the error of a count of "
            f"{_percent(self.want.share)} of the rows is at most {brief(self.error.half_width)}."
        )


def solve(
    method: Method, schema: Schema, want: str, *, rows: int | None
) -> tuple[Method, SolvedEpsilon]:
    """Return the method with the smallest epsilon that reaches the target error, and a summary."""
    wanted = ErrorTarget.parse(want)
    epsilon, error = needed_epsilon(method, schema, wanted, rows=rows)
    solved = method.at_epsilon(schema, epsilon)
    before = method.parameters()
    changed = {
        name: _short(value)
        for name, value in solved.parameters().items()
        if name == "epsilon" or value != before.get(name)
    }
    return solved, SolvedEpsilon(want=wanted, epsilon=epsilon, error=error, parameters=changed)


def curve_or_reason(
    method: Method, schema: Schema, *, rows: int | None, answer: SolvedEpsilon | None
) -> ErrorCurve | str:
    """Return the error against epsilon, or the reason why it is unknown before data is read."""
    share = SHARE if answer is None else float(answer.want.share)
    try:
        return error_curve(method, schema, rows=rows, share=share)
    except HushtableError as refusal:
        return str(refusal)


_LIMITS = (1, 2, 3, 5, 10)


def by_max_rows(method: Method, schema: Schema, *, rows: int | None) -> dict[int, float]:
    """Return the 95% error of a count against the rows per person; empty if the unit is a row."""
    if schema.unit.max_rows is None:
        return {}
    found = {}
    for limit in sorted({*_LIMITS, schema.unit.max_rows}):
        limited = schema.unit.model_copy(update={"max_rows": limit})
        public = schema.model_copy(update={"unit": limited})
        try:
            found[limit] = method.count_error(public, rows=rows, share=SHARE).half_width
        except HushtableError:
            return {}
    return found


def show_max_rows(console: Console, errors: dict[int, float]) -> None:
    """Print the error against the maximum rows per person."""
    if errors:
        listed = ", ".join(f"{limit}: {brief(error)} rows" for limit, error in errors.items())
        said = ("Error against max_rows", "bold"), f" (the same count): {listed}"
        console.print(Text.assemble(*said), soft_wrap=True)
        console.print("  Rows of a person beyond max_rows are not used.")


def plan_to_dict(curve: ErrorCurve | str, answer: SolvedEpsilon | None) -> dict[str, Any]:
    """Return curve and solution as plain data."""
    return {
        "curve": {"why_not": curve} if isinstance(curve, str) else curve.to_dict(),
        "want": answer and answer.to_dict(),
    }


def show_plan(console: Console, curve: ErrorCurve | str, answer: SolvedEpsilon | None) -> None:
    """Print the solved epsilon, if any, and the error against epsilon."""
    if answer is not None:
        console.print(Text.assemble(("Wanted", "bold"), f": {answer.want}"))
        console.print(f"  {answer}")
    if isinstance(curve, str):
        console.print("Error against epsilon", style="bold")
        console.print(f"  unknown before the data is read: {curve}")
        return
    console.print(
        Text.assemble(
            ("Error against epsilon", "bold"),
            f" {sparkline(curve)} (95% confidence, a count of {_percent(curve.share)} of the rows)",
        )
    )
    errors = [(point.epsilon, point.error) for point in curve.points if point.error is not None]
    by_column = all(error.typical is not None for _, error in errors)
    table = Table(box=None, header_style="bold")
    table.add_column("epsilon", justify="right")
    for whose in ("typical column: ", "worst column: ") if by_column else ("",):
        table.add_column(f"{whose}error at most", justify="right")
        if curve.rows:
            table.add_column("of the count", justify="right")
    for epsilon, error in errors:
        row = [f"{float(epsilon):g}"]
        for width in (error.typical, error.half_width) if by_column else (error.half_width,):
            row += _in_rows(width or 0.0, curve)
        table.add_row(*row)
    console.print(table)
    for name in dict.fromkeys(error.worst for _, error in errors if error.worst):
        console.print(f"  worst column: {name!r}")
    console.print(f"  {curve.assumes}")


def _in_rows(width: float, curve: ErrorCurve) -> list[str]:
    said = [f"{brief(width)} rows"]
    if curve.rows:
        part = width / (curve.share * curve.rows)
        said.append(_percent(part) if part < 10 else "more than 1,000%")
    return said


def sparkline(curve: ErrorCurve) -> str:
    """Draw the logarithm of the error as bar characters.

    Examples
    --------
    >>> from hushtable.publishing.epsilon import ErrorAtEpsilon
    >>> points = [
    ...     ErrorAtEpsilon(Fraction(e), CountError(half_width=h, std=h / 2, assumes=""))
    ...     for e, h in ((1, 100.0), (2, 50.0), (5, 20.0), (10, 10.0))
    ... ]
    >>> sparkline(ErrorCurve(share=0.01, rows=None, points=tuple(points)))
    '█▆▃▁'
    """
    heights = [math.log(max(error, 1e-3)) for _, error in curve.known]
    low = min(heights)
    # The full height is at least a factor of 2, so that small changes look small.
    reach = max(max(heights) - low, math.log(2))
    # The smallest error must still be visible.
    return bars(max((height - low) / reach, 0.01) for height in heights)


def write_drawing(
    path: Path, curve: ErrorCurve | str, answer: SolvedEpsilon | None, title: str
) -> None:
    """Draw the curve to a new SVG file."""
    from hushtable.files.writing import require_new, write_whole  # noqa: PLC0415 - for drawings

    require_new(path, ".svg")
    if isinstance(curve, str):
        raise Refused(f"there is nothing to draw: {curve}")
    mark = None if answer is None else (float(answer.epsilon), answer.error.half_width)
    write_whole(path, draw_curve(curve, title, mark=mark))


def draw_curve(curve: ErrorCurve, title: str, *, mark: tuple[float, float] | None = None) -> str:
    """Draw error against epsilon as SVG with logarithmic axes; `mark` is a point to highlight."""
    points = [(epsilon, max(error, 0.1)) for epsilon, error in curve.known]
    return draw_lines(
        title,
        f"error of a count of {_percent(curve.share)} of the rows (95% confidence), in rows",
        "epsilon",
        [DrawnLine(points, dotted=True)],
        mark=None if mark is None else (mark[0], max(mark[1], 0.1), f"epsilon {mark[0]:g}"),
    )


def _percent(share: Fraction | float) -> str:
    return f"{float(100 * share):.3g}%"


def _short(value: Any) -> str:
    """Format an exact number as a decimal if it is one, else as a fraction."""
    try:
        exact = as_rational(value, name="value")
    except ParameterError:
        return str(value)
    return f"{float(exact):.12g}" if Fraction(f"{float(exact):.12g}") == exact else str(exact)
