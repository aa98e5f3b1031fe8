"""The guarantee of noisy-counts in exact arithmetic, its parameters and its release."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exact_divergence import ROUNDING, hockey_stick
from exact_masses import mass_bounds
from hushtable.engine.cells import OccupiedCells, publish_here
from hushtable.errors import ParameterError, Refused, TooLarge
from hushtable.methods.counts.noisy_counts import NoisyCounts, delta_per_row
from hushtable.privacy.guarantee import ApproxDP, PureDP, Threshold, Unit
from hushtable.privacy.mechanisms import single_counts
from hushtable.privacy.mechanisms.single_counts import (
    CountMechanism,
    OneSidedGeometric,
    ThresholdMatrix,
    TwoSidedGeometric,
    make_count_mechanism,
)
from hushtable.privacy.noise.sources import SecureNoise, SeededNoise
from hushtable.privacy.rational import as_rational, exp_bounds
from hushtable.schema import Schema
from hushtable.schema.recoding import Recoding, recoded_domain
from seeds import shifted

BOTH = (OneSidedGeometric, ThresholdMatrix)
both = pytest.mark.parametrize("kind", BOTH)

ZERO = Fraction(1, 2**200)  # a divergence of zero, computed with bounds of 256 bits


@pytest.fixture(autouse=True, scope="module")
def remembered_exponentials() -> Iterator[None]:
    """Cache the bounds of e**x, which the tests use many times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(single_counts, "exp_bounds", functools.lru_cache(100_000)(exp_bounds))
        yield


def rational(value: int | str) -> Fraction:
    return as_rational(value, name="value")


# --- the promise, in exact arithmetic -----------------------------------------------------------


@both
@pytest.mark.parametrize(
    ("epsilon", "delta", "k"),
    [
        ("1/2", "1e-5", 1),
        ("1", "1e-12", 10),
        ("1", "1e-5", 10),
        ("1", "1/2", 10),
        ("ln(5)", "1e-5", 3),
        ("ln(5)", "1e-7", 100),
        ("ln(10)", "1e-3", 20),
        ("3", "1e-9", 10),
        ("10", "1e-12", 100),
        ("10", "1/2", 1),
        ("100", "1e-30", 1),
    ],
)
def test_adding_or_removing_a_row_keeps_the_promise(
    kind: type[OneSidedGeometric] | type[ThresholdMatrix], epsilon: str, delta: str, k: int
) -> None:
    mechanism = kind(epsilon=rational(epsilon), delta=rational(delta), k=k)
    allowed = mechanism.delta * ROUNDING
    gains = []
    for count in range(max(0, k - 2), mechanism.release_count(0.9999) + 3):
        gains.append(hockey_stick(mechanism, count + 1, count))
        assert gains[-1] <= allowed
        assert hockey_stick(mechanism, count, count + 1) <= ZERO
    # The promise is tight: it uses all of delta, or all that epsilon allows.
    first = min(mechanism.delta, 1 - exp_bounds(-mechanism.epsilon)[1])
    assert max(gains) >= first * (1 - Fraction(1, 2**60))


@both
@pytest.mark.parametrize("delta", ["1e-12", "1/2"])
def test_the_promise_at_a_small_epsilon(
    kind: type[OneSidedGeometric] | type[ThresholdMatrix], delta: str
) -> None:
    mechanism = kind(epsilon=rational("1/100"), delta=rational(delta), k=100)
    turn = mechanism.n_head + 99 if isinstance(mechanism, OneSidedGeometric) else mechanism.turn
    for count in (99, turn - 1, turn):
        assert hockey_stick(mechanism, count + 1, count) <= mechanism.delta * ROUNDING
        assert hockey_stick(mechanism, count, count + 1) <= ZERO


@both
def test_only_the_distance_to_k_matters(
    kind: type[OneSidedGeometric] | type[ThresholdMatrix],
) -> None:
    near, far = (kind(epsilon=Fraction(1), delta=Fraction(1, 1000), k=k) for k in (1, 51))
    for count in range(30):
        moved = {j + 50 if j else 0: p for j, p in near.mass(count + 1).items()}
        assert far.mass(count + 51) == pytest.approx(moved)


