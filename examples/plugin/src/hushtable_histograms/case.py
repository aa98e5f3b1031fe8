"""Audit inputs of histograms: neighboring tables of several copies of a row, and one more."""

from __future__ import annotations

from collections.abc import Iterator

from hushtable.audit.cases import Case, copies, counted_schema, planned
from hushtable.audit.inputs import Pair
from hushtable.schema import Schema
from hushtable_histograms.method import Histograms


def _schema(method: Histograms) -> Schema:
    return counted_schema({})


def _pairs(method: Histograms, schema: Schema) -> Iterator[Pair]:
    return copies(schema, [0, 3])


HISTOGRAMS: Case[Histograms] = Case(_schema, _pairs, planned)
