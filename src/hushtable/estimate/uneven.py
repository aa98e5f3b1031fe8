"""How far rows may be from an even spread, where a condition cuts through published groups.

Nothing in a release says where in a group its rows are. The share of them that satisfies a
condition is estimated by the share of the group's combinations that does, p. For its error, the
rows of a group are taken as a draw of a Dirichlet process around the even spread with the weight of
one observation: columns are seldom even, and often most rows have one value of many. The share of
any fixed set of combinations then has the beta distribution (p, 1 - p).

Questions are not asked about any set, though: a condition, or its opposite, is asked since there
are such rows. Where one row is known to satisfy it, the share has the beta distribution
(p + 1, 1 - p); where one is known not to, (p, 2 - p). The interval goes from the low end of the
latter to the high end of the former, so that it holds for both kinds of questions, and the interval
of a condition and that of its opposite say the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy  # its parts are imported when they are first asked for
from numpy.typing import NDArray

from hushtable.estimate.base import CONFIDENCE

Floats = NDArray[np.float64]

_TAIL = (1 - CONFIDENCE) / 2


@dataclass(frozen=True)
class CutError:
    """Say how far the rows of cut groups may be from an even spread.

    Parameters
    ----------
    std : float
        Standard deviation of the answer.
    below, above : float
        How far the 95 % interval reaches to either side.
    most : array
        The share of each group at the upper end, by which its noise counts there.

    Examples
    --------
    >>> error = cut_error(np.array([0.1]), np.array([1000.0]))
    >>> round(error.std), round(error.below), round(error.above)
    (212, 100, 885)
    """

    std: float
    below: float
    above: float
    most: Floats


def cut_error(shares: Floats, counts: Floats) -> CutError:
    """Judge cut groups together: cut by the same condition, they err in the same direction.

    Sums of shares that rise and fall together have the sums of their quantiles as quantiles.

    Parameters
    ----------
    shares : array
        The part of each group that satisfies the condition, by combinations; above 0, below 1.
    counts : array
        Estimates of the groups' rows. Those of groups of one share are added up before anything is
        cut off at 0, so that noise on many empty groups cancels.
    """
    distinct, which = np.unique(shares, return_inverse=True)
    rows = np.maximum(np.bincount(which, counts, len(distinct)), 0.0)
    least = scipy.special.betaincinv(distinct, 2.0 - distinct, _TAIL)
    most = scipy.special.betaincinv(distinct + 1.0, 1.0 - distinct, 1.0 - _TAIL)
    return CutError(
        std=float(rows @ np.sqrt(distinct * (1.0 - distinct) / 2.0)),
        below=float(rows @ (distinct - least)),
        above=float(rows @ (most - distinct)),
        most=np.asarray(most[which]),
    )
