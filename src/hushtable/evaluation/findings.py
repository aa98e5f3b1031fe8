"""Base classes of results, and measured values with their intervals."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hushtable.extras import needing
from hushtable.files.writing import write_whole
from hushtable.files.yaml_text import read_packaged
from hushtable.numeric import normal_quantile


class Plain:
    """Base of dataclasses that become JSON objects with one key per field."""

    def to_dict(self) -> dict[str, Any]:
        """Return the content as plain data."""
        return {
            field.name: _plain(getattr(self, field.name))
            for field in fields(self)  # type: ignore[arg-type]  # subclasses are dataclasses
        }


def _plain(value: Any) -> Any:
    """Convert nested results, arrays, mappings and sequences."""
    if isinstance(value, Plain):
        return value.to_dict()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value


class Findings(ABC):
    """Results of a comparison with the private table; they are written atomically."""

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
class Metric(Plain):
    """Name, definition and range of a metric; a bound of None means unbounded."""

    name: str
    meaning: str  # definition in one sentence, for readers who do not know the metric
    better: Literal["lower", "higher", "neither"]
    low: float | None = 0.0
    high: float | None = None

    def at(
        self, value: float, *, of: str = "", low: float | None = None, high: float | None = None
    ) -> MetricValue:
        """Return a measured value of this metric."""
        return MetricValue(metric=self.name, of=of, value=value, low=low, high=high)


PACKAGED = read_packaged("hushtable.evaluation", "texts.yaml")
"""Definitions of metrics, and texts."""

TEXTS: dict[str, str] = PACKAGED["texts"]
"""Sentences in reports."""


def metric_named(name: str) -> Metric:
    """Return a metric as `texts.yaml` defines it."""
    return Metric(name=name, **PACKAGED["metrics"][name])


@dataclass(frozen=True, kw_only=True)
class MetricValue(Plain):
    """A value of a metric, with a 95% interval if the value is random."""

    metric: str  # its name
    of: str  # what was measured: a column, a pair of columns, a model or an attack
    value: float
    low: float | None = None
    high: float | None = None


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
    if n == 1 and not extra_std:
        return metric.at(mean, of=of)
    half = 1.96 * extra_std
    if n > 1:
        with needing("eval", "evaluation"):
            from scipy.special import stdtrit  # noqa: PLC0415 - an extra
        error = float(np.std(values, ddof=1)) / math.sqrt(n)
        half = math.hypot(half, float(stdtrit(n - 1, (1 + CONFIDENCE) / 2)) * error)
    low, high = np.clip((mean - half, mean + half), metric.low, metric.high).tolist()
    return metric.at(mean, of=of, low=low, high=high)


def wilson(hits: float, n: int, *, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the Wilson interval of a rate.

    Examples
    --------
    >>> low, high = wilson(0, 100)
    >>> round(low, 3), round(high, 3)
    (0.0, 0.037)
    """
    z = normal_quantile(0.5 + confidence / 2)
    rate, shift = hits / n, z * z / n
    center = (rate + shift / 2) / (1 + shift)
    half = z * math.sqrt(rate * (1 - rate) / n + shift / (4 * n)) / (1 + shift)
    # The interval contains the rate; rounding must not change that.
    return max(min(center - half, rate), 0.0), min(max(center + half, rate), 1.0)
