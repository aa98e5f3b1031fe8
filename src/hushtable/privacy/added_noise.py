"""Counts and noise together, within 64 bits."""

from __future__ import annotations

import numpy as np

from hushtable.errors import ParameterError
from hushtable.privacy.random_words import Integers


def add_noise(counts: Integers, noise: Integers) -> Integers:
    """Add noise to counts, stopping at the ends of int64 instead of wrapping around.

    Stopping is a function of the exact sum alone, hence post-processing: it costs no privacy. An
    error instead would tell something about the counts.

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
        problems.append(f"counts have shape {counts.shape} and noise {noise.shape}: not the same.")
    if problems:
        raise ParameterError(problems)
    total = counts + noise
    wrapped = ((counts ^ total) & (noise ^ total)) < 0  # both terms have the sign that was lost
    ends = np.iinfo(np.int64)
    total[wrapped] = np.where(noise[wrapped] < 0, ends.min, ends.max)
    return total
