"""Counts from quilt releases: measured tables against least squares, model estimates by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hushtable.methods.quilt.answers import TableSums
from hushtable.methods.quilt.estimator import QuiltEstimator
from hushtable.methods.quilt.measurements import MeasuredTable, TableBasis, interaction
from hushtable.methods.quilt.model_error import (
    ErrorSource,
    ErrorVariance,
    ModelError,
    UnmeasuredError,
    covariances,
)
from hushtable.numeric import NORMAL
from hushtable.query.answers.row_sums import RowFunction, SumEstimates, is_code
from hushtable.query.where import parse
from hushtable.schema import Schema
from seeds import shifted

SIZES = {"a": 2, "b": 3, "c": 4}
SCHEMA = Schema.from_dict(
    {
        "name": "t",
        "columns": {
            "a": {"type": "categorical", "values": ["x", "y"]},
            "b": {"type": "integer", "low": 0, "high": 2},
            "c": {"type": "categorical", "values": ["p", "q", "r", "s"]},
        },
    }
)
STDS = {("a",): 3.0, ("b",): 4.0, ("c",): 5.0, ("a", "b"): 2.0, ("b", "c"): 2.5}


def joint() -> np.ndarray:
    """Return true counts of all combinations."""
    return np.random.default_rng(shifted(3)).integers(5, 60, tuple(SIZES.values())).astype(float)


def project(table: np.ndarray, columns: tuple[str, ...]) -> np.ndarray:
    rest = tuple(i for i, name in enumerate(SIZES) if name not in columns)
    return table.sum(axis=rest)


def noisy_tables(seed: int) -> list[MeasuredTable]:
    rng = np.random.default_rng(shifted(seed))
    made = []
    for columns, std in STDS.items():
        true = project(joint(), columns)
        made.append(MeasuredTable(columns, np.rint(true + rng.normal(0, std, true.shape)), std))
    return made


def measured(*, n_rows: int | None = None, kurtosis: float = 0.0) -> TableBasis:
    buckets = {name: np.arange(size) for name, size in SIZES.items()}
    return TableBasis(noisy_tables(1), buckets, kurtosis=kurtosis, n_rows=n_rows)


def full_least_squares(tables: list[MeasuredTable], wanted: np.ndarray) -> tuple[float, float]:
    """Return value and variance of a least-squares fit of all combinations to all tables."""
    cells = list(product(*(range(size) for size in SIZES.values())))
    names = list(SIZES)
    design, seen = [], []
    for table in tables:
        for cell in np.ndindex(table.counts.shape):
            fits = dict(zip(table.columns, zip(table.cells, cell, strict=True), strict=True))
            row = [
                all(places[c[names.index(name)]] == v for name, (places, v) in fits.items())
                for c in cells
            ]
            design.append(np.array(row, float) / table.std)
            seen.append(table.counts[cell] / table.std)
    gram = np.array(design)
    pseudo = np.linalg.pinv(gram.T @ gram)
    weights = wanted.ravel() @ pseudo
    assert np.allclose(weights @ gram.T @ gram, wanted.ravel())  # the tables decide it
    return float(weights @ gram.T @ np.array(seen)), float(weights @ wanted.ravel())


def decided(tables: TableBasis, columns: tuple[str, ...], wanted: np.ndarray) -> SumEstimates:
    found = TableSums(tables).decided(columns, wanted)
    assert found is not None
    return found


# --- measured tables -----------------------------------------------------------------------------


@pytest.mark.parametrize("column", list(SIZES))
def test_a_column_is_answered_by_all_tables_that_contain_it(column: str) -> None:
    axis = list(SIZES).index(column)
    for code in range(SIZES[column]):
        truth = np.arange(SIZES[column]) == code
        shape = [-1 if i == axis else 1 for i in range(3)]
        wanted = np.broadcast_to(truth.reshape(shape), tuple(SIZES.values())).astype(float)
        value, variance = full_least_squares(noisy_tables(1), wanted)
        found = decided(measured(), (column,), truth)
        assert found.values[0] == pytest.approx(value)
        assert found.privacy[0, 0] == pytest.approx(variance)
        assert found.privacy[0, 0] < STDS[(column,)] ** 2
        assert found.privacy_z == pytest.approx(1.959964)


def numbers_of_columns(tables: list[MeasuredTable], n_rows: int | None) -> SumEstimates:
    """Estimate sums of functions of one column each, together."""
    buckets = {name: np.arange(size) for name, size in SIZES.items()}
    told = TableSums(TableBasis(tables, buckets, kurtosis=0.0, n_rows=n_rows))
    factors = {"a": [1.0, 3.0], "b": [0.0, 1.0, 4.0], "c": [-1.0, 2.0, 0.0, 5.0]}
    linear = [told.linear(RowFunction({name: np.array(f)})) for name, f in factors.items()]
    return told.sums([one for one in linear if one is not None], together=True)


@pytest.mark.parametrize("n_rows", [None, 700])
def test_noise_of_sums_of_numbers_is_that_of_all_tables(n_rows: int | None) -> None:
    """The covariance is computed again from the effect of each cell, which is linear."""
    halves = np.array([0, 0, 1, 1])
    merged = np.rint(project(joint(), ("a", "c")) @ np.eye(2)[halves])
    coarse = MeasuredTable(("a", "c"), merged, 1.5, (np.arange(2), halves))
    tables = [*noisy_tables(1), coarse]
    found = numbers_of_columns(tables, n_rows)
    covariance = np.zeros((3, 3))
    for place, table in enumerate(tables):
        for cell in np.ndindex(table.counts.shape):
            counts = table.counts.copy()
            counts[cell] += 1.0
            moved = [*tables[:place], replace(table, counts=counts), *tables[place + 1 :]]
            change = numbers_of_columns(moved, n_rows).values - found.values
            covariance += table.std**2 * np.outer(change, change)
    assert found.privacy == pytest.approx(covariance)
    if n_rows is None:
        factor = np.broadcast_to(np.array([-1.0, 2.0, 0.0, 5.0]), tuple(SIZES.values()))
        value, variance = full_least_squares(tables, factor.copy())
        assert found.values[2] == pytest.approx(value)
        assert found.privacy[2, 2] == pytest.approx(variance)


def test_a_pair_is_answered_by_its_table_and_its_neighbors() -> None:
    for a, b in product(range(2), range(3)):
        truth = np.zeros((2, 3), bool)
        truth[a, b] = True
        wanted = np.broadcast_to(truth[:, :, None], (2, 3, 4)).astype(float)
        value, variance = full_least_squares(noisy_tables(1), wanted)
        found = decided(measured(), ("a", "b"), truth)
        assert found.values[0] == pytest.approx(value)
        assert found.privacy[0, 0] == pytest.approx(variance)
        swapped = decided(measured(), ("b", "a"), truth.T)
        assert swapped.values[0] == pytest.approx(value)


def test_the_total_comes_from_every_table() -> None:
    value, variance = full_least_squares(noisy_tables(1), np.ones((2, 3, 4)))
    found = measured().total
    assert found.sums[0] == pytest.approx(value)
    assert found.variances[0] == pytest.approx(variance)


def test_a_public_number_of_rows_is_kept_exactly() -> None:
    tables = measured(n_rows=700)
    assert (tables.total.sums[0], tables.total.variances[0]) == (700.0, 0.0)
    truth = np.array([True, False, True, False])
    one, rest = (decided(tables, ("c",), wanted) for wanted in (truth, ~truth))
    assert one.values[0] + rest.values[0] == pytest.approx(700, abs=1e-3)
    assert one.privacy[0, 0] == pytest.approx(rest.privacy[0, 0], rel=1e-3)
    assert one.privacy[0, 0] < decided(measured(), ("c",), truth).privacy[0, 0]


def test_many_cells_are_answered_without_the_neighbors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hushtable.methods.quilt.measurements.MAX_UNKNOWNS", 5)
    truth = np.array([[True, True, False], [False, True, False]])
    found = decided(measured(), ("a", "b"), truth)
    table = next(t for t in noisy_tables(1) if t.columns == ("a", "b"))
    assert found.values[0] == table.counts[truth].sum()
    assert found.privacy[0, 0] == pytest.approx(2.0**2 * 3)


def test_an_answer_and_its_opposite_share_the_noise_of_the_number_of_rows() -> None:
    """Var(all - some) = Var(all) + Var(some) - 2 Cov(all, some); a public number has no noise."""
    some = np.array([True, False, False, True])

    def covariance(tables: TableBasis, wanted: np.ndarray) -> np.ndarray:
        found = TableSums(tables).decided(("c",), wanted, with_total=True)
        assert found is not None
        return found.privacy

    one, other = (covariance(measured(), wanted) for wanted in (some, ~some))
    total = measured().total.variances[0]
    assert one[1, 1] == other[1, 1] == pytest.approx(total)
    assert one[0, 1] + other[0, 1] == pytest.approx(total)
    assert other[0, 0] == pytest.approx(total + one[0, 0] - 2 * one[0, 1])
    assert covariance(measured(n_rows=500), some)[0, 1] == pytest.approx(0.0, abs=1e-5)


def test_intervals_of_laplace_noise_are_wider() -> None:
    truth = np.array([True, False])
    alone = TableBasis(
        [MeasuredTable(("a",), np.array([10.0, 20.0]), 3.0)],
        {"a": np.arange(2)},
        kurtosis=3.0,
        n_rows=None,
    )
    assert decided(alone, ("a",), truth).privacy_z == pytest.approx(2.17, rel=0.01)
    assert TableSums(measured(kurtosis=3.0)).total.privacy_z < 2.02


def test_merged_values_have_wide_intervals_and_single_values_are_distinguished() -> None:
    buckets = {"a": np.arange(2), "c": np.array([0, 1, 1, 1])}
    tables = TableBasis(
        [
            MeasuredTable(("a",), np.array([50.0, 50.0]), 1.0),
            MeasuredTable(("c",), np.array([40.0, 30.0, 20.0, 10.0]), 1.0),
            MeasuredTable(("a", "c"), np.array([[20.0, 30.0], [20.0, 30.0]]), 1.0),
        ],
        buckets,
        kurtosis=0.0,
        n_rows=None,
    )
    assert tables.noise("c").diagonal() == pytest.approx([1 / (1 + 1 / 2), 1 / (1 / 3 + 1 / 2)])
    assert tables.values("c").variance == 1.0
    one = decided(tables, ("c",), np.array([False, True, False, False]))
    assert one.values[0] == pytest.approx(30.0)
    assert 0.64 < one.privacy[0, 0] < 1.0  # the bucket's precise sum adds information


HALVES, FIRST = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])


def at_resolutions(*, noise: float = 1.0, crossed: bool = False) -> TableBasis:
    """Measure pairs with c in halves, c alone in halves, and one pair at full resolution.

    If `crossed`, one of them has c in parts that are not nested in the halves.
    """
    draw = np.random.default_rng(shifted(7))

    def table(columns: tuple[str, ...], std: float, *cells: np.ndarray) -> MeasuredTable:
        true = project(joint(), columns)
        for axis, places in enumerate(cells):
            true = np.stack(
                [true.take(np.flatnonzero(places == p), axis).sum(axis) for p in np.unique(places)],
                axis,
            )
        counts = np.rint(true + noise * draw.normal(0, std, true.shape))
        return MeasuredTable(columns, counts, std, cells)

    a, b, c = (np.arange(size) for size in SIZES.values())
    return TableBasis(
        [
            table(("a",), 3.0, a),
            table(("b",), 4.0, b),
            table(("c",), 5.0, c),
            table(("c",), 2.0, HALVES),
            table(("a", "c"), 2.0, a, HALVES),
            table(("b", "c"), 3.0, b, c),
            table(("a", "b", "c"), 6.0, a, b, FIRST if crossed else HALVES),
        ],
        {"a": a, "b": b, "c": c},
        kurtosis=0.0,
        n_rows=None,
    )


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        (("a", "c"), [[1, 1, 0, 0], [0, 0, 0, 0]]),
        (("c", "a"), [[0, 0], [0, 0], [1, 0], [1, 0]]),
        (("a", "c"), [[1, 1, 0, 0], [0, 0, 1, 1]]),
        (("b", "c"), [[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]),
        (("b", "c"), [[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0]]),
        (("b", "c"), [[0.5, 2.0, 1.0, 1.0], [0, 0, 0, 3.0], [0, -1.0, 0, 0]]),
        (("c",), [0, 1, 0, 1]),
        (("c",), [1.0, 2.0, 3.0, 4.0]),
    ],
)
def test_tables_at_several_resolutions_are_weighed_by_least_squares(
    columns: tuple[str, ...], wanted: Any
) -> None:
    tables, weights = at_resolutions(), np.array(wanted, float)
    found = decided(tables, columns, weights)
    names = list(SIZES)
    order = sorted(range(len(columns)), key=lambda axis: names.index(columns[axis]))
    shape = [SIZES[name] if name in columns else 1 for name in names]
    everywhere = np.broadcast_to(weights.transpose(order).reshape(shape), tuple(SIZES.values()))
    value, variance = full_least_squares(list(tables.tables), everywhere.copy())
    assert found.values[0] == pytest.approx(value)
    assert found.privacy[0, 0] == pytest.approx(variance)


def test_a_condition_inside_a_coarse_cell_is_not_determined() -> None:
    tables = at_resolutions()
    assert tables.having(("a", "c"))
    split = np.array([[1, 0, 0, 0], [0, 0, 0, 0]])
    assert TableSums(tables).decided(("a", "c"), split) is None
    # Some table resolves each axis, but none resolves both.
    apart = TableBasis(
        [
            MeasuredTable(("a", "c"), np.ones((2, 1)), 1.0, (np.arange(2), np.zeros(4, int))),
            MeasuredTable(("a", "c"), np.ones((1, 4)), 1.0, (np.zeros(2, int), np.arange(4))),
        ],
        {"a": np.arange(2), "c": np.arange(4)},
        kurtosis=0.0,
        n_rows=None,
    )
    assert TableSums(apart).decided(("a", "c"), np.eye(2, 4)) is None


def test_resolutions_that_are_not_nested_are_summed() -> None:
    tables = at_resolutions(noise=0.0, crossed=True)
    for columns, wanted in (
        (("a", "c"), [[0, 1, 1, 1], [0] * 4]),
        (("a", "c"), [[1, 1, 0, 0]] * 2),
    ):
        truth = float(np.sum(project(joint(), columns) * wanted))
        assert decided(tables, columns, np.array(wanted)).values[0] == pytest.approx(truth)
    one = decided(tables, ("c",), np.eye(4)[1])
    assert one.values[0] == pytest.approx(project(joint(), ("c",))[1])


def test_the_finest_table_of_a_group_is_given_with_its_cells() -> None:
    tables = at_resolutions()
    found = tables.finest(("a", "c"))
    assert found is not None
    assert found.counts.shape == (2, 2)
    assert found.cells[1].tolist() == HALVES.tolist()
    assert found.variance == pytest.approx(1 / (1 / 4 + 1 / (3 * 36)))  # with the three columns
    assert tables.finest(("a", "x")) is None
    distance, squares = tables.distance_from_independence(tables.tables[4])
    halves = project(joint(), ("a", "c")).reshape(2, 2, 2).sum(2)
    even = np.outer(halves.sum(1), halves.sum(0)) / halves.sum()
    assert squares == pytest.approx(np.sum(even**2), rel=0.02)
    assert distance**0.5 == pytest.approx(np.sum((halves - even) ** 2) ** 0.5, abs=20)


# --- model error -------------------------------------------------------------------------------


def test_an_interaction_is_what_fewer_columns_do_not_explain() -> None:
    rng = np.random.default_rng(shifted(5))
    shares = rng.random((3, 4, 2))
    counts = np.einsum("i,j,k->ijk", [5.0, 9.0, 4.0], [2.0, 2.0, 7.0, 1.0], [3.0, 8.0])
    part = interaction(shares, counts)
    for axis in range(3):
        assert np.abs((part * counts).sum(axis=axis)).max() < 1e-9
    rows = rng.random((3, 1, 1)) + rng.random((1, 4, 1))
    assert np.abs(interaction(np.broadcast_to(rows, counts.shape), counts)).max() < 1e-9


def test_the_relative_error_is_estimated_despite_the_noise() -> None:
    rng = np.random.default_rng(shifted(6))
    sizes = {"a": 20, "b": 20}
    expected = rng.uniform(50, 400, (20, 20))
    noisy = expected * (1 + 0.3 * rng.normal(size=expected.shape)) + rng.normal(0, 30, (20, 20))
    tables = TableBasis(
        [
            MeasuredTable(("a",), expected.sum(1), 30.0),
            MeasuredTable(("b",), expected.sum(0), 30.0),
            MeasuredTable(("a", "b"), noisy, 30.0),
        ],
        {name: np.arange(size) for name, size in sizes.items()},
        kurtosis=0.0,
        n_rows=None,
    )
    story = {
        "squared_errors": [float(np.sum((noisy - expected) ** 2))],
        "squared_predictions": [float(np.sum(expected**2))],
    }
    assert UnmeasuredError.estimated([story], tables).share == pytest.approx(0.3, rel=0.15)
    # Without rounds, tables of the forest are compared with independent columns.
    assert UnmeasuredError.estimated([], tables).share > 0.3
    only_columns = TableBasis(tables.tables[:2], tables.buckets, kurtosis=0.0, n_rows=None)
    assert UnmeasuredError.estimated([], only_columns) == UnmeasuredError(1.0, 1.0)


def test_small_cells_may_have_larger_relative_errors() -> None:
    part = np.array([[1.0, -1.0], [0.0, 0.5]])
    even = np.full((2, 2), 50.0)
    # The same sum of squares, distributed by squares or by counts.
    missed_even = UnmeasuredError(0.2, 0.2**2 * np.sum(even**2) / np.sum(even))
    assert missed_even.variance(part, even) == pytest.approx(0.2**2 * 50**2 * 2.25)
    skewed = np.array([[900.0, 4.0], [60.0, 1.0]])
    missed_skewed = UnmeasuredError(0.2, 0.2**2 * np.sum(skewed**2) / np.sum(skewed))
    small, large = np.array([[0, 1.0], [0, 0]]), np.array([[1.0, 0], [0, 0]])
    assert missed_skewed.variance(small, skewed) == pytest.approx(4 * missed_skewed.per_row)
    assert missed_skewed.variance(large, skewed) == pytest.approx((0.2 * 900) ** 2)


def field_error(codes: dict[str, np.ndarray], tables: TableBasis, share: float) -> ModelError:
    return ModelError(codes, 1.0, tables, shrinkage=1.25, missed=UnmeasuredError(share, 0.0))


def rows(seed: int = 0, n: int = 4000) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(shifted(seed))
    return {name: rng.integers(0, size, n) for name, size in SIZES.items()}


def spread_of(where: str, codes: dict[str, np.ndarray], share: float) -> Any:
    predicate = parse(where, SCHEMA)
    error = field_error(codes, measured(), share)

    def held(of: Mapping[str, np.ndarray]) -> np.ndarray:
        return predicate.mask(of).astype(np.float64)

    return error.of(predicate.columns, held(codes), held)


def test_an_unmeasured_pair_has_a_relative_error_in_its_cells() -> None:
    none, some = (spread_of("a = 'x' AND c = 'p'", rows(), share) for share in (0.0, 0.2))
    assert none.privacy == some.privacy > 0
    # Four cells of the pair: two where the condition stands out by 3/8, six by 1/8.
    cells = 4000 / 8
    stands_out = np.array([3 / 8, 3 / 8] + [1 / 8] * 6)
    assert some.model - none.model == pytest.approx(
        0.04 * cells**2 * np.sum(stands_out**2), rel=0.1
    )
    # A measured pair does not have this error.
    assert spread_of("a = 'x' AND b = 1", rows(), 0.0) == spread_of(
        "a = 'x' AND b = 1", rows(), 0.2
    )


def test_rows_that_follow_a_shape_have_the_error_that_counts_show() -> None:
    codes = {"a": np.repeat([0, 1], 400), "c": np.tile(np.repeat([0, 1, 2, 3], 100), 2)}

    def spread(counts: list[float]) -> Any:
        tables = [
            MeasuredTable(("a",), np.array([400.0, 400.0]), 1.0),
            MeasuredTable(("c",), np.array(counts), 5.0),
        ]
        buckets = {"a": np.arange(2), "c": np.array([0, 0, 1, 1])}
        known = TableBasis(tables, buckets, kurtosis=0.0, n_rows=None)
        error = ModelError(codes, 1.0, known, shrinkage=1.25, missed=UnmeasuredError(0.0, 0.0))

        def held(of: Mapping[str, np.ndarray]) -> np.ndarray:
            return ((of["a"] == 0) & (of["c"] == 0)).astype(np.float64)

        return error.of(("a", "c"), held(codes), held)

    even, uneven = spread([200.0, 200.0, 200.0, 200.0]), spread([240.0, 160.0, 200.0, 200.0])
    assert uneven.privacy == pytest.approx(even.privacy)
    # Of 40 rows more of p, and as many less of q, half are x: 20 less the noise of these counts.
    part = np.array([0.5, 0, 0, 0]) - 0.125
    assert uneven.model - even.model == pytest.approx(20**2 - 5**2 * float(part @ part))


def in_bins(width: int) -> ModelError:
    """Distribute 1,200 rows uniformly over four bins of this number of codes."""
    codes = {"a": np.repeat([0, 1], 600), "c": np.tile(np.arange(4 * width), 300 // width)}
    bins = {"a": np.arange(2), "c": np.arange(4 * width) // width}
    tables = [
        MeasuredTable(("a",), np.array([600.0, 600.0]), 1.0),
        MeasuredTable(("c",), np.full(4, 300.0), 1.0),
    ]
    buckets = {"a": np.arange(2), "c": np.arange(4)}
    known = TableBasis(tables, buckets, kurtosis=0.0, n_rows=None, bins=bins)
    return ModelError(codes, 1.0, known, shrinkage=1.25, missed=UnmeasuredError(0.0, 0.0))


def test_model_error_covers_any_position_of_rows_in_a_bin() -> None:
    """Bins of three codes each: all rows of a bin may have one code, or none."""
    error = in_bins(3)

    def std(*wanted: int) -> float:
        def held(of: Mapping[str, np.ndarray]) -> np.ndarray:
            return ((of["a"] == 0) & np.isin(of["c"], wanted)).astype(np.float64)

        spread = error.of(("a", "c"), held(error.codes), held)
        return float(spread.model) ** 0.5

    drawn = std(3, 4, 5)  # the whole of a bin
    for inside in (3, 4, 5):  # 50 of 150, between none and all
        assert 50 < std(inside) < 100
    assert std(3, 4) > 50
    assert std(3, 4, 5, 6, 7, 8) < 1.5 * drawn


def test_all_rows_of_a_bin_may_have_the_queried_value() -> None:
    """Bins of a hundred codes: people round to one of them, and queries ask for that one."""
    error = in_bins(100)
    of_a, of_c = np.array([1.0, 0.0]), (np.arange(400) == 123).astype(np.float64)
    asked = [
        RowFunction({"a": of_a, "c": of_c}),
        RowFunction({"c": of_c}),
        RowFunction({"a": of_a, "c": np.ones(400)}),
        RowFunction({"a": of_a, "c": np.arange(400.0)}, {"c": 1}, smooth=frozenset("c")),
    ]
    squares = error.heaped(asked, together=True)
    assert squares[:2, :2] == pytest.approx(np.array([[200**2, 200 * 300], [200 * 300, 300**2]]))
    assert not squares[2:].any()


def test_error_of_a_range_is_at_most_the_rows_in_partly_covered_bins() -> None:
    error = in_bins(100)
    told = TableSums(error.basis)

    def std(codes: slice, powers: Mapping[str, int] | None = None) -> float:
        counted = np.zeros(400)
        counted[codes] = 1 if powers is None else np.linspace(-1, 1, 400)[codes]
        one = told.linear(RowFunction({"c": counted}, powers or {}))
        assert one is not None
        return float(told.sums([one], together=False).model[0, 0]) ** 0.5

    # One bin is split: the independent deviation of its 300 rows is added elsewhere.
    assert std(slice(50, None)) == 0
    # Two are split: all 600 rows may deviate together, minus the independent parts of 300 each.
    assert std(slice(50, 350)) == pytest.approx((600**2 - 2 * 300**2) ** 0.5 / NORMAL, rel=0.05)
    # A number may deviate in all bins, each a quarter of its range.
    assert 100 < std(slice(None), {"c": 1}) < 200


def test_coarse_tables_inform_about_buckets() -> None:
    fine = MeasuredTable(("c",), np.full(4, 10.0), 2.0)
    coarse = MeasuredTable(("c",), np.array([20.0, 20.0]), 2.0, (np.array([0, 0, 1, 1]),))
    buckets = {"c": np.arange(4)}
    alone, both = (
        TableBasis(tables, buckets, kurtosis=0.0, n_rows=None).noise("c")
        for tables in ([fine], [fine, coarse])
    )
    half = np.array([1.0, 1.0, 0.0, 0.0])
    assert half @ alone @ half == pytest.approx(8.0)
    assert half @ both @ half == pytest.approx(1 / (1 / 8 + 1 / 4))


def test_each_of_the_last_tables_is_compared_with_its_own_expectation() -> None:
    known = measured()  # (a, b) was measured before the rounds, (b, c) in one of them
    story = {"squared_errors": [9e4], "squared_predictions": [1e5]}
    first, last = (table for table in known.tables if len(table.columns) == 2)
    distance, squares = known.distance_from_independence(first)
    spread = (2 * (6 * first.std**4 + 12 * last.std**4)) ** 0.5
    gone = distance + 9e4 - 6 * first.std**2 - 12 * last.std**2 + spread
    free = squares * (1 / 2) * (2 / 3) + 1e5 * (2 / 3) * (3 / 4)
    assert UnmeasuredError.estimated([story], known).share == pytest.approx(
        (gone / free) ** 0.5, rel=1e-6
    )


def halves() -> list[tuple[RowFunction, tuple[str, ...]]]:
    """Return functions of a, and of b or c."""
    made = [RowFunction({"a": np.array([1.0, 0.0]), other: np.arange(SIZES[other]) / 3})
            for other in ("b", "c")]  # fmt: skip
    return [(one, one.columns) for one in made]


def test_errors_of_sums_over_rows_are_possible_together() -> None:
    made = release()
    error = made.error(("a", "b", "c"))
    functions = halves()
    functions.append((functions[0][0] * RowFunction({"b": np.full(3, -2.0)}), functions[0][1]))
    found = made._sums_of_rows(error, functions, together=True)
    for kind in ("privacy", "model"):
        covariance = getattr(found, kind)
        assert np.linalg.eigvalsh(covariance)[0] >= -1e-9
        for place, (function, columns) in enumerate(functions):  # as each alone
            added = function.values(error.codes)
            alone = getattr(error.of(columns, added, function.values), kind)
            assert covariance[place, place] == pytest.approx(alone)
        stds = covariance.diagonal() ** 0.5
        assert 0 < covariance[0, 1] < stds[0] * stds[1]  # both have errors of a
    assert found.privacy[0, 2] == pytest.approx(-2 * found.privacy[0, 0], rel=1e-3)


def test_errors_of_different_sources_are_uncorrelated() -> None:
    def source(variance: float, *weights: float) -> ErrorSource:
        return ErrorSource(ErrorVariance(variance, 4 * variance), np.array(weights))

    one = {("column", "a"): source(9.0, 1.0, 0.0), ("column", "b"): source(16.0, 1.0)}
    two = {("column", "a"): source(4.0, 1.0, 1.0), ("column", "c"): source(25.0, 1.0)}
    privacy, model = covariances([one, two], together=True)
    assert privacy == pytest.approx(np.array([[25.0, 6 / 2**0.5], [6 / 2**0.5, 29.0]]))
    assert model == pytest.approx(4 * privacy)


def test_separate_sums_need_no_covariance(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cross table of 1,000 cells is 1,000 separate sums; a joint matrix took seconds."""

    def unwanted(*_: object) -> None:
        raise AssertionError("a covariance was looked into that has none")

    monkeypatch.setattr("hushtable.methods.quilt.model_error.np.linalg.norm", unwanted)
    cells = [is_code("a", SCHEMA.attributes["a"], a) * is_code("c", SCHEMA.attributes["c"], c)
             for a, c in product(range(2), range(4))]  # fmt: skip
    found = release().sums(cells, together=False)
    assert (found.privacy.diagonal() > 0).all()
    for place, cell in enumerate(cells):  # as each alone
        alone = release().sums([cell], together=False)
        assert found.values[place] == alone.values[0]
        assert found.privacy[place, place] == alone.privacy[0, 0]
        assert found.model[place, place] == alone.model[0, 0]