@settings(max_examples=40, deadline=None)
@given(
    st.fractions(1, 20, max_denominator=10**6),
    st.integers(1, 60),
    st.integers(1, 40),
    st.integers(0, 60),
    st.sampled_from(BOTH),
)
def test_any_parameters_keep_the_promise(
    epsilon: Fraction,
    exponent: int,
    k: int,
    count: int,
    kind: type[OneSidedGeometric] | type[ThresholdMatrix],
) -> None:
    mechanism = kind(epsilon=epsilon, delta=Fraction(1, 2**exponent), k=k)
    assert hockey_stick(mechanism, count + 1, count) <= mechanism.delta * ROUNDING
    assert hockey_stick(mechanism, count, count + 1) <= ZERO


@settings(max_examples=150, deadline=None)
@given(
    st.fractions(Fraction(1, 10**9), 1000).filter(lambda e: e > 0),
    st.fractions(Fraction(1, 10**40), Fraction(99, 100)).filter(lambda d: d > 0),
    st.sampled_from(BOTH),
)
def test_the_conditions_can_be_verified_for_all_parameters(
    epsilon: Fraction,
    delta: Fraction,
    kind: type[OneSidedGeometric] | type[ThresholdMatrix],
) -> None:
    kind(epsilon=epsilon, delta=delta, k=5).verify()


def test_every_count_under_pure_keeps_pure_privacy() -> None:
    for epsilon in ("1/10", "1", "ln(5)", "10"):
        mechanism = TwoSidedGeometric(epsilon=rational(epsilon))
        for count in range(30):
            assert hockey_stick(mechanism, count + 1, count) <= ZERO
            assert hockey_stick(mechanism, count, count + 1) <= ZERO


@pytest.mark.parametrize("kind", ["tight", "paper", "pure"])
@pytest.mark.parametrize("max_rows", [2, 3, 7])
def test_all_rows_of_a_person_together_keep_the_promise(kind: str, max_rows: int) -> None:
    limits = {} if kind == "pure" else {"delta": "1e-3", "k": 5}
    method = NoisyCounts(epsilon=2, mechanism=kind, **limits)
    schema = small_schema(unit={"kind": "person", "column": "person", "max_rows": max_rows})
    mechanism = method.plan(schema).mechanism
    assert mechanism.epsilon == Fraction(2, max_rows)
    delta = method.delta or Fraction(1, 2**160)
    worst = Fraction(0)
    for count in (*range(3, 10), 20, 30):
        for other in (count + 1, count + max_rows):
            worst = max(worst, hockey_stick(mechanism, other, count, epsilon=Fraction(2)))
            assert hockey_stick(mechanism, count, other, epsilon=Fraction(2)) <= delta * ROUNDING
    assert worst <= delta * ROUNDING
    if kind == "tight":  # tight: all rows in the same tuple use the whole delta
        assert worst >= delta * (1 - Fraction(1, 2**50))


def test_rows_of_a_person_in_different_tuples_keep_the_promise() -> None:
    """By basic composition: epsilons and deltas of the tuples add up to at most the promise."""
    epsilon, delta, max_rows = Fraction(2), Fraction(1, 1000), 4
    x, d = epsilon / max_rows, delta_per_row(epsilon, delta, max_rows)
    for parts in ([1, 1, 1, 1], [2, 1, 1], [2, 2], [3, 1], [4]):
        steps = [sum((exp_bounds(x * i)[1] for i in range(rows)), Fraction(0)) for rows in parts]
        assert sum(parts) * x == epsilon
        assert sum(d * step for step in steps) <= delta


