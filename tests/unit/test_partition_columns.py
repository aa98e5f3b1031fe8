"""One-way counts in addition to the regions of a partition: cost and use."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hushtable.engine import connect
from hushtable.engine.sealed_table import seal
from hushtable.methods.partition.estimator import (
    ColumnBounds,
    CountBounds,
    RegionEstimator,
    part_overlaps,
)
from hushtable.methods.partition.partition import Partition
from hushtable.methods.partition.region_table import LEVELS, ColumnParts, read_columns
from hushtable.methods.partition.tree import PartitionAxis, axis_of
from hushtable.methods.registry import estimator_for
from hushtable.privacy.accounting.run_account import RunAccount, SpendingLimit
from hushtable.privacy.noise.sources import SecureNoise
from hushtable.query.where import parse
from hushtable.schema import Schema
from seeds import shifted

SCHEMA = Schema.from_dict(
    {"name": "t", "columns": {
        "pay": {"type": "integer", "low": 0, "high": 9999, "missing": "category"},
        "age": {"type": "integer", "low": 0, "high": 99, "bins": [18, 30, 50, 70]},
        "job": {"type": "categorical", "values": ["a", "b", "c", "d"]},
        "won": {"type": "categorical", "values": ["no", "yes"], "role": "target"},
    }}
)  # fmt: skip


def rows(n: int, seed: int = 1) -> pa.Table:
    """Make rows that mostly pay nothing, which regions alone cannot show."""
    rng = np.random.default_rng(shifted(seed))
    pay = np.where(rng.random(n) < 0.8, 0, rng.integers(0, 10_000, n))
    return pa.table({
        "pay": pay, "age": rng.integers(0, 100, n),
        "job": rng.choice(["a", "b", "c", "d"], n, p=[0.7, 0.1, 0.1, 0.1]),
        "won": rng.choice(["no", "yes"], n),
    })  # fmt: skip


def published(method: Partition, table: pa.Table) -> RegionEstimator:
    released = method.run(connect(table, SCHEMA), SecureNoise())
    made = estimator_for(
        {"kind": "regions", **released.settings}, SCHEMA, method.parameters(), released.tables
    )
    assert isinstance(made, RegionEstimator)
    return made


# --- cost -----------------------------------------------------------------------------------------


def test_all_columns_and_the_tree_together_spend_epsilon_and_no_more() -> None:
    """Every path through every column's tree costs its share; the account adds them up."""
    plan = Partition(epsilon=1, max_depth=3, column_share="1/4").plan(SCHEMA)
    account = RunAccount(SpendingLimit(Fraction(1)))
    plan.release(seal(connect(rows(500), SCHEMA), account), SecureNoise())
    assert account.spent().epsilon == 1
    paid: dict[str, set[Fraction | None]] = {}
    for opening in account.records:
        if opening.what.startswith("counts of column"):
            assert opening.cost is not None
            paid.setdefault(opening.what, set()).add(opening.cost.epsilon)
    # A column of up to 32 codes spends all on counts, a longer one up to half on cuts.
    long = paid.pop("counts of column 'pay'")
    assert long <= {Fraction(1, 32) + Fraction(left, 160) for left in range(6)}
    assert list(paid.values()) == [{Fraction(1, 16)}] * 3


