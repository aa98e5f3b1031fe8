"""Special values are never merged in recodings and searches; public bins are the only cuts."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hushtable.engine import connect
from hushtable.errors import ParameterError, SchemaError
from hushtable.methods.diffgen.cuts import (
    CutSet,
    largest_gains,
    specialize_jointly,
    top,
)
from hushtable.methods.partition.partition import Partition
from hushtable.methods.partition.tree import axis_of, special_cuts
from hushtable.methods.quilt.binning import values_of
from hushtable.privacy.accounting.run_account import RunAccount, SpendingLimit
from hushtable.privacy.accounting.sealed import SealedCounts
from hushtable.privacy.accounting.sensitivity import Sensitivity
from hushtable.privacy.mechanisms.scored_splits import make_score
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.query.answers.published import draw_inside, fresh
from hushtable.schema import Categorical, Date, Integer, Number, Schema
from hushtable.schema.recoding import bins_of, recode
from seeds import shifted

PDAYS = Integer(type="integer", low=0, high=30, special={999: "never", 12: "unknown"},
                missing="category", bins=[0, 5, 20])  # fmt: skip


def test_codes_of_special_values_and_missing_come_last() -> None:
    assert (PDAYS.n_values, PDAYS.size, PDAYS.missing_code, PDAYS.n_special) == (31, 34, 33, 3)
    assert [PDAYS.value(code) for code in range(31, 34)] == [999, 12, None]
    assert [PDAYS.code_of(value) for value in (999, 12, 13, None)] == [31, 32, 13, 33]


@pytest.mark.parametrize("rule", [7, [3, 11], "log"])
def test_a_special_value_is_never_merged(rule: Any) -> None:
    cut = recode("pdays", PDAYS, rule)
    new = cut.apply(np.arange(PDAYS.size))
    n = len(cut.labels)
    assert new[31:].tolist() == [n, n + 1, n + 2]
    assert new[:31].max() == n - 1
    assert cut.names[n:] == ("never", "unknown")
    assert [cut.label(code) for code in range(n, cut.size)] == ["never", "unknown", None]
    assert cut.widths.tolist()[n:] == [1, 1, 1]
    assert cut.widths.sum() == PDAYS.size
    drawn = draw_inside(cut, np.arange(cut.size), fresh())
    assert cut.apply(drawn).tolist() == list(range(cut.size))


@pytest.mark.parametrize(
    ("column", "starts"),
    [
        (Integer(type="integer", low=0, high=60, bins="log"), [0, 1, 2, 5, 10, 20, 50]),
        (Integer(type="integer", low=-12, high=3, bins="log"), [0, 3, 8, 11, 12, 13, 14]),
        (Integer(type="integer", low=7, high=30, bins="log"), [0, 3, 13]),
        (Number(type="number", low=0, high=2, step=0.5, bins=1), [0, 2, 4]),
        (Number(type="number", low=0, high=2, step=0.5, bins=[0.5, 1.5]), [0, 1, 3]),
        (Date(type="date", low="2024-01-30", high="2024-03-02", bins="month"), [0, 2, 31]),
        (Date(type="date", low="2024-01-01", high="2024-01-10", bins=["2024-01-06"]), [0, 5]),
        (Date(type="date", low="2024-01-01", high="2024-12-01", step="month", bins=6), [0, 6]),
    ],
)  # fmt: skip
def test_bins_start_at_the_declared_values(column: Any, starts: list[int]) -> None:
    assert list(column.bin_starts) == starts
    bins = bins_of(column)
    assert bins is not None
    assert bins.size == len(starts) + column.n_special


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ({"bins": [3, 2]}, "must be in increasing order"),
        ({"bins": [50]}, "outside the range 0 to 30"),
        ({"bins": 0.5}, "grid"),
        ({"bins": "logarithmic"}, "bins"),
        ({"special": {1: "x", 2: "x"}}, "same name: x"),
        ({"special": {"x": 1.5}}, "special"),
        ({"special": {True: "x"}}, "not a number"),
    ],
)
def test_wrong_bins_and_special_values_name_the_column(column: dict[str, Any], said: str) -> None:
    whole = {"type": "integer", "low": 0, "high": 30}
    with pytest.raises(SchemaError, match=r"column 'x'") as error:
        Schema.from_dict({"name": "t", "columns": {"x": whole | column}})
    assert said in str(error.value)


def test_dates_have_the_taxonomy_of_the_calendar() -> None:
    day = Date(type="date", low="2023-11-15", high="2024-04-02")
    assert day.coarser == ("month", "quarter", "year")
    assert recode("d", day, "quarter").labels == ("2023-Q4", "2024-Q1", "2024-Q2")
    assert recode("d", day, "year").labels == ("2023", "2024")
    assert recode("d", day, "month").labels[:2] == ("2023-11", "2023-12")
    with pytest.raises(ParameterError, match="coarser"):
        recode("d", day, "week")


def cuts_of(column: Any, seed: int, n_rounds: int) -> Any:
    rng = np.random.default_rng(seed)
    histogram = rng.integers(0, 50, (column.size, 2))
    account = RunAccount(SpendingLimit(Fraction(10)))
    sealed = SealedCounts(histogram, Sensitivity(rows=1), account.root)
    schema = Schema(name="t", columns={"x": column})
    cuts = CutSet(schema, {"x": sealed}, make_score("max", histogram.sum(axis=0)))
    specialize_jointly(
        cuts, n_rounds=n_rounds, epsilon=Fraction(1), sensitivity=1, noise=SeededNoise(seed)
    )
    return cuts.recodings()["x"]


def test_diffgen_cuts_at_bins_and_splits_special_values_off() -> None:
    assert top("x", PDAYS).n_rounds == 2
    assert largest_gains(top("x", PDAYS), 9) == [4, 1]
    for seed in range(shifted(1), shifted(1) + 30):
        one, two = cuts_of(PDAYS, seed, 1), cuts_of(PDAYS, seed, 2)
        assert one.starts in ((0, 5), (0, 20))
        assert two.starts == (0, 5, 20)
        assert one.names[2:] == ("never", "unknown")
        assert two.size == 6


def test_diffgen_cuts_categories_along_their_order() -> None:
    values = ("none", "primary", "secondary", "tertiary", "doctoral")
    school = Categorical(type="categorical", values=values, ordered=True, missing="category")
    seen = set()
    for seed in range(shifted(2), shifted(2) + 60):
        found = cuts_of(school, seed, 1)
        seen.add(found.starts)
        assert found.size == 3  # two runs of neighbors, and missing
    assert seen == {(0, 1), (0, 2), (0, 3), (0, 4)}  # each has a probability of at least 5%
    flat = school.model_copy(update={"ordered": False})
    assert cuts_of(flat, 1, 1).size == 6


def test_partition_cuts_at_bins_and_splits_special_values_off() -> None:
    axis = axis_of("x", PDAYS)
    assert axis.size == 6
    assert axis.positions(np.array([0, 4, 5, 30, 31, 32, 33])).tolist() == [0, 0, 1, 2, 3, 4, 5]
    assert axis.codes_of(1, 2).tolist() == list(range(5, 31))
    assert axis.code_bounds(np.array([[0, 1], [3, 3], [2, 5]])).tolist() == [
        [0, 19], [31, 31], [20, 33],
    ]  # fmt: skip
    assert special_cuts([axis], 100) == [(0, 3), (0, 4), (0, 5)]
    assert special_cuts([axis] * 3, 20) == [(0, 3), (0, 4), (0, 5), (1, 3), (1, 4), (1, 5)]
    plain = Integer(type="integer", low=0, high=9, missing="category")
    assert special_cuts([axis_of("y", plain)], 100) == []


@pytest.mark.parametrize(
    ("columns", "most"),
    [
        ({"x": {"special": {90: "never"}}}, 4 + 1),
        ({"x": {"special": {90: "never", 91: "unknown"}, "missing": "category"}}, 4 + 3),
        ({"x": {"special": {90: "never", 91: "unknown"}}, "y": {}}, 3 * 4),
        ({"x": {"special": {90: "never"}}, "y": {"special": {90: "never"}}}, 3 * 4 + 1),
        ({"x": {"special": {90: "never"}, "high": 0}, "y": {"high": 1}}, 2 + 2),
        ({"x": {"missing": "category"}}, 4),
    ],
)
def test_a_forecast_of_regions_is_what_a_tree_without_tests_has(
    columns: dict[str, dict[str, Any]], most: int
) -> None:
    """Splits in the middle reach full depth wherever there are cells."""
    described = {
        name: {"type": "integer", "low": 0, "high": 7, **more} for name, more in columns.items()
    }
    schema = Schema.from_dict({"name": "t", "columns": described})
    plan = Partition(epsilon=1, max_depth=2, test_from=2, split="midpoint").plan(schema)
    table = pa.table({name: [0] * 9 for name in columns})
    noise = SeededNoise(shifted(1))
    released = plan.accounted(connect(table, schema, noise=noise), noise).released
    assert plan.forecast().lines["regions, at most"] == most
    assert released.tables["data"].num_rows == most


def test_quilt_counts_in_bins_and_never_merges_special_values() -> None:
    schema = Schema.from_dict({"name": "t", "columns": {"x": PDAYS.model_dump()}})
    (values,) = values_of(schema)
    assert (values.size, values.n_values) == (6, 3)
    buckets = values.buckets(np.array([1, 0, 900, 800, 0, 0]), 5.0)
    assert buckets[-3:].tolist() == [buckets[2] + 1, buckets[2] + 2, buckets[2] + 3]
    cut = values.bucket_recoding(buckets)
    assert cut is not None
    new = cut.apply(np.arange(PDAYS.size))
    assert set(new[:31]).isdisjoint(new[31:])
