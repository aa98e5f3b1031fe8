"""Differential privacy in words: what it promises a reader, with every number rounded up."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

from hushtable.privacy.rational import exp_bounds
from hushtable.privacy.unit import Neighbors, Unit
from hushtable.privacy.values import shown


def explain(epsilon: Fraction, delta: Fraction, unit: Unit, neighbors: Neighbors) -> str:
    """Say in one sentence what (epsilon, delta)-differential privacy means for a reader."""
    described = unit.describe()
    if neighbors == "add-remove":
        change, question = f"Adding or removing {described}", "whether it is in the data"
    else:
        change, question = f"Exchanging {described} for another", "which of the two is in the data"
    parameters = f"epsilon = {shown(epsilon)}"
    further = ""
    if delta:
        parameters += f", delta = {shown(delta)}"
        further = f" and a further {one_in(delta)}"
    right = _best_guess(epsilon, delta)
    if right > Fraction(999, 1000):
        outcome = "can become practically certain"
    elif delta:
        outcome = f"guesses right at most {_percent(right)} of the time"
    else:
        outcome = f"can become at most {_percent(right)} sure"
    return (
        f"{change} changes the probability of anything this release could show by a factor of at "
        f"most {_factor(epsilon)}{further} (differential privacy, {parameters}), so someone"
        f" who gave even odds on {question} {outcome}."
    )


def _best_guess(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Bound how often the best guess between two neighbors is right, from even odds.

    The errors a and b of any test satisfy a + exp(epsilon) b >= 1 - delta and the reverse (Kairouz,
    Oh and Viswanath 2015), so (a + b) / 2 >= (1 - delta) / (1 + exp(epsilon)). Under pure
    differential privacy the same number bounds the posterior probability itself.
    """
    _, factor = exp_bounds(epsilon)
    return 1 - (1 - delta) / (1 + factor)


def _factor(epsilon: Fraction) -> str:
    """Write exp(epsilon) rounded up; near 1, three digits of what it exceeds 1 by."""
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
    return f"{Decimal(math.ceil(probability * 1000)) / 10} %"


def one_in(probability: Fraction) -> str:
    """Write a probability as one in so many, rounded up."""
    # Rounding the denominator down rounds the probability up.
    return f"1 in {probability.denominator // probability.numerator:,}"


def left_out(unit: Unit, neighbors: Neighbors) -> tuple[str, ...]:
    """List what differential privacy does not protect, whatever its parameters."""
    parts = [
        "Facts about groups, and what they say about a person whether or not that person takes "
        "part.",
        "What the schema declares (columns, values, bounds): it is public.",
        "Other releases of the same data, unless they are recorded in the same ledger.",
        "What can be seen by watching the computer at work, such as how long it took.",
    ]
    if unit.kind == "row":
        parts.append("A person with several rows: each row is protected, not all of them together.")
    elif unit.kind == "person":
        parts.append(
            f"A person who appears under several values of column '{unit.column}': each value "
            "counts as a person."
        )
    else:
        parts.append("A person who is several nodes: each node counts as a person.")
    if neighbors == "replace":
        number = {"row": "rows", "person": "persons", "node": "nodes"}[unit.kind]
        parts.append(f"The number of {number}: it is treated as public.")
    return tuple(parts)
