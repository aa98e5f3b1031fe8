"""Checks of bounded-adversary guarantees: that they hold, and that they cover some observer."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from hushtable.errors import ParameterError
from hushtable.privacy.bounded_adversary import Adversary, Ratios, odds_limit


def require_bound(ratios: Ratios, d: Fraction, gamma: Fraction, adversary: Adversary) -> None:
    """Refuse probabilities that do not satisfy the guarantee."""
    if ratios.keeps(d, gamma, adversary):
        return
    worst = ratios.posterior(d, adversary)
    problems = []
    if worst > gamma:
        spread = ratios.high / (ratios.low if adversary == "exclusive" else 1)
        most = gamma / (gamma + (1 - gamma) * spread)
        problems.append(
            f"the posterior of the {adversary} observer could rise from d = {float(d):.4g} to "
            f"{float(worst):.4g}, above gamma = {float(gamma):.4g}. Raise beta, raise gamma to "
            f"that, or lower d to {float(most):.4g}; the likelihood ratio may be at most "
            f"{float(odds_limit(d, gamma)):.4g} and is {float(spread):.4g}."
        )
    if ratios.low * gamma < d:
        problems.append(
            f"an observer could rule tuples out: the prior may fall to "
            f"{float(ratios.low):.4g} of its value, below d/gamma = {float(d / gamma):.4g}. "
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
    """Refuse a guarantee that covers no observer who knows the size of the table."""
    least = Fraction(n_tuples, n_domain)
    if prior_factor is not None:
        enough, given = prior_factor >= 1, f"prior_factor is {prior_factor}, below 1"
        advice = "Choose a prior_factor of at least 1, such as 10"
    else:
        enough = d >= least
        given = f"d is {float(d):.4g}, below n/m = {n_tuples:,}/{readable(n_domain)}"
        advice = f"Raise d to at least {float(least):.4g} (exactly {least})"
    if enough:
        return
    # Posterior of an independent observer whose prior comes from knowing only n.
    reached = ratios.posterior(min(least, Fraction(1)), "independent")
    raise ParameterError(
        f"{given}: the guarantee is empty. An observer who knows only that n is about {n_tuples:,} "
        f"has a prior above d on average, so the bound gamma does not cover "
        f"them, and their posterior of a published tuple can reach {float(reached):.1%}. {advice}, "
        "with a gamma above d; publish more or finer columns; or correct n_public if it "
        "is too large."
    )


def readable(size: int) -> int | str:
    """Format a number that may be too large for a float."""
    return size if size < 10**15 else f"{Decimal(size):.3e}"
