"""The laws, the parts and the audit of histograms, as any author of a method can check them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hushtable_histograms import LISTING
from hushtable_histograms.method import Histograms, HistogramsPlan

from hushtable import Schema, publish
from hushtable.errors import SealedError
from hushtable.testing import CHECKS, Example, check_audit, check_spec

EXAMPLE = Example(Histograms(epsilon=1), has_rows=False)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_laws(check, tmp_path: Path) -> None:
    check(EXAMPLE, tmp_path)


def test_the_parts() -> None:
    check_spec(LISTING)


def test_the_audit_finds_nothing() -> None:
    check_audit(EXAMPLE.method, runs=200, seconds=None)  # as many runs on a slow machine as on any


@dataclass(frozen=True, kw_only=True)
class HalfTheNoise(Histograms):
    """Forget that the columns share epsilon."""

    def plan(self, schema: Schema) -> HistogramsPlan:
        plan = super().plan(schema)
        return replace(plan, scale=plan.scale / 2)


def test_half_the_noise_is_not_published(tmp_path: Path) -> None:
    with pytest.raises(SealedError):
        publish(EXAMPLE.table, EXAMPLE.schema, HalfTheNoise(epsilon=1), out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
