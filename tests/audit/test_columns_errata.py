"""Attacks on columns at an inflated delta; each detects an error of the paper if reintroduced.

False alarms: bounds are Clopper-Pearson at 1e-7 for each side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import beta, binom

import hushtable.methods.counts.columns as module
from hushtable import Columns, Schema, SecureNoise
from hushtable.audit import audit
from hushtable.engine import Engine, MemoryEngine, connect
from hushtable.engine.baskets import ItemPairs, Tuples
from hushtable.errors import SealedError
from hushtable.privacy.accounting.run_account import RunAccount
from hushtable.privacy.mechanisms.mechanism import Gaussian, Laplace
from sealing import sealed
from seeds import shifted

ALPHA = 1e-7
EPSILON, DELTA = 1.0, 0.01


def loss_bound(hits: int, others: int, runs: int) -> float:
    """Return a lower bound of epsilon from how often an event happens with and without a person."""
    low = beta.ppf(ALPHA, hits, runs - hits + 1) if hits else 0.0
    high = beta.ppf(1 - ALPHA, others + 1, runs - others) if others < runs else 1.0
    return math.log((low - DELTA) / high) if low > DELTA else -math.inf


@dataclass
class Remembering:
    """Engine that caches its answers, which do not change where no bound is active."""

    engine: Engine
    change: Callable[[Tuples], Tuples] = lambda tuples: tuples

    def __post_init__(self) -> None:
        self.schema = self.engine.schema
        self._answers: dict[str, Any] = {}

    def tuples(self, groups: Any, **bounds: Any) -> Tuples:
        key = repr(groups)
        if key not in self._answers:
            self._answers[key] = self.change(self.engine.tuples(groups, **bounds))
        found: Tuples = self._answers[key]
        return found

    def pairs(self, *arguments: Any, **bounds: Any) -> ItemPairs:
        key = f"pairs of {bounds.get('items')}"
        if key not in self._answers:
            self._answers[key] = self.engine.pairs(*arguments, **bounds)
        found: ItemPairs = self._answers[key]
        return found

    def sizes(self, *arguments: Any, **bounds: Any) -> Any:
        return self.engine.sizes(*arguments, **bounds)


# --- li-2009-2: records without a value in a column -----------------------------------------------


def sparse(n_columns: int, *, present: bool) -> tuple[pa.Table, Schema]:
    """Make sixty rows with a value in each column, and one more row with a value in the first."""
    column = {"type": "integer", "low": 0, "high": 1, "missing": "category"}
    names = [f"a{i}" for i in range(n_columns)]
    schema = Schema.from_dict({"name": "t", "columns": dict.fromkeys(names, column)})
    owner = np.repeat(np.arange(n_columns), 60)
    rows = {name: [1 if i == o else None for o in owner] for i, name in enumerate(names)}
    if present:
        for i, name in enumerate(names):
            rows[name].append(0 if i == 0 else None)
    return pa.table({n: pa.array(v, pa.int64()) for n, v in rows.items()}), schema


def count_nothing_too(tuples: Tuples) -> Tuples:
    """Reintroduce the mistake: count the all-null tuple of every column."""
    n_groups = int(tuples.groups.max()) + 1
    held = np.bincount(tuples.groups, tuples.counts, n_groups).astype(np.int64)
    return replace(
        tuples,
        groups=np.append(tuples.groups, np.arange(n_groups)),
        starts=np.append(tuples.starts, np.full(n_groups, tuples.starts[-1])),
        counts=np.append(tuples.counts, tuples.n_records - held),
    )


def sums_above(n_columns: int, change: Callable[[Tuples], Tuples], runs: int) -> tuple[int, int]:
    """Count runs whose released counts indicate the person, with and without that person.

    The attacker adds up the counts of all-null tuples where there are any, and otherwise those of
    all tuples: with the mistake, the person adds one in every column.
    """
    names = [[f"a{i}"] for i in range(n_columns)]
    method = Columns(epsilon=1, delta=Fraction(1, 100), k=1, max_columns=2, columns=names)

    def total(table: pa.Table) -> int:
        rows = np.array([[v is not None for v in table[n[0]].to_pylist()] for n in names])
        nothing = ~rows.any(axis=0)
        counts = table["count"].to_numpy()
        return int(counts[nothing].sum() if nothing.any() else counts.sum())

    sums = []
    for present in (True, False):
        engine = Remembering(connect(*sparse(n_columns, present=present)), change)
        runs_here = [method.run(engine, SecureNoise()).tables["data"] for _ in range(runs)]  # type: ignore[arg-type]
        sums.append(np.array([total(table) for table in runs_here]))
    level = np.median(sums[1]) + n_columns
    return int(np.count_nonzero(sums[0] > level)), int(np.count_nonzero(sums[1] > level))


@pytest.mark.parametrize("n_columns", [10, 30])
def test_li_2009_2_the_loss_does_not_grow_with_the_number_of_columns(n_columns: int) -> None:
    assert loss_bound(*sums_above(n_columns, lambda t: t, 400), 400) <= EPSILON
    schema = sparse(n_columns, present=True)[1]
    names = [[f"a{i}"] for i in range(n_columns)]
    method = Columns(epsilon=1, delta="1e-6", k=1, max_columns=2, columns=names)
    assert method.plan(schema).mechanism.epsilon == Fraction(1, 2)


def test_li_2009_2_counting_records_without_a_value_is_caught() -> None:
    """An event of about 0.43 and 0.027: missed with probability below 1e-5."""
    assert loss_bound(*sums_above(30, count_nothing_too, 900), 900) > EPSILON


def test_li_2009_2_no_engine_answer_has_an_empty_tuple() -> None:
    table, schema = sparse(5, present=True)
    for max_groups in (1, 5):
        for engine in ("memory", "duckdb"):
            answer = connect(table, schema, engine=engine).tuples(  # type: ignore[arg-type]
                [[i] for i in range(5)], max_groups=max_groups
            )
            assert answer.lengths.min() == 1
            assert answer.counts.sum() == 301


# --- li-2009-3 and Theorem 7: one person in several columns ---------------------------------------

N_PEOPLE, N_OWN = 1500, 10


def lonely(n_people: int = N_PEOPLE) -> tuple[pa.Table, Schema]:
    """Give every person ten items of their own, so that each tuple belongs to one person."""
    items = [f"m{i}" for i in range(n_people * N_OWN)]
    schema = Schema.from_dict(
        {
            "name": "t",
            "unit": {"kind": "person", "column": "who", "max_rows": N_OWN},
            "columns": {
                "who": {"role": "identifier"},
                "item": {"type": "categorical", "values": items},
                "value": {"type": "integer", "low": 1, "high": 1},
            },
        }
    )
    who = np.repeat(np.arange(n_people), N_OWN)
    return pa.table({"who": who, "item": items, "value": np.ones(len(items), np.int64)}), schema


def people_shown(max_columns: int, bound: Callable[[Any], Any] = lambda engine: engine) -> int:
    """Count people with any published tuple; each person is a separate attack on delta."""
    table, schema = lonely()
    columns = [[item] for item in table["item"].to_pylist()]
    method = Columns(
        epsilon=1, delta=Fraction(1, 100), k=1, max_columns=max_columns, columns=columns,
        item="item", value="value",
    )  # fmt: skip
    released = method.run(bound(connect(table, schema)), SecureNoise())
    shown = [int(item[1:]) // N_OWN for item in released.tables["data"]["item"].to_pylist()]
    return len(set(shown))


MOST = int(binom.ppf(1 - ALPHA, N_PEOPLE, DELTA))


@pytest.mark.parametrize("max_columns", [1, 2, 10])
def test_a_person_is_shown_no_more_often_than_delta(max_columns: int) -> None:
    shown = people_shown(max_columns)
    assert shown <= MOST
    assert shown > 0  # and delta is used: 15 people are expected


def test_not_sharing_delta_among_columns_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "shares_of", lambda epsilon, delta, n: iter([(epsilon, delta)]))
    with pytest.raises(SealedError, match="would raise the cost"):
        people_shown(10)
    monkeypatch.setattr(RunAccount, "record", lambda *_: None)
    monkeypatch.setattr(RunAccount, "settle", lambda _: None)
    assert people_shown(10) > MOST


def test_li_2009_3_not_bounding_columns_is_caught() -> None:
    class Unbounded:
        def __init__(self, engine: Engine) -> None:
            self.engine, self.schema = engine, engine.schema

        def tuples(self, groups: Any, **bounds: Any) -> Tuples:
            return self.engine.tuples(groups, **{**bounds, "max_groups": N_OWN})

    assert people_shown(2, Unbounded) > MOST


# --- li-2009-1: the choice of the columns ---------------------------------------------------------


def triangle(*, present: bool) -> tuple[pa.Table, Schema]:
    """Make m0 agree equally often with m1 and m2; one more person decides between them."""
    schema = Schema.from_dict(
        {
            "name": "t",
            "unit": {"kind": "person", "column": "who", "max_rows": 2},
            "columns": {
                "who": {"role": "identifier"},
                "item": {"type": "categorical", "values": ["m0", "m1", "m2"]},
                "value": {"type": "integer", "low": 1, "high": 1},
            },
        }
    )
    people = [("m0", "m1"), ("m0", "m2")] * 20 + [("m0", "m1")] * present
    rows = [(who, item) for who, items in enumerate(people) for item in items]
    table = pa.table(
        {"who": [r[0] for r in rows], "item": [r[1] for r in rows], "value": [1] * len(rows)}
    )
    return table, schema


def choices(runs: int) -> tuple[int, int]:
    """Count how often m0 and m1 are grouped, with the person and without."""
    method = Columns(
        epsilon=1, delta=Fraction(1, 100), k=1, max_columns=2, clusters=[2], schema_share="1/2",
        item="item", value="value", similarity="cosine",
    )  # fmt: skip
    found = []
    for present in (True, False):
        engine = Remembering(connect(*triangle(present=present)))
        plan, noise = method.plan(engine.schema), SecureNoise()
        chosen = [plan.choose(sealed(engine), noise) for _ in range(runs)]
        found.append(sum([0, 1] in columns for columns in chosen))
    return found[0], found[1]


def test_li_2009_1_the_choice_of_columns_keeps_the_promise() -> None:
    with_person, without = choices(1500)
    assert loss_bound(with_person, without, 1500) <= EPSILON
    assert loss_bound(1500 - with_person, 1500 - without, 1500) <= EPSILON
    assert 0 < without < 1500  # both choices occur


def test_li_2009_1_a_choice_from_raw_data_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    for law in (Laplace, Gaussian):
        monkeypatch.setattr(law, "draw", lambda self, counts, noise: counts)
    assert loss_bound(*choices(100), 100) > EPSILON


def test_li_2009_1_pairs_change_by_at_most_their_sensitivity() -> None:
    draw = np.random.default_rng(shifted(0))
    for n_values in (1, 2, 5):
        items = [f"m{i}" for i in range(8)]
        schema = Schema.from_dict(
            {
                "name": "t",
                "unit": {"kind": "person", "column": "who", "max_rows": 8},
                "columns": {
                    "who": {"role": "identifier"},
                    "item": {"type": "categorical", "values": items},
                    "value": {"type": "integer", "low": 1, "high": 3},
                },
            }
        )
        method = Columns(epsilon=1, delta="1e-6", k=1, max_columns=2, clusters=[2], item="item",
                         value="value", max_values=n_values)  # fmt: skip
        noise = method.plan(schema).pair_noise
        assert noise is not None
        for _ in range(5):
            rows = [(w, m, int(draw.integers(1, 4))) for w in range(6) for m in range(8)
                    if (w < 5 and draw.random() < 0.4) or (w == 5 and m < n_values)]  # fmt: skip
            change = []
            for people in (6, 5):
                kept = [row for row in rows if row[0] < people]
                table = pa.table({"who": [r[0] for r in kept],
                                  "item": [items[r[1]] for r in kept],
                                  "value": [r[2] for r in kept]})  # fmt: skip
                pairs = connect(table, schema).pairs(module.ItemColumns("item", "value"))
                change.append(np.concatenate([pairs.support, pairs.agree, pairs.differ]))
            moved = np.abs(change[0] - change[1])
            assert moved.max() == 1
            assert moved.sum() == noise.n_touched == n_values * (n_values + 1) // 2


# --- sizes of baskets -----------------------------------------------------------------------------

ONE_COUNTS = Columns(
    epsilon=1, delta="1/100", k=1, max_columns=3, item="movie", value="stars", max_values=1,
    size_share="1/2", columns=[["m0"], ["m1"], ["m2"]],
)  # fmt: skip


def test_sizes_of_baskets_are_audited() -> None:
    """One of two values counts, so the run pays for a histogram of values per person."""
    report = audit(ONE_COUNTS, tests=["account"], seconds=4)
    assert not any(finding.verdict == "VIOLATION" for finding in report.findings)


def test_a_person_in_two_classes_of_sizes_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    real = MemoryEngine.sizes

    def cumulated(self: MemoryEngine, *asked: Any, **how: Any) -> Any:
        return np.cumsum(real(self, *asked, **how)[::-1])[::-1]  # at least this many

    monkeypatch.setattr(MemoryEngine, "sizes", cumulated)
    report = audit(ONE_COUNTS, tests=["account"])
    assert any(finding.verdict == "VIOLATION" for finding in report.findings)
