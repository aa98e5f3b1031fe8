"""Random choices of the method columns, and the coverage of its intervals.

Each test fails by chance with probability below 1e-6.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom, chi2

from hushtable import Columns, Schema, SecureNoise
from hushtable.engine import connect
from hushtable.engine.baskets import ItemColumns, keep_some
from hushtable.methods.counts.columns_estimator import ColumnsEstimator
from seeds import shifted

ALPHA = 1e-7


def test_every_part_of_a_persons_columns_is_equally_likely() -> None:
    # 6,000 owners of 4 places keep 2: the 6 pairs are multinomial with probabilities 1/6.
    owners = np.repeat(np.arange(6000), 4)
    kept = keep_some(owners, 2, SecureNoise())
    assert np.bincount(owners[kept]).tolist() == [2] * 6000
    pairs = (kept % 4).reshape(-1, 2) @ [10, 1]
    counts = np.array([np.count_nonzero(pairs == p) for p in (1, 2, 3, 12, 13, 23)])
    assert counts.sum() == 6000
    assert ((counts - 1000) ** 2 / 1000).sum() < chi2.ppf(1 - ALPHA, 5)


def test_owners_choose_independently() -> None:
    owners = np.repeat(np.arange(4000), 2)
    first = keep_some(owners, 1, SecureNoise()) % 2 == 0
    agree = int(np.count_nonzero(first[::2] == first[1::2]))
    assert binom.ppf(ALPHA, 2000, 0.5) <= agree <= binom.ppf(1 - ALPHA, 2000, 0.5)


def _table(rows: int = 3000) -> tuple[pa.Table, Schema]:
    draw = np.random.default_rng(shifted(12))
    a = draw.integers(0, 3, rows)
    b = (a + (draw.random(rows) < 0.3)) % 3
    c = [None if x < 0.6 else int(x * 10) % 3 for x in draw.random(rows)]
    column = {"type": "integer", "low": 0, "high": 2}
    schema = Schema.from_dict(
        {"name": "t", "columns": {"a": column, "b": column,
                                  "c": {**column, "missing": "category"}}}
    )  # fmt: skip
    return pa.table({"a": a, "b": b, "c": pa.array(c, pa.int64())}), schema


def _coverage(method: Columns, questions: dict[str, int], runs: int) -> dict[str, int]:
    table, schema = _table()
    engine, noise = connect(table, schema), SecureNoise()
    held = dict.fromkeys(questions, 0)
    for _ in range(runs):
        released = method.run(engine, noise)
        reader = ColumnsEstimator(schema, method.parameters(), released.settings, released.tables)
        for where, true in questions.items():
            estimate = reader.count(where)
            held[where] += estimate.low <= true <= estimate.high
    return held


@pytest.mark.parametrize(
    ("columns", "max_columns"),
    [
        pytest.param([["a", "b"], ["c"]], 2, marks=pytest.mark.long),  # and "a" besides: the next
        ([["a", "b"], ["a"], ["c"]], 3),
        ([["a", "b"], ["c"], ["b"]], 2),
    ],
)
def test_intervals_hold_the_truth(columns: list[list[str]], max_columns: int) -> None:
    table, _ = _table()
    a, b = table["a"].to_numpy(), table["b"].to_numpy()
    c = np.array([-1 if v is None else v for v in table["c"].to_pylist()])
    questions = {
        "a = 1": int(np.sum(a == 1)),
        "a = 1 AND b = 1": int(np.sum((a == 1) & (b == 1))),
        "c = 2": int(np.sum(c == 2)),
        "c IS NULL": int(np.sum(c == -1)),
        "a = 1 AND c = 2": int(np.sum((a == 1) & (c == 2))),
        "a = 1 OR c IS NULL": int(np.sum((a == 1) | (c == -1))),
    }
    runs = 100
    least = binom.ppf(ALPHA, runs, 0.95)
    method = Columns(
        epsilon=2, delta="1e-4", k=5, count_share="1/5", columns=columns, max_columns=max_columns
    )
    for where, hits in _coverage(method, questions, runs).items():
        assert hits >= least, (where, hits)


def test_sampled_columns_of_complete_rows_are_scaled_up_honestly() -> None:
    table, _ = _table()
    a, b = table["a"].to_numpy(), table["b"].to_numpy()
    method = Columns(epsilon=2, delta="1e-4", k=5, count_share="1/5", max_columns=1,
                     columns=[["a", "b"], ["b"]])  # fmt: skip
    questions = {"b = 2": int(np.sum(b == 2)), "a = 0": int(np.sum(a == 0)), "TRUE": len(a)}
    runs = 150
    for where, hits in _coverage(method, questions, runs).items():
        assert hits >= binom.ppf(ALPHA, runs, 0.95), (where, hits)


def test_columns_of_real_ratings(shared_data: Path) -> None:
    """Compare the engine with a plain count on MovieLens 100k."""
    rows = np.loadtxt(shared_data / "ratings" / "ml-100k_u.data.gz", dtype=np.int64)[:, :3]
    items = [str(i) for i in range(1, 1683)]
    schema = Schema.from_dict(
        {
            "name": "ml-100k",
            "unit": {"kind": "person", "column": "user", "max_rows": 1682},
            "columns": {
                "user": {"role": "identifier"},
                "movie": {"type": "categorical", "values": items},
                "rating": {"type": "integer", "low": 1, "high": 5},
            },
        }
    )
    table = pa.table({"user": rows[:, 0], "movie": rows[:, 1].astype(str), "rating": rows[:, 2]})
    group = [49, 99, 180, 257]
    expected: dict[tuple[tuple[int, int], ...], int] = {}
    for user in np.unique(rows[:, 0]):
        mine = rows[(rows[:, 0] == user) & np.isin(rows[:, 1] - 1, group)]
        held = tuple(sorted((int(m) - 1, int(r) - 1) for _, m, r in mine))
        if held:
            expected[held] = expected.get(held, 0) + 1
    for engine in ("memory", "duckdb"):
        answer = connect(table, schema, engine=engine).tuples(  # type: ignore[arg-type]
            [group], max_groups=1, item_columns=ItemColumns("movie", "rating")
        )
        elements = list(zip(answer.items.tolist(), answer.values.tolist(), strict=True))
        bounds = zip(answer.starts.tolist(), answer.starts.tolist()[1:], strict=False)
        listed = [tuple(elements[a:b]) for a, b in bounds]
        assert dict(zip(listed, answer.counts.tolist(), strict=True)) == expected
