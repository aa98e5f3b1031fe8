"""Exact numbers of guarantees with their ranges, and the base class of frozen values."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    PlainSerializer,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import ErrorDetails

from hushtable.docstrings import describe_fields
from hushtable.errors import ParameterError
from hushtable.privacy.rational import as_rational

MAX_EPSILON = Fraction(100)
"""Largest epsilon that a user may request, and largest epsilon of a ledger's cap."""

MAX_LOSS = Fraction(10_000)
"""Largest epsilon that a guarantee may state.

The epsilon that follows from other parameters, such as a bound on observers, may exceed
`MAX_EPSILON`. The guarantee then states and charges it in full, and no ledger's cap allows it. If
the guarantee omitted it, a release that protects less would cost less.
"""

MAX_DELTA = Fraction(1, 100)
"""Largest delta that a guarantee may state.

Publishing 1% of all people in full satisfies delta = 1/100; anything weaker is not a meaningful
guarantee.
"""


def check_epsilon(epsilon: Fraction) -> Fraction:
    """Return `epsilon` if a user may request it; raise `ParameterError` otherwise.

    Examples
    --------
    >>> check_epsilon(Fraction(1, 2))
    Fraction(1, 2)
    """
    if epsilon <= 0:
        raise ParameterError(
            f"epsilon is {shown(epsilon)}; it must be above 0. Typical values are 0.1 to 5."
        )
    if epsilon > MAX_EPSILON:
        raise ParameterError(
            f"epsilon is {shown(epsilon)}; above {MAX_EPSILON} it protects nothing. Typical "
            "values are 0.1 to 5; to publish without a guarantee, use NoGuarantee."
        )
    return epsilon


def check_loss(epsilon: Fraction) -> Fraction:
    """Return `epsilon` if a guarantee may state it; raise `ParameterError` otherwise.

    Examples
    --------
    >>> check_loss(Fraction(126))
    Fraction(126, 1)
    """
    if epsilon > MAX_LOSS:
        raise ParameterError(
            f"epsilon would be more than {MAX_LOSS}, which protects nothing. Publish fewer or "
            "coarser columns, or ask for more protection."
        )
    return check_epsilon(epsilon) if epsilon <= 0 else epsilon


def check_delta(delta: Fraction) -> Fraction:
    """Return `delta` if a guarantee may state it; raise `ParameterError` otherwise.

    Examples
    --------
    >>> check_delta(Fraction(1, 10**6))
    Fraction(1, 1000000)
    """
    if delta <= 0:
        raise ParameterError(
            f"delta is {shown(delta)}; it must be above 0, such as 1e-6. A promise without delta "
            "(PureDP) needs a method or mechanism that uses none, such as the mechanism pure."
        )
    if delta > MAX_DELTA:
        raise ParameterError(
            f"delta is {shown(delta)}; it must be at most {shown(MAX_DELTA)}, since delta = 0.01 "
            "already permits publishing 1% of all people in full. Choose a delta well below "
            "one over the number of people, such as 1e-6."
        )
    return delta


MAX_DIGITS = 400
"""Largest number of digits of a numerator or denominator that `as_rational` reads from text."""
_TOO_LONG = 10**MAX_DIGITS


def as_written(value: Any, *, name: str) -> Fraction:
    """Convert a parameter to a fraction short enough to be written and read back.

    Examples
    --------
    >>> as_written(0.1, name="epsilon")
    Fraction(1, 10)
    """
    number = as_rational(value, name=name)
    if max(abs(number.numerator), number.denominator) >= _TOO_LONG:
        raise ParameterError(
            f"{name}: the fraction has more than {MAX_DIGITS} digits and cannot be stored. Round "
            "the numbers it was computed from, such as to 6 decimals."
        )
    return number


def _rational(value: Any, info: ValidationInfo) -> Fraction:
    return as_written(value, name=info.field_name or "value")


# An explicit ``return_type`` makes the JSON Schema a string for reading and for writing.
Rational = Annotated[
    Fraction,
    PlainValidator(_rational),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^-?[0-9]+(/[1-9][0-9]*)?$"}),
]
"""An exact number. Accepts whatever `as_rational` does; serialized as text such as ``"1/10"``."""


def shown(number: Fraction) -> str:
    """Format a number exactly: as a decimal of at most 15 places, or as a fraction.

    A fraction with a denominator of 1000 or more is followed by its approximate value.
    """
    decimals = next((n for n in range(16) if (number * 10**n).denominator == 1), None)
    if decimals is None and number.denominator < 1000:
        return str(number)
    if decimals is None:
        return f"{number} (about {float(number):.4g})"
    return f"{Decimal(int(number * 10**decimals)).scaleb(-decimals):f}"


def brief(number: float) -> str:
    """Format a number with at most three significant digits, from 100 on as an integer.

    Examples
    --------
    >>> [brief(number) for number in (12345.6, 12.345, 3, 0.5)]
    ['12,346', '12.3', '3', '0.5']
    """
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def rounded(number: Fraction) -> str:
    """Format a number as a decimal if 12 digits are exact, else as "about" and 4 digits.

    Examples
    --------
    >>> [rounded(Fraction(text)) for text in ("3", "1/4", "1/1000000000", "2/3")]
    ['3', '0.25', '1e-9', 'about 0.6667']
    """
    with localcontext(prec=12):
        near = Decimal(number.numerator) / Decimal(number.denominator)
    return str(near).lower() if Fraction(near) == number else f"about {near:.4g}"


class FrozenValue(BaseModel):
    """Frozen pydantic model whose constructor raises `ParameterError` with all problems."""

    model_config = ConfigDict(
        frozen=True, defer_build=True, extra="forbid", json_schema_extra=describe_fields
    )

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ParameterError(problems_of(type(self).__name__, error)) from None


def problems_of(what: str, error: ValidationError) -> list[str]:
    """Translate everything that pydantic found wrong into hushtable's messages."""
    return [_problem(what, detail) for detail in error.errors(include_url=False)]


def _problem(what: str, detail: ErrorDetails) -> str:
    cause = detail.get("ctx", {}).get("error")
    if isinstance(cause, ParameterError):  # these already state what was given and what to do
        return str(cause)
    place = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "missing":
        return f"{what}: {place} is missing."
    if detail["type"] == "extra_forbidden":
        return f"{what}: {place} is not one of its parameters; check the spelling."
    where = f" {place}:" if place else ""
    return f"{what}:{where} {detail['msg']} (given: {detail['input']!r})."