@both
def test_a_mechanism_that_was_tampered_with_refuses(
    kind: type[OneSidedGeometric] | type[ThresholdMatrix],
) -> None:
    shape, mass = ("n_head", "head_mass") if kind is OneSidedGeometric else ("turn", "turn_mass")
    for name, change in [
        (mass, lambda value: value * (1 + Fraction(1, 2**100))),
        (mass, lambda value: value * 5),
        (mass, lambda value: value / 5),
        (mass, lambda value: Fraction(0)),
        (shape, lambda value: value - 1),
        ("delta", lambda value: value / 2),
        ("epsilon", lambda value: value * Fraction(9, 10)),
    ]:
        mechanism = kind(epsilon=Fraction(1), delta=Fraction(1, 10**5), k=10)
        object.__setattr__(mechanism, name, change(getattr(mechanism, name)))
        with pytest.raises(Refused, match="does not keep its promise"):
            mechanism.verify()


@pytest.mark.parametrize(
    ("kind", "epsilon", "delta", "changes", "broken"),
    [
        # Masses rounded down slightly, so that only one condition fails.
        (OneSidedGeometric, "1", "1e-5", {"head_mass": "0.35"}, r"P\[N = 1\] <= delta"),
        (OneSidedGeometric, "1", "1e-5", {"head_mass": "0.2"}, r"P\[N = n\+1\] <= e\^epsilon"),
        (
            OneSidedGeometric,
            "1",
            "1e-5",
            {"n_head": 12, "head_mass": "0.947"},
            r"P\[N = n\] <= e\^epsilon P\[N = n\+1\]",
        ),
        (OneSidedGeometric, "1", "1e-5", {"n_head": 0, "head_mass": "0"}, r"P\[N = n\+1\]"),
        (ThresholdMatrix, "1", "1e-5", {"turn_mass": "0.6"}, r"\(b2\) w_k <= delta"),
        (
            ThresholdMatrix,
            "1/10",
            "9/10",
            {"turn": 10, "turn_mass": "0.7"},
            r"\(b2\) 1 - w_k >= e\^-epsilon",
        ),
        (
            ThresholdMatrix,
            "1",
            "1e-5",
            {"turn": 33, "turn_mass": "0.987"},
            r"\(b3\) suppressed, rising part",
        ),
        (ThresholdMatrix, "1", "1e-5", {"turn_mass": "0.4"}, r"\(b3\) published, falling part"),
    ],
)
def test_each_condition_is_checked_separately(
    kind: type[OneSidedGeometric] | type[ThresholdMatrix],
    epsilon: str,
    delta: str,
    changes: dict[str, int | str],
    broken: str,
) -> None:
    mechanism = kind(epsilon=rational(epsilon), delta=rational(delta), k=10)
    for name, value in changes.items():
        exact = value if isinstance(value, int) else rational(value)
        object.__setattr__(mechanism, name, exact)
    with pytest.raises(Refused, match=rf"promise \({broken}[^;]*\)\. Nothing is published"):
        mechanism.verify()


@pytest.mark.parametrize(
    ("epsilon", "delta", "k", "problem"),
    [
        (0, "1e-5", 1, "epsilon is 0"),
        (2000, "1e-5", 1, "epsilon is 2000"),
        (1, 0, 1, "delta is 0"),
        (1, 1, 1, "delta is 1"),
        (1, "1e-5", 0, "k is 0"),
    ],
)
@both
def test_a_mechanism_checks_its_numbers(
    kind: type[OneSidedGeometric] | type[ThresholdMatrix],
    epsilon: int,
    delta: int | str,
    k: int,
    problem: str,
) -> None:
    with pytest.raises(ParameterError, match=problem):
        kind(epsilon=rational(epsilon), delta=rational(delta), k=k)


def test_mechanisms_are_made_by_name() -> None:
    with pytest.raises(ParameterError, match="'exact'"):
        make_count_mechanism("exact", epsilon=Fraction(1))
    with pytest.raises(ParameterError, match="delta is missing") as caught:
        make_count_mechanism("tight", epsilon=Fraction(1))
    assert len(caught.value.problems) == 2


# --- the distribution of a published count ------------------------------------------------------

