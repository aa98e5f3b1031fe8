"""Regression coefficients of a population: intervals allow for heteroscedastic residuals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hushtable import Release, Schema, publish
from hushtable.methods import GeneralizeSuppress
from seeds import shifted

N_ROWS = 4000


def table() -> dict[str, np.ndarray]:
    """Draw an outcome whose variance grows with the regressor; each row twice, for k = 2."""
    rng, n = np.random.default_rng(shifted(31)), N_ROWS // 2
    x = np.abs(rng.normal(0, 4, n)).round().clip(0, 20)
    z = rng.integers(0, 3, n)
    y = (20 + x + z + rng.normal(0, 0.2 + 0.6 * x)).round().clip(0, 60)
    return {
        name: np.tile(column.astype(int), 2) for name, column in zip("xzy", (x, z, y), strict=True)
    }


@pytest.fixture(name="release", scope="module")
def _release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    described = {name: {"type": "integer", "low": 0, "high": high}
                 for name, high in (("x", 20), ("z", 2), ("y", 60))}  # fmt: skip
    schema = Schema.from_dict({"name": "t", "rows": N_ROWS, "columns": described})
    out: Path = tmp_path_factory.mktemp("uneven") / "out"
    return publish(pa.table(table()), schema, GeneralizeSuppress(k=2), out=out)


def robust(columns: dict[str, np.ndarray]) -> dict[str, tuple[float, float]]:
    """Return White's standard errors and the homoscedastic ones, from the rows."""
    design = np.stack([np.ones(N_ROWS), columns["x"], columns["z"]], axis=1)
    inverse = np.linalg.inv(design.T @ design)
    residual = columns["y"] - design @ (inverse @ design.T @ columns["y"])
    uneven = inverse @ (design.T * residual**2) @ design @ inverse
    even = inverse * float(residual @ residual) / N_ROWS
    return {name: (uneven[i, i] ** 0.5, even[i, i] ** 0.5)
            for i, name in enumerate(("(intercept)", "x", "z"))}  # fmt: skip


def test_sampling_is_that_of_uneven_residuals_where_it_is_more(release: Release) -> None:
    fitted, true = release.regression("y ~ x + z", scope="population"), robust(table())
    assert true["x"][0] > 1.4 * true["x"][1]  # the two differ in this table
    for name, (uneven, even) in true.items():
        assert fitted[name].sampling_std == pytest.approx(max(uneven, even), rel=0.01)
    x = fitted["x"]
    # The limit of what suppressed rows can change is added to the sampling error.
    assert 0.99 <= (x.high - x.low) / 2 / (1.96 * true["x"][0]) < 1.15
