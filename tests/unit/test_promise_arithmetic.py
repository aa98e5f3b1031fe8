"""Arithmetic of promises: half or twice of any number fails here.

Every number is derived again from the proofs, without calling the tested code.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from hushtable.arrays import Bools, Integers
from hushtable.engine import connect
from hushtable.methods import AlphaBeta, Columns, Uncertain
from hushtable.methods.counts.noisy_counts import delta_per_row
from hushtable.methods.uncertain.grid import NoiseGrid
from hushtable.methods.uncertain.noise_levels import (
    CONFIDENCE_SHARE,
    CoverCheck,
    LevelFinder,
    NoiseLevel,
)
from hushtable.privacy.guarantee import PureDP
from hushtable.privacy.mechanisms.tuple_perturbation import (
    SourceInsertions,
    TupleSet,
    UniformInsertions,
)
from hushtable.privacy.noise.sources import SecureNoise, SeededNoise
from hushtable.schema import Schema
from seeds import shifted

HALF, THIRD = Fraction(1, 2), Fraction(1, 3)


def schema(columns: dict[str, Any], *, max_rows: int = 1) -> Schema:
    content: dict[str, Any] = {"name": "t", "columns": columns}
    if max_rows > 1:
        content["unit"] = {"kind": "person", "column": "who", "max_rows": max_rows}
        content["columns"] = {"who": {"role": "identifier"}, **columns}
    return Schema.from_dict(content)


def whole(n: int, **more: Any) -> dict[str, Any]:
    return {"type": "integer", "low": 0, "high": n - 1, **more}


# --- alpha-beta -----------------------------------------------------------------------------------


class Listening(SecureNoise):
    """Noise that records the probabilities of Bernoulli draws."""

    def __init__(self) -> None:
        self.chances: list[Fraction] = []
        self.exponents: list[Fraction] = []

    def bernoulli(self, p: Fraction, *, size: int) -> Bools:
        self.chances.append(p)
        return super().bernoulli(p, size=size)

    def bernoulli_exp(self, x: Fraction, *, size: int) -> Bools:
        self.exponents.append(x)
        return super().bernoulli_exp(x, size=size)


@pytest.mark.parametrize("max_rows", [1, 3])
def test_the_epsilon_of_alpha_and_beta(max_rows: int) -> None:
    """rastogi-2007-4: the larger of ln(keep / insert) and ln((1 - insert) / (1 - keep))."""
    public = schema({"x": whole(10)}, max_rows=max_rows)
    for alpha, beta in (("2/5", "1/10"), ("4/5", "1/10")):
        keep, insert = Fraction(alpha) + Fraction(beta), Fraction(beta)
        plan = AlphaBeta(alpha=alpha, beta=beta).plan(public)
        assert isinstance(plan.noise, UniformInsertions)
        assert (plan.noise.alpha, plan.noise.beta) == (keep - insert, insert)
        loss = max(math.log(keep / insert), math.log((1 - insert) / (1 - keep)))
        assert float(plan.epsilon) == pytest.approx(max_rows * loss, rel=1e-5)
        assert float(plan.epsilon) >= max_rows * loss * (1 - 1e-12)


def test_the_epsilon_of_several_views() -> None:
    """A row may determine in which view its tuple is new: one tuple replaces another."""
    public = schema({"x": whole(10)})
    plan = AlphaBeta(alpha="2/5", beta="1/10", views=3).plan(public)
    assert float(plan.epsilon) == pytest.approx(
        math.log((HALF / Fraction(1, 10)) / (HALF / Fraction(9, 10)))
    )


def test_draws_have_the_promised_probabilities() -> None:
    """Tuples are kept with alpha + beta; a tuple of the table is not inserted as well."""
    domain = schema({"x": whole(4000)}).domain
    law = UniformInsertions(domain, alpha=Fraction(2, 5), beta=Fraction(1, 10))
    keys = np.arange(2000)[:, None]
    views = [len(TupleSet(domain, keys).perturbed(law, SecureNoise())) for _ in range(20)]
    method = AlphaBeta(alpha="2/5", beta="1/10")
    engine = connect(pa.table({"x": np.arange(2000)}), schema({"x": whole(4000)}))
    single = [method.run(engine, SecureNoise()).tables["data"].num_rows for _ in range(20)]
    for n in (views, single):
        # 40,000 tuples in the table, as many outside; seven standard deviations: below 1e-11.
        assert abs(sum(n) - 40_000 * 0.6) < 7 * math.sqrt(40_000 * (0.25 + 0.09))


def test_the_prior_of_a_factor() -> None:
    public = schema({"x": whole(1000)})
    method = AlphaBeta(prior_factor=3, n_public=20, gamma="1/2")
    assert method.plan(public).d == Fraction(3 * 20, 1000)


@pytest.mark.parametrize("max_rows", [1, 2])
def test_a_source_bounds_every_tuple(max_rows: int) -> None:
    """Each tuple's own ratios and prior, one by one."""
    weights = {"x": [1, 2, 3], "y": [1, 1, 2]}
    public = schema({"x": whole(3), "y": whole(3)}, max_rows=max_rows)
    method = AlphaBeta(prior_factor="1/10", n_public=2, gamma="1/2", source=weights)
    plan = method.plan(public)
    law = plan.noise
    assert isinstance(law, SourceInsertions)
    total = sum(weights["x"]) * sum(weights["y"])
    shares = [Fraction(a * b, total) for a, b in product(weights["x"], weights["y"])]
    assert plan.d == Fraction(1, 10) * 2 * min(shares)
    codes = np.array(list(product(range(3), range(3))), np.int64)
    n = 800
    domain = public.domain
    table, nobody = TupleSet(domain, domain.pack(codes)), TupleSet(domain, domain.pack(codes[:0]))
    kept, inserted = np.zeros(9), np.zeros(9)
    noise = SeededNoise(shifted(1))
    for _ in range(n):
        for place, one in ((kept, table), (inserted, nobody)):
            place[one.perturbed(law, noise)[:, 0]] += 1
    # Exactly: w lots of a tuple are each drawn with the same probability.
    betas = [1 - (1 - law.hit) ** (a * b) for a, b in product(weights["x"], weights["y"])]
    lows = [(1 - law.alpha - beta) / (1 - beta) for beta in betas]
    highs = [(law.alpha + beta) / beta for beta in betas]
    assert float(plan.ratios.low) == pytest.approx(float(min(lows)), rel=1e-9)
    assert float(plan.ratios.high) == pytest.approx(float(max(highs)), rel=1e-9)
    for seen, chances in ((inserted, betas), (kept, [law.alpha + beta for beta in betas])):
        chance = np.array(chances, float)
        least, most = binom.ppf(1e-8, n, chance), binom.isf(1e-8, n, chance)
        assert ((least <= seen) & (seen <= most)).all()  # 9 tuples, 4 bounds: false alarm 4e-7
    loss = math.log(max(plan.ratios.high, 1 / plan.ratios.low))
    assert float(plan.epsilon) == pytest.approx(max_rows * loss, rel=1e-5)


