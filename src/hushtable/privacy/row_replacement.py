"""Keep each row or replace it by a random tuple, on its own: as its owner could have done."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtable.errors import SealedError
from hushtable.privacy.mechanism import Mechanism
from hushtable.privacy.noise import Noise
from hushtable.privacy.rational import log_upper
from hushtable.privacy.spending import Price, Sensitivity


@dataclass(frozen=True)
class RowReplacement(Mechanism):
    """Keep rows with probability `retention`, replace others by uniform tuples of the domain.

    Any two rows become any tuple with probabilities whose ratio is at most 1 + g m / (1 - g). How
    many rows there are is seen, so this is for neighbors that have a row exchanged.

    Parameters
    ----------
    retention : Fraction
        The g of the formula.
    n_tuples : int
        The m of the formula: the size of the domain.

    Examples
    --------
    >>> exchanged = Sensitivity(rows=2, exchanged=True)
    >>> round(float(RowReplacement(Fraction(1, 2), 9).price(exchanged).epsilon), 3)
    2.303
    """

    retention: Fraction
    n_tuples: int

    def price(self, sensitivity: Sensitivity) -> Price:
        """Give the logarithm of the ratio for each row that is exchanged."""
        if not sensitivity.exchanged:
            raise SealedError(
                "rows that are replaced one by one show how many there are; promise neighbors that "
                "have a row exchanged (replace)."
            )
        g = self.retention
        return Price.pure(sensitivity.l1 // 2 * log_upper(1 + g * self.n_tuples / (1 - g)))

    def draw(self, exact: Any, noise: Noise) -> NDArray[np.int64]:
        """Give the codes of all rows in the order of the codes: that of the rows is private."""
        if self.n_tuples != exact.domain.size:
            raise SealedError(f"{self.n_tuples} is not the size of the domain.")
        codes = np.repeat(exact.codes, exact.counts, axis=0)
        replaced = np.flatnonzero(~noise.bernoulli(self.retention, size=len(codes)))
        for position, size in enumerate(exact.domain.shape):
            codes[replaced, position] = noise.uniform_below(size, size=len(replaced))
        return np.asarray(codes[np.lexsort(codes.T[::-1])])
