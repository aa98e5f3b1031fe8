"""What an evaluation reports: a metric that says what it means, and values of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class Metric:
    """Say what a number means.

    Parameters
    ----------
    name : str
        What it is called in reports.
    meaning : str
        One sentence for a reader who has never met it.
    better : {"lower", "higher", "neither"}
        Which direction is good for the reader of the report.
    low, high : float
        Its range.
    """

    name: str
    meaning: str
    better: Literal["lower", "higher", "neither"]
    low: float = 0.0
    high: float = math.inf


def share_metric(
    name: str, meaning: str, better: Literal["lower", "higher", "neither"] = "lower"
) -> Metric:
    """Say what a number between 0 and 1 means."""
    return Metric(name=name, meaning=meaning, better=better, high=1.0)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Hold one value of a metric, with a 95 % interval where there is randomness in it.

    Parameters
    ----------
    metric : Metric
        What was measured.
    of : str
        On what: a column, a pair of columns, a model, an attack.
    value : float
        The value.
    low, high : float, optional
        The 95 % interval.
    """

    metric: Metric
    of: str
    value: float
    low: float | None = None
    high: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Write as plain data; the metric by its name."""
        return {
            "metric": self.metric.name,
            "of": self.of,
            "value": self.value,
            "low": self.low,
            "high": self.high,
        }
