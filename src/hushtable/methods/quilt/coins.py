"""Random numbers of post-processing, which depend on published numbers alone."""

from __future__ import annotations

import numpy as np

from hushtable import kernels
from hushtable.arrays import Floats, Integers


class PostprocessingRng:
    """Random number generator of post-processing: fast, repeatable, not cryptographic.

    Parameters
    ----------
    seed : int
        Below 2**64. A method draws it from its `Noise`, so that a release is repeatable exactly
        when its noise is.

    Examples
    --------
    >>> PostprocessingRng(1).places(np.array([3.0, 0.0, 1.0]), 4).tolist()
    [0, 0, 0, 2]
    """

    def __init__(self, seed: int) -> None:
        self.state = np.array([seed], np.uint64)

    def shuffle(self, values: Integers) -> Integers:
        """Shuffle values in place."""
        kernels.log_linear.shuffle(values, self.state)
        return values

    def places(self, weights: Floats, n: int) -> Integers:
        """Return a systematic sample of n indices by weight.

        Index i occurs n times its share of the weight, rounded down or up.
        """
        cumulated = np.cumsum(weights)
        if n == 0 or not len(cumulated) or not cumulated[-1] > 0:
            return np.zeros(n, np.int64)
        found = np.empty(n, np.int64)
        kernels.log_linear.take_evenly(cumulated, kernels.log_linear.uniform(self.state), found)
        return found

    def systematic_sample(self, weights: Floats, n: int) -> Integers:
        """Return a systematic sample of n indices by weight, in random order."""
        return self.shuffle(self.places(weights, n))
