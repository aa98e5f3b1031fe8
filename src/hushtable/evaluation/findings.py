"""Base class of results that compare with the private table; internal."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hushtable.extras import needing
from hushtable.files.writing import write_whole
from hushtable.numeric import normal_quantile

with needing("eval", "evaluation"):
    from scipy.stats import t


class Findings(ABC):
    """Results that can be written as JSON or HTML, atomically."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the results as plain data."""

    @abstractmethod
    def to_html(self) -> str:
        """Return the results as one self-contained HTML page."""

    def write_json(self, path: str | Path) -> None:
        """Write the results to a new JSON file."""
        text = json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
        write_whole(path, text + "\n")

    def write_html(self, path: str | Path) -> None:
        """Write the page to a new file."""
        write_whole(path, self.to_html())


# Metrics with their definitions, and measured values.


@dataclass(frozen=True, kw_only=True)
class Metric:
    """Name, definition and range of a metric."""

    name: str
    meaning: str  # definition in one sentence, for readers who do not know the metric
    better: Literal["lower", "higher", "neither"]
    low: float = 0.0
    high: float = math.inf


def share_metric(
    name: str, meaning: str, better: Literal["lower", "higher", "neither"] = "lower"
) -> Metric:
    """Return a metric with the range 0 to 1."""
    return Metric(name=name, meaning=meaning, better=better, high=1.0)


@dataclass(frozen=True, kw_only=True)
class MetricValue:
    """A value of a metric, with a 95% interval if the value is random."""

    metric: Metric
    of: str  # what was measured: a column, a pair of columns, a model or an attack
    value: float
    low: float | None = None
    high: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the value as plain data, with the metric's name."""
        return {
            "metric": self.metric.name,
            "of": self.of,
            "value": self.value,
            "low": self.low,
            "high": self.high,
        }


# Means of repeated measurements and rates, with 95% intervals.

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
