"""Addition of noise to counts, saturated at the limits of int64."""

from __future__ import annotations

import numpy as np

from hushtable.arrays import Integers
from hushtable.errors import ParameterError


def add_noise(counts: Integers, noise: Integers) -> Integers:
    """Add noise to counts; saturate at the limits of int64 instead of wrapping around.

    Saturation is a function of the exact sum alone, so it is post-processing and costs no privacy.
    An error would reveal something about the counts.

    Examples
    --------
    >>> add_noise(np.array([5, 2**63 - 1]), np.array([-7, 1]))
    array([                 -2, 9223372036854775807])
    """
    problems = [
        f"{name}: the dtype is {array.dtype}; it must be int64."
        for name, array in (("counts", counts), ("noise", noise))
        if array.dtype != np.int64
    ]
    if counts.shape != noise.shape:
        problems.append(f"counts have shape {counts.shape} but noise has shape {noise.shape}.")
    if problems:
        raise ParameterError(problems)
    total = counts + noise
    wrapped = ((counts ^ total) & (noise ^ total)) < 0  # the sum's sign differs from both terms
    ends = np.iinfo(np.int64)
    total[wrapped] = np.where(noise[wrapped] < 0, ends.min, ends.max)
    return total