def test_a_value_without_rows_still_has_an_error() -> None:
    codes = rows()
    codes["c"] = codes["c"] % 3  # no row has s
    spread = spread_of("a = 'x' AND c = 's'", codes, 0.1)
    # Rows with s may be similar: with probability 1/2 all would count. Noise bounds their number.
    assert spread.privacy == pytest.approx(measured().noise("c")[3, 3] / 2, rel=0.25)
    # If many rows count, they show the share among those with s: one half, as for all others.
    with_c = spread_of("a = 'x' AND c IN ('p', 'q', 'r', 's')", codes, 0.1).privacy
    assert with_c == pytest.approx(spread_of("a = 'x'", codes, 0.1).privacy, abs=0.15)
    empty = {name: column[:0] for name, column in codes.items()}
    assert spread_of("a = 'x' AND c = 's'", empty, 0.1).privacy > 0


def test_a_cell_without_rows_has_the_error_of_its_expected_count() -> None:
    """Both columns have enough rows, but none with x and s: the pair was never measured."""
    codes = rows()
    codes["c"] = np.where((codes["a"] == 0) & (codes["c"] == 3), 0, codes["c"])
    spread = spread_of("a = 'x' AND c = 's'", codes, 0.2)
    alone = np.sum(codes["a"] == 0) * np.sum(codes["c"] == 3) / 4000  # if they were independent
    assert 0.2 * alone * 3 / 8 < spread.model**0.5 < 2 * 0.2 * alone


