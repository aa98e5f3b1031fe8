"""The auditor: its statistics, its registry, and correct methods, which must pass.

By construction, a method that keeps its promises fails an audit with probability at most 1e-6.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.stats import binom

from audit.real import REAL, label
from hushtable.audit import audit
from hushtable.audit.bounds import (
    POWER,
    EventTally,
    at_least,
    at_most,
    loss_at_least,
    visible_delta,
    visible_loss,
)
from hushtable.audit.cases import CASES
from hushtable.audit.claims import n_fits
from hushtable.audit.features import features
from hushtable.audit.inputs import (
    GraphInput,
    Pair,
    TableInput,
    corner_cells,
    searched_graphs,
    searched_pairs,
    with_and_without,
)
from hushtable.audit.loss import LossClaim, LossTest
from hushtable.audit.run import case_of
from hushtable.audit.subject import Clock, Prepared, Subject
from hushtable.errors import ParameterError, TooLarge
from hushtable.methods import (
    METHODS,
    AlphaBeta,
    Condensation,
    ContingencyTable,
    DiffGen,
    GeneralizeSuppress,
    NoisyCounts,
    RandomSampling,
    TopDownSpecialization,
    Uncertain,
    registry,
)
from hushtable.methods.base import GraphMethod, Released
from hushtable.methods.spec import MethodSpec
from hushtable.methods.uncertain.uncertain import UncertainPlan
from hushtable.privacy.guarantee import ApproxDP, PureDP
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.sources import SecureNoise, SeededNoise
from hushtable.schema import Schema
from seeds import shifted

# --- bounds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.001, 0.05, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("n", [1, 20, 400])
def test_bounds_are_wrong_no_more_often_than_stated(n: int, p: float) -> None:
    """Exact check, by summing over all outcomes."""
    hits = np.arange(n + 1)
    chances = binom.pmf(hits, n, p)
    low = np.array([at_least(EventTally(int(h), n), error=0.01) for h in hits])
    high = np.array([at_most(EventTally(int(h), n), error=0.01) for h in hits])
    assert chances[low > p].sum() <= 0.01
    assert chances[high < p].sum() <= 0.01


def test_the_bound_on_the_loss_is_wrong_no_more_often_than_stated() -> None:
    """Randomized response at epsilon = 1 and delta = 1/20, all outcomes of 60 runs on each side."""
    n, delta = 60, 0.05
    q = (1 - delta) / (1 + math.e)
    p = math.e * q + delta
    hits = np.arange(n + 1)
    wrong = sum(
        binom.pmf(more, n, p) * binom.pmf(less, n, q)
        for more in hits
        for less in hits
        if loss_at_least(
            EventTally(int(more), n), EventTally(int(less), n), delta=delta, error=0.05
        )
        > 1
    )
    assert 0 < wrong <= 0.05


def test_the_resolution_is_the_smallest_loss_that_is_detected() -> None:
    """Exact check of the stated power, by summing over all outcomes."""
    less, n = EventTally(300, 5000), 5000
    caught = np.array(
        [loss_at_least(EventTally(h, n), less, delta=0.01, error=1e-6) > 1 for h in range(n + 1)]
    )
    loss = visible_loss(less, limit=1.0, delta=0.01, error=1e-6)
    delta = visible_delta(less, limit=1.0, delta=0.01, error=1e-6)
    for rate in (math.exp(loss) * less.rate + 0.01, math.e * less.rate + delta):
        chance = binom.pmf(np.arange(n + 1), n, rate)[caught].sum()
        assert chance == pytest.approx(POWER, abs=1e-6)
    assert visible_loss(EventTally(900, 1000), limit=1.0, delta=0, error=1e-6) == math.inf
    assert visible_delta(EventTally(900, 1000), limit=1.0, delta=0, error=1e-6) == math.inf


# --- the whole procedure, on a mechanism with a known loss ----------------------------------------

GRAIN = Schema.from_dict({"name": "t", "columns": {"x": {"type": "integer", "low": 0, "high": 1}}})


@dataclass
class Geometric:
    """A count with two-sided geometric noise: its loss is exactly epsilon, at many events."""

    epsilon: float
    generator: np.random.Generator

    def run(self, engine: Any, noise: Noise) -> Released:
        draws = self.generator.geometric(1 - math.exp(-self.epsilon), 2)
        return Released({}, {"count": int(engine.n_rows() + draws[0] - draws[1])})


def one_audit(mechanism: Any, runs: int, error: float, limit: float) -> Any:
    """Search and test like the audit, without the search over tables."""
    pair = with_and_without(GRAIN, "one row", [(0,)] * 3, [(0,)])
    claim = LossClaim("known", [pair], limit, limit)
    subject = Subject(mechanism, GRAIN, Prepared((), mechanism.run), SeededNoise(shifted(1)))
    return LossTest(subject, claim, runs, error, Clock()).finding()


def test_false_alarms_are_as_rare_as_stated() -> None:
    """Audits at 80% confidence of a mechanism whose loss is exactly its promise.

    The last one is missed with probability below 1e-8 by the best event, of 0.731 and 0.269.
    """
    mechanism = Geometric(1.0, np.random.default_rng(shifted(2)))
    n_audits = 150
    alarms = sum(
        one_audit(mechanism, 120, 0.2, 1.0).verdict == "VIOLATION" for _ in range(n_audits)
    )
    # More alarms than this have probability below 1e-6, if each has 0.2.
    assert alarms <= binom.isf(1e-6, n_audits, 0.2)
    assert one_audit(mechanism, 4000, 0.2, 0.7).verdict == "VIOLATION"  # and false alarms do occur


def test_the_bound_is_close_to_the_loss() -> None:
    mechanism = Geometric(1.0, np.random.default_rng(shifted(3)))
    finding = one_audit(mechanism, 20_000, 1e-6, 1.0)
    assert finding.verdict == "NO VIOLATION FOUND"
    assert 0.8 < finding.bound <= 1.0
    assert 1.0 < finding.resolution < 1.25


# --- neighbors and inputs -------------------------------------------------------------------------


def test_every_method_registers_its_neighbors() -> None:
    """A new method must register an audit case, and be among the methods below."""
    assert CASES.keys() == {method.name for method in REAL}
    assert CASES.keys() >= METHODS.keys(), "add the case of the new method"
    for method in REAL:
        case = case_of(method.name)
        schema = case.schema(method)
        if isinstance(method, GraphMethod):
            assert list(case.pairs(method, schema))
            continue
        counted = [p for p in method.guarantee(schema) if isinstance(p, PureDP | ApproxDP)]
        assert bool(list(case.pairs(method, schema))) is bool(counted)


def rows_apart(pair: Pair) -> tuple[int, int]:
    assert isinstance(pair.one, TableInput)
    assert isinstance(pair.two, TableInput)
    one, two = list(pair.one.rows), list(pair.two.rows)
    for row in pair.two.rows:
        if row in one:
            one.remove(row)
            two.remove(row)
    return len(one), len(two)


def test_neighbors_differ_in_one_row_or_one_person() -> None:
    """A pair with a larger difference would fail methods that keep their promise."""
    for method in REAL:
        if isinstance(method, GraphMethod):
            continue
        case = case_of(method.name)
        schema = case.schema(method)
        for pair in case.pairs(method, schema):
            if schema.unit.kind == "person":
                assert isinstance(pair.one, TableInput)
                assert isinstance(pair.two, TableInput)
                one, two = (
                    set(zip(side.persons or (), side.rows, strict=True))
                    for side in (pair.one, pair.two)
                )
                assert two <= one
                assert len({person for person, _ in one - two}) == 1
            else:
                assert rows_apart(pair) == ((1, 1) if method.name == "frapp" else (1, 0))


def test_all_small_tables_are_searched() -> None:
    schema = Schema.from_dict(
        {"name": "t", "columns": {"x": {"type": "integer", "low": 0, "high": 2}}}
    )
    assert set(corner_cells(schema)) == {(0,), (1,), (2,)}
    pairs = list(searched_pairs(schema, "add-remove", 3))
    assert {rows_apart(pair) for pair in pairs} == {(1, 0)}
    # Multisets of 0, 1 and 2 of 3 rows are 1 + 3 + 6, each with one of 3 rows more.
    assert len(pairs) == 30
    exchanged = list(searched_pairs(schema, "replace", 2))
    assert {rows_apart(pair) for pair in exchanged} == {(1, 1)}
    assert len(exchanged) == (1 + 3) * 3


def test_all_small_graphs_are_searched() -> None:
    pairs = list(searched_graphs(3, listed=True))
    # 4 graphs with 3 nodes; distinct nodes: 1 + 2 + 2 + 1.
    assert len(pairs) == 6
    for pair in pairs:
        assert isinstance(pair.one, GraphInput)
        assert isinstance(pair.two, GraphInput)
        assert len(pair.two.nodes) == 2
        gone = set(pair.one.nodes) - set(pair.two.nodes)
        left = {edge for edge in pair.one.edges if not gone & set(edge)}
        assert set(pair.two.edges) == left
    star = GraphInput(("a", "b", "c"), (("a", "b"), ("a", "c")), listed=False)
    assert star.without("a").nodes == ()


def test_rows_of_a_person_are_selected_again_in_every_run() -> None:
    schema = Schema.from_dict(
        {
            "name": "t",
            "unit": {"kind": "person", "column": "who", "max_rows": 1},
            "columns": {
                "who": {"role": "identifier"},
                "x": {"type": "integer", "low": 0, "high": 9},
            },
        }
    )
    table = TableInput(schema, tuple((x,) for x in range(10)), (0,) * 10)
    noise = SeededNoise(shifted(1))
    engine, seen = table.open(noise), set()
    for _ in range(60):
        engine.use_noise(noise, resample_rows=True)
        cells = engine.counts(["x"])
        assert cells.counts.tolist() == [1]
        seen.add(int(cells.codes[0, 0]))
    assert len(seen) > 5


def test_features_of_floats_show_which_doubles_can_be_reached() -> None:
    import pyarrow as pa

    def bit(value: float) -> float:
        released = Released({"data": pa.table({"x": [1], "count": [value]})})
        return features(released, {"x"})["data[1].count, lowest bit"]

    assert bit(1 + 2.0**-52) == -52
    assert bit(2.0**-60) == -60
    assert bit(6.0) == 1


def test_records_that_fit_are_those_of_the_methods_own_check() -> None:
    """Two ways to count: the definition here, and the kernel of the linkage attack."""
    from hushtable.kernels.nearest import rank_owners

    draw = np.random.default_rng(shifted(4))
    for is_box in (True, False):
        codes = draw.integers(0, 15, (40, 2))
        widths = np.repeat(draw.integers(1, 4, (2, 1)), 20, axis=0) * np.ones((1, 2), int)
        noisy = (codes + draw.integers(-1, 2, codes.shape) * (widths // 1)) % 15
        joined = np.array([15, 15])
        unchanged = np.empty((40, 0), int)
        mine = n_fits(codes, noisy, widths, unchanged=unchanged, joined=joined, is_box=is_box)
        level = np.unique(widths, axis=0, return_inverse=True)[1].reshape(-1)
        better, equal, _ = rank_owners(
            codes.astype(float), noisy.astype(float), widths.astype(float), level=level,
            is_gaussian=not is_box, period=joined.astype(float),
        )  # fmt: skip
        assert (mine == better + equal).all()


# --- correct methods ------------------------------------------------------------------------------

LONG = 100_000


def passes(method: Any, runs: int, seconds: float | None, largest: int) -> None:
    report = audit(method, runs=runs, seconds=seconds, largest=largest)
    promised = [f for f in report.findings if f.reason != "the method makes no promise"]
    told = "\n".join(report.lines())
    assert not any(f.verdict == "VIOLATION" for f in promised), told
    if seconds is None:  # in a few seconds not every promise is tested
        assert all(f.verdict == "NO VIOLATION FOUND" for f in promised), told
    assert bool(promised) is not isinstance(method, Condensation | RandomSampling)
    for finding in promised:
        assert finding.n_inputs >= 1 or seconds or finding.promise.startswith("All randomness")
        if finding.limit is not None and finding.bound is not None:
            assert finding.bound <= finding.limit


@pytest.mark.parametrize("method", REAL, ids=label)
def test_correct_methods_pass(method: Any) -> None:
    passes(method, REAL[method], seconds=0.5, largest=1)


@pytest.mark.long
@pytest.mark.parametrize("method", REAL, ids=label)
def test_correct_methods_pass_long_audits(method: Any) -> None:
    passes(method, LONG, seconds=None, largest=3)


@pytest.mark.long
@pytest.mark.parametrize(
    "method",
    [ContingencyTable(epsilon=1), AlphaBeta(alpha="2/5", beta="1/10")],
    ids=lambda m: m.name,
)
def test_the_search_finds_most_of_the_loss(method: Any) -> None:
    """These methods lose all of epsilon on some pair, so a good search proves most of it."""
    finding = audit(
        method, runs=12_000, largest=1, noise=SeededNoise(shifted(5)), tests=["loss"], seconds=None
    ).findings[0]
    assert finding.verdict == "NO VIOLATION FOUND"
    assert finding.bound > 0.75 * finding.limit  # type: ignore[operator]


# --- audits that could not detect anything --------------------------------------------------------


def audited(run: Any, monkeypatch: pytest.MonkeyPatch, method: Any = None, runs: int = 400) -> Any:
    """Audit a method that is run in another way."""
    method = method or ContingencyTable(epsilon=1)
    plan = method.plan(case_of(method.name).schema(method))
    monkeypatch.setattr(type(plan), "run", run)
    return audit(method, runs=runs, largest=1, tests=["loss"])


def refuse(self: Any, engine: Any, noise: Noise) -> Released:
    raise TooLarge("the domain has too many cells.")


@pytest.mark.parametrize(
    "method", [ContingencyTable(epsilon=1), GeneralizeSuppress(k=5), TopDownSpecialization(k=3),
               NoisyCounts(epsilon=1, delta="1/100", k=5), AlphaBeta(alpha="2/5", beta="1/10")],
    ids=lambda method: method.name,
)  # fmt: skip
def test_a_method_that_refuses_every_run_is_not_tested(
    method: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = audited(refuse, monkeypatch, method)
    assert report.verdict == "NOT TESTED"
    for finding in report.findings:
        assert finding.headline == (
            "NOT TESTED (every run was refused: TooLarge: the domain has too many cells.)"
        )


def test_tables_that_are_all_refused_are_not_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    def perturb(self: Any, *arguments: Any) -> Any:
        raise TooLarge("too many records.")

    monkeypatch.setattr(UncertainPlan, "perturb", perturb)
    report = audit(Uncertain(k=3, eta="1/5"), runs=40)
    assert report.verdict == "NOT TESTED"
    assert "too many records" in report.findings[0].reason


def test_a_method_with_constant_output_is_not_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    report = audited(lambda *_: Released({}, {"n": 7}), monkeypatch)
    assert report.verdict == "NOT TESTED"
    assert "had the same output" in report.findings[0].reason


def test_too_few_runs_to_detect_anything_are_not_a_test() -> None:
    report = audit(ContingencyTable(epsilon=3), runs=12, largest=0, tests=["loss"])
    assert report.verdict == "NOT TESTED"
    assert "not enough" in report.findings[0].reason


@pytest.mark.parametrize("words", ["the same words", "words about {} rows"])
def test_refusals_and_their_messages_are_observed(
    words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one more row, it always refuses, whatever it publishes otherwise."""

    def run(self: Any, engine: Any, noise: Noise) -> Released:
        n_rows = engine.n_rows()
        if n_rows > 5 or "{}" in words:
            raise TooLarge(words.format(n_rows))
        return Released({}, {"n": 7})

    report = audited(run, monkeypatch)
    assert report.verdict == "VIOLATION"
    assert "refused: " in report.findings[0].witness.event


