"""Section 001 of the reference numbers, the part on tables, with checks of the samplers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from hushtable.kernels import EVEN_UNORDERED
from hushtable.kernels.split_scores import split_score
from hushtable.methods.partition.partition import Partition
from hushtable.methods.partition.tree import PartitionAxis
from hushtable.privacy.mechanisms.sealed_regions import OrderedCells
from hushtable.privacy.noise.sources import SecureNoise
from hushtable.schema import Schema
from sealing import grow

ALPHA = 1e-7
EPSILON = 1.0
SCHEMA = Schema.from_dict(
    {"name": "t", "columns": {
        "v": {"type": "categorical", "values": ["v0", "v1", "v2"], "ordered": True},
        "c": {"type": "categorical", "values": ["+", "-"], "role": "target"},
    }}
)  # fmt: skip


def quality(left: list[int], right: list[int], *, by_class: bool) -> Fraction:
    """Quality (2) or (3) from the score, which is twice as large."""
    x, y = np.array(left, np.int64), np.array(right, np.int64)
    return Fraction(int(split_score(x, x + y, by_class)), 2)


def softmax(scores: list[float], factor: float) -> list[float]:
    weights = [math.exp(factor * score) for score in scores]
    return [weight / sum(weights) for weight in weights]


def rows_of(counts: list[int]) -> OrderedCells:
    """Make rows of the example from counts of v0+, v0-, v1+, v1-, v2+, v2-."""
    cells = np.flatnonzero(counts)
    axis = PartitionAxis("v", None, 3, False)
    values = np.array(counts, np.int64)[cells]
    return OrderedCells([axis], [cells // 2], cells % 2, 2, values)


def test_quality_2(vectors: dict[str, Any]) -> None:
    assert quality([3], [7], by_class=False) == Fraction(vectors["001"]["quality2"]["r1=3,r2=7"])


def test_quality_3(vectors: dict[str, Any]) -> None:
    expected = vectors["001"]["quality3"]
    assert quality([1, 0], [0, 2], by_class=True) == Fraction(expected["x1=1,x2=0,y1=0,y2=2"])
    assert quality([0, 0], [0, 2], by_class=True) == Fraction(
        expected["after removing the + in R1"]
    )


def test_em_example(vectors: dict[str, Any]) -> None:
    paper, monotone = vectors["001"]["em_example"].values()
    assert softmax([2, 5, 1], 0.5) == pytest.approx([float(p) for p in paper], abs=1e-15)
    assert softmax([2, 5, 1], 1.0) == pytest.approx([float(p) for p in monotone], abs=1e-15)
    # The sampler has these probabilities: false alarm ALPHA per chi-square test.
    for is_monotone, expected in ((False, paper), (True, monotone)):
        drawn = np.bincount(
            [
                SecureNoise().choose(
                    [2, 5, 1], epsilon=Fraction(1), sensitivity=Fraction(1), monotone=is_monotone
                )
                for _ in range(5000)
            ],
            minlength=3,
        )
        wanted = 5000 * np.array([float(p) for p in expected])
        assert chi2.sf(((drawn - wanted) ** 2 / wanted).sum(), 2) > ALPHA


def test_q3_loss_example(vectors: dict[str, Any]) -> None:
    example = vectors["001"]["q3_loss_example"]
    base, neighbor = [3, 0, 0, 2, 0, 0], [3, 0, 0, 3, 0, 0]
    found = {}
    for name, counts in (("scores_base", base), ("scores_neighbour", neighbor)):
        whole = np.array([sum(counts[::2]), sum(counts[1::2])])
        where = slice(0, int(np.count_nonzero(counts)))
        scores, ways, starts = rows_of(counts).runs(
            0, (0, 2), where, whole=whole, quality=EVEN_UNORDERED
        )
        assert (ways.tolist(), starts.tolist()) == ([1, 1], [1, 2])
        found[name] = [score / 2 for score in scores.tolist()]
        assert found[name] == [float(score) for score in example[name]]
    for key, factor in (("as printed exp(q), eps=1", 1.0), ("corrected exp(2q/3), eps=1", 2 / 3)):
        one, two = (softmax(found[name], factor) for name in found)
        assert one == pytest.approx([float(p) for p in example[key]["P_base"]], abs=1e-15)
        assert two == pytest.approx([float(p) for p in example[key]["P_with_record"]], abs=1e-15)
        loss = max(abs(math.log(p / q)) for p, q in zip(one, two, strict=True))
        assert loss == pytest.approx(float(example[key]["loss"]), abs=1e-13)
        assert (loss <= EPSILON) == key.startswith("corrected")


@pytest.mark.parametrize(
    ("counts", "key"), [([3, 0, 0, 2, 0, 0], "P_base"), ([3, 0, 0, 3, 0, 0], "P_with_record")]
)
def test_the_method_splits_with_the_corrected_probabilities(
    counts: list[int], key: str, vectors: dict[str, Any]
) -> None:
    """Run the tree itself, one level with budget 1; false alarm ALPHA."""
    corrected = vectors["001"]["q3_loss_example"]["corrected exp(2q/3), eps=1"][key]
    rules = Partition(epsilon=2, max_depth=1, test_from=1, column_share=0).plan(SCHEMA).rules
    assert rules.split_budget(0) == 1
    noise, n_runs = SecureNoise(), 4000
    cuts = [grow(rows_of(counts), rules, noise)[0].cut[0] for _ in range(n_runs)]
    drawn = np.bincount(np.array(cuts) - 1, minlength=2)
    wanted = n_runs * np.array([float(p) for p in corrected])
    assert chi2.sf(((drawn - wanted) ** 2 / wanted).sum(), 1) > ALPHA