def test_an_empty_cell_of_a_table_has_the_average_bias_of_the_fit() -> None:
    """The table is coarser than the question, and the fit passes on no noise without rows."""
    codes = {"a": np.repeat([0, 1], [500, 500]), "c": np.tile(np.arange(4), 250)}
    codes["c"][:500] %= 2  # x has only p and q
    tables = [
        MeasuredTable(("a",), np.array([500.0, 500.0]), 40.0),
        MeasuredTable(("c",), np.array([375.0, 375.0, 125.0, 125.0]), 40.0),
        MeasuredTable(
            ("a", "c"), np.array([[500.0, -30.0], [250.0, 250.0]]), 40.0,
            (np.arange(2), np.array([0, 0, 1, 1])),
        ),
    ]  # fmt: skip
    buckets = {"a": np.arange(2), "c": np.arange(4)}
    known = TableBasis(tables, buckets, kurtosis=0.0, n_rows=None)
    error = ModelError(codes, 1.0, known, shrinkage=1.25, missed=UnmeasuredError(0.0, 0.0))

    def held(of: Mapping[str, np.ndarray]) -> np.ndarray:
        return ((of["a"] == 0) & (of["c"] == 3)).astype(np.float64)

    assert 0.1 * 40 < error.of(("a", "c"), held(codes), held).model ** 0.5 < 40


