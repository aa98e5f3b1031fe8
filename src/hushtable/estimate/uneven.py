"""How far rows may be from an even spread, where a condition cuts through published groups.

Nothing in a release says where in a group its rows are. The share of them that satisfies a
condition is estimated by the share of the group's combinations that does, p. For its error, the
rows of a group are taken as a draw of a Dirichlet process around the even spread with the weight of
one observation: columns are seldom even, and often most rows have one value of many. The share of
any fixed set of combinations then has the beta distribution (p, 1 - p).

The interval goes further, from none of the group's rows to all of them. A condition, or its
opposite, is asked since there are such rows; and a column may have a code among its numbers, such
as 999 for "never", that all rows of a group share. No release of groups tells that from an even
spread, so neither end may be left out: the beta distribution alone, with one row known to satisfy
the condition, would leave out the last fortieth, which is where the codes are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


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
        The share of each group at the upper end, by which its noise counts there: all of it.

    Examples
    --------
    >>> error = cut_error(np.array([0.1]), np.array([1000.0]))
    >>> round(error.std), round(error.below), round(error.above)
    (212, 100, 900)
    """

    std: float
    below: float
    above: float
    most: Floats


def cut_error(shares: Floats, counts: Floats) -> CutError:
    """Judge cut groups together: cut by the same condition, they err in the same direction.

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
    return CutError(
        std=float(rows @ np.sqrt(distinct * (1.0 - distinct) / 2.0)),
        below=float(rows @ distinct),
        above=float(rows @ (1.0 - distinct)),
        most=np.ones(len(shares)),
    )
