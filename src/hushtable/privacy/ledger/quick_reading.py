"""Fast parsing of guarantees in the form that a ledger writes.

It checks the same rules as `hushtable.privacy.guarantee`. Any other form is left to
`parse_guarantee`, which parses it or reports what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from hushtable.privacy.composition import is_concentrated
from hushtable.privacy.gaussian_dp import is_gaussian
from hushtable.privacy.guarantee import ApproxDP, PureDP, Unit
from hushtable.privacy.rational import plain_fraction
from hushtable.privacy.values import MAX_DELTA, MAX_LOSS

_PURE = {"family", "epsilon", "unit", "neighbors"}
_APPROXIMATE = (_PURE | {"delta"}, _PURE | {"delta", "rho"}, _PURE | {"delta", "mu"})
_RELATIONS = ("add-remove", "replace")


def read_quickly(document: Mapping[str, Any], unit: Unit) -> PureDP | ApproxDP | None:
    """Parse a guarantee whose unit is known, or return None.

    `document` is what `Guarantee.to_dict` wrote; its unit is ignored in favor of `unit`.

    Examples
    --------
    >>> row = Unit(kind="row")
    >>> promise = PureDP(epsilon="1/2", unit=row, neighbors="add-remove")
    >>> read_quickly(promise.to_dict(), row) == promise
    True
    >>> read_quickly({**promise.to_dict(), "epsilon": "-1/2"}, row) is None
    True
    """
    family, neighbors = document.get("family"), document.get("neighbors")
    epsilon = _amount(document.get("epsilon"), MAX_LOSS)
    if epsilon is None or neighbors not in _RELATIONS:
        return None
    if family == "pure-dp" and document.keys() == _PURE:
        return PureDP.model_construct(
            family=family, epsilon=epsilon, unit=unit, neighbors=neighbors
        )
    if family != "approx-dp" or document.keys() not in _APPROXIMATE:
        return None
    delta = _amount(document["delta"], MAX_DELTA)
    rho, mu = (plain_fraction(document.get(name)) for name in ("rho", "mu"))
    if delta is None or not (
        ("rho" not in document or (rho is not None and is_concentrated(rho, epsilon, delta)))
        and ("mu" not in document or (mu is not None and is_gaussian(mu, epsilon, delta)))
    ):
        return None
    return ApproxDP.model_construct(
        family=family, epsilon=epsilon, delta=delta, unit=unit, neighbors=neighbors, rho=rho, mu=mu
    )


def _amount(text: Any, most: Fraction) -> Fraction | None:
    """Parse a number above 0 and at most `most`, or return None."""
    number = plain_fraction(text)
    if number is None or not number.numerator > 0:
        return None
    too_large = number.numerator * most.denominator > most.numerator * number.denominator
    return None if too_large else number