def test_algorithm_4_draws_with_its_probabilities() -> None:
    """Known tuples again with s e**(-1/v), fresh ones with (1 - s)**(i - 1) b."""
    domain = schema({"x": whole(3000)}).domain
    keep, insert, views = Fraction(3, 5), Fraction(1, 5), 3
    law = UniformInsertions(domain, alpha=keep - insert, beta=insert)
    noise = Listening()
    nobody = TupleSet(domain, np.empty((0, 1), np.int64))
    known = np.arange(1000)[:, None]
    n_fresh = 0
    for _ in range(20):
        drawn = nobody.seen_again([known], law, views, noise)
        n_fresh += int((drawn[:, 0] >= 1000).sum())
    assert set(noise.exponents) == {Fraction(1, views)}
    assert keep in noise.chances
    rate = float((1 - keep) * insert)
    assert abs(n_fresh - 40_000 * rate) < 7 * math.sqrt(40_000 * rate)


def test_an_old_tuple_is_not_drawn_again(tmp_path: Path) -> None:
    """Memoized views: the second makes no draw for tuples of the first."""
    public = schema({"x": whole(50)})
    table = pa.table({"x": list(range(40))})
    method = AlphaBeta(
        alpha="97/100", beta="1/100", views=2, view_history=tmp_path / "view_history"
    )
    for _ in range(2):
        data = method.run(connect(table, public), SecureNoise()).tables["data"]
    second = [x for x, view in zip(*(data[n].to_pylist() for n in ("x", "view")), strict=True)
              if view == 2]  # fmt: skip
    # Of 40 tuples kept with 0.98 again, 39 are expected; inserted ones are 0.5.
    assert len(second) < 15


