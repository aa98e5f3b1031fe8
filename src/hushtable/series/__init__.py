"""Releases of the same columns wave after wave, under one promise for all of them."""

from hushtable.series.plan import SeriesPlan
from hushtable.series.series import Series

__all__ = ["Series", "SeriesPlan"]
