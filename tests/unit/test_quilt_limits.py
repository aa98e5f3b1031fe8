"""Limits of answers about three columns of which only pairs were measured."""

from __future__ import annotations

from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from hushtable.errors import Refused
from hushtable.methods.quilt.estimator import QuiltEstimator
from hushtable.methods.quilt.limits import untested_limits
from hushtable.query.answers.combine import combine, drawn_frame, require_measured
from hushtable.query.answers.questions import ReleaseQuestions
from hushtable.query.answers.row_sums import RowFunction, SumEstimates
from hushtable.schema import Schema
from seeds import shifted

N = 2000
SCHEMA = Schema.from_dict(
    {
        "name": "bits",
        "columns": {
            **{name: {"type": "categorical", "values": ["no", "yes"]} for name in "aby"},
            "x": {"type": "integer", "low": 0, "high": 9},
        },
    }
)
PAIRS = [("a", "b"), ("a", "y"), ("b", "y"), ("a", "x"), ("b", "x"), ("x", "y")]

Ints = NDArray[np.int64]


def codes(seed: int = 0) -> dict[str, Ints]:
    """Return rows with y = a xor b, and x high where y is 1; all pairs of bits are independent."""
    rng = np.random.default_rng(shifted(seed))
    a, b = rng.permutation(np.arange(N) % 2), rng.integers(0, 2, N)
    y = a ^ b
    return {"a": a, "b": b, "y": y, "x": np.clip(5 * y + rng.integers(0, 6, N), 0, 9)}


def release(rows: dict[str, Ints], std: float, seed: int = 0) -> QuiltEstimator:
    """Return a release of noisy pairs; its synthetic rows do not have the triples of `rows`."""
    rng = np.random.default_rng(shifted(seed))
    sizes = {"a": 2, "b": 2, "y": 2, "x": 10}
    tables, counts = [], []
    for columns in (*((name,) for name in sizes), *PAIRS):
        shape = [sizes[name] for name in columns]
        flat = np.ravel_multi_index(tuple(rows[name] for name in columns), shape)
        counts.append(
            np.bincount(flat, minlength=int(np.prod(shape))) + rng.normal(0, std, np.prod(shape))
        )
        tables.append(
            {"columns": list(columns), "shape": shape, "std": std, "cells": [None] * len(columns)}
        )
    # The model of pairs of bits is independence; x depends on y only.
    order = rng.permutation(N)
    made = {**rows, "a": rows["a"][order], "b": rng.permutation(rows["b"])}
    settings = {
        "columns": {name: {"bins": None} for name in sizes},
        "tables": tables,
        "noise": "gaussian",
        "total_std": 1.0,
        "rounds": [],
        "fit": {"shrinkage": 1.0},
    }
    frame = {n: np.array(["no", "yes"])[c] if n != "x" else c for n, c in made.items()}
    buckets = [(i, k) for i, size in enumerate(sizes.values()) for k in range(size)]
    return QuiltEstimator(
        SCHEMA,
        {},
        settings,
        {
            "data": pa.table(frame),
            "measured": pa.table({"count": np.concatenate(counts)}),
            "buckets": pa.table(
                {"column": [i for i, _ in buckets], "bucket": [k for _, k in buckets]}
            ),
        },
    )


def test_an_exclusive_or_is_inside_the_limits_and_marked_as_untested() -> None:
    """Each of 8 cells is at an end of its limits: empty, or a quarter of the rows."""
    held = []
    for seed in range(6):
        rows = codes(seed)
        made = release(rows, 8.0, seed)
        for a, b, y in product(["no", "yes"], repeat=3):
            answer = made.count(f"a = '{a}' AND b = '{b}' AND y = '{y}'")
            true = np.all(
                [rows[n] == (v == "yes") for n, v in zip("aby", (a, b, y), strict=True)], axis=0
            )
            held.append(answer.low <= true.sum() <= answer.high)
            assert answer.support == "untested"
            assert answer.std is None
            assert answer.high < 0.36 * N  # a quarter, and noise
            assert "nothing tested" in answer.notes[0]
    # In 60 repetitions with other seeds, the mean share was 0.995, the smallest 0.979.
    assert np.mean(held) >= 0.9


def test_pairs_are_not_called_untested() -> None:
    made = release(codes(), 8.0)
    assert made.count("a = 'no' AND y = 'yes'").support == "measured"


def test_the_order_of_columns_does_not_change_an_answer() -> None:
    made, parts = release(codes(), 8.0), ["a = 'no'", "b = 'yes'", "x BETWEEN 2 AND 7"]
    one, other = (made.count(" AND ".join(order)) for order in (parts, parts[::-1]))
    assert (one.value, one.low, one.high) == (other.value, other.low, other.high)


def test_means_over_untested_groups_allow_for_the_limits() -> None:
    """The mean of x where a and b differ is 7.5, the model's is 5: no pair shows it."""
    for seed in range(4):
        rows = codes(seed)
        answers = ReleaseQuestions(release(rows, 8.0, seed))
        found = answers.statistic("mean", "x", "a = 'no' AND b = 'yes'", (), "people")
        there = (rows["a"] == 0) & (rows["b"] == 1)
        assert found.low <= rows["x"][there].mean() <= found.high  # type: ignore[union-attr]
        assert found.support == "untested"  # type: ignore[union-attr]


def exact(rows: dict[str, Ints], functions: list[RowFunction]) -> SumEstimates:
    values = np.array([float(one.values(rows).sum()) for one in functions])
    zero = np.zeros((len(values), len(values)))
    return SumEstimates(values, zero, zero)


def test_limits_of_conditions_are_sharp() -> None:
    """Without noise, moving rows along the interaction of 2 x 2 x 2 cells reaches both ends."""
    rng = np.random.default_rng(shifted(0))
    sign = np.array([[[1, -1], [-1, 1]], [[-1, 1], [1, -1]]])
    for _ in range(20):
        counts = rng.multinomial(500, rng.dirichlet(np.ones(8))).reshape(2, 2, 2)
        cells = np.indices((2, 2, 2)).reshape(3, -1)
        rows = {n: np.repeat(cells[i], counts.ravel()) for i, n in enumerate("aby")}
        function = RowFunction({name: np.array([0.0, 1.0]) for name in "aby"})
        _, limits = untested_limits(
            [function],
            rows,
            np.ones(500),
            lambda asked, r=rows: exact(r, list(asked)),
            together=True,
        )
        moved = [counts + k * sign for k in range(-500, 501)]
        possible = [int(one[1, 1, 1]) for one in moved if one.min() >= 0]
        assert limits[:, 0].tolist() == pytest.approx([min(possible), max(possible)])


def test_combining_refuses_what_frames_cannot_show() -> None:
    made = release(codes(), 8.0)
    rng = np.random.default_rng(shifted(0))
    frames = [drawn_frame(made, rng) for _ in range(3)]

    def both(*names: str) -> object:
        def compute(frame: pa.Table) -> tuple[float, float]:
            held = np.all([frame[n].to_numpy() == "yes" for n in names], axis=0)
            return float(held.mean()), float(held.var() / len(held))

        return compute

    require_measured(frames[0], both("a", "y"), made.is_measured, rng)  # type: ignore[arg-type]
    assert combine(frames, both("a", "y"), scope="people").low > 0  # type: ignore[union-attr, arg-type]
    with pytest.raises(Refused, match="joint distribution of a, b, y"):
        require_measured(frames[0], both("a", "b", "y"), made.is_measured, rng)  # type: ignore[arg-type]