def test_a_column_that_forgets_its_cuts_is_not_published(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts with noise for a column's whole share, after the cuts used half of it."""
    from hushtable.errors import SealedError
    from hushtable.methods.partition import region_table

    real = region_table.grow

    def forgetful(*given: Any) -> Any:
        tree, leaves = real(*given)
        tree.epsilon = [given[2].epsilon] * len(tree.epsilon)
        return tree, leaves

    monkeypatch.setattr(region_table, "grow", forgetful)
    with pytest.raises(SealedError):
        Partition(epsilon=1, max_depth=3).run(connect(rows(500), SCHEMA), SecureNoise())


def test_short_columns_are_counted_code_by_code_and_long_ones_in_32_parts() -> None:
    released = Partition(epsilon=1).run(connect(rows(2000), SCHEMA), SecureNoise())
    found = read_columns(
        released.tables["columns"],
        [axis_of(name, column) for name, column in SCHEMA.attributes.items()],
        2000.0,
    )
    n_parts = {name: len(one.parts) for name, one in found.items()}
    # A part with a single value is not split further.
    assert 1 << (LEVELS - 1) < n_parts.pop("pay") <= 1 << LEVELS
    assert n_parts == {"age": 5, "job": 4, "won": 2}
    widths = found["pay"].parts[:, 1] - found["pay"].parts[:, 0] + 1
    assert widths.sum() == 10_001  # missing is one more


def test_without_a_share_nothing_is_counted_or_paid() -> None:
    method = Partition(epsilon=1, column_share=0)
    assert "counts of columns" not in method.forecast(SCHEMA).split
    released = method.run(connect(rows(300), SCHEMA), SecureNoise())
    assert set(released.tables) == {"data", "tree"}


# --- use ------------------------------------------------------------------------------------------


def exact(table: pa.Table) -> ColumnBounds:
    """Return one-way counts with almost no noise, and cuts from the schema alone."""
    engine = connect(table, SCHEMA, engine="memory")
    counted, n = {}, float(table.num_rows)
    for name, column in SCHEMA.attributes.items():
        axis = axis_of(name, column)
        places = axis.positions(engine.codes([name])[name])  # type: ignore[attr-defined]
        if axis.subsets:
            parts = np.stack((1 << np.arange(axis.size), np.zeros(axis.size, int)), axis=1)
            counts = np.bincount(places, minlength=axis.size)
        else:
            starts = np.arange(0, axis.size, max(1, axis.size // 32))
            parts = np.stack((starts, np.append(starts[1:], axis.size) - 1), axis=1)
            which = np.searchsorted(starts, places, side="right") - 1
            counts = np.bincount(which, minlength=len(starts))
        scales = np.full(len(parts), 0.02)
        counted[name] = ColumnParts(axis, parts, counts.astype(float), scales, n)
    return ColumnBounds(SCHEMA, counted, CountBounds(n, n))


@pytest.mark.parametrize(
    "where",
    [
        "pay = 0", "pay BETWEEN 100 AND 4000", "NOT job = 'a'", "age < 50 AND job = 'a'",
        "job = 'a' OR pay > 7", "age >= 50 AND job IN ('a', 'b') AND won = 'yes'", "pay < age",
        "job = 'a' AND (pay > 10 OR age < 30)", "(pay > 5 OR age < 9) AND (age > 3 OR job = 'b')",
        "NOT (age < 50 AND job = 'a')", "pay IS NULL OR won = 'no'", "TRUE",
    ],
)  # fmt: skip
def test_bounds_hold_for_every_table_whatever_the_columns_have_to_do_with_each_other(
    where: str,
) -> None:
    """Frechet's bounds need no assumption: with exact counts they must hold, always."""
    rng = np.random.default_rng(shifted(3))
    for seed in range(6):
        table = rows(200, seed)
        if seed % 2:  # the strongest possible dependence between columns
            order = np.argsort(table["pay"].to_numpy() + rng.random(200))
            table = table.take(order).set_column(1, "age", pa.array(np.sort(table["age"])))
        predicate = parse(where, SCHEMA)
        engine = connect(table, SCHEMA, engine="memory")
        codes = engine.codes(list(SCHEMA.attributes))  # type: ignore[attr-defined]
        truth = int(predicate.mask(codes).sum())
        bounds = exact(table).of(predicate.formula)
        assert bounds.low - 1 <= truth <= bounds.high + 1  # half a step of tolerance for noise


def test_conditions_on_one_column_are_as_narrow_as_its_noise() -> None:
    """Regions alone do not show positions inside a region; 80% of the rows pay nothing."""
    table = rows(20_000)
    new, old = (
        published(Partition(epsilon=2, max_depth=2, column_share=s), table) for s in ("1/4", 0)
    )
    for where, share in (("job = 'a'", 0.7), ("job IN ('b', 'c')", 0.2), ("age < 30", 0.3)):
        answer = new.count(where)
        # Noise of three parts of scale 8 at most, far below a tenth of the rows.
        assert answer.high - answer.low < 2000
        assert answer.value == pytest.approx(share * 20_000, abs=1500)
    both = "job = 'b' AND pay > 2000"
    assert new.count(both).high < 2600  # no more than have job b, a tenth
    assert new.count(both).high - new.count(both).low < old.count(both).high - old.count(both).low


def test_rows_lie_along_a_column_as_its_counts_say() -> None:
    """At depth 1 no split is on job, but its rows are not uniform."""
    frame = published(Partition(epsilon=20, max_depth=1, test_from=1), rows(20_000)).frame()
    jobs = np.array(frame["job"].to_pylist())
    assert (jobs == "a").mean() == pytest.approx(0.7, abs=0.03)
    pay = np.array([value or 0 for value in frame["pay"].to_pylist()])
    assert (pay < 400).mean() > 0.75


def test_pieces_of_parts_share_out_codes_and_rows() -> None:
    axis = PartitionAxis("x", None, 10, False)
    noisy = np.array([30.0, -5.0])
    counted = ColumnParts(axis, np.array([[0, 3], [4, 9]]), noisy, np.full(2, 1.0), 25.0)
    pieces = part_overlaps(counted, np.array([[0, 9], [2, 5], [6, 7]]))
    assert pieces.owner.tolist() == [0, 0, 1, 1, 2]
    assert pieces.first.tolist() == [0, 4, 2, 4, 6]
    assert pieces.last.tolist() == [3, 9, 3, 5, 7]
    # A negative noisy count means no rows; a part without rows is uniform.
    assert pieces.weight.tolist() == [1.0, 0.0, 1.0, 0.0, 1.0]


def test_noise_of_empty_parts_is_no_rows() -> None:
    """Projection to feasible counts never increases the distance from the true ones."""
    axis, true = PartitionAxis("x", None, 32, False), np.where(np.arange(32) == 7, 2000.0, 0.0)
    noisy = true + np.random.default_rng(shifted(3)).laplace(scale=50.0, size=32)
    parts = np.stack((np.arange(32), np.arange(32)), axis=1)
    rows = ColumnParts(axis, parts, noisy, np.full(32, 50.0), 2000.0).rows
    assert rows.sum() == pytest.approx(2000.0)
    assert rows.min() >= 0.0
    assert np.square(rows - true).sum() <= np.square(noisy - true).sum()