# --- columns --------------------------------------------------------------------------------------

SPARSE = {name: whole(2, missing="category") for name in "abcd"}
COLUMNS: dict[str, Any] = {"epsilon": 1, "delta": "1/100", "k": 1}


def composed(mechanism: Any, n: int) -> tuple[Fraction, Fraction]:
    return n * mechanism.epsilon, n * mechanism.delta


@pytest.mark.parametrize("max_rows", [1, 4])
@pytest.mark.parametrize("count_share", ["0", "1/4"])
def test_columns_share_what_the_others_leave(max_rows: int, count_share: str) -> None:
    """Basic composition over three columns, after a person's rows and the number of records."""
    public = schema(SPARSE, max_rows=max_rows)
    method = Columns(
        **COLUMNS, max_columns=3, columns=[["a"], ["b"], ["c"], ["d"]], count_share=count_share
    )
    plan = method.plan(public)
    of_one = Fraction(1, max_rows)
    assert plan.n_touched == 3
    assert plan.count_epsilon == of_one * Fraction(count_share)
    assert plan.columns_epsilon == of_one - plan.count_epsilon
    epsilon, delta = composed(plan.mechanism, 3)
    assert epsilon <= plan.columns_epsilon
    assert delta <= delta_per_row(Fraction(1), Fraction(1, 100), max_rows)
    assert epsilon > plan.columns_epsilon * Fraction(9, 10)
    assert sum(method.forecast(public).split.values()) == 1


def test_an_attribute_in_several_columns_is_counted_in_each() -> None:
    """li-2009-3: one value of a long table affects every column that contains its item."""
    items = ["m0", "m1", "m2"]
    public = schema(
        {"item": {"type": "categorical", "values": items}, "value": whole(1)}, max_rows=2
    )
    method = Columns(
        **COLUMNS, max_columns=9, item="item", value="value",
        columns=[["m0"], ["m0", "m1"], ["m0", "m2"], ["m1"], ["m2"], ["m1", "m2"]],
    )  # fmt: skip
    # Two values, each in three columns at most.
    assert method.plan(public).n_touched == 6
    epsilon, delta = composed(method.plan(public).mechanism, 6)
    assert epsilon <= 1
    assert delta <= Fraction(1, 100)


@pytest.mark.parametrize("long", [False, True])
def test_a_choice_of_columns_is_paid_for(long: bool) -> None:
    """li-2009-1: the sensitivity to one record, and budgets minus the cost of the selection."""
    if long:
        items = {"type": "categorical", "values": [f"m{i}" for i in range(9)]}
        public, names = schema({"item": items, "value": whole(2)}, max_rows=8), {
            "item": "item", "value": "value", "max_values": 6,
        }  # fmt: skip
        n_touched = 6 * 7 // 2
    else:
        wide = {f"a{i}": whole(2, missing="category") for i in range(7)}
        public, names = schema(wide), {}
        n_touched = 7 * 6 // 2
    method = Columns(**COLUMNS, max_columns=2, clusters=[3], schema_share=THIRD, **names)
    plan = method.plan(public)
    noise = plan.pair_noise
    assert noise is not None
    assert noise.n_touched == n_touched
    left = 1 - plan.size_epsilon
    assert plan.size_epsilon == (Fraction(1, 20) if long else 0)  # two of eight values may be lost
    assert noise.epsilon == left * THIRD
    assert noise.delta == THIRD / 100
    assert plan.columns_epsilon == left * (1 - THIRD)
    epsilon, delta = composed(plan.mechanism, 2)
    assert epsilon <= left * (1 - THIRD)
    assert delta <= Fraction(1, 100) - (noise.delta if noise.is_gaussian else 0)


# --- uncertain ------------------------------------------------------------------------------------


def cover_check(n: int, k: int, eta: Fraction) -> CoverCheck:
    points = np.linspace(0, 1, n)[:, None]
    ruler = NoiseGrid("uniform", np.array([1 / (n - 1)]), np.array([n]))
    return CoverCheck(points, np.full(n, k, np.int64), eta, ruler, SeededNoise(shifted(1)))


