"""Independent retention or replacement of each row: local randomization."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtable.errors import SealedError
from hushtable.privacy.accounting.sensitivity import PrivacyCost, Sensitivity
from hushtable.privacy.mechanisms.mechanism import Mechanism
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.rational import log_upper


@dataclass(frozen=True)
class RowReplacement(Mechanism):
    """Retention of rows with probability `retention`; others become uniform tuples of the domain.

    For any two rows, the probabilities of becoming the same tuple have a ratio of at most
    1 + g m / (1 - g). The number of rows is visible, so neighbors must have a row replaced.

    Parameters
    ----------
    retention : Fraction
        The g of the formula.
    n_tuples : int
        The m of the formula: the size of the domain.

    Examples
    --------
    >>> exchanged = Sensitivity(rows=2, exchanged=True)
    >>> round(float(RowReplacement(Fraction(1, 2), 9).cost(exchanged).epsilon), 3)
    2.303
    """

    retention: Fraction
    n_tuples: int

    def cost(self, sensitivity: Sensitivity) -> PrivacyCost:
        """Return the logarithm of the ratio for each row that is replaced."""
        if not sensitivity.exchanged:
            raise SealedError(
                "replacing rows one by one reveals how many there are; use the neighbor relation "
                "replace."
            )
        g = self.retention
        return PrivacyCost.pure(sensitivity.l1 // 2 * log_upper(1 + g * self.n_tuples / (1 - g)))

    def draw(self, exact: Any, noise: Noise) -> NDArray[np.int64]:
        """Return the codes of all rows, sorted, because their order is private."""
        if self.n_tuples != exact.domain.size:
            raise SealedError(f"n_tuples is {self.n_tuples}; it must be the size of the domain.")
        codes = np.repeat(exact.codes, exact.counts, axis=0)
        replaced = np.flatnonzero(~noise.bernoulli(self.retention, size=len(codes)))
        for position, size in enumerate(exact.domain.shape):
            codes[replaced, position] = noise.uniform_below(size, size=len(replaced))
        return np.asarray(codes[np.lexsort(codes.T[::-1])])
