"""Model error of conditions that split published groups.

A release does not show where in a group its rows are. The share of rows that satisfy a condition is
estimated by p, the share of the group's combinations that do. For the standard deviation, the
distribution of rows in a group is modeled as a Dirichlet process around the uniform distribution
with concentration 1, because columns are rarely uniform and often most rows have one of many
values. The share of any fixed set of combinations then has the beta distribution (p, 1 - p).

The interval is wider: from none of the group's rows to all of them. Analysts ask about a condition,
or its opposite, because such rows exist, and a column may contain a code among its numbers, such as
999 for "never", that all rows of a group share. No release of groups can distinguish this from
uniform rows, so neither end may be excluded. The beta distribution alone, with one row known to
satisfy the condition, would exclude the last 2.5%, where such codes are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hushtable.arrays import Floats


@dataclass(frozen=True)
class CutError:
    """Model error of a count whose condition splits groups.

    Examples
    --------
    >>> error = cut_error(np.array([0.1]), np.array([1000.0]))
    >>> round(error.std), round(error.below), round(error.above)
    (212, 100, 900)
    """

    std: float  # standard deviation of the answer
    below: float  # distance from the estimate to the lower end of the interval
    above: float  # distance to the upper end
    most: Floats  # share of each group at the upper end, which weights its noise there: 1


def cut_error(shares: Floats, counts: Floats) -> CutError:
    """Return the joint error of groups that one condition splits; errors have the same sign.

    `shares` is the share of each group's combinations that satisfy the condition, above 0 and below
    1. `counts` are estimated rows of the groups. Groups of equal share are added before clipping at
    0, so that noise on many empty groups cancels.
    """
    distinct, which = np.unique(shares, return_inverse=True)
    rows = np.maximum(np.bincount(which, counts, len(distinct)), 0.0)
    return CutError(
        std=float(rows @ np.sqrt(distinct * (1.0 - distinct) / 2.0)),
        below=float(rows @ distinct),
        above=float(rows @ (1.0 - distinct)),
        most=np.ones(len(shares)),
    )