METHODS = [
    NoisyCounts(epsilon=1, delta="1e-5", k=10),
    NoisyCounts(epsilon="1/10", delta="1e-3", k=1),
    NoisyCounts(epsilon="1/200", delta="1/100", k=1),  # the head is empty
    NoisyCounts(epsilon=10, delta="1e-9", k=3),
    NoisyCounts(epsilon=1, delta="1e-5", k=10, mechanism="paper"),
    NoisyCounts(epsilon="1/10", delta="1e-3", k=1, mechanism="paper"),
    NoisyCounts(epsilon=1, mechanism="pure"),
    NoisyCounts(epsilon="1/10", mechanism="pure"),
]
every_method = pytest.mark.parametrize(
    "method", METHODS, ids=lambda m: f"{m.mechanism}-{m.epsilon}"
)


@every_method
@pytest.mark.parametrize("count", [0, 1, 3, 9, 10, 11, 15, 21, 40, 100, 2000])
def test_the_law_of_a_published_count_is_consistent(method: NoisyCounts, count: int) -> None:
    mass = method.of_one_row.mass(count)
    mechanism = method.of_one_row
    assert math.fsum(mass.values()) == pytest.approx(1, abs=1e-12)
    assert 1 - mass[0] == pytest.approx(method.of_one_row.release_probability(count), abs=1e-15)
    if 0 < method.of_one_row.release_probability(count) < 1e-3:
        published = math.fsum(p for j, p in mass.items() if j)
        assert published == pytest.approx(method.of_one_row.release_probability(count), rel=1e-12)
    listed = list(mass)
    for published in {*listed[:4], *listed[-4:], *listed[:: max(1, len(listed) // 50)]}:
        low, high = mass_bounds(mechanism, count, published)
        assert low <= high
        assert float(low) == pytest.approx(mass[published], rel=1e-12)
    mean = math.fsum(j * p for j, p in mass.items())
    assert method.of_one_row.expected(count) == pytest.approx(mean, rel=1e-12)
    if count:
        level = math.fsum(abs(j - count) * p for j, p in mass.items()) / count
        assert method.of_one_row.noise_level(count) == pytest.approx(level, rel=1e-9)


@every_method
def test_moments_far_above_the_threshold(method: NoisyCounts) -> None:
    mechanism = method.of_one_row
    count = 3 * mechanism.release_count(1 - 1e-15) + 10**4
    mass = method.of_one_row.mass(count)
    mean = math.fsum((j - count) * p for j, p in mass.items() if j)
    square = math.fsum((j - count) ** 2 * p for j, p in mass.items() if j)
    assert mechanism.bias == pytest.approx(mean, abs=1e-9)
    assert abs(mechanism.bias) <= 0.5
    assert mechanism.variance == pytest.approx(square - mean**2, rel=1e-9)
    assert mechanism.std == pytest.approx(math.sqrt(mechanism.variance))


@every_method
def test_release_counts_are_the_least_that_reach_a_probability(method: NoisyCounts) -> None:
    for probability in (0.001, 0.3, 0.5, 0.9, 0.999):
        count = method.of_one_row.release_count(probability)
        assert method.of_one_row.release_probability(count) >= probability
        assert count == 0 or method.of_one_row.release_probability(count - 1) < probability


def test_moments_do_not_cancel_where_epsilon_is_tiny() -> None:
    mechanism = OneSidedGeometric(epsilon=Fraction(1, 10**9), delta=Fraction(1, 10**10), k=1)
    chances = [float(mass_bounds(mechanism, 10**12, 10**12 + mechanism.offset - 1)[0])]
    assert chances[0] == pytest.approx(1e-10)
    assert 0.5e9 < mechanism.std < 2e9


def test_questions_without_an_answer() -> None:
    method = NoisyCounts(epsilon=1, delta="1e-5", k=10)
    with pytest.raises(ParameterError, match="count is 0"):
        method.of_one_row.noise_level(0)
    with pytest.raises(ParameterError, match=r"1\.0"):
        method.of_one_row.release_count(1.0)
    with pytest.raises(TooLarge, match="values"):
        NoisyCounts(epsilon="1e-7", delta="1e-5", k=10).of_one_row.mass(10)


def test_a_share_for_the_number_of_rows_costs_the_tuples() -> None:
    whole = NoisyCounts(epsilon="9/10", delta="1e-5", k=10)
    shared = NoisyCounts(epsilon=1, delta="1e-5", k=10, row_count_share="1/10")
    assert shared.of_one_row.mass(25) == whole.of_one_row.mass(25)


# --- parameters ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "problems"),
    [
        ({"epsilon": 0, "delta": "1e-5", "k": 1}, ["epsilon is 0"]),
        ({"epsilon": float("nan"), "delta": "1e-5", "k": 1}, ["epsilon: nan"]),
        ({"epsilon": 1e6, "delta": "1e-5", "k": 1}, ["epsilon is 1000000"]),
        ({"epsilon": "many", "delta": 0.5, "k": 2.5}, ["'many'", "delta is 0.5", "k is 2.5"]),
        ({"epsilon": 1}, ["delta is missing", "k is missing"]),
        ({"epsilon": 1, "delta": "1e-5", "k": True}, ["k: True"]),
        ({"epsilon": 1, "delta": "1e-5", "k": 5, "mechanism": "loose"}, ["'loose'"]),
        ({"epsilon": 1, "delta": 0, "k": 5}, ["delta is 0"]),
        ({"epsilon": 1, "mechanism": "pure", "delta": "1e-5", "k": 5}, ["delta", "k is 5"]),
        ({"epsilon": 1, "mechanism": "pure", "row_count_share": "1/2"}, ["row_count_share"]),
        ({"epsilon": 1, "delta": "1e-5", "k": 5, "row_count_share": 1}, ["row_count_share is 1"]),
        ({"epsilon": 1, "mechanism": "pure", "max_cells": 0}, ["max_cells is 0"]),
        ({"epsilon": 1, "delta": "1e-5", "k": 5, "generalize": 3}, ["generalize is 3"]),
    ],
)
def test_wrong_parameters_are_named_all_at_once(
    parameters: dict[str, Any], problems: list[str]
) -> None:
    with pytest.raises(ParameterError) as caught:
        NoisyCounts(**parameters)
    assert len(caught.value.problems) == len(problems)
    for sentence, part in zip(caught.value.problems, problems, strict=True):
        assert part in sentence
        assert sentence.endswith(".")


def test_parameters_are_exact_and_survive_json() -> None:
    method = NoisyCounts(
        epsilon=0.1, delta="1e-6", k="7", generalize={"age": (18, 65)}, row_count_share=0.05
    )
    assert method.epsilon == Fraction(1, 10)
    assert method.k == 7
    assert method.row_count_share == Fraction(1, 20)
    again = NoisyCounts(**json.loads(json.dumps(method.parameters())))
    assert again == method
    assert hash(again) == hash(method)
    with pytest.raises(dataclasses.FrozenInstanceError):
        method.epsilon = Fraction(5)  # type: ignore[misc]


@given(st.integers(1, 200), st.fractions("1/100", 10), st.integers(1, 12))
def test_delta_per_row_is_a_lower_bound_and_a_close_one(
    max_rows: int, epsilon: Fraction, digits: int
) -> None:
    delta = Fraction(1, 10**digits)
    d = delta_per_row(epsilon, delta, max_rows)
    x = epsilon / max_rows
    total = sum((exp_bounds(x * i)[1] for i in range(max_rows)), Fraction(0)) * d
    assert delta * (1 - Fraction(1, 2**50)) <= total <= delta * (1 + Fraction(1, 2**150))


# --- what follows from a schema -----------------------------------------------------------------


def small_schema(**changes: Any) -> Schema:
    content: dict[str, Any] = {
        "name": "small",
        "columns": {
            "person": {"role": "identifier"},
            "age": {"type": "integer", "low": 0, "high": 99, "missing": "category"},
            "sex": {"type": "categorical", "values": ["F", "M"], "missing": "category"},
            "dose": {"type": "number", "low": 0, "high": 1, "step": 0.5},
        },
    }
    return Schema.from_dict(content | changes)


def test_the_promises() -> None:
    schema, row = small_schema(), Unit(kind="row")
    assert NoisyCounts(epsilon=1, delta="1e-5", k=10).guarantee(schema) == (
        ApproxDP(epsilon=1, delta="1e-5", unit=row, neighbors="add-remove"),
        Threshold(k=10),
    )
    assert NoisyCounts(epsilon=1, mechanism="pure").guarantee(schema) == (
        PureDP(epsilon=1, unit=row, neighbors="add-remove"),
    )
    people = Unit(kind="person", column="person", max_rows=3)
    schema = small_schema(unit={"kind": "person", "column": "person", "max_rows": 3})
    method = NoisyCounts(epsilon=1, delta="1e-5", k=10, mechanism="paper", row_count_share="1/2")
    assert method.guarantee(schema) == (
        ApproxDP(epsilon=1, delta="1e-5", unit=people, neighbors="add-remove"),
        Threshold(k=10),
    )
    lines = method.forecast(schema).lines
    assert lines["people behind a published tuple, at least"] == 4


@pytest.mark.parametrize(
    ("schema", "method", "error", "parts"),
    [
        (
            small_schema(unit="node"),
            NoisyCounts(epsilon=1, delta="1e-5", k=10, generalize={"height": 3, "sex": 9}),
            ParameterError,
            ["unit is node", "'height'", "'sex'"],
        ),
        (
            small_schema(columns={"count": {"type": "integer", "low": 0, "high": 1}}),
            NoisyCounts(epsilon=1, delta="1e-5", k=10),
            ParameterError,
            ["'count'"],
        ),
        (
            small_schema(),
            NoisyCounts(epsilon=1, mechanism="pure", max_cells=908),
            TooLarge,
            ["909"],
        ),
    ],
)
def test_refusals_come_before_any_data_is_read(
    schema: Schema, method: NoisyCounts, error: type[Exception], parts: list[str]
) -> None:
    class Unreadable:
        def __init__(self) -> None:
            self.schema = schema

        def counts(self, *args: object, **kwargs: object) -> None:
            pytest.fail("the data was read")

    for ask in (
        lambda: method.guarantee(schema),
        lambda: method.forecast(schema),
        lambda: method.run(Unreadable(), SeededNoise(shifted(1))),  # type: ignore[arg-type]
    ):
        with pytest.raises(error) as caught:
            ask()
        for part in parts:
            assert part in str(caught.value)


def test_forecast() -> None:
    schema = small_schema()
    method = NoisyCounts(epsilon=1, delta="1e-5", k=10, row_count_share="1/10")
    forecast = method.forecast(schema, 1000)
    assert forecast.n_cells == 101 * 3 * 3
    assert forecast.split == {"tuples": Fraction(9, 10), "number of rows": Fraction(1, 10)}
    assert not any("people" in line for line in forecast.lines)  # rows are counted, not people
    half = "rows from which a tuple is published with probability 0.5"
    assert forecast.lines[half] == method.of_one_row.release_count(0.5)
    assert forecast.lines["standard deviation of the number of rows"] == pytest.approx(
        14.1, abs=0.1
    )
    assert "most will be suppressed" in str(forecast.lines["warning"])
    assert forecast.memory_mb < 1
    assert "warning" not in method.forecast(schema, 100_000).lines
    # A public number of rows costs nothing.
    public = method.forecast(small_schema(rows=1000))
    assert public.split == {"tuples": Fraction(1)}
    assert public.lines["number of rows"] == "public"
    assert "warning" in public.lines
    pure = NoisyCounts(epsilon=1, mechanism="pure").forecast(schema, 100)
    assert pure.lines["absent tuples with a count above 0, at most about"] == round(0.26894 * 909)
    assert "noise is larger" in str(pure.lines["warning"])


def test_forecast_of_a_domain_beyond_any_machine() -> None:
    columns = {f"x{i}": {"type": "integer", "low": 0, "high": 10**6} for i in range(80)}
    schema = Schema.from_dict({"name": "wide", "columns": columns})
    forecast = NoisyCounts(epsilon=1, delta="1e-5", k=10).forecast(schema, 10**6)
    assert forecast.n_cells == (10**6 + 1) ** 80
    assert "warning" in forecast.lines


# --- a run --------------------------------------------------------------------------------------


class CountingEngine:
    """Engine that counts rows of codes one by one."""

    def __init__(self, schema: Schema, rows: Sequence[tuple[int, ...]]) -> None:
        self.schema, self.rows = schema, rows

    def n_rows(self) -> int:
        return len(self.rows)

    def publish_cells(
        self, columns: Sequence[str], *asked: Any, recode: Any = None, also: Any = None
    ) -> pa.Table:
        return publish_here(self.counts(columns, recode=recode), *asked, also=also)

    def counts(
        self, columns: Sequence[str], *, recode: Mapping[str, Recoding] | None = None
    ) -> OccupiedCells:
        recode = recode or {}
        codes = np.array(self.rows, np.int64).reshape(-1, len(columns))
        for position, name in enumerate(columns):
            if name in recode:
                codes[:, position] = recode[name].apply(codes[:, position])
        found = sorted(Counter(map(tuple, codes.tolist())).items())
        domain = recoded_domain(self.schema, columns, recode)
        cells = np.array([row for row, _ in found], np.int64).reshape(-1, len(columns))
        counts = np.array([count for _, count in found], np.int64)
        return OccupiedCells(domain, domain.pack(cells), counts)


MANY = 4000
ROWS = [(30, 0, 0)] * MANY + [(100, 2, 2)] * (MANY + 1) + [(0, 1, 1)] * (MANY + 2) + [(7, 0, 0)] * 9


@pytest.mark.parametrize("mechanism", ["tight", "paper"])
def test_a_run_publishes_common_tuples_and_no_rare_one(mechanism: str) -> None:
    schema = small_schema()
    method = NoisyCounts(epsilon=1, delta="1e-5", k=10, mechanism=mechanism)
    for _ in range(20):
        released = method.run(CountingEngine(schema, ROWS), SecureNoise())  # type: ignore[arg-type]
        table = released.tables["data"]
        assert table.schema == pa.schema(
            [
                ("age", pa.int64()),
                ("sex", pa.string()),
                ("dose", pa.float64()),
                ("count", pa.int64()),
            ]
        )
        # In the order of the domain, missing as null; P[noise above 200] < 1e-40.
        assert table.drop_columns("count").to_pylist() == [
            {"age": 0, "sex": "M", "dose": 0.5},
            {"age": 30, "sex": "F", "dose": 0.0},
            {"age": None, "sex": None, "dose": 1.0},
        ]
        errors = np.array(table["count"]) - np.array([MANY + 2, MANY, MANY + 1])
        assert np.abs(errors).max() < 200
        assert released.settings["row_total"] is None
        json.dumps(released.settings)


def test_a_run_recodes_first() -> None:
    method = NoisyCounts(
        epsilon=1, delta="1e-5", k=10, generalize={"age": [18, 65], "dose": 1.0},
        row_count_share="1/10",
    )  # fmt: skip
    released = method.run(CountingEngine(small_schema(), ROWS), SecureNoise())  # type: ignore[arg-type]
    assert released.tables["data"].drop_columns("count").to_pylist() == [
        {"age": "0 to 17", "sex": "M", "dose": "0.0 to 0.5"},
        {"age": "18 to 64", "sex": "F", "dose": "0.0 to 0.5"},
        {"age": None, "sex": None, "dose": "1.0"},
    ]
    total = released.settings["row_total"]
    assert total["scale"] == "10"
    assert abs(total["value"] - len(ROWS)) < 1000  # P < 1e-43
    assert released.settings["epsilon_per_row"] == "9/10"


def test_the_number_of_rows_is_noised_for_all_rows_of_a_person() -> None:
    schema = small_schema(unit={"kind": "person", "column": "person", "max_rows": 3})
    method = NoisyCounts(epsilon=1, delta="1e-5", k=10, row_count_share="1/10")
    released = method.run(CountingEngine(schema, ROWS), SecureNoise())  # type: ignore[arg-type]
    assert released.settings["row_total"]["scale"] == "30"
    assert released.settings["epsilon_per_row"] == "3/10"
    std = method.forecast(schema).lines["standard deviation of the number of rows"]
    assert std == pytest.approx(30 * math.sqrt(2), rel=1e-3)
    public = small_schema(rows=len(ROWS))
    released = method.run(CountingEngine(public, ROWS), SecureNoise())  # type: ignore[arg-type]
    assert released.settings["row_total"] is None
    assert released.settings["epsilon_per_row"] == "1"


def test_a_run_of_pure_publishes_the_whole_domain() -> None:
    schema = small_schema()
    method = NoisyCounts(epsilon=1, mechanism="pure")
    released = method.run(CountingEngine(schema, ROWS), SecureNoise())  # type: ignore[arg-type]
    table = released.tables["data"]
    assert table.num_rows == 909
    noisy, count = np.array(table["noisy_count"]), np.array(table["count"])
    assert (count == np.maximum(noisy, 0)).all()
    assert (noisy < 0).any()  # 27% of 905 empty tuples
    large = table.filter(pa.array(count > MANY // 2))
    assert large.drop_columns(["count", "noisy_count"]).to_pylist() == [
        {"age": 0, "sex": "M", "dose": 0.5},
        {"age": 30, "sex": "F", "dose": 0.0},
        {"age": None, "sex": None, "dose": 1.0},
    ]


@pytest.mark.parametrize("mechanism", ["tight", "paper", "pure"])
def test_a_run_on_an_empty_table(mechanism: str) -> None:
    limits = {} if mechanism == "pure" else {"delta": "1e-5", "k": 10}
    method = NoisyCounts(epsilon=1, mechanism=mechanism, **limits)
    engine = CountingEngine(small_schema(), [])
    table = method.run(engine, SecureNoise()).tables["data"]  # type: ignore[arg-type]
    assert table.num_rows == (909 if mechanism == "pure" else 0)
    full = method.run(CountingEngine(small_schema(), ROWS), SecureNoise())  # type: ignore[arg-type]
    assert table.schema == full.tables["data"].schema


@pytest.mark.parametrize("mechanism", BOTH)
def test_noise_is_added_without_overflow(
    mechanism: type[OneSidedGeometric] | type[ThresholdMatrix],
) -> None:
    made: CountMechanism = mechanism(epsilon=Fraction(1, 10**9), delta=Fraction(1, 10**6), k=1)
    huge = np.full(1000, 2**63 - 1, np.int64)
    published = made.noisy(huge, SecureNoise())
    assert published.min() > 2**62


@pytest.mark.parametrize("mechanism", ["tight", "paper"])
@pytest.mark.parametrize("max_rows", [None, 3])
def test_a_tuple_of_fewer_than_k_rows_is_never_published(
    mechanism: str, max_rows: int | None
) -> None:
    columns: dict[str, Any] = {"x": {"type": "integer", "low": 0, "high": 3}}
    content: dict[str, Any] = {"name": "t", "columns": columns}
    if max_rows is not None:
        columns["who"] = {"role": "identifier"}
        content["unit"] = {"kind": "person", "column": "who", "max_rows": max_rows}
    method = NoisyCounts(epsilon=1, delta="1e-5", k=10, mechanism=mechanism)  # type: ignore[arg-type]
    of_count = method.plan(Schema.from_dict(content)).mechanism.release_probability
    assert of_count(9) == 0 < of_count(10)
