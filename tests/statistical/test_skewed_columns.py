"""Skewed columns in wide cells: rows cluster at one end, and intervals are valid.

Such releases contain little information about these questions, so the intervals are wide; they must
still contain the truth. Coverage is far above 95%, because the unknown positions inside cells
outweigh the noise.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hushtable as ht
from hushtable.errors import Refused
from seeds import shifted

N = 900
DRAW = np.random.default_rng(9)
INCOME = np.minimum(DRAW.lognormal(3.2, 0.9, N).astype(int), 400)
SPENT = np.clip(np.round(0.2 * INCOME + DRAW.normal(0, 4, N)), 0, 60).astype(int)
GROUP = DRAW.choice(["A", "B", "C"], N, p=[0.6, 0.3, 0.1])
TABLE = pa.table({"income": INCOME, "spent": SPENT, "group": GROUP})
SCHEMA = ht.Schema.from_dict({
    "name": "skewed",
    "columns": {
        "income": {"type": "integer", "low": 0, "high": 400},
        "spent": {"type": "integer", "low": 0, "high": 60},
        "group": {"type": "categorical", "values": ["A", "B", "C"], "role": "target"},
    },
})  # fmt: skip
METHODS = [
    ht.DiffGen(epsilon=1, specializations=1),
    ht.NoisyCounts(
        epsilon=2, delta="1e-6", k=5, row_count_share="1/10",
        generalize={"income": [0, 20, 50], "spent": 20},
    ),
    ht.NoisyCounts(epsilon=1, mechanism="pure", generalize={"income": 401, "spent": 61}),
]  # fmt: skip


def mean_of_spent(frame: pa.Table) -> tuple[float, float]:
    values = frame["spent"].to_numpy()
    return float(values.mean()), float(values.var() / len(values))


@pytest.mark.parametrize("method", METHODS, ids=["diffgen", "suppressed", "cells"])
def test_answers_hold(tmp_path, method):
    noise = ht.SeededNoise(shifted(7))
    release = ht.publish(
        TABLE, SCHEMA, method, out=tmp_path / "r", rows=N, anyway=True, noise=noise
    )
    asked = {
        "mean": (release.mean("income"), INCOME.mean()),
        "mean in a group": (release.mean("income", "\"group\" = 'A'"), INCOME[GROUP == "A"].mean()),
        "quantile": (
            release.quantile("income", 0.9), np.quantile(INCOME, 0.9, method="inverted_cdf")
        ),
        "variance": (release.variance("spent"), SPENT.var()),
        "correlation": (release.correlation("income", "spent"), np.corrcoef(INCOME, SPENT)[0, 1]),
    }  # fmt: skip
    missed = {name: truth for name, (found, truth) in asked.items()
              if not found.low <= truth <= found.high}  # fmt: skip
    assert not missed


def test_rows_are_not_drawn_where_many_are_hidden(tmp_path):
    release = ht.publish(
        TABLE, SCHEMA, METHODS[1], out=tmp_path / "r", rows=N, noise=ht.SeededNoise(shifted(3))
    )
    with pytest.raises(Refused, match="combinations of few rows are not published"):
        release.combine(mean_of_spent)


def test_what_is_unknown_inside_cells_is_in_what_frames_say_together(tmp_path):
    """The half-width is 2.1 standard deviations; the truth is 1.6 from that of uniform cells."""
    held = 0
    for run in range(8):
        release = ht.publish(
            TABLE, SCHEMA, METHODS[2], out=tmp_path / f"{run}", anyway=True,
            noise=ht.SeededNoise(shifted(20 + run)),
        )  # fmt: skip
        found = release.combine(mean_of_spent, m=20, seed=shifted(run))
        held += found.low <= SPENT.mean() <= found.high
    assert held >= 3  # false alarm 1e-6; frames with rows spread evenly never cover the truth


def test_frames_of_many_empty_cells_are_where_people_are(tmp_path):
    """Most of 803 cells are empty; frames that kept their noise never covered the truth (0 of 12).

    With 95% each, fewer than 6 of 12 cover it once in two million times.
    """
    rng = np.random.default_rng(4)
    pay = np.minimum(rng.lognormal(3, 0.6, 3000).astype(int), 200)
    known = pa.array(pay, mask=rng.random(3000) < 0.2)
    table = pa.table({"spent": known, "group": rng.choice(["A", "B", "C"], 3000)})
    schema = ht.Schema.from_dict({
        "name": "sparse",
        "columns": {
            "spent": {"type": "integer", "low": 0, "high": 200, "missing": "category"},
            "group": {"type": "categorical", "values": ["A", "B", "C", "D"]},
        },
    })  # fmt: skip

    def mean_of_a(frame):
        values = frame.filter(pc.equal(frame["group"], "A"))["spent"].drop_null().to_numpy()
        return float(values.mean()), float(values.var() / len(values))

    held, truth = 0, mean_of_a(table)[0]
    for run in range(12):
        release = ht.publish(
            table, schema, ht.METHODS["contingency-table"](epsilon=1), out=tmp_path / f"{run}",
            noise=ht.SeededNoise(shifted(40 + run)),
        )  # fmt: skip
        found = release.combine(mean_of_a, seed=shifted(run))
        held += found.low <= truth <= found.high
    assert held >= 6