# --- the estimator -------------------------------------------------------------------------------


def release(*, rows_public: bool = False, n: int = 4000) -> QuiltEstimator:
    """Make a release by hand: c has two buckets, {p} and {q, r, s}."""
    content = SCHEMA.to_dict()
    if rows_public:
        content["rows"] = n
    schema = Schema.from_dict(content)
    codes = rows(n=n)
    merged = np.array([0, 1, 1, 1])
    shapes = {("a",): [2], ("b",): [3], ("c",): [4], ("a", "b"): [2, 3], ("b", "c"): [3, 2]}
    tables, counts = [], []
    for columns, shape in shapes.items():
        cells = np.zeros(n, np.int64)
        for name in columns:
            values = merged[codes[name]] if name == "c" and len(columns) > 1 else codes[name]
            cells = cells * shape[columns.index(name)] + values
        counts.append(np.bincount(cells, minlength=int(np.prod(shape))))
        cells = [None] * len(shape)
        tables.append(
            {"columns": list(columns), "shape": shape, "cells": cells, "std": STDS[columns]}
        )
    sizes = [len(c) for c in counts]
    made = {
        "data": pa.table(
            {
                "a": np.array(["x", "y"])[codes["a"]],
                "b": codes["b"],
                "c": np.array(["p", "q", "r", "s"])[codes["c"]],
            }
        ),
        "measured": pa.table(
            {
                "table": np.repeat(np.arange(len(sizes)), sizes),
                "cell": np.concatenate([np.arange(size) for size in sizes]),
                "count": np.concatenate(counts),
            }
        ),
        "buckets": pa.table(
            {
                "column": np.repeat([0, 1, 2], [2, 3, 4]),
                "value": [0, 1, 0, 1, 2, 0, 1, 2, 3],
                "bucket": [0, 1, 0, 1, 2, 0, 1, 1, 1],
            }
        ),
    }
    settings = {
        "columns": {name: {"bins": None} for name in SIZES},
        "noise": "gaussian",
        "total_std": 0.0 if rows_public else 3.0,
        "tables": tables,
        "rounds": [
            {
                "squared_errors": [40000.0],
                "squared_predictions": [1e6],
                "sensitivity": 10,
                "selection_epsilon": 0.5,
                "weights": [10],
            }
        ],
        "fit": {"shrinkage": 1.25},
    }
    return QuiltEstimator(schema, {}, settings, made)