def test_rare_refusals_that_do_not_depend_on_rows_are_not_a_violation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(self: Any, engine: Any, noise: Noise) -> Released:
        if noise.uniform_below(4, size=1)[0] == 0:
            raise TooLarge("bad luck.")
        return Released({}, {"n": 7})

    assert audited(run, monkeypatch, runs=2000).verdict == "NO VIOLATION FOUND"


def test_a_method_without_a_promise_is_not_tested() -> None:
    report = audit(Condensation(k=3))
    assert report.verdict == "NOT TESTED"
    assert report.findings[0].headline == "NOT TESTED (the method makes no promise)"


def test_the_detection_limit_is_stated_in_terms_of_the_promise() -> None:
    noisy = audit(
        NoisyCounts(epsilon=1, delta="1/100", k=5), runs=2000, largest=0, tests=["loss"]
    ).findings
    groups = audit(TopDownSpecialization(k=3), runs=200).findings
    tuples = audit(GeneralizeSuppress(k=5), runs=200).findings
    said = [finding.headline for finding in (*noisy, *groups, *tuples)]
    for words in (
        "NO VIOLATION FOUND (would have detected epsilon above ",
        "NO VIOLATION FOUND (would have detected delta above 0.",
        "NO VIOLATION FOUND (would have detected it on any of ",
        "NO VIOLATION FOUND (would have detected that a tuple with 4 rows is published with "
        "probability",
    ):
        assert any(line.startswith(words) for line in said), (words, said)


