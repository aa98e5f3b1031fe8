"""Bounds on a count from the range of the noise, for any private records.

Choose a range of the noise that contains an error with probability at least Q. A record in the
queried range is then *possible*, judged from its published point, with probability at least Q,
independently of the others. If N records are in the range, the number of possible ones is at least
Binomial(N, Q), so an observed number C bounds N by little more than C / Q. In the same way, a
record outside the range is *certain* with probability at most 1 - Q, which bounds n - N. Nothing is
assumed about the distribution of the records.
"""

from __future__ import annotations

import numpy as np

from hushtable.arrays import Floats, Integers
from hushtable.extras import needing

with needing("science"):
    from scipy.special import betainc, ndtr, ndtri


def most_behind(seen: int, chance: float, alpha: float) -> int:
    """Return the largest N for which observing at most `seen` of N has probability >= `alpha`.

    Parameters
    ----------
    seen : int
        Number observed.
    chance : float
        Smallest probability with which each one is observed, independently.
    alpha : float
        Probability with which the true N may exceed the result.

    Examples
    --------
    >>> most_behind(10, 1.0, 0.01)
    10
    >>> most_behind(10, 0.5, 0.01)  # P(Binomial(35, 1/2) <= 10) is 0.0083
    34
    """
    if chance >= 1:
        return seen
    # N is plausible as long as the (seen + 1)-th success may come after the N-th trial: as long as
    # fewer than N - seen failures come before it with probability below 1 - alpha.
    low, high = 0, 1
    while betainc(seen + 1, high + 1, chance) < 1 - alpha:
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        if betainc(seen + 1, middle + 1, chance) < 1 - alpha:
            low = middle + 1
        else:
            high = middle
    return seen + high


def uniform_noise_range(widths: Floats, chance: float) -> Integers:
    """Return the number of steps that contain a uniform error with probability >= `chance`.

    Parameters
    ----------
    widths : array
        Number of equally likely errors around 0, which is odd.
    chance : float
        In (0, 1].

    Examples
    --------
    >>> uniform_noise_range(np.array([1.0, 9.0, 9.0]), 0.5)
    array([0, 2, 2])
    """
    return np.asarray(np.ceil((chance * np.rint(widths) - 1) / 2).clip(0), np.int64)


def gaussian_noise_range(sigmas: Floats, chance: float, n_values: int | None = None) -> Integers:
    """Return the number of steps that contain a discrete Gaussian error with this probability.

    The sum of the density beyond r is at most its integral from r on, and the sum over all integers
    is at least the integral over all (Poisson summation formula). So the error is within r with
    probability at least (2 Phi(r / sigma) - 1) / A. Here A is 1; for wrapped ends, where the error
    is at most half of the period, A is Phi(h / sigma) + Phi(h' / sigma) - 1, with h and h' the
    largest errors to either side.

    Parameters
    ----------
    sigmas : array
        In steps of the grid.
    chance : float
        In (0, 1).
    n_values : int, optional
        Grid points of the column, if it wraps around.

    Examples
    --------
    >>> gaussian_noise_range(np.array([0.1, 10.0]), 0.95)
    array([ 1, 20])
    """
    inside: Floats | float = 1.0
    if n_values is not None:
        inside = ndtr(n_values // 2 / sigmas) + ndtr((n_values - 1) // 2 / sigmas) - 1
    return np.asarray(np.ceil(sigmas * ndtri((1 + chance * inside) / 2)), np.int64)
