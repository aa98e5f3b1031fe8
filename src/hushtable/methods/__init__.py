"""One file per method, each with its proof beside it."""

from hushtable.methods.base import Forecast, Method, Released
from hushtable.methods.noisy_counts import NoisyCounts

METHODS: dict[str, type[Method]] = {kind.name: kind for kind in (NoisyCounts,)}
"""Every method by the name it has on the command line."""

__all__ = ["METHODS", "Forecast", "Method", "NoisyCounts", "Released"]
