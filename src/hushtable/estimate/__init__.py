"""The analyst's side: what an answer is, and what several estimators share."""

from hushtable.estimate.base import Estimate, Estimator

__all__ = ["Estimate", "Estimator"]