# --- parameters -----------------------------------------------------------------------------------


def test_a_given_schema_is_used() -> None:
    schema = Schema.from_dict(
        {
            "name": "t",
            "columns": {
                "age": {"type": "integer", "low": 0, "high": 99},
                "smoker": {"type": "categorical", "values": ["no", "yes"], "missing": "category"},
            },
        }
    )
    report = audit(
        NoisyCounts(epsilon=1, delta="1e-6", k=10, generalize={"age": 20}), schema, runs=300,
        tests=["loss"],
    )  # fmt: skip
    assert report.verdict == "NO VIOLATION FOUND"
    assert "too small" in report.findings[0].notes[1]
    assert report.to_dict()["findings"][0]["witness"]["runs"] == 150


def test_parameters_that_name_columns_get_a_schema_that_has_them() -> None:
    for method in (
        NoisyCounts(epsilon=1, mechanism="pure", generalize={"age": 20, "income": [10, 30]}),
        DiffGen(epsilon=1, specializations=1, target="smoker"),
        AlphaBeta(prior_factor=1, n_public=1, gamma="4/5", source={"age": [1, 1, 1, 2, 2]}),
        Uncertain(k=3, eta="1/5", carry=["sex"], k_column="own"),
    ):
        assert audit(method, runs=24, largest=0, tests=["loss"]).verdict != "VIOLATION"


