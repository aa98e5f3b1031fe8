"""The analyst's side: counts with error bars from a release alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from hushtable.errors import ReleaseError
from hushtable.estimate.base import Estimate, Estimator
from hushtable.estimate.cells import CellEstimator
from hushtable.estimate.columns import ColumnsEstimator
from hushtable.estimate.degrees import DegreeEstimator
from hushtable.estimate.generalized import GeneralizedEstimator
from hushtable.estimate.insertions import InsertionEstimator
from hushtable.estimate.regions import RegionEstimator
from hushtable.estimate.retention import RetentionEstimator
from hushtable.estimate.suppressed import SuppressedEstimator
from hushtable.estimate.uncertain import UncertainEstimator
from hushtable.schema import Schema

__all__ = ["ESTIMATORS", "Estimate", "Estimator", "estimator_for"]

Make = Callable[[Schema, Mapping[str, Any], Mapping[str, Any], Mapping[str, pa.Table]], Estimator]

ESTIMATORS: dict[str, Make] = {
    "columns": ColumnsEstimator,
    "suppressed-cells": SuppressedEstimator,
    "cells": CellEstimator,
    "degrees": DegreeEstimator,
    "generalized": GeneralizedEstimator,
    "insertions": InsertionEstimator,
    "regions": RegionEstimator,
    "retention": RetentionEstimator,
    "uncertain": UncertainEstimator,
}


def estimator_for(
    settings: Mapping[str, Any],
    schema: Schema,
    parameters: Mapping[str, Any],
    tables: Mapping[str, pa.Table],
) -> Estimator:
    """Make the estimator that a statement asks for."""
    kind = settings.get("kind")
    if kind not in ESTIMATORS:
        raise ReleaseError(
            f"this release needs the estimator {kind!r}, which this version of hushtable does not "
            f"have; it has {', '.join(ESTIMATORS)}."
        )
    return ESTIMATORS[kind](schema, parameters, settings, tables)
