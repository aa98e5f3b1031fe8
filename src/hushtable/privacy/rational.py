"""Parameters as fractions, and certified bounds of e**x and ln x.

Promises and samplers must use the same number, so every parameter is converted to a `Fraction` on
input. Irrational numbers (e**x, ln x) are bounded by fractions on both sides, with integer
arithmetic alone: no result depends on floats.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from numbers import Integral

from hushtable.errors import ParameterError

LOG_BITS = 24
"""`ln(x)` is rounded down to a multiple of 2**-24."""

# At most three digits of exponent: "1e999999999" would be an integer of a billion digits.
_NUMBER = re.compile(
    r"[+-]?(\d{1,400}/\d{1,400}|(\d{1,400}(\.\d{0,400})?|\.\d{1,400})([eE][+-]?\d{1,3})?)"
)
_PLAIN = re.compile(r"([0-9]{1,400})(?:/([1-9][0-9]{0,399}))?")
_LOGARITHM = re.compile(r"ln\s*\(\s*(?P<inside>[^()]*?)\s*\)|ln\s+(?P<bare>\S+)")
_MAX_EXPONENT = 1000


def bisect_exact(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the largest integer below `high` at which a condition holds, or `low`.

    The condition changes from true to false; it is not evaluated at `low` and `high`.

    Examples
    --------
    >>> bisect_exact(lambda n: n * n <= 50, 0, 100)
    7
    """
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def as_rational(value: int | float | str | Fraction | Decimal, *, name: str) -> Fraction:
    """Convert a parameter to the fraction that was meant.

    Parameters
    ----------
    value
        A number, or a string such as ``"0.1"``, ``"1/3"``, ``"1e-6"`` or ``"ln(5)"``. A float means
        its shortest decimal, so 0.1 is 1/10. A logarithm is rounded down to a multiple of 2**-24;
        an epsilon rounded this way promises no less than requested.
    name
        The parameter's name, for error messages.

    Raises
    ------
    ParameterError
        For NaN, infinities, booleans and anything else that is not a number.

    Examples
    --------
    >>> as_rational(0.1, name="epsilon")
    Fraction(1, 10)
    >>> as_rational("1/3", name="delta")
    Fraction(1, 3)
    >>> as_rational("ln(5)", name="epsilon")
    Fraction(27001887, 16777216)
    """
    if (plain := plain_fraction(value)) is not None:
        return plain
    if isinstance(value, Fraction):
        return value
    if isinstance(value, Integral) and not isinstance(value, bool):
        return Fraction(int(value))
    if isinstance(value, float) and math.isfinite(value):
        return Fraction(repr(float(value)))
    if isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) < _MAX_EXPONENT:
        return Fraction(value)
    if isinstance(value, str):
        parsed = _parse(value.strip())
        if parsed is not None:
            return parsed
    raise ParameterError(
        f"{name}: {value!r} is not a valid number. Use an integer, a finite decimal, "
        "or a string such as '0.1', '1/3', '1e-6' or 'ln(5)'."
    )


def plain_fraction(text: object) -> Fraction | None:
    """Parse a number as written in files, such as ``"3/10"``; return None for anything else.

    Examples
    --------
    >>> plain_fraction("3/10"), plain_fraction("0.3")
    (Fraction(3, 10), None)
    """
    parts = _PLAIN.fullmatch(text) if type(text) is str else None
    return Fraction(int(parts[1]), int(parts[2] or 1)) if parts else None


def _parse(text: str) -> Fraction | None:
    if logarithm := _LOGARITHM.fullmatch(text) if text.startswith("ln") else None:
        inside = parse_number(logarithm["inside"] or logarithm["bare"] or "")
        return log_lower(inside) if inside is not None and inside > 0 else None
    return parse_number(text)


def parse_number(text: str) -> Fraction | None:
    """Parse a number of bounded size, such as ``"-1.5e-6"`` or ``"1/3"``; return None if invalid.

    `Fraction` would compute ``"1e999999999"`` in full.
    """
    if not _NUMBER.fullmatch(text):
        return None
    try:
        return Fraction(text)
    except ZeroDivisionError:
        return None


