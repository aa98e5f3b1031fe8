"""Tables that add up: equal sums, close to the estimates, whole numbers, readable formats."""

from __future__ import annotations

import csv
import io
import json
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hushtable.errors import ParameterError
from hushtable.methods.quilt.quilt import Quilt
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.publishing.publish import publish
from hushtable.query.answers.additive import (
    TOTAL,
    AdditiveTable,
    AdditiveTables,
    least_squares,
    rounded,
)
from hushtable.release.release import Release
from hushtable.schema import Schema
from seeds import shifted

REGIONS = ("N1", "N2", "S1", "S2", "S3")
N = 3000


@pytest.fixture(scope="module")
def private() -> pa.Table:
    rng = np.random.default_rng(shifted(1))
    region = rng.choice(5, N, p=[0.4, 0.3, 0.2, 0.08, 0.02])
    work = np.where(rng.random(N) < 0.2 + 0.1 * region, "yes", "no")
    return pa.table({
        "region": np.array(REGIONS)[region], "work": work, "age": rng.integers(0, 4, N),
    })  # fmt: skip


@pytest.fixture(scope="module")
def release(private: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Release:
    nuts = {"all": {"North": ["N1", "N2"], "South": ["S1", "S2", "S3"]}}
    schema = Schema.from_dict({
        "name": "register",
        "columns": {
            "region": {"type": "categorical", "values": list(REGIONS), "taxonomy": nuts},
            "work": {"type": "categorical", "values": ["no", "yes"]},
            "age": {"type": "integer", "low": 0, "high": 3},
        },
    })  # fmt: skip
    method = Quilt(epsilon=1, delta="1e-6", particles=10_000)
    folder = tmp_path_factory.mktemp("tables") / "seeded-out"
    return publish(private, schema, method, out=folder, noise=SeededNoise(shifted(2)))


@pytest.fixture(scope="module")
def found(release: Release) -> AdditiveTables:
    return release.tables(["region", "work"], ["age", "region"])


def count(table: AdditiveTable, **labels: str) -> int:
    places = [
        [one.label for one in several].index(labels.get(column, "Total"))
        for column, several in zip(table.columns, table.categories, strict=True)
    ]
    return int(table.counts[tuple(places)])


def test_cells_margins_and_levels_add_up_to_the_last_digit(found: AdditiveTables) -> None:
    work, age = found.tables
    for table in found.tables:
        assert table.counts.dtype == np.int64
        assert table.counts.min() >= 0
        for axis, several in enumerate(table.categories):
            values = [at for at, one in enumerate(several) if one.is_value]
            for at, one in enumerate(several):
                parts = [v for v in values if several[v].codes @ one.codes]
                sums = table.counts.take(parts, axis).sum(axis=axis)
                assert (table.counts.take(at, axis) == sums).all()
    for region in (*REGIONS, "North", "South", "Total"):
        assert count(work, region=region) == count(age, region=region)
    assert count(work, region="North") + count(work, region="South") == count(work)


def test_counts_are_close_to_the_estimates_and_to_the_truth(
    found: AdditiveTables, release: Release, private: pa.Table
) -> None:
    """An interval contains the published count, and the one of the same question asked alone."""
    frame = private.to_pandas()
    table = found.tables[0]
    held = []
    for region, work in product(REGIONS, ("no", "yes")):
        alone = release.count(f"region = '{region}' AND work = '{work}'")
        mine = count(table, region=region, work=work)
        assert abs(mine - alone.value) < 4 * alone.std + 2
        truth = int(((frame.region == region) & (frame.work == work)).sum())
        assert abs(mine - truth) < 6 * alone.std + 2
        held.append(alone.low <= truth <= alone.high)
    assert sum(held) >= 6
    assert (table.low <= table.counts).all()
    assert (table.counts <= table.high).all()
    assert found.rounding < 3


def test_least_squares_is_no_worse_than_the_margins_alone() -> None:
    """Errors of all margins of 40 tables together are at most 1.05 times the unadjusted ones."""
    rng = np.random.default_rng(shifted(3))
    before, after = np.zeros(4), np.zeros(4)
    for _ in range(40):
        truth = rng.gamma(1, 30, (8, 4))
        measured = {}
        for kept, variance in (((), 9.0), ((0,), 30.0), ((1,), 30.0), ((0, 1), 90.0)):
            margin = truth.sum(axis=tuple(at for at in (0, 1) if at not in kept))
            measured[kept] = (margin + rng.normal(0, variance**0.5, margin.shape), variance)
        table = rounded(least_squares(np.full((8, 4), 30.0), measured), [*measured])
        for place, (kept, (counts, _)) in enumerate(measured.items()):
            axes = tuple(at for at in (0, 1) if at not in kept)
            before[place] += np.mean((counts - truth.sum(axis=axes)) ** 2)
            after[place] += np.mean((table.sum(axis=axes) - truth.sum(axis=axes)) ** 2)
    assert (after <= 1.05**2 * before + 40).all()  # rounding adds less than 1 per count
    assert after[3] < 0.8 * before[3]


def test_json_stat_and_sdmx_have_the_same_counts(found: AdditiveTables, tmp_path: Path) -> None:
    """Structure by the JSON-stat 2.0 and SDMX-CSV 2.0 specifications."""
    found.export(tmp_path / "seeded.json")
    plain = json.loads((tmp_path / "seeded.json").read_text())
    assert (plain["version"], plain["class"]) == ("2.0", "collection")
    for part, table in zip(plain["link"]["item"], found.tables, strict=True):
        assert part["id"] == [*table.columns, "measure"]
        assert part["size"] == [len(part["dimension"][c]["category"]["index"]) for c in part["id"]]
        assert len(part["value"]) == np.prod(part["size"])
        assert part["value"][::3] == table.counts.ravel().tolist()
        for name in table.columns:
            category = part["dimension"][name]["category"]
            assert set(category["label"]) == set(category["index"])
            assert len(set(category["index"])) == len(category["index"])
            children = {child for several in category["child"].values() for child in several}
            assert children <= set(category["index"])
    rows = list(csv.DictReader(io.StringIO(found.to_sdmx_csv())))
    assert list(rows[0])[:3] == ["STRUCTURE", "STRUCTURE_ID", "ACTION"]
    keys = [(row["REGION"], row["WORK"], row["AGE"]) for row in rows]
    assert len(set(keys)) == len(keys)
    by_key = dict(zip(keys, (int(row["OBS_VALUE"]) for row in rows), strict=True))
    assert by_key["North", TOTAL, TOTAL] == count(found.tables[0], region="North")
    assert by_key["S1", TOTAL, "2"] == count(found.tables[1], region="S1", age="2")


def test_unknown_columns_and_too_large_tables_are_refused(release: Release) -> None:
    with pytest.raises(ParameterError, match="'income' is not a published column"):
        release.tables(["income"])
    with pytest.raises(ParameterError, match="each column once"):
        release.tables(["age", "age"])
    with pytest.raises(ParameterError, match="must end in"):
        release.tables(["age"]).export("table.txt")
