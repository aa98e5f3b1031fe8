"""Sums over rows from measured tables: unbiased, with the stated covariance."""

from __future__ import annotations

import numpy as np
import pytest

from hushtable.methods.quilt.answers import TableSums
from hushtable.methods.quilt.measurements import MeasuredTable, TableBasis
from hushtable.query.answers.row_sums import (
    ONE,
    RowFunction,
    SumEstimates,
    condition,
    is_code,
    power,
)
from hushtable.schema import Schema
from seeds import shifted

SCHEMA = Schema.from_dict(
    {
        "name": "t",
        "columns": {
            "x": {"type": "integer", "low": 0, "high": 9},
            "y": {"type": "integer", "low": 0, "high": 7, "missing": "category"},
            "g": {"type": "categorical", "values": ["a", "b", "c"]},
        },
    }
)
SIZES = {name: column.size for name, column in SCHEMA.attributes.items()}
X, Y, G = (SCHEMA.attributes[name] for name in "xyg")
STD = {
    ("x",): 6.0,
    ("y",): 5.0,
    ("g",): 4.0,
    ("x", "y"): 3.0,
    ("y", "g"): 2.0,
    ("x", "y", "g"): 2.0,
}


def rows(n: int = 3000) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(shifted(4))
    x = rng.integers(0, 10, n)
    y = np.minimum((x + rng.integers(0, 6, n)) // 2, 8)
    return {"x": x, "y": y, "g": (x // 4 + rng.integers(0, 2, n)) % 3}


def counted(codes: dict[str, np.ndarray], columns: tuple[str, ...]) -> np.ndarray:
    sizes = [SIZES[name] for name in columns]
    cells = np.ravel_multi_index(tuple(codes[name] for name in columns), sizes)
    return np.bincount(cells, minlength=int(np.prod(sizes))).reshape(sizes).astype(np.float64)


def table_sums(
    codes: dict[str, np.ndarray],
    *,
    noise: np.random.Generator | None = None,
    buckets: dict[str, np.ndarray] | None = None,
    n_rows: int | None = None,
    only: tuple[tuple[str, ...], ...] = tuple(STD),
) -> TableSums:
    buckets = {name: np.arange(size) for name, size in SIZES.items()} | (buckets or {})
    made = []
    for columns in only:
        own = codes if len(columns) == 1 else {n: buckets[n][codes[n]] for n in columns}
        sizes = [SIZES[n] if len(columns) == 1 else int(buckets[n].max()) + 1 for n in columns]
        cells = np.ravel_multi_index(tuple(own[name] for name in columns), sizes)
        counts = np.bincount(cells, minlength=int(np.prod(sizes))).reshape(sizes).astype(float)
        if noise is not None:
            counts = counts + noise.normal(0, STD[columns], counts.shape)
        made.append(MeasuredTable(columns, counts, STD[columns]))
    return TableSums(TableBasis(made, buckets, kurtosis=0.0, n_rows=n_rows))


FUNCTIONS: dict[str, RowFunction] = {
    "rows": ONE,
    "x": power("x", X, 1),
    "y": power("y", Y, 1),
    "squares": power("x", X, 2),
    "product": power("x", X, 1) * power("y", Y, 1),
    "in a group": power("y", Y, 1) * is_code("g", G, 1),
    "three": power("x", X, 1) * power("y", Y, 1) * is_code("g", G, 2),
    "a condition": condition("x >= 4 AND y < 3", SCHEMA),
    "a tied condition": condition("x < y", SCHEMA),
}


@pytest.mark.parametrize("n_rows", [None, 3000])
def test_exact_tables_give_exact_sums(n_rows: int | None) -> None:
    codes = rows()
    tables = table_sums(codes, n_rows=n_rows)
    for name, function in FUNCTIONS.items():
        linear = tables.linear(function)
        assert linear is not None
        found = tables.sums([linear], together=True)
        assert found.values[0] == pytest.approx(function.values(codes).sum(), abs=1e-6), name
        assert found.model[0, 0] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("n_rows", [None, 3000])
def test_noise_has_the_stated_covariance(n_rows: int | None) -> None:
    """With 4,000 draws a variance has an error of 2.3%, and of 12% once in ten million."""
    codes, rng = rows(), np.random.default_rng(shifted(5))
    functions = list(FUNCTIONS.values())
    exact = np.array([function.values(codes).sum() for function in functions])
    # Shares determine the centers of products; those of the exact tables are used throughout.
    fixed = table_sums(codes, n_rows=n_rows)
    linear = [fixed.linear(function) for function in functions]
    told = fixed.sums([one for one in linear if one], together=True).privacy
    errors = []
    for _ in range(4000):
        noisy = table_sums(codes, noise=rng, n_rows=n_rows)
        weights = [_at(one, noisy) for one in linear if one]
        errors.append(noisy.sums(weights, together=False).values - exact)
    seen = np.cov(np.array(errors).T)
    scale = np.sqrt(np.outer(told.diagonal(), told.diagonal()))
    there = scale > 1e-6
    assert np.abs((seen - told)[there] / scale[there]).max() < 0.12
    assert np.abs(np.mean(errors, axis=0)).max() < 6 * told.diagonal().max() ** 0.5 / 4000**0.5


def _at(linear: object, tables: TableSums) -> object:
    """Apply the weights of one set of tables to another that differs only by noise."""
    from dataclasses import replace

    return replace(
        linear,  # type: ignore[type-var]
        components={
            tables.basis.at(component.columns, component.cells): weights
            for component, weights in linear.components.items()  # type: ignore[attr-defined]
        },
    )


def test_the_total_shares_the_noise_of_single_columns() -> None:
    """Without larger tables a column's own noise is in the total, too; bounds as above."""
    codes, rng = rows(), np.random.default_rng(shifted(7))
    functions = [ONE, FUNCTIONS["squares"], condition("x >= 4", SCHEMA)]
    only = (("x",), ("y",), ("g",))

    def sums(noise: np.random.Generator | None) -> SumEstimates:
        tables = table_sums(codes, noise=noise, only=only)
        linear = [tables.linear(function) for function in functions]
        return tables.sums([one for one in linear if one], together=True)

    told = sums(None).privacy
    seen = np.cov(np.array([sums(rng).values for _ in range(4000)]).T)
    scale = np.sqrt(np.outer(told.diagonal(), told.diagonal()))
    assert np.abs((seen - told) / scale).max() < 0.12
    assert told[0, 1] / scale[0, 1] > 0.2  # or there is nothing to see here


def test_more_tables_make_sums_more_precise() -> None:
    codes = rows()
    product = FUNCTIONS["product"]
    few = table_sums(codes, only=(("x",), ("y",), ("g",), ("x", "y")))
    many = table_sums(codes)
    variances = [
        float(tables.sums([tables.linear(product)], together=True).privacy[0, 0])  # type: ignore[list-item]
        for tables in (few, many)
    ]
    assert variances[1] < variances[0]


def test_sums_over_columns_not_measured_together_are_not_determined() -> None:
    tables = table_sums(rows(), only=(("x",), ("y",), ("g",)))
    assert tables.linear(FUNCTIONS["x"]) is not None
    assert tables.linear(FUNCTIONS["product"]) is None
    assert tables.linear(FUNCTIONS["a tied condition"]) is None


def test_covariance_of_merged_values_is_restored_by_interpolation() -> None:
    """Buckets of three values lose a tenth of the covariance; neighbors restore most of it."""
    rng = np.random.default_rng(shifted(6))
    n = 200_000
    x = np.clip(np.round(rng.normal(4.5, 2.0, n)), 0, 9).astype(np.int64)
    y = np.clip(np.round(x * 0.5 + rng.normal(1.5, 0.8, n)), 0, 7).astype(np.int64)
    codes = {"x": x, "y": y, "g": np.zeros(n, np.int64)}
    buckets = {"x": np.array([0, 0, 0, 1, 1, 2, 2, 3, 3, 3])}
    tables = table_sums(codes, buckets=buckets, only=(("x",), ("y",), ("x", "y")))
    function = FUNCTIONS["product"]
    linear = tables.linear(function)
    assert linear is not None
    found = tables.sums([linear], together=True)
    exact = function.values(codes).sum()
    means = [FUNCTIONS[name].values(codes).sum() / n for name in "xy"]
    covariance = exact - n * means[0] * means[1]
    assert abs(found.values[0] - exact) < 0.03 * covariance
    # The correction counts as model error, and exceeds the remaining error.
    assert found.model[0, 0] ** 0.5 > abs(found.values[0] - exact) / 2
