"""Answers from tables of this run and from earlier measurements, whose errors have a common part.

Earlier measurements of a count have independent noise, but all of them miss the same change since
then, and share the error of the number of rows by which they were scaled. So the two kinds of
tables are answered separately, and the answers are averaged by precision. Earlier ones have two
errors more, which count as model error:

- *movement*: if rows are exchanged at random, a sum of a function f over the rows changes by a
  variance in proportion to n Var(f). The factor of each column is estimated by the series.
- *size*: the square of the sum, times the relative variance of the number of rows.

If an earlier answer is further from the present one than all of this explains, more changed than
was estimated: its movement is increased until the difference is explained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hushtable.arrays import ColumnCodes, Floats
from hushtable.query.answers.row_sums import RowFunction, SumEstimates

WITH_EARLIER = (
    "This answer comes from measured tables of this wave and of earlier ones. The interval allows "
    "for noise, and for the change since then at the rate that the series estimated."
)


def movement_of(
    functions: Sequence[RowFunction],
    codes: ColumnCodes,
    n_rows: float,
    settings: Mapping[str, Any],
    *,
    together: bool,
) -> Floats:
    """Return the covariance of what earlier measurements of sums miss: movement and size."""
    values = np.stack([function.values(codes) for function in functions])
    rates = np.array([
        max((settings["columns"][name] for name in function.columns), default=0.0)
        for function in functions
    ])  # fmt: skip
    means = values.mean(axis=1, keepdims=True)
    centered = (values - means) * np.sqrt(rates)[:, None]
    moved = n_rows * centered @ centered.T / values.shape[1] + np.diag(rates)
    moved += settings["size"] * n_rows**2 * means @ means.T
    return np.asarray(moved if together else np.diag(moved.diagonal()))


def with_earlier(
    own: SumEstimates | None, earlier: SumEstimates | None, moved: Floats
) -> SumEstimates | None:
    """Average sums from tables of this run and from earlier measurements, by precision.

    `moved` is the covariance of what the earlier ones miss.
    """
    if earlier is None:
        return own
    if own is None:
        return replace(
            earlier, model=earlier.model + moved, notes=(WITH_EARLIER,), support="tested"
        )
    excess = (own.values - earlier.values) ** 2
    excess -= own.privacy.diagonal() + earlier.privacy.diagonal()
    grown = np.sqrt(np.maximum(1.0, excess / np.maximum(moved.diagonal(), 1e-9)))
    moved = moved * np.outer(grown, grown)
    both = own.privacy + earlier.privacy + moved
    gain = own.privacy @ np.linalg.pinv(both, hermitian=True)
    kept = np.eye(len(gain)) - gain
    return replace(
        own,
        values=own.values + gain @ (earlier.values - own.values),
        privacy=kept @ own.privacy @ kept.T + gain @ earlier.privacy @ gain.T,
        model=own.model + gain @ moved @ gain.T,
        notes=(WITH_EARLIER,),
        support="tested",
    )
