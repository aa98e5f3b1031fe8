"""Means of repeated measurements and rates, with 95% intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hushtable.evaluation.metric import Metric, MetricValue
from hushtable.extras import needing
from hushtable.numeric import normal_quantile

with needing("eval", "evaluation"):
    from scipy.stats import t

CONFIDENCE = 0.95


def over_repeats(
    metric: Metric, of: str, values: Sequence[float], *, extra_std: float = 0.0
) -> MetricValue:
    """Return the mean of repeated measurements with a 95% interval (Student's t).

    `extra_std` is the standard error of the mean from another source, such as a finite number of
    test rows. A single measurement without such an error has no interval.

    Examples
    --------
    >>> distance = Metric(name="distance", meaning="Distance.", better="lower")
    >>> over_repeats(distance, "age", [0.25]).high is None
    True
    >>> measured = over_repeats(distance, "age", [0.2, 0.3])
    >>> round(measured.value, 2), round(measured.high, 2)
    (0.25, 0.89)
    """
    mean, n = float(np.mean(values)), len(values)
    half = 0.0
    if n > 1:
        spread = float(np.std(values, ddof=1)) / math.sqrt(n)
        half = float(t.ppf((1 + CONFIDENCE) / 2, n - 1)) * spread
    if extra_std:
        half = math.hypot(half, 1.96 * extra_std)
    if n == 1 and not extra_std:
        return MetricValue(metric=metric, of=of, value=mean)
    return MetricValue(
        metric=metric,
        of=of,
        value=mean,
        low=max(mean - half, metric.low),
        high=min(mean + half, metric.high),
    )


def wilson(hits: float, n: int, *, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the Wilson interval of a rate.

    Examples
    --------
    >>> low, high = wilson(0, 100)
    >>> round(low, 3), round(high, 3)
    (0.0, 0.037)
    """
    z = normal_quantile(0.5 + confidence / 2)
    rate, spread = hits / n, z * z / n
    center = (rate + spread / 2) / (1 + spread)
    half = z * math.sqrt(rate * (1 - rate) / n + spread / (4 * n)) / (1 + spread)
    # The interval contains the rate; rounding must not change that.
    return max(min(center - half, rate), 0.0), min(max(center + half, rate), 1.0)
