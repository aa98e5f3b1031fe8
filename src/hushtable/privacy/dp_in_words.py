"""Differential privacy explained in words, with every bound rounded up."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

from hushtable.privacy.rational import exp_bounds
from hushtable.privacy.unit import Neighbors, Unit
from hushtable.privacy.values import shown


def explain(epsilon: Fraction, delta: Fraction, unit: Unit, neighbors: Neighbors) -> str:
    """Return a sentence that explains (epsilon, delta)-differential privacy to a reader."""
    described = unit.describe()
    if neighbors == "add-remove":
        change, question = f"Adding or removing {described}", "whether it is in the data"
    else:
        change, question = f"Replacing {described} by another", "which of the two is in the data"
    parameters = f"epsilon = {shown(epsilon)}"
    further = ""
    if delta:
        parameters += f", delta = {shown(delta)}"
        further = f" plus an additional probability of {one_in(delta)}"
    right = _best_guess(epsilon, delta)
    if right > Fraction(999, 1000):
        outcome = "can become practically certain"
    elif delta:
        outcome = f"is right at most {_percent(right)} of the time"
    else:
        outcome = f"can become at most {_percent(right)} sure"
    return (
        f"{change} changes the probability of any outcome of this release by a factor of at most "
        f"{_factor(epsilon)}{further} (differential privacy, {parameters}), so an attacker who "
        f"starts from a 50/50 guess about {question} {outcome}."
    )


def _best_guess(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Bound the probability that the best guess between two neighbors is right, from a 50/50 start.

    The errors a and b of any test satisfy a + exp(epsilon) b >= 1 - delta and the reverse (Kairouz,
    Oh and Viswanath 2015), so (a + b) / 2 >= (1 - delta) / (1 + exp(epsilon)). Under pure
    differential privacy the same number bounds the posterior probability itself.
    """
    _, factor = exp_bounds(epsilon)
    return 1 - (1 - delta) / (1 + factor)


def _factor(epsilon: Fraction) -> str:
    """Format exp(epsilon), rounded up; below 2, with three digits of the excess over 1."""
    _, factor = exp_bounds(epsilon)
    if factor < 2:
        return f"{1 + _three_digits_up(factor - 1):f}"
    rounded = _three_digits_up(factor)
    if rounded < 10**9:
        return f"{rounded:,f}" if rounded < 1000 else f"{int(rounded):,}"
    mantissa, exponent = f"{rounded:.2e}".split("e+")
    return f"{mantissa} times 10^{int(exponent)}"


def _three_digits_up(number: Fraction) -> Decimal:
    up = Context(prec=3, rounding=ROUND_CEILING)
    return up.divide(Decimal(number.numerator), Decimal(number.denominator))


def _percent(probability: Fraction) -> str:
    return f"{Decimal(math.ceil(probability * 1000)) / 10}%"


def one_in(probability: Fraction) -> str:
    """Format a probability as "1 in n", rounded up."""
    # Rounding the denominator down rounds the probability up.
    return f"1 in {probability.denominator // probability.numerator:,}"


def left_out(unit: Unit, neighbors: Neighbors) -> tuple[str, ...]:
    """List what differential privacy does not protect, whatever its parameters."""
    parts = [
        "Conclusions about groups. They may reveal something about a person whether or not that "
        "person is in the data.",
        "The schema (columns, values, bounds): it is public.",
        "Other releases of the same data, unless they are recorded in the same ledger.",
        "Side channels of the computation, such as how long it took.",
    ]
    if unit.kind == "row":
        parts.append("A person with several rows: each row is protected, not all of them together.")
    elif unit.kind == "person":
        parts.append(
            f"A person who appears under several values of column '{unit.column}': each value "
            "counts as a separate person."
        )
    else:
        parts.append("A person who is several nodes: each node counts as a separate person.")
    if neighbors == "replace":
        number = {"row": "rows", "person": "persons", "node": "nodes"}[unit.kind]
        parts.append(f"The number of {number}: it is treated as public.")
    return tuple(parts)