@pytest.mark.parametrize(
    "where",
    [
        "a = 'x'",
        "b >= 1",
        "c IN ('p', 's')",  # single values of a merged bucket
        "a = 'x' AND b < 2",
        "a = 'x' OR b = 0",
        "b = 1 AND c <> 'p'",  # a whole bucket
        "b = 1 AND c IN ('q', 'r', 's')",
        "a = 'x' AND (c = 'p' OR c <> 'p')",  # c does not matter
    ],
)
def test_conditions_that_tables_determine_are_answered_by_them(where: str) -> None:
    made = release()
    predicate = parse(where, made.schema)
    truth = int(predicate.mask(rows()).sum())
    answer = made.count(where)
    assert answer.value == pytest.approx(truth)  # these tables have no noise
    assert answer.model_std == 0
    assert 0 < answer.privacy_std < 10
    assert "unbiased" in answer.notes[0]
    assert answer.high - answer.value == pytest.approx(1.959964 * answer.privacy_std)


@pytest.mark.parametrize(
    "where",
    [
        "a = 'x' AND c = 'p'",  # a pair that was not measured
        "b = 1 AND c = 'q'",  # part of a bucket
        "a = 'x' AND b = 1 AND c = 'p'",
        "b = 7 - 6 AND (a = 'x' OR c = 'r')",
    ],
)
def test_conditions_that_no_table_determines_are_counted_in_the_rows(where: str) -> None:
    made = release()
    answer = made.count(where)
    assert answer.value == pytest.approx(parse(where, made.schema).mask(rows()).sum(), rel=0.01)
    assert answer.model_std > 0
    assert answer.privacy_std > 0
    assert answer.low < answer.value < answer.high
    assert "not measured" in answer.notes[0]


def test_conditions_that_hold_always_or_never() -> None:
    made = release()
    assert made.count("TRUE").value == pytest.approx(4000)
    assert made.count("TRUE").privacy_std > 0
    nobody = made.count("a = 'x' AND a = 'y'")
    assert (nobody.value, nobody.low, nobody.high) == (0.0, 0.0, 0.0)
    public = release(rows_public=True).count("TRUE")
    assert (public.value, public.low, public.high) == (4000.0, 4000.0, 4000.0)


def test_an_empty_release_answers() -> None:
    made = release(n=0)
    assert made.frame().num_rows == 0
    for where in ("TRUE", "a = 'x'", "a = 'x' AND c = 'p'", "b = 1 AND c = 'q'"):
        answer = made.count(where)
        assert answer.low == answer.value == 0.0 < answer.high


def test_the_rows_are_the_frame() -> None:
    assert release().frame().num_rows == 4000