def test_the_final_check_allows_for_its_own_error() -> None:
    """Over all rounds, both stages and all records: wrong with at most CONFIDENCE_SHARE of eta."""

    eta = Fraction(1, 10)
    found = cover_check(50, 3, eta)
    tolerated = float(eta * (1 - CONFIDENCE_SHARE))
    wrong = 0.0
    for turn in range(1, 40):
        for quota, times in zip(found.quotas(turn), (20, 100), strict=True):
            passes = float(binom.cdf(quota, int(times / eta) + 1, tolerated)) if quota >= 0 else 0.0
            wrong += 50 * passes
    assert wrong <= float(eta * CONFIDENCE_SHARE)
    # The allowance is used up: one more in the long stage of the first round would be too many.
    more = float(binom.cdf(found.quotas(1)[1] + 1, int(100 / eta) + 1, tolerated))
    assert 50 * more > float(eta * CONFIDENCE_SHARE) / 4


def test_levels_that_fail_the_final_check_are_lifted(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    def fails(self: CoverCheck, level: NoiseLevel, turn: int) -> Any:
        asked.append((turn, level.rung))
        return np.full(len(level.rows), turn < 3)

    monkeypatch.setattr(CoverCheck, "fails", fails)
    levels = LevelFinder(cover_check(51, 3, Fraction(1, 10))).find(
        [np.arange(51)], np.ones((51, 1))
    )
    first = {rung for turn, rung in asked if turn == 1}
    assert first
    assert {level.rung for level in levels} == {rung + 2 for rung in first}


def test_cover_is_counted_in_the_box_that_noise_is_drawn_from() -> None:
    """51 records on a ring of 51 values: a box of half-width w covers 2 w + 1, never more."""
    eta = Fraction(1, 10)
    for k in (3, 4, 7):
        found = cover_check(51, k, eta)
        for width in range(1, 6):
            side = (2 * width + 1) * found.ruler.step[0]
            rung = math.floor(math.log2(side) * 8 - 1e-9)
            level = NoiseLevel(np.arange(51), rung, np.ones(1))
            drawn_width = int(found.ruler.widths(np.array([level.size]))[0])
            draws: Integers = np.arange(-drawn_width, drawn_width + 1)[:, None]
            lacking = found.n_uncovered(level, draws, limit=10**6)
            expected = len(draws) if 2 * drawn_width + 1 < k else 0
            assert set(lacking.tolist()) == {expected}


def test_noise_is_as_wide_as_it_was_checked_and_published() -> None:
    public = schema({"x": whole(200)})
    values = np.arange(0, 200, 2.0)[:, None]
    method = Uncertain(k=5, eta="1/5", edges="wrap")
    widest = 0
    for seed in range(4):
        made = method.plan(public).perturb(values, SeededNoise(shifted(seed)))
        away = np.abs(made.steps - values.astype(int))
        away = np.minimum(away, 200 - away)
        assert (away <= made.widths).all()
        widest = max(widest, int((away / made.widths).max() * 100))
        # Records within the width fit: the published half-width determines how many.
        assert (2 * made.widths + 1 >= 2 * 5 - 1).all()
    assert widest > 80  # and errors do reach that far


def test_records_ask_for_their_own_k_and_hide_among_their_own_group() -> None:
    public = schema({"x": whole(40), "sex": {"type": "categorical", "values": ["F", "M"]},
                     "own": {"type": "integer", "low": 2, "high": 30}})  # fmt: skip
    rows = np.array([[x, x % 2, 12 if x < 20 else 2] for x in range(40)], float)
    method = Uncertain(k=3, eta="1/5", carry=["sex"], k_column="own", edges="wrap")
    assert method.plan(public).wanted(rows).tolist() == [12] * 20 + [3] * 20
    made = method.plan(public).perturb(rows, SeededNoise(shifted(1)))
    # Half of the records in range have the same sex: 12 of them span at least 24 values.
    assert (2 * made.widths[:20] + 1 >= 2 * 12 - 1).all()
    alone = rows.copy()
    alone[:, 1] = [0.0] * 38 + [1.0] * 2
    with pytest.raises(Exception, match="cover"):
        method.plan(public).perturb(alone, SeededNoise(shifted(1)))


def test_a_promise_is_made_of_these() -> None:
    public = schema({"x": whole(10)})
    promise = AlphaBeta(alpha="2/5", beta="1/10").guarantee(public)[0]
    assert isinstance(promise, PureDP)
    assert float(promise.epsilon) == pytest.approx(math.log(5), rel=1e-5)
