"""Single columns of a quilt: wide ones are binned, spikes are found, tails stay empty."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushtable.engine import connect
from hushtable.methods.quilt import binning, one_way
from hushtable.methods.quilt import one_way as tails
from hushtable.methods.quilt.binning import tilted, values_of
from hushtable.methods.quilt.budget import BudgetShares, NoisyTable, PrivateMeasurer, TableNoise
from hushtable.methods.quilt.estimator import QuiltEstimator
from hushtable.methods.quilt.one_way import (
    MeasuredColumn,
    measure_columns,
    one_way_model,
    shrink_within_buckets,
)
from hushtable.methods.quilt.particles import PostprocessingRng
from hushtable.methods.quilt.quilt import Quilt
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.schema import Schema
from sealing import sealed
from seeds import shifted


def schema_of(**columns: dict[str, Any]) -> Schema:
    return Schema.from_dict({"name": "t", "columns": columns})


def spiky(n: int) -> tuple[pa.Table, Schema]:
    """Return days, 61% of them 1 in a range of 20,000, and an age."""
    draw = np.random.default_rng(shifted(8))
    days = np.exp(draw.uniform(0, np.log(9000), n)).astype(np.int64)
    days[draw.random(n) < 0.61] = 1
    age = np.clip(np.round(draw.gamma(4, 6, n) + 18), 18, 96).astype(np.int64)
    schema = schema_of(
        days={"type": "integer", "low": 0, "high": 19_999, "missing": "category"},
        age={"type": "integer", "low": 18, "high": 96},
    )
    return pa.table({"days": pa.array(days, mask=np.arange(n) % 20 == 0), "age": age}), schema


# --- binning --------------------------------------------------------------------------------------


def cut_of(table: pa.Table, schema: Schema, total: str = "1/50") -> tuple[Any, PrivateMeasurer]:
    noise = SeededNoise(shifted(1))
    purse = BudgetShares(total=Fraction(total), accounting="concentrated", rows_per_unit=1)
    meter = PrivateMeasurer(sealed(connect(table, schema, noise=noise)), noise, purse)
    values = values_of(schema)
    recodings = {v.name: v.recoding for v in values if v.recoding is not None}
    meter.read([(place,) for place in range(len(values))], recodings)
    return measure_columns(meter, values, [Fraction(1, 2)] * len(values)), meter


def test_a_wide_column_is_binned_finely_where_rows_are() -> None:
    table, schema = spiky(7000)
    (days, age), meter = cut_of(table, schema)
    assert age.cuts == ()
    starts = np.array(days.values.rule)
    assert {0, 1, 2, 19_999} <= set(starts.tolist())
    assert days.values.recoding is not None
    assert days.values.size == len(starts) + 1 == len(days.table.counts)  # missing is counted
    widths = days.values.widths[:-1]
    assert widths[:2].tolist() == [1, 1]
    assert np.median(widths[starts > 15_000]) > 50  # no row is there
    # All of the share is spent on it, and no more.
    spent = meter.budget.spent
    assert Fraction(999, 1000) < sum(spent.values()) <= 1
    assert spent["cuts of wide columns"] <= Fraction(1, 2) * Fraction(31, 100)
    for level, cells in days.cuts:
        assert len(cells) == days.values.size
        assert int(cells.max()) + 1 == len(level.counts)
        assert (np.diff(cells) >= 0).all()


def test_noise_alone_is_not_split() -> None:
    _, schema = spiky(10)
    (days, _), _ = cut_of(spiky(10)[0].slice(0, 0), schema)
    assert len(days.cuts) <= 1
    assert days.values.size <= one_way.FIRST + 5


def test_intervals_follow_rows_and_noise() -> None:
    """With more rows than noise, there are more intervals; all but the tails have enough rows."""
    draw = np.random.default_rng(shifted(4))
    schema = schema_of(x={"type": "integer", "low": 0, "high": 99_999})
    sizes = []
    for n_rows in (2_000, 20_000, 200_000):
        x = np.minimum(draw.lognormal(8, 0.7, n_rows), 99_999).astype(np.int64)
        (column,), _ = cut_of(pa.table({"x": x}), schema)
        sizes.append(column.values.size)
        m = (n_rows / column.table.noise.std) ** 0.5
        assert 0.5 * m < sizes[-1] - one_way.FIRST / one_way.MAX_WIDTH < 4 * m
        cut = np.searchsorted(column.values.rule, np.quantile(x, [0.25, 0.5, 0.75]), side="right")
        cumulated = np.cumsum(column.table.counts)[cut - 1] / n_rows
        assert np.abs(cumulated - [0.25, 0.5, 0.75]).max() < 3 / m
    assert sizes == sorted(sizes)


@pytest.mark.parametrize("high", [513, 5000, 1_500_000])
def test_intervals_are_those_of_the_schema(high: int) -> None:
    draw = np.random.default_rng(shifted(2))
    schema = schema_of(x={"type": "number", "low": -1, "high": high / 4 - 1, "step": 0.25})
    x = np.minimum(np.round(draw.exponential(high / 40, 20_000) * 4) / 4 - 1, high / 4 - 1)
    (column,), _ = cut_of(pa.table({"x": x}), schema)
    starts = np.array(column.values.rule, float)
    assert starts[0] == -1
    assert (np.diff(starts) > 0).all()
    assert 0.0 in starts  # zero has its own bin
    assert int(column.values.widths.sum()) == schema.attributes["x"].size
    exact = np.histogram(x, bins=np.append(starts, np.inf))[0]
    assert np.abs(column.table.counts - exact).max() < 7 * column.table.noise.std


def test_a_spike_is_found_and_published() -> None:
    # 61% of 7,000 rows have one of 20,000 values: the noise of its count is below 1% of the rows.
    table, schema = spiky(7000)
    noise = SeededNoise(shifted(3))
    method = Quilt(epsilon=1, delta="1e-9", particles=5000)
    made = method.run(connect(table, schema, noise=noise), noise)
    true = np.mean(table["days"].fill_null(-1).to_numpy() == 1)
    rows = made.tables["data"]["days"].fill_null(-1).to_numpy()
    assert abs(np.mean(rows == 1) - true) < 0.05
    assert np.mean(rows > 12_000) < 0.01  # no row is there
    estimator = QuiltEstimator(schema, method.parameters(), made.settings, made.tables)
    answer = estimator.count("days = 1")
    assert "unbiased" in answer.notes[0]
    assert abs(answer.value - true * 7000) < 6 * answer.privacy_std
    total = made.settings["tables"]
    assert sum(one["columns"] == ["days"] for one in total) >= 1


def test_only_wide_numbers_are_binned() -> None:
    many = [str(i) for i in range(1000)]
    schema = schema_of(
        a={"type": "integer", "low": 1, "high": binning.WIDE},
        b={"type": "integer", "low": 0, "high": binning.WIDE},
        c={"type": "categorical", "values": many},
    )
    assert [values.is_wide for values in values_of(schema)] == [False, True, False]
    assert [v.planned_size for v in values_of(schema)] == [512, 512, 1000]


def test_values_that_rules_distinguish_are_not_merged() -> None:
    schema = schema_of(
        age={"type": "integer", "low": 0, "high": 99},
        job={"type": "categorical", "values": ["none", "a", "b", "c"]},
    ).model_copy(update={"rules": ("age >= 15 OR job = 'none'", "age < 70 OR job = 'none'")})
    age, job = Quilt(epsilon=1).plan(schema).values
    buckets = age.buckets(np.zeros(100), 10.0)  # nothing stands out from the noise
    assert np.flatnonzero(np.diff(buckets)).tolist() == [14, 69]
    assert job.buckets(np.zeros(4), 10.0).tolist() == [0, 1, 1, 1]


# --- estimates from noisy counts ------------------------------------------------------------------


def counted(counts: Any, std: float, **column: Any) -> MeasuredColumn:
    schema = schema_of(x={"type": "integer", "low": 0, "high": len(counts) - 1, **column})
    noise = TableNoise("concentrated", parameter=Fraction(round(std**2)))
    return MeasuredColumn(values_of(schema)[0], NoisyTable((0,), np.asarray(counts), noise))


def bell(n: int, size: int = 100) -> Any:
    place = (np.arange(size) - size / 2) / (size / 10)
    density = np.exp(-(place**2) / 2)
    return n * density / density.sum()


def test_tails_stay_empty() -> None:
    # 4,000 rows, noise 13 a value: half of 60 empty values are above zero, 300 rows in all.
    draw = np.random.default_rng(shifted(4))
    true = bell(4000)
    ratios, plain = [], []
    place = np.arange(100.0)
    variance = float(np.sum(true * (place - 50) ** 2)) / 4000
    for _ in range(20):
        noisy = np.rint(true + draw.normal(0, 13, 100)).astype(np.int64)
        known = one_way_model(counted(noisy, 13.0), 4000.0, is_target=False)
        mean = float(known.shares @ place)
        ratios.append(float(known.shares @ (place - mean) ** 2) / variance)
        clipped = np.maximum(noisy, 0) / np.maximum(noisy, 0).sum()
        plain.append(float(clipped @ (place - float(clipped @ place)) ** 2) / variance)
    assert 0.85 < np.mean(ratios) < 1.15
    assert np.mean(plain) > 1.3  # the error that the correction removes


def test_empty_values_get_no_share() -> None:
    # 100 values with rows, and 150 empty ones on each side. What the total lacks or
    # has in excess is distributed over values that do not appear to be empty.
    draw = np.random.default_rng(shifted(6))
    true = np.concatenate([np.zeros(150), bell(4000), np.zeros(150)])
    place = np.arange(400.0)
    variance = float(true @ (place - 200) ** 2) / 4000
    ratios = []
    for _ in range(20):
        noisy = np.rint(true + draw.normal(0, 13, 400)).astype(np.int64)
        known = one_way_model(counted(noisy, 13.0), 4000.0, is_target=False)
        assert not known.shares[tails.trim_tails(noisy.astype(np.float64), 13.0)].any()
        assert known.shares.sum() == pytest.approx(1.0)
        mean = float(known.shares @ place)
        ratios.append(float(known.shares @ (place - mean) ** 2) / variance)
    # The median of 20 is .92, its standard deviation .026: false alarms are below one in 10,000.
    assert 0.8 < np.median(ratios) < 1.1


def test_an_empty_tail_is_distinguished_from_rows() -> None:
    draw = np.random.default_rng(shifted(5))
    told = np.zeros(110)
    for _ in range(50):
        ends = draw.normal(0, 10, (2, 40))
        empty = tails.trim_tails(np.concatenate([ends[0], bell(20_000, 30), ends[1]]), 10.0)
        assert not empty[50:60].any()
        told += empty
    # A share of .724 with a standard deviation of .048 over 600 ends: false alarms below 1e-9.
    assert told[:40].mean() > 0.4 * 50
    assert told[-40:].mean() > 0.4 * 50
    assert not tails.trim_tails(np.array([900.0, 0.0, 0.0, 800.0]), 10.0).any()  # rows at both ends
    assert not tails.trim_tails(draw.normal(0, 10, 50) - 5, 10.0).all()


def test_counts_within_noise_are_distributed_evenly() -> None:
    # From either end all counts are within noise: nothing is trimmed.
    noisy = np.array([19, -13, 4, 5, -4, 7])
    assert not tails.trim_tails(noisy.astype(np.float64), 10.0).any()
    known = one_way_model(counted(noisy, 10.0), 18.0, is_target=False)
    assert known.shares == pytest.approx(1 / 6)
    assert (known.counts.tolist(), known.std.tolist()) == ([18.0], pytest.approx([10 * 6**0.5]))


def test_rows_that_are_spread_thinly_are_not_trimmed() -> None:
    # 1,100 rows over 250 values with noise 38 each: the sum has a stated error of 600. If they were
    # trimmed, as in one run of ten before, its error would be 29 times the stated one.
    draw = np.random.default_rng(shifted(9))
    off = []
    for _ in range(50):
        true = draw.multinomial(1100, np.full(250, 1 / 250))
        noisy = np.rint(true + draw.normal(0, 38, 250)).astype(np.int64)
        known = one_way_model(counted(noisy, 38.0), 1100.0, is_target=False)
        off.append((known.counts.sum() - 1100) / float(np.sqrt(np.square(known.std).sum())))
    # Without the correction, 99 of 100 runs exceed 5. False alarms are below 1e-9.
    assert np.abs(off).max() < 7


@given(
    st.lists(st.integers(-40, 300), min_size=4, max_size=40),
    st.integers(1, 6),
    st.booleans(),
)
def test_counts_are_shrunk_inside_buckets_only(
    counts: list[int], n_buckets: int, is_ordered: bool
) -> None:
    noisy = np.array(counts, float)
    buckets = np.arange(len(counts)) * n_buckets // len(counts)
    found = shrink_within_buckets(noisy, 15.0, buckets, np.ones(len(counts)), is_ordered=is_ordered)
    sums = np.bincount(buckets, noisy)
    assert np.bincount(buckets, found) == pytest.approx(sums, abs=1e-6)
    quiet = shrink_within_buckets(noisy, 1e-6, buckets, np.ones(len(counts)), is_ordered=is_ordered)
    assert quiet == pytest.approx(noisy, abs=1e-3)


def test_rare_unordered_values_become_uniform() -> None:
    draw = np.random.default_rng(shifted(6))
    noisy = 20 + draw.normal(0, 15, 200)
    found = shrink_within_buckets(noisy, 15.0, np.zeros(200, int), np.ones(200), is_ordered=False)
    assert found.std() < 0.5 * noisy.std()


def test_a_value_that_stands_out_is_not_on_the_line() -> None:
    counts = np.rint(bell(20_000)).astype(np.int64)
    counts[40] += 9000
    known = one_way_model(counted(counts, 5.0), float(counts.sum()), is_target=False)
    assert known.line is not None
    spike = known.buckets[40]
    assert (known.buckets == spike).sum() == 1
    assert np.flatnonzero(known.line.off_line).tolist() == [spike]
    with_missing = np.append(np.rint(bell(20_000)), 5000).astype(np.int64)
    schema = schema_of(x={"type": "integer", "low": 0, "high": 99, "missing": "category"})
    noise = TableNoise("concentrated", parameter=Fraction(25))
    column = MeasuredColumn(values_of(schema)[0], NoisyTable((0,), with_missing, noise))
    known = one_way_model(column, 25_000.0, is_target=False)
    assert known.line is not None
    assert np.flatnonzero(known.line.off_line).tolist() == [known.buckets[-1]]


def test_rows_exchange_values_inside_their_bucket_only() -> None:
    draw = np.random.default_rng(shifted(7))
    of_rows = draw.integers(0, 3, 6000)
    values = of_rows * 10 + draw.integers(0, 10, 6000)
    tilts = draw.choice([-0.1, 0.1], 6000)
    found = tilted(of_rows, values, np.arange(30.0), tilts, PostprocessingRng(1))
    for bucket in range(3):
        mine = of_rows == bucket
        assert sorted(found[mine]) == sorted(values[mine])
        # A tilt moves the mean by about tilt times variance: 0.1 * 8.25. The difference is 1.49
        # with a standard deviation of .125 (900 of them): six on either side.
        up, down = (found[mine & (tilts == t)].mean() for t in (0.1, -0.1))
        assert 0.73 < up - down < 2.24
