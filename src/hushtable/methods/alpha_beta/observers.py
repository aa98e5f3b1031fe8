"""What a promise about observers asks for: that it holds, and that it is about somebody."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from hushtable.errors import ParameterError
from hushtable.privacy.bounded_adversary import Adversary, Ratios, odds_limit


def require_bound(ratios: Ratios, d: Fraction, gamma: Fraction, adversary: Adversary) -> None:
    """Refuse probabilities that do not keep what is to be promised."""
    if ratios.keeps(d, gamma, adversary):
        return
    worst = ratios.posterior(d, adversary)
    problems = []
    if worst > gamma:
        spread = ratios.high / (ratios.low if adversary == "exclusive" else 1)
        most = gamma / (gamma + (1 - gamma) * spread)
        problems.append(
            f"the {adversary} observer could go from d = {float(d):.4g} to "
            f"{float(worst):.4g}, above gamma = {float(gamma):.4g}. Raise beta, raise gamma to "
            f"that, or lower d to {float(most):.4g}; the likelihood ratio may be at most "
            f"{float(odds_limit(d, gamma)):.4g} and is {float(spread):.4g}."
        )
    if ratios.low * gamma < d:
        problems.append(
            f"an observer could come to rule tuples out: the prior may fall to "
            f"{float(ratios.low):.4g} of what it was, below d/gamma = {float(d / gamma):.4g}. "
            "Lower alpha, publish fewer views, or raise gamma."
        )
    raise ParameterError(problems)


def require_observers(
    ratios: Ratios,
    *,
    d: Fraction,
    prior_factor: Fraction | None,
    n_tuples: int,
    n_domain: int,
) -> None:
    """Refuse a promise that covers nobody who knows how large the table is."""
    least = Fraction(n_tuples, n_domain)
    if prior_factor is not None:
        enough, given = prior_factor >= 1, f"prior_factor is {prior_factor}, below 1"
        advice = "Give a prior_factor of at least 1, such as 10"
    else:
        enough = d >= least
        given = f"d is {float(d):.4g}, below n/m = {n_tuples:,}/{readable(n_domain)}"
        advice = f"Raise d to at least {float(least):.4g} (write it as {least})"
    if enough:
        return
    # What an independent observer comes to, who starts where knowing n alone puts them.
    reached = ratios.posterior(min(least, Fraction(1)), "independent")
    raise ParameterError(
        f"{given}: the promise is empty. Whoever knows only that there are about {n_tuples:,} "
        f"tuples gives each a larger chance than d on average, so the bound gamma is not about "
        f"them, and they can become {float(reached):.1%} sure of a published tuple. {advice}, "
        "with a gamma above d; publish more or finer columns; or correct n_public if it "
        "is too large."
    )


def readable(size: int) -> int | str:
    """Write a number that may be too large for a float."""
    return size if size < 10**15 else f"{Decimal(size):.3e}"
