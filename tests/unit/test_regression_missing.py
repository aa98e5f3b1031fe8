"""Regressions with missing values: they use rows that have all their values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hushtable import Schema, publish
from hushtable.methods import GeneralizeSuppress
from seeds import shifted


def test_rows_that_lack_a_value_are_left_out_of_all_products(tmp_path: Path) -> None:
    rng, n = np.random.default_rng(shifted(41)), 1500
    x, z = rng.integers(0, 8, n), rng.integers(0, 8, n)
    y = (x + z + rng.integers(0, 6, n)).clip(0, 20)
    there = (rng.random(n) < 0.2) | (x + y > 12)  # rows without z differ from those with it
    values = [int(one) if has else None for one, has in zip(z, there, strict=True)]
    # Each row twice, so that nothing is suppressed and everything is exact.
    table = pa.table({"x": np.tile(x, 2), "y": np.tile(y, 2), "z": values * 2})
    whole = {"type": "integer", "low": 0, "high": 20}
    columns = {"x": whole, "y": whole, "z": {**whole, "missing": "category"}}
    schema = Schema.from_dict({"name": "t", "rows": 2 * n, "columns": columns})
    release = publish(table, schema, GeneralizeSuppress(k=2), out=tmp_path / "out")
    fitted = release.regression("y ~ x + z")
    design = np.stack([np.ones(n), x, z], axis=1)[there]
    true = np.linalg.lstsq(design, y[there], rcond=None)[0]
    for name, value in zip(("(intercept)", "x", "z"), true, strict=True):
        assert fitted[name].value == pytest.approx(value, rel=1e-6)
