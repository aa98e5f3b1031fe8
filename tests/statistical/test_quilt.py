"""Noise of quilt: as stated; totals and tables are unbiased.

False alarms: each bound is at 6 standard deviations or more of a nearly normal sum, 2e-9.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

from hushtable.datasets import sample, sample_schema
from hushtable.engine import connect
from hushtable.methods.quilt.budget import BudgetShares, PrivateMeasurer
from hushtable.methods.quilt.quilt import Quilt
from hushtable.privacy.noise.sources import SecureNoise, SeededNoise
from hushtable.schema import Schema
from sealing import PLENTY, PLENTY_OF_RHO, sealed
from seeds import shifted


@pytest.mark.parametrize("pure", [False, True])
def test_measured_counts_have_the_noise_that_was_paid_for(pure: bool) -> None:
    size = 100
    schema = Schema.from_dict(
        {
            "name": "t",
            "columns": {
                name: {"type": "integer", "low": 0, "high": size - 1} for name in ("a", "b")
            },
        }
    )
    table = pa.table({"a": np.arange(5000) % size, "b": np.arange(5000) % size})
    exact = np.zeros((size, size))
    np.fill_diagonal(exact, 50)
    budget = BudgetShares(
        total=Fraction(1, 50), accounting="pure" if pure else "concentrated", rows_per_unit=1
    )
    account = PLENTY if pure else PLENTY_OF_RHO
    engine = sealed(connect(table, schema, noise=SecureNoise()), account)
    meter = PrivateMeasurer(engine, SecureNoise(), budget)
    meter.read([(0, 1)], {})
    share = Fraction(1, 4)
    measured = meter.measure("pair", (0, 1), share)
    gaps = measured.counts - exact.ravel()
    n, std = len(gaps), measured.noise.std
    assert std == pytest.approx(10.0 if not pure else 2**0.5 * 200, rel=1e-2)
    assert abs(gaps.mean()) < 6 * std / n**0.5
    # The variance of a square is 2 std^4 for the normal and 5 std^4 for Laplace's distribution.
    assert abs(np.mean(gaps**2) - std**2) < 6 * std**2 * ((5 if pure else 2) / n) ** 0.5


def test_totals_are_unbiased_and_their_error_is_known() -> None:
    schema, table = sample_schema(), sample()
    method = Quilt(epsilon=1, delta="1e-6", particles=1000)
    standard = []
    for seed in range(12):
        noise = SeededNoise(shifted(seed)) if seed else SecureNoise()
        made = method.run(connect(table, schema, noise=noise), noise).settings
        standard.append((made["total"] - table.num_rows) / made["total_std"])
    assert abs(np.sum(standard)) < 6 * len(standard) ** 0.5
    assert np.abs(standard).max() < 7


def test_rows_are_close_where_the_budget_is_large() -> None:
    schema, table = sample_schema(), sample()
    noise = SecureNoise()
    made = Quilt(epsilon=20, delta="1e-6", particles=40_000).run(
        connect(table, schema, noise=noise), noise
    )
    rows = made.tables["data"]
    names = [name for name in schema.attributes if name != "age"]
    for a, b in combinations(names, 2):
        shares = [
            {
                (row[a], row[b]): row["n"] / t.num_rows
                for row in t.group_by([a, b])
                .aggregate([([], "count_all")])
                .rename_columns([a, b, "n"])
                .to_pylist()
            }
            for t in (rows, table)
        ]
        cells = shares[0].keys() | shares[1].keys()
        gap = sum(abs(shares[0].get(c, 0) - shares[1].get(c, 0)) for c in cells) / 2
        assert gap < 0.02, (a, b, gap)
