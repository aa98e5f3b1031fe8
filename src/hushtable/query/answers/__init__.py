"""Answers to analysts' questions about a release, and code that several estimators share."""

from hushtable.query.answers.estimator import Estimate, Estimator

__all__ = ["Estimate", "Estimator"]
