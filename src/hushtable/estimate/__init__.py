"""The analyst's side: counts with error bars from a release alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import pyarrow as pa

from hushtable.errors import ReleaseError
from hushtable.estimate.base import Estimate, Estimator
from hushtable.schema import Schema

__all__ = ["ESTIMATORS", "Estimate", "Estimator", "estimator_for"]

Make = Callable[[Schema, Mapping[str, Any], Mapping[str, Any], Mapping[str, pa.Table]], Estimator]

ESTIMATORS = {
    "cells": "cells.CellEstimator",
    "columns": "columns.ColumnsEstimator",
    "degrees": "degrees.DegreeEstimator",
    "generalized": "generalized.GeneralizedEstimator",
    "insertions": "insertions.InsertionEstimator",
    "quilt": "quilt.QuiltEstimator",
    "regions": "regions.RegionEstimator",
    "retention": "retention.RetentionEstimator",
    "suppressed-cells": "suppressed.SuppressedEstimator",
    "uncertain": "uncertain.UncertainEstimator",
}
"""Which class reads which kind of release, by module and name: only the one needed is imported."""


def estimator_for(
    settings: Mapping[str, Any],
    schema: Schema,
    parameters: Mapping[str, Any],
    tables: Mapping[str, pa.Table],
) -> Estimator:
    """Make the estimator that a statement asks for."""
    kind = settings.get("kind")
    if not isinstance(kind, str) or kind not in ESTIMATORS:
        raise ReleaseError(
            f"this release needs the estimator {kind!r}, which this version of hushtable does not "
            f"have; it has {', '.join(ESTIMATORS)}."
        )
    module, name = ESTIMATORS[kind].split(".")
    make: Make = getattr(import_module(f"hushtable.estimate.{module}"), name)
    return make(schema, parameters, settings, tables)
