"""Choice of epsilon before any data is read: the error at an epsilon, and the epsilon for an error.

The error of a count is the half-width of its 95% interval, in rows. It is computed from the
method's own noise (`Method.count_error`), under assumptions that are reported with it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hushtable.errors import HushtableError, ParameterError, Refused
from hushtable.methods.base import CountError, Method
from hushtable.privacy.guarantee import ApproxDP, PureDP
from hushtable.privacy.rational import as_rational
from hushtable.schema import Schema

EPSILONS = tuple(Fraction(text) for text in ("0.1", "0.2", "0.5", "1", "2", "5", "10"))
"""The epsilons of a curve."""

SHARE = 0.01
"""Default share of rows in the count that a curve is about."""

LOWEST, HIGHEST = Fraction(1, 1000), Fraction(20)
"""Range of the search for an epsilon; larger values protect very little."""

_PER_DECADE = 40
_DIGITS = 3

_NUMBER = re.compile(r"[0-9][0-9,]*(?:\.[0-9]+)?(?<!,)")
_GRAMMAR = re.compile(
    r"""\s* count \s+ error \s+ (?P<error>[0-9][0-9.,_]*) \s* (?P<relative>%)?
    \s+ at \s+ (?P<share>[0-9][0-9.]*) \s* % \s*""",
    re.VERBOSE | re.IGNORECASE,
)


@dataclass(frozen=True)
class ErrorTarget:
    """An error target: a bound on the 95% half-width of a count of a share of the rows.

    Parameters
    ----------
    error : Fraction
        Bound in rows or, if `relative`, as a share of the count.
    share : Fraction
        Share of the rows that are counted.
    relative : bool
        Whether `error` is relative to the count.

    Examples
    --------
    >>> ErrorTarget.parse("count error 50 at 1%")
    ErrorTarget(error=Fraction(50, 1), share=Fraction(1, 100), relative=False)
    >>> ErrorTarget.parse("count error 5% at 10%").limit(rows=20_000)
    100.0
    >>> ErrorTarget.parse("fast")
    Traceback (most recent call last):
    ...
    hushtable.errors.ParameterError: want is 'fast'; write "count error 50 at 1%": with 95% \
confidence, a count of 1% of the rows has an error of at most 50. An error of "5%" is 5% of the \
count.
    """

    error: Fraction
    share: Fraction
    relative: bool

    @classmethod
    def parse(cls, text: str) -> ErrorTarget:
        """Parse ``count error ROWS at SHARE%`` or ``count error PART% at SHARE%``."""
        found = _GRAMMAR.fullmatch(text)
        if found is None:
            raise ParameterError(
                f'want is {text!r}; write "count error 50 at 1%": with 95% confidence, a count of '
                '1% of the rows has an error of at most 50. An error of "5%" is 5% of the count.'
            )
        number = re.sub("[,_]", "", found["error"])
        error, share = as_rational(number, name="want"), as_rational(found["share"], name="want")
        problems = []
        if error <= 0:
            problems.append("want: the error must be above 0.")
        if not 0 < share <= 100:
            problems.append(
                f"want: the share is {found['share']}%; it must be above 0% and at most 100%."
            )
        ParameterError.raise_if_any(problems)
        relative = found["relative"] is not None
        return cls(error / 100 if relative else error, share / 100, relative)

    def limit(self, rows: int | None) -> float:
        """Return the error bound in rows; a relative target needs the number of rows."""
        if not self.relative:
            return float(self.error)
        if rows is None:
            raise ParameterError(
                "want is relative to the count, which depends on the number of rows; give an "
                "approximate number (rows, --rows)."
            )
        return float(self.error * self.share * rows)

    def __str__(self) -> str:
        error = f"{float(100 * self.error):g}%" if self.relative else f"{float(self.error):g}"
        return f"count error {error} at {float(100 * self.share):g}%"


@dataclass(frozen=True)
class ErrorAtEpsilon:
    """The error of a count at one epsilon, or the reason why it is unknown."""

    epsilon: Fraction
    error: CountError | None
    why_not: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the point as plain data."""
        return {
            "epsilon": float(self.epsilon),
            "half_width": self.error and self.error.half_width,
            "std": self.error and self.error.std,
            "typical": self.error and self.error.typical,
            "worst": self.error and self.error.worst,
            "why_not": self.why_not,
        }


