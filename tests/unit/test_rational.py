"""Conversion of parameters to fractions; bounds of e**x and ln x."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushtable.errors import ParameterError
from hushtable.privacy.rational import as_rational, exp_bounds, log_lower, log_upper


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, Fraction(0)),
        (3, Fraction(3)),
        (-2, Fraction(-2)),
        (np.int64(7), Fraction(7)),
        (0.1, Fraction(1, 10)),
        (1e-6, Fraction(1, 10**6)),
        (0.1 + 0.2, Fraction(30000000000000004, 10**17)),
        (np.float64(0.3), Fraction(3, 10)),
        (Decimal("0.30"), Fraction(3, 10)),
        (Fraction(2, 7), Fraction(2, 7)),
        ("0.1", Fraction(1, 10)),
        (" 1/3 ", Fraction(1, 3)),
        ("-1/3", Fraction(-1, 3)),
        ("1e-6", Fraction(1, 10**6)),
        (".5", Fraction(1, 2)),
        ("2.", Fraction(2)),
        ("ln(1)", Fraction(0)),
        ("ln(5)", Fraction(27001887, 2**24)),
        ("ln 5", Fraction(27001887, 2**24)),
        ("ln( 5.0 )", Fraction(27001887, 2**24)),
        ("ln(1/5)", Fraction(-27001888, 2**24)),
    ],
)
def test_numbers_become_the_fraction_that_was_meant(value, expected):
    assert as_rational(value, name="epsilon") == expected


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        float("-inf"),
        Decimal("NaN"),
        Decimal("Infinity"),
        Decimal("1e1000000"),
        True,
        np.True_,
        None,
        [],
        1j,
        "",
        "abc",
        "1/0",
        "nan",
        "inf",
        "1e999999999",
        "1__0",
        "1 / 3",
        "ln",
        "ln(0)",
        "ln(-1)",
        "ln(ln(5))",
        "ln(5",
        "ln(5) + 1",
        "0x10",
    ],
)
def test_what_is_not_a_number_is_refused_by_name(value):
    with pytest.raises(ParameterError, match=r"^epsilon: "):
        as_rational(value, name="epsilon")


def _real(x: Fraction) -> mpmath.mpf:
    return mpmath.mpf(x.numerator) / x.denominator


@settings(deadline=None)
@given(
    st.fractions(min_value=-700, max_value=700, max_denominator=10**12),
    st.integers(min_value=1, max_value=400),
)
def test_exp_bounds_hold_and_are_tight(x, bits):
    low, high = exp_bounds(x, bits)
    with mpmath.workprec(3000):
        assert _real(low) <= mpmath.exp(_real(x)) <= _real(high)
    assert high - low <= low / 2**bits
    assert all((bound.denominator & (bound.denominator - 1)) == 0 for bound in (low, high))


def test_exp_bounds_differ_by_less_when_asked_for_more_bits():
    widths = [high - low for low, high in (exp_bounds(Fraction(-7, 2), b) for b in (8, 64, 512))]
    assert widths[0] > widths[1] > widths[2] > 0
    assert exp_bounds(Fraction(0)) == (1, 1)


@settings(deadline=None)
@given(
    st.fractions(min_value=Fraction(1, 10**9), max_value=10**30).filter(lambda x: x > 0),
    st.integers(min_value=0, max_value=80),
)
def test_log_bounds_are_the_nearest_multiples(x, bits):
    low, high = log_lower(x, bits), log_upper(x, bits)
    with mpmath.workprec(2000):
        exact = mpmath.log(_real(x))
        assert _real(low) <= exact <= _real(high)
    assert high - low == (0 if x == 1 else Fraction(1, 2**bits))


def test_logarithm_of_what_is_not_positive_is_refused():
    for function in (log_lower, log_upper):
        with pytest.raises(ParameterError, match="above 0"):
            function(Fraction(0))


def test_reference_numbers(vectors):
    for text, value in vectors["samplers"]["bernoulli_exp"].items():
        exponent = Fraction(text.removeprefix("exp(").removesuffix(")"))
        low, high = exp_bounds(exponent)
        assert abs((low + high) / 2 - Fraction(value)) < Fraction(1, 10**19)