def test_several_views_are_audited_together() -> None:
    """Each run publishes all of them, with its own stored random bits."""
    method = AlphaBeta(alpha="2/5", beta="1/10", views=2)
    report = audit(method, runs=400, largest=0, tests=["loss"])
    assert report.verdict == "NO VIOLATION FOUND"
    assert report.findings[0].limit == pytest.approx(2.2, abs=0.1)


def test_the_time_limit_is_kept() -> None:
    report = audit(ContingencyTable(epsilon=1), runs=10**9, seconds=1, largest=0)
    assert report.verdict != "VIOLATION"
    assert report.findings[0].witness is not None
    assert 1 <= report.findings[0].witness.tally.runs < 10**6


def test_invalid_parameters_are_reported_together() -> None:
    with pytest.raises(ParameterError) as caught:
        audit(
            ContingencyTable(epsilon=1), runs=1, confidence=1, seconds=0, largest=9, tests=["luck"]
        )
    assert len(caught.value.problems) == 5
    with pytest.raises(ParameterError, match="need a specific schema"):
        audit(ContingencyTable(epsilon=1, max_cells=2))


@dataclass(frozen=True, kw_only=True)
class Theirs(ContingencyTable):
    """A method of another package."""

    name: ClassVar[str] = "theirs"


def test_a_method_of_another_package_brings_its_own_case(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ParameterError, match="'theirs' has no audit case"):
        audit(Theirs(epsilon=1))
    spec = MethodSpec(name="theirs", method=f"{__name__}:Theirs", audit=f"{__name__}:THEIR_CASE")
    monkeypatch.setattr(registry, "_joined", lambda: {"theirs": spec})
    report = audit(Theirs(epsilon=1), runs=24, largest=0, tests=["loss"])
    assert report.method == "theirs"
    assert report.findings[0].n_inputs == 1


def one_pair(method: Theirs, schema: Schema) -> Iterator[Pair]:
    yield with_and_without(schema, "theirs", [], [corner_cells(schema)[0]])


THEIR_CASE = replace(CASES["contingency-table"], pairs=one_pair)


def test_progress_is_reported() -> None:
    told: list[float] = []
    audit(
        ContingencyTable(epsilon=1), runs=200, seconds=1, largest=1, noise=SecureNoise(),
        progress=lambda what, share: told.append(share),
    )  # fmt: skip
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_histograms_by_a_column_are_not_taken_for_counts_of_it() -> None:
    """The engine caches both, under the names of the same columns."""
    schema = Schema.from_dict(
        {
            "name": "t",
            "columns": {name: {"type": "integer", "low": 0, "high": 1} for name in ("x", "y")},
        }
    )
    engine = TableInput(schema, ((0, 1), (1, 1))).open(SeededNoise(shifted(1)))
    for _ in range(2):
        assert engine.histograms(["x"], by="y")["x"].tolist() == [[0, 1], [0, 1]]
        assert engine.counts(["x", "y"]).counts.tolist() == [1, 1]