@dataclass(frozen=True)
class ErrorCurve:
    """The error of a count as a function of epsilon.

    Parameters
    ----------
    share : float
        Share of the rows that are counted.
    rows : int or None
        Expected number of rows.
    points : tuple of ErrorAtEpsilon
        By increasing epsilon.
    """

    share: float
    rows: int | None
    points: tuple[ErrorAtEpsilon, ...]

    @property
    def known(self) -> list[tuple[float, float]]:
        """The points that have an error: epsilon and half-width."""
        return [(float(p.epsilon), p.error.half_width) for p in self.points if p.error is not None]

    @property
    def assumes(self) -> str:
        """The assumptions of the figures, with those that depend on epsilon marked."""
        n_known = len(self.known)
        # Group sentences that differ only in their numbers, to write each group once.
        said: dict[str, dict[Fraction, str]] = {}
        for point in self.points:
            for sentence in re.split(r"(?<=\.) ", point.error.assumes if point.error else ""):
                said.setdefault(_NUMBER.sub("#", sentence), {})[point.epsilon] = sentence
        said.pop("", None)
        return " ".join(_said_once(at, everywhere=len(at) == n_known) for at in said.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the curve as plain data."""
        return {
            "share": self.share,
            "rows": self.rows,
            "confidence": 0.95,
            "assumes": self.assumes,
            "points": [point.to_dict() for point in self.points],
        }


def _said_once(at: Mapping[Fraction, str], *, everywhere: bool) -> str:
    """Join sentences that differ only in numbers; name their epsilons unless they hold everywhere.

    Examples
    --------
    >>> at = {Fraction(1, 2): "There are 3 cuts.", Fraction(1): "There are 9 cuts."}
    >>> _said_once(at, everywhere=True)
    'There are 3 to 9 cuts, depending on epsilon.'
    >>> _said_once({Fraction(1, 2): "All is lost."}, everywhere=False)
    'At epsilon 0.5: All is lost.'
    """
    sentences = list(dict.fromkeys(at.values()))
    said = sentences[0]
    if len(sentences) > 1:
        ranges = map(_range, zip(*map(_NUMBER.findall, sentences), strict=True))
        said = _NUMBER.sub(lambda _: next(ranges), said).removesuffix(".")
        said += ", depending on epsilon."
    epsilons = ", ".join(f"{float(epsilon):g}" for epsilon in at)
    return said if everywhere else f"At epsilon {epsilons}: {said}"


def _range(numbers: Sequence[str]) -> str:
    by_size = sorted(set(numbers), key=lambda number: float(number.replace(",", "")))
    return " to ".join(dict.fromkeys((by_size[0], by_size[-1])))


def error_curve(
    method: Method,
    schema: Schema,
    *,
    rows: int | None = None,
    share: float = SHARE,
    epsilons: Sequence[Fraction] = EPSILONS,
) -> ErrorCurve:
    """Compute the error of a count for several epsilons; reads no data.

    Parameters
    ----------
    method, schema, rows
        As for `needed_epsilon`.
    share : float
        Share of the rows that are counted.
    epsilons : sequence of Fraction
        Epsilons of the curve.

    Returns
    -------
    ErrorCurve
        The error at each epsilon.

    Raises
    ------
    Refused
        If the method has no error formula at any of the epsilons.

    Examples
    --------
    >>> from hushtable import sample_schema
    >>> from hushtable.methods import NoisyCounts
    >>> method = NoisyCounts(epsilon=1, mechanism="pure", generalize={"age": 20})
    >>> curve = error_curve(method, sample_schema(), rows=12_000)
    >>> [(epsilon, round(error)) for epsilon, error in curve.known][2:5]
    [(0.5, 18), (1.0, 9), (2.0, 4)]
    """
    points = []
    for epsilon in sorted(set(epsilons)):
        try:
            error = _error_at(method, schema, epsilon, rows=rows, share=share)
            points.append(ErrorAtEpsilon(epsilon, error))
        except HushtableError as refusal:
            points.append(ErrorAtEpsilon(epsilon, None, str(refusal)))
    if all(point.error is None for point in points):
        raise Refused(points[-1].why_not)
    return ErrorCurve(share, schema.expected_rows(rows), tuple(points))


def needed_epsilon(
    method: Method, schema: Schema, want: ErrorTarget, *, rows: int | None = None
) -> tuple[Fraction, CountError]:
    """Find the smallest epsilon for an error target, rounded up to three digits; reads no data.

    The error decreases as epsilon grows, except for jumps where a method publishes finer groups.
    The search takes the first epsilon of a fine increasing grid that suffices, and then bisects.

    Parameters
    ----------
    method : Method
        The method; its own epsilon is ignored.
    schema : Schema
        The public schema.
    want : ErrorTarget
        The error target.
    rows : int, optional
        Expected number of rows; by default the schema's.

    Returns
    -------
    epsilon, error
        The epsilon and its error.

    Raises
    ------
    Refused
        If no epsilon up to 20 suffices, or if the method has no error formula.

    Examples
    --------
    >>> from hushtable import sample_schema
    >>> from hushtable.methods import NoisyCounts
    >>> method = NoisyCounts(epsilon=1, mechanism="pure", generalize={"age": 20})
    >>> want = ErrorTarget.parse("count error 50 at 1%")
    >>> epsilon, error = needed_epsilon(method, sample_schema(), want, rows=12_000)
    >>> float(epsilon), error.half_width
    (0.176, 50.0)
    """
    rows = schema.expected_rows(rows)
    limit = want.limit(rows)
    why_not = ""

    def error_at(epsilon: Fraction) -> CountError | None:
        nonlocal why_not
        try:
            return _error_at(method, schema, epsilon, rows=rows, share=float(want.share))
        except HushtableError as refusal:
            why_not = str(refusal)
            return None

    def suffices(epsilon: Fraction) -> bool:
        error = error_at(epsilon)
        return error is not None and error.half_width <= limit

    low, high = LOWEST, None
    n_steps = round(_PER_DECADE * math.log10(HIGHEST / LOWEST))
    for step in range(n_steps + 1):
        epsilon = min(HIGHEST, _rounded_up(LOWEST * Fraction(10 ** (step / _PER_DECADE))))
        if suffices(epsilon):
            high = epsilon
            break
        low = epsilon
    if high is None:
        best = error_at(HIGHEST)
        if best is None:
            raise Refused(why_not)
        raise Refused(
            f"no epsilon up to {float(HIGHEST):g} reaches this error: at {float(HIGHEST):g} it is "
            f"still {best.half_width:,.4g} rows, and a larger epsilon hardly reduces it. "
            f"{best.assumes} Allow a larger error, or change the method's other parameters."
        )
    while True:
        middle = _rounded_up((low + high) / 2)
        if middle in (low, high):
            break
        low, high = (low, middle) if suffices(middle) else (middle, high)
    error = error_at(high)
    assert error is not None  # noqa: S101 - it sufficed
    return high, error


def _error_at(
    method: Method, schema: Schema, epsilon: Fraction, *, rows: int | None, share: float
) -> CountError:
    made = method.at_epsilon(schema, epsilon).plan(schema)
    if not any(isinstance(promise, PureDP | ApproxDP) for promise in made.guarantees):
        raise Refused(f"{method.name} has no epsilon with these parameters.")
    return made.count_error(rows=rows, share=share)


def _rounded_up(epsilon: Fraction) -> Fraction:
    """Round up to three significant digits, as people write an epsilon."""
    digits = _DIGITS - 1 - math.floor(math.log10(float(epsilon)))
    scale = Fraction(10) ** digits
    return Fraction(math.ceil(epsilon * scale)) / scale