def exp_bounds(x: Fraction, bits: int = 160) -> tuple[Fraction, Fraction]:
    """Return dyadic fractions on both sides of e**x.

    The two differ by at most a factor of ``1 + 2**-bits``. They are equal only for x = 0, since
    e**x is irrational for every other rational x.

    Examples
    --------
    >>> low, high = exp_bounds(Fraction(1), bits=20)
    >>> low < Fraction("2.718281828459045") < high
    True
    """
    if x == 0:
        return Fraction(1), Fraction(1)
    if x > 0:
        low, high, precision = _exp_fixed(x, bits)
        return Fraction(low, 1 << precision), Fraction(high, 1 << precision)
    low, high, precision = _exp_fixed(-x, bits + 1)
    # 1/high <= e**x <= 1/low; `scale` leaves at least bits + 2 significant bits in the quotient.
    scale = high.bit_length() + bits + 3
    unit = 1 << (scale + precision)
    return (
        Fraction(unit // high, 1 << scale),
        Fraction(-(-unit // low), 1 << scale),
    )


def _exp_fixed(x: Fraction, bits: int) -> tuple[int, int, int]:
    """Bound e**x for x > 0 by integers over 2**precision.

    With r = x / 2**squarings < 2**-8, e**x = (e**r)**(2**squarings). The series of e**r is summed
    twice, with every step rounded down and with every step rounded up. Each squaring at most
    doubles the relative gap, which `squarings` extra bits of precision compensate.
    """
    whole = x.numerator // x.denominator
    squarings = whole.bit_length() + 8
    precision = bits + squarings + 16
    scaled = x.numerator << precision
    divisor = x.denominator << squarings
    r_low, r_high = scaled // divisor, -(-scaled // divisor)

    low = high = term_low = term_high = 1 << precision
    step = 0
    while term_high > 1:
        step += 1
        term_low = (term_low * r_low >> precision) // step
        term_high = -((-term_high * r_high >> precision) // step)
        low += term_low
        high += term_high
    # The remainder of the series after a term T is below T * (r/2 + (r/2)**2 + ...) < T <= 1 unit.
    high += 1

    for _ in range(squarings):
        low = low * low >> precision
        high = -(-high * high >> precision)
    return low, high, precision


@lru_cache(maxsize=1024)
def log_lower(x: Fraction, bits: int = LOG_BITS) -> Fraction:
    """Return the largest multiple of 2**-bits that is at most ln x, for x > 0.

    Examples
    --------
    >>> log_lower(Fraction(1))
    Fraction(0, 1)
    >>> log_lower(Fraction(2), bits=4)
    Fraction(11, 16)
    """
    if x <= 0:
        raise ParameterError(f"the logarithm of {x} is not defined; use a number above 0.")
    # The float is only a first guess; exact comparisons then bracket the result.
    guess = math.floor(Fraction(math.log(x.numerator) - math.log(x.denominator)) * (1 << bits))
    reach = 1
    while not _exp_at_most(Fraction(guess - reach, 1 << bits), x):
        reach *= 2
    below = guess - reach
    while _exp_at_most(Fraction(guess + reach, 1 << bits), x):
        reach *= 2
    above = guess + reach
    largest = bisect_exact(lambda n: _exp_at_most(Fraction(n, 1 << bits), x), below, above)
    return Fraction(largest, 1 << bits)


def log_upper(x: Fraction, bits: int = LOG_BITS) -> Fraction:
    """Return the smallest multiple of 2**-bits that is at least ln x, for x > 0.

    Examples
    --------
    >>> log_upper(Fraction(2), bits=4)
    Fraction(3, 4)
    """
    return -log_lower(1 / x, bits) if x > 0 else log_lower(x, bits)


def _exp_at_most(y: Fraction, x: Fraction) -> bool:
    """Decide e**y <= x exactly, with as much precision as needed."""
    bits = 64
    while True:
        low, high = exp_bounds(y, bits)
        if high <= x:
            return True
        if low > x:
            return False
        bits *= 2  # terminates: e**y is irrational unless y = 0, and then low = high
