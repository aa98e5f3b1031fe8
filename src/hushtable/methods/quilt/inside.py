"""Values inside buckets: noisy counts of single values, shrunk toward a simple shape.

A bucket contains values whose noisy counts are too small to distinguish, and its rows must be
distributed over them. Distributed by the noisy counts alone, they would follow noise: in the tail
of a column, rows would be far from all private rows. `shrink_within_buckets` shrinks the counts of
a bucket toward a simple shape with the same sum:

- in an unordered column: uniform;
- inside an ordered column: a density with the slope between the neighboring buckets;
- in its outermost buckets: a density that starts at that of the neighboring bucket and falls
  exponentially outward, if the bucket has fewer rows than that density would give; else uniform.

The amount of shrinkage follows from the evidence against the shape beyond noise (the James-Stein
rule for the squared distance, minus one standard deviation of it). Values that stand out keep their
counts.

All of it is post-processing of noisy counts.
"""

from __future__ import annotations

import math

import numpy as np

from hushtable.arrays import Floats, Integers

_N_BISECTIONS = 60


def shrink_within_buckets(
    counts: Floats, std: float, buckets: Integers, widths: Floats, *, is_ordered: bool
) -> Floats:
    """Shrink the counts inside each bucket toward its shape; sums of buckets do not change.

    `std` is the noise of each count and `widths` the number of codes of each value. `buckets` of an
    ordered column must be increasing.
    """
    found = counts.copy()
    sums = np.maximum(np.bincount(buckets, counts), 0.0)
    spans = np.bincount(buckets, widths).astype(np.float64)
    for bucket in np.flatnonzero((np.bincount(buckets) > 1) & (sums > 0)).tolist():
        among = np.flatnonzero(buckets == bucket)
        shape = widths[among] / spans[bucket]
        if is_ordered and len(sums) > 1:
            shape = _shape(bucket, sums, spans, widths[among])
        found[among] = _shrunk(counts[among], float(sums[bucket]) * shape, std)
    return found


def _shrunk(counts: Floats, shape: Floats, std: float) -> Floats:
    gaps = counts - shape
    free = len(counts) - 1
    noise = (free + math.sqrt(2 * free)) * std**2
    kept: Floats = shape + max(0.0, 1 - noise / max(float(gaps @ gaps), 1e-300)) * gaps
    return kept


def _shape(bucket: int, sums: Floats, spans: Floats, widths: Floats) -> Floats:
    """Return the shares of the values of a bucket of an ordered column, from its neighbors."""
    density = sums / spans
    place = np.cumsum(widths) - widths / 2
    if 0 < bucket < len(sums) - 1:
        rise = (density[bucket + 1] - density[bucket - 1]) / (
            (spans[bucket - 1] + spans[bucket + 1]) / 2 + spans[bucket]
        )
        inner = density[bucket] + rise * (place - spans[bucket] / 2)
        shape = widths * np.maximum(inner, 0.0)
    else:
        beside = density[1] if bucket == 0 else density[-2]
        outwards = spans[bucket] - place if bucket == 0 else place
        rate = _rate(float(sums[bucket]), float(beside), float(spans[bucket]))
        shape = widths * np.exp(-rate * outwards)
    shares: Floats = shape / max(float(shape.sum()), 1e-300)
    return shares


def _rate(mass: float, density: float, span: float) -> float:
    """Return the rate at which a density must fall to have a given mass over a span.

    Examples
    --------
    >>> round(_rate(100.0, 10.0, 1000.0), 3)
    0.1
    >>> _rate(100.0, 1.0, 50.0)
    0.0
    """
    if mass >= density * span:
        return 0.0
    low, high = 0.0, density / mass
    for _ in range(_N_BISECTIONS):
        middle = (low + high) / 2
        if density * -math.expm1(-middle * span) / middle > mass:
            low = middle
        else:
            high = middle
    return high
