"""Metrics with their definitions, and measured values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal


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
