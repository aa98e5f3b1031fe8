"""The alpha-beta method: parameters, refusals, releases, several views, estimates."""

from __future__ import annotations

import json
import math
import stat
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hushtable.engine import connect
from hushtable.errors import (
    BudgetExceeded,
    DataError,
    HushtableError,
    ParameterError,
    Refused,
    TooLarge,
)
from hushtable.methods import AlphaBeta, Frapp
from hushtable.methods.alpha_beta.insertion_estimator import InsertionEstimator, expected_insertions
from hushtable.methods.alpha_beta.two_rates import RandomizedEstimate
from hushtable.privacy.guarantee import BoundedAdversary, PureDP
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.privacy.mechanisms.tuple_perturbation import SourceInsertions, is_among
from hushtable.privacy.noise.sources import SecureNoise, SeededNoise
from hushtable.publishing.publish import publish
from hushtable.query.where import parse
from hushtable.schema import Schema
from seeds import shifted

Rows = list[tuple[int, ...]]


def grid(*sizes: int, rows: int | None = None, unit: object = "row") -> Schema:
    """Make a schema of integer columns a, b, c, ... of these sizes."""
    columns: dict[str, Any] = {
        name: {"type": "integer", "low": 0, "high": size - 1}
        for name, size in zip("abcdefghijklmnopqrstuvwxyz", sizes, strict=False)
    }
    if unit != "row":
        columns["who"] = {"role": "identifier"}
    content = {"name": "grid", "unit": unit, "columns": columns}
    return Schema.from_dict(content | ({"rows": rows} if rows else {}))


def table_of(schema: Schema, rows: Iterable[Sequence[int]]) -> pa.Table:
    listed = list(rows)
    return pa.table(
        {
            name: pa.array([row[i] for row in listed], pa.int64())
            for i, name in enumerate(schema.attributes)
        }
    )


def tuples(table: pa.Table, schema: Schema) -> set[tuple[int, ...]]:
    return set(zip(*(table.column(name).to_pylist() for name in schema.attributes), strict=True))


SMALL = grid(30, 40)


# --- parameters ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "no guarantee is set"),
        ({"d": "1/5", "gamma": "1/5"}, "Lower d or raise gamma"),
        ({"d": "1/5", "gamma": "1/10"}, "0 < d < gamma < 1"),
        ({"d": 0, "gamma": "1/10"}, "0 < d < gamma < 1"),
        ({"d": "1/5", "gamma": 1}, "0 < d < gamma < 1"),
        ({"d": "1/5"}, "gamma requires d or prior_factor"),
        ({"gamma": "1/5"}, "gamma requires d or prior_factor"),
        ({"d": "1/50", "prior_factor": 3, "gamma": "1/5"}, "pass only one of them"),
        ({"alpha": "1/2"}, "alpha and beta must be given together"),
        ({"alpha": "1/2", "beta": 0}, "beta is 0; it must be above 0"),
        ({"alpha": 0, "beta": "1/2"}, "alpha is 0"),
        ({"alpha": "1/2", "beta": "1/2"}, "must be below 1"),
        ({"alpha": "1/5", "beta": "1/5", "n_public": 100}, "n_public requires d or prior_factor"),
        ({"prior_factor": 10, "gamma": "1/5", "n_public": 30162}, "Round it to 31000"),
        ({"prior_factor": 0, "gamma": "1/5", "n_public": 300}, "prior_factor is 0"),
        ({"prior_factor": 1, "gamma": 2, "n_public": 300}, "gamma is 2"),
        ({"d": "x", "gamma": "1/5"}, "d: 'x' is not a valid number"),
        ({"d": "1/50", "gamma": "1/5", "views": 0}, "views is 0"),
        ({"d": "1/50", "gamma": "1/5", "adversary": "strong"}, "exclusive or independent"),
        ({"d": "1/50", "gamma": "1/5", "view_rule": "twice"}, "memoized or algorithm-4"),
        ({"d": "1/50", "gamma": "1/5", "source": {"a": [1, 2]}}, "cannot be combined with d"),
        (
            {
                "alpha": "1/5",
                "beta": "1/9",
                "source": {"a": [1, 2]},
                "views": 2,
                "view_rule": "algorithm-4",
            },
            "does not support view_rule algorithm-4",
        ),
        (
            {"prior_factor": 1, "gamma": "1/5", "n_public": 9, "source": {"a": [1, 0]}},
            "certainly be real if it is published",
        ),
        ({"prior_factor": 1, "gamma": "1/5", "source": 3}, "must map column names"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        AlphaBeta(**parameters)


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(ParameterError) as caught:
        AlphaBeta(d="x", n_public=1, gamma="y", views=0, adversary="z")  # type: ignore[arg-type]
    assert len(caught.value.problems) == 4


@pytest.mark.parametrize(
    ("method", "schema", "error", "message"),
    [
        (AlphaBeta(prior_factor=10, n_public=500, gamma="1/5"), SMALL, ParameterError, "too small"),
        (AlphaBeta(prior_factor=10, gamma="1/5"), SMALL, ParameterError, "pass n_public"),
        (
            AlphaBeta(d="1/100", n_public=1, gamma="1/5"),
            grid(9, unit="node"),
            ParameterError,
            "unit is node",
        ),
        (
            AlphaBeta(d="1/100", n_public=1, gamma="1/5", views=2, view_history="x"),
            grid(9, unit={"kind": "person", "column": "who", "max_rows": 2}),
            ParameterError,
            "unit is person",
        ),
        (
            AlphaBeta(d="1/100", n_public=1, gamma="1/5", views=2),
            SMALL,
            ParameterError,
            "file as view_history",
        ),
        (
            AlphaBeta(d="1/100", n_public=1, gamma="1/5"),
            grid(*[100] * 6),
            TooLarge,
            "max_tuples is 20,000,000",
        ),
        (AlphaBeta(alpha="1/2", beta="1/99", max_tuples=5), SMALL, TooLarge, "fewer or coarser"),
        (
            AlphaBeta(d="1/100", n_public=1, gamma="1/5", alpha="49/100", beta="1/100"),
            SMALL,
            ParameterError,
            r"rise from d = 0.01 to 0.5, above gamma = 0.2. Raise beta, raise gamma to that, or"
            r" lower d to 0.002519",
        ),
        (
            AlphaBeta(
                d="1/100",
                n_public=1,
                gamma="1/50",
                alpha="2/3",
                beta="1/6",
                adversary="independent",
            ),
            SMALL,
            ParameterError,
            "rule tuples out",
        ),
        (
            AlphaBeta(prior_factor="1/10", n_public=100, gamma="1/5", source={"z": [1]}),
            SMALL,
            ParameterError,
            "column 'z' is not published",
        ),
        (
            AlphaBeta(prior_factor="1/10", n_public=100, gamma="1/5", source={"a": [1, 2]}),
            SMALL,
            ParameterError,
            "30 codes .* but 2 weights",
        ),
        (
            AlphaBeta(prior_factor=1, n_public=100, gamma="1/5", source={"a": [1000] + [1] * 29}),
            SMALL,
            ParameterError,
            "use a more even source",
        ),
    ],
)
def test_refused_before_any_data_is_read(
    method: AlphaBeta, schema: Schema, error: type[HushtableError], message: str
) -> None:
    with pytest.raises(error, match=message):
        method.forecast(schema)


def test_the_promise_and_its_epsilon() -> None:
    for adversary, epsilon in (("exclusive", 5.5945), ("independent", 6.2858)):
        d = Fraction(301620, 648023040)
        method = AlphaBeta(d=d, n_public=300, gamma="1/5", adversary=adversary)  # type: ignore[arg-type]
        bounded, pure = method.guarantee(grid(720, 900))
        assert bounded == BoundedAdversary(
            d=Fraction(301620, 648023040), gamma="1/5", adversary=adversary
        )
        assert isinstance(pure, PureDP)
        assert float(pure.epsilon) == pytest.approx(epsilon, abs=1e-4)
    (only,) = AlphaBeta(alpha="9/20", beta="1/20").guarantee(SMALL)
    assert isinstance(only, PureDP)
    assert float(only.epsilon) == pytest.approx(math.log(10), abs=1e-6)


def test_several_rows_of_a_person_cost_as_many_times() -> None:
    method = AlphaBeta(alpha="9/20", beta="1/20")
    person = grid(30, 40, unit={"kind": "person", "column": "who", "max_rows": 3})
    (of_row,), (of_person,) = method.guarantee(SMALL), method.guarantee(person)
    assert isinstance(of_row, PureDP)
    assert isinstance(of_person, PureDP)
    assert of_person.epsilon == 3 * of_row.epsilon


def test_public_number_of_rows_serves_for_n() -> None:
    method = AlphaBeta(prior_factor=10, gamma="1/5")
    (bounded, _) = method.guarantee(grid(100, 100, rows=12))
    assert isinstance(bounded, BoundedAdversary)
    assert bounded.d == Fraction(120, 10_000)


def test_memory_is_bounded_by_what_is_expected() -> None:
    lines = AlphaBeta(d="1/1000", n_public=1, gamma="1/5").forecast(grid(100, 100, 10), 2000).lines
    assert lines["tuples inserted as noise, about"] == 399
    assert lines["counts are of"] == "distinct tuples"


def test_a_prior_below_blind_guessing_is_warned_of() -> None:
    method = AlphaBeta(d="1/50", n_public=1, gamma="1/5")
    assert "above d" in str(method.forecast(SMALL, 25).lines["warning"])
    assert "warning" not in method.forecast(SMALL, 24).lines


@pytest.mark.parametrize("adversary", ["exclusive", "independent"])
def test_a_d_below_blind_guessing_is_refused_at_the_border(adversary: str) -> None:
    """A d of n/m gives a promise, a smaller d does not; likewise prior_factor 1."""
    least, step = Fraction(100, 1200), Fraction(1, 10**30)
    given: dict[str, Any] = {"n_public": 100, "gamma": "1/5", "adversary": adversary}
    bounded, _ = AlphaBeta(d=least, **given).guarantee(SMALL)
    assert isinstance(bounded, BoundedAdversary)
    assert bounded == AlphaBeta(prior_factor=1, **given).guarantee(SMALL)[0]
    for below in (least - step, least / 2, Fraction(1, 10**60)):
        with pytest.raises(
            ParameterError, match=r"below n/m.*the guarantee is empty.*can reach"
        ) as e:
            AlphaBeta(d=below, **given).guarantee(SMALL)
        assert "Raise d to at least 0.08333 (exactly 1/12)" in str(e.value)
    for below in (1 - step, Fraction(1, 2), Fraction(1, 10**60)):
        with pytest.raises(
            ParameterError, match=r"prior_factor is .*, below 1: the guarantee is em"
        ):
            AlphaBeta(prior_factor=below, **given).guarantee(SMALL)
    # The schema's public number of rows suffices; without either, d cannot be checked.
    with pytest.raises(ParameterError, match="d needs a public number of tuples; pass n_public"):
        AlphaBeta(d="1/10", gamma="1/5").guarantee(SMALL)
    with pytest.raises(ParameterError, match="below n/m = 300/1200"):
        AlphaBeta(d="1/10", gamma="1/5").guarantee(grid(30, 40, rows=300))
    assert AlphaBeta(d="1/10", gamma="1/5").guarantee(grid(30, 40, rows=120))


@pytest.mark.parametrize("n_tuples", [1, 30, 100, 500])
@pytest.mark.parametrize("gamma", [Fraction(1, 20), Fraction(1, 2), Fraction(9, 10)])
def test_at_the_border_a_published_tuple_is_true_with_a_chance_of_gamma(
    n_tuples: int, gamma: Fraction
) -> None:
    """The derivation in alpha_beta.md, exactly: n s real tuples among n s + (m - n) b."""
    border = Fraction(n_tuples, 1200)
    if border >= gamma:
        pytest.skip("no d between n/m and gamma")
    for factor, at_most in ((1, True), (Fraction(99, 100), False)):
        for adversary in ("independent", "exclusive"):
            plan = AlphaBeta(d=factor * border, gamma=gamma, adversary=adversary).plan(SMALL)  # type: ignore[arg-type]
            keep, insert = plan.noise.alpha + plan.noise.beta, plan.noise.beta
            true = n_tuples * keep
            share = true / (true + (1200 - n_tuples) * insert)
            if adversary == "independent":
                assert (share == gamma) is (factor == 1)
                assert (share <= gamma) is at_most
                assert share == plan.ratios.posterior(border, "independent")
            elif at_most:
                assert share <= gamma


def test_epsilon_beyond_any_meaning_is_charged_in_full(tmp_path: Path) -> None:
    """A domain of 40**40: the bound on observers holds, and no ledger can charge it."""
    schema = Schema.from_dict(
        {
            "name": "wide",
            "columns": {f"x{i}": {"type": "integer", "low": 0, "high": 39} for i in range(40)},
        }
    )
    method = AlphaBeta(prior_factor=10, n_public=100, gamma="1/5")
    bounded, private = method.guarantee(schema)
    assert isinstance(bounded, BoundedAdversary)
    assert isinstance(private, PureDP)
    assert float(private.epsilon) == pytest.approx(
        math.log(40**40) - math.log(1000) + math.log(1 / 4 / 2), abs=0.01
    )
    assert "practically certain" in private.explain()
    ledger = Ledger.create(tmp_path / "ledger", epsilon=100, allow_uncounted=True)
    rows = np.random.default_rng(shifted(1)).integers(0, 40, (100, 40)).tolist()
    with pytest.raises(BudgetExceeded):
        publish(table_of(schema, rows), schema, method, out=tmp_path / "r", ledger=ledger)
    release = publish(table_of(schema, rows), schema, method, out=tmp_path / "r")
    assert release.count("x0 < 3 * x1").privacy_std > 0  # an interval of 95% may end at 0
    with pytest.raises(ParameterError, match="above 100"):
        AlphaBeta(alpha="1/2", beta="1e-60").guarantee(schema)


@pytest.mark.parametrize("rule", ["memoized", "algorithm-4"])
def test_domain_larger_than_any_float(rule: str, tmp_path: Path) -> None:
    """200 columns of 40 values: 10**320 tuples."""
    columns = {f"x{i}": {"type": "integer", "low": 0, "high": 39} for i in range(200)}
    schema = Schema.from_dict({"name": "wide", "columns": columns})
    insert = Fraction(500, schema.domain.size)
    method = AlphaBeta(
        d=insert,
        n_public=1,
        gamma="1/2",
        views=2,
        view_rule=rule,
        view_history=tmp_path / "history",
    )  # type: ignore[arg-type]
    assert "e+320" in str(method.forecast(schema, 1000).lines["tuples in the domain"])
    rows = np.random.default_rng(shifted(1)).integers(0, 40, (1000, 200))
    for view in range(2):
        release = publish(table_of(schema, rows.tolist()), schema, method, out=tmp_path / str(view))
        estimate = release.count("x0 < 20")
        assert abs(estimate.value - (rows[:, 0] < 20).sum()) < 6 * estimate.std


# --- releases -------------------------------------------------------------------------------------


def test_shares_kept_and_inserted(tmp_path: Path) -> None:
    """Binomial counts within bounds of false alarm 1e-9; duplicate rows make no difference."""
    schema = grid(400, 500)
    rows = [(i, j) for i in range(200) for j in range(500)]
    copies = [row for row in rows for _ in range(1 + 4 * (row[0] < 100))]
    release = publish(
        table_of(schema, copies), schema, AlphaBeta(alpha="3/10", beta="1/10"), out=tmp_path / "r"
    )
    found = tuples(release.table(), schema)
    assert len(found) == release.table().num_rows
    for low, share in ((0, 0.4), (100, 0.4), (200, 0.1), (300, 0.1)):
        n_found = sum(low <= a < low + 100 for a, _ in found)
        assert abs(n_found - 50_000 * share) < 6.2 * math.sqrt(50_000 * share * (1 - share))


def test_order_is_that_of_the_codes(tmp_path: Path) -> None:
    method = AlphaBeta(alpha="3/10", beta="1/10")
    release = publish(table_of(SMALL, [(3, 4)]), SMALL, method, out=tmp_path / "r")
    listed = list(zip(*(release.table()[name].to_pylist() for name in "ab"), strict=True))
    assert listed == sorted(listed)


@pytest.mark.parametrize("n_rows", [0, 1200])
def test_empty_table_and_whole_domain(n_rows: int, tmp_path: Path) -> None:
    rows = [(i // 40, i % 40) for i in range(n_rows)]
    method = AlphaBeta(d="1/20", n_public=1, gamma="1/2")
    release = publish(table_of(SMALL, rows), SMALL, method, out=tmp_path / "r")
    n_found, share = release.table().num_rows, 0.5 if n_rows else 0.05
    assert abs(n_found - 1200 * share) < 6 * math.sqrt(1200 * share * (1 - share))
    estimate = release.count("TRUE")
    assert abs(estimate.value - n_rows) < 6 * estimate.privacy_std + 1


def test_domain_far_beyond_enumeration(tmp_path: Path) -> None:
    schema = grid(*[40] * 20)
    draw = np.random.default_rng(shifted(3))
    rows = draw.integers(0, 40, (2000, 20))
    method = AlphaBeta(prior_factor=10, n_public=2000, gamma="1/5")
    release = publish(table_of(schema, rows.tolist()), schema, method, out=tmp_path / "r")
    expected = 0.5 * 2000 + 40 * 2000
    assert abs(release.table().num_rows - expected) < 6 * math.sqrt(expected)
    truth = int((rows[:, 0] < 3 * rows[:, 1]).sum())
    estimate = release.count("a < 3 * b")
    assert abs(estimate.value - truth) < 6 * estimate.std


def test_statement_contains_no_exact_count(tmp_path: Path) -> None:
    """Releases of tables of different size differ only in the number of tuples (rastogi-2007-5)."""
    method = AlphaBeta(prior_factor=1, n_public=500, gamma="1/2")
    documents = []
    for n_rows in (411, 487):
        rows = [(i // 40, i % 40) for i in range(n_rows)]
        release = publish(table_of(SMALL, rows), SMALL, method, out=tmp_path / str(n_rows))
        document = release.statement.model_dump(mode="json")
        del document["tables"]["data"]["sha256"], document["tables"]["data"]["rows"]
        documents.append(json.dumps(document))
        assert str(n_rows) not in documents[-1].replace(document["created"], "")
    assert documents[0] == documents[1]
    assert "distinct tuples" in documents[0]


def test_ledger_is_charged_the_epsilon(tmp_path: Path) -> None:
    method = AlphaBeta(d="1/100", n_public=1, gamma="1/5")
    ledger = Ledger.create(tmp_path / "ledger", epsilon=5)
    publish(table_of(SMALL, [(1, 1)]), SMALL, method, out=tmp_path / "r", ledger=ledger)
    _, pure = method.guarantee(SMALL)
    assert isinstance(pure, PureDP)
    assert ledger.remaining().epsilon == 5 - pure.epsilon
    with pytest.raises(BudgetExceeded):
        publish(table_of(SMALL, [(1, 1)]), SMALL, method, out=tmp_path / "s", ledger=ledger)


# --- several views --------------------------------------------------------------------------------


def views_of(release: Any, schema: Schema) -> list[set[tuple[int, ...]]]:
    table = release.table()
    numbers = table.column("view").to_numpy()
    return [
        tuples(table.filter(pa.array(numbers == number)), schema)
        for number in range(1, int(numbers.max()) + 1)
    ]


def test_old_tuples_are_republished_as_they_were(tmp_path: Path) -> None:
    schema = grid(200, 200)
    method = AlphaBeta(alpha="2/5", beta="1/10", views=3, view_history=tmp_path / "history")
    old = [(i, j) for i in range(100) for j in range(200)]
    new = [(i, j) for i in range(100, 150) for j in range(200)]
    first = publish(table_of(schema, old), schema, method, out=tmp_path / "1")
    second = publish(table_of(schema, old[:100] + new), schema, method, out=tmp_path / "2")
    third = publish(table_of(schema, []), schema, method, out=tmp_path / "3")
    (one,) = views_of(first, schema)
    two, three = views_of(second, schema), views_of(third, schema)
    assert two[0] == three[0] == one
    assert two[1] == three[1]
    # In view 2, new tuples are published at the table's rate and others at the insertion rate.
    for view, high in ((two[1], range(100, 150)), (three[2], range(0))):
        inside = sum(a in high for a, _ in view)
        n_inside = 200 * len(high)
        assert abs(inside - n_inside / 2) <= 6 * math.sqrt(n_inside / 4)
        rest = len(view) - inside
        assert abs(rest - (40_000 - n_inside) / 10) < 6 * math.sqrt(40_000 * 0.09)
    estimate = third.count("TRUE")
    assert abs(estimate.value - 30_000) < 6 * estimate.std  # all tuples of any view
    told = (tmp_path / "3" / "STATEMENT.md").read_text()
    assert "ever in the table" in told
    assert "A row that changes between views counts as two units" in told


def test_a_row_that_changes_between_views_costs_two_rows() -> None:
    """Published in both: s**2 against b**2, above the cost of views of a row that stays."""
    plan = AlphaBeta(alpha="2/5", beta="1/10", views=2, view_history="x").plan(grid(8, 1))
    stays, changes = float(plan.epsilon), 2 * math.log(0.5 / 0.1)
    assert stays < changes < 2 * stays
    assert any(said.startswith("A row that changes") for said in plan.conditions)
    assert AlphaBeta(alpha="2/5", beta="1/10").plan(grid(8, 1)).conditions == ()


@pytest.mark.parametrize("rule", ["memoized", "algorithm-4"])
def test_a_view_too_many_is_refused_before_it_is_charged(rule: str, tmp_path: Path) -> None:
    method = AlphaBeta(
        d="1/100",
        n_public=1,
        gamma="1/2",
        views=2,
        view_rule=rule,
        view_history=str(tmp_path / "history"),
    )  # type: ignore[arg-type]
    ledger = Ledger.create(tmp_path / "ledger", epsilon=100)
    for number in range(2):
        publish(table_of(SMALL, [(1, 1)]), SMALL, method, out=tmp_path / str(number), ledger=ledger)
    with pytest.raises(Refused, match="one more would break the guarantee"):
        publish(table_of(SMALL, [(1, 1)]), SMALL, method, out=tmp_path / "x", ledger=ledger)
    assert len(list(ledger.entries())) == 2


def test_algorithm_4_refuses_a_changed_table(tmp_path: Path) -> None:
    method = AlphaBeta(
        d="1/100",
        n_public=1,
        gamma="1/2",
        views=3,
        view_rule="algorithm-4",
        view_history=tmp_path / "history",
    )
    publish(table_of(SMALL, [(1, 1), (1, 1)]), SMALL, method, out=tmp_path / "1")
    publish(table_of(SMALL, [(1, 1)]), SMALL, method, out=tmp_path / "2")  # the same set
    with pytest.raises(Refused, match="has changed since the first view"):
        publish(table_of(SMALL, [(1, 2)]), SMALL, method, out=tmp_path / "3")


def test_the_file_of_earlier_views_is_private_and_complete(tmp_path: Path) -> None:
    history = tmp_path / "history"
    method = AlphaBeta(d="1/100", n_public=1, gamma="1/2", views=3, view_history=history)
    release = publish(table_of(SMALL, [(1, 1)]), SMALL, method, out=tmp_path / "1")
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert str(history) not in (tmp_path / "1" / "statement.json").read_text()
    assert "view_history" not in release.statement.parameters
    other = AlphaBeta(d="1/200", n_public=1, gamma="1/2", views=3, view_history=history)
    with pytest.raises(ParameterError, match="other parameters"):
        publish(table_of(SMALL, [(1, 1)]), SMALL, other, out=tmp_path / "2")
    with pytest.raises(ParameterError, match="other parameters"):
        publish(table_of(grid(30, 41), []), grid(30, 41), method, out=tmp_path / "2")
    history.chmod(0o644)
    with pytest.raises(ParameterError, match="chmod 600"):
        publish(table_of(SMALL, [(1, 1)]), SMALL, method, out=tmp_path / "2")
    history.write_bytes(b"no database" * 99)
    history.chmod(0o600)
    with pytest.raises(DataError, match="restore a backup"):
        publish(table_of(SMALL, [(1, 1)]), SMALL, method, out=tmp_path / "2")


def test_nothing_is_remembered_of_a_view_that_was_not_drawn(tmp_path: Path) -> None:
    method = AlphaBeta(
        d="1/100", n_public=1, gamma="1/2", views=2, view_history=tmp_path / "history"
    )
    broken = pa.table({"a": [1], "b": [99]})
    strict = SMALL.to_dict()
    strict["columns"]["b"]["outside"] = "refuse"
    schema = Schema.from_dict(strict)
    with pytest.raises(DataError):
        publish(broken, schema, method, out=tmp_path / "1")
    for number in range(2):
        publish(table_of(SMALL, [(1, 1)]), schema, method, out=tmp_path / f"v{number}")


def test_several_views_cost_a_replacement(tmp_path: Path) -> None:
    """A row may decide in which view its tuple is new: the loss is that of two draws."""
    once = AlphaBeta(alpha="9/20", beta="1/20")
    twice = AlphaBeta(alpha="9/20", beta="1/20", views=2)
    (one,), (two,) = once.guarantee(SMALL), twice.guarantee(SMALL)
    assert isinstance(one, PureDP)
    assert isinstance(two, PureDP)
    assert float(one.epsilon) == pytest.approx(math.log(10), abs=1e-6)
    assert float(two.epsilon) == pytest.approx(math.log(10 * 0.95 / 0.5), abs=1e-6)


@pytest.mark.parametrize("n_limbs", [1, 2])
def test_membership_of_keys(n_limbs: int) -> None:
    draw = np.random.default_rng(shifted(5))
    some, others = (np.unique(draw.integers(0, 6, (size, n_limbs)), axis=0) for size in (20, 15))
    among = {tuple(row) for row in others.tolist()}
    assert is_among(some, others).tolist() == [tuple(row) in among for row in some.tolist()]
    assert not is_among(some, others[:0]).any()


# --- noise from a source --------------------------------------------------------------------------

SOURCE = AlphaBeta(
    prior_factor="1/2",
    n_public=100,
    gamma="1/3",
    source={"a": [5] * 10 + [1] * 20, "b": [2] * 20 + [1] * 20},
)


def test_source_noise_has_exactly_its_probabilities() -> None:
    """Insertions by class of tuples over 300 draws; false alarm below 1e-6."""
    law = SOURCE.plan(SMALL).noise
    assert isinstance(law, SourceInsertions)
    found = np.zeros((30, 40), np.int64)
    noise, runs = SecureNoise(), 300
    for _ in range(runs):
        codes = SMALL.domain.unpack(law.insert(noise))
        assert len({tuple(row) for row in codes.tolist()}) == len(codes)
        np.add.at(found, tuple(codes.T), 1)
    for rows, columns, weight in (
        (slice(0, 10), slice(0, 20), 10), (slice(0, 10), slice(20, 40), 5),
        (slice(10, 30), slice(0, 20), 2), (slice(10, 30), slice(20, 40), 1),
    ):  # fmt: skip
        part = found[rows, columns]
        beta = float(law.beta_bounds(weight)[0])
        assert beta == pytest.approx(1 - (1 - float(law.hit)) ** weight, rel=1e-9)
        trials = part.size * runs
        assert abs(part.sum() - trials * beta) < 5.5 * math.sqrt(trials * beta * (1 - beta))


def test_source_tuples_are_kept_with_alpha_and_beta() -> None:
    law = SOURCE.plan(SMALL).noise
    codes = np.repeat([[0, 0], [29, 39]], 20_000, axis=0)
    kept = law.keep(codes, np.ones(len(codes), np.int64), SecureNoise())
    assert isinstance(law, SourceInsertions)
    for part, weight in ((kept[:20_000], 10), (kept[20_000:], 1)):
        p = float(law.alpha + law.beta_bounds(weight)[0])
        assert abs(part.sum() - 20_000 * p) < 5.5 * math.sqrt(20_000 * p * (1 - p))


@pytest.mark.parametrize("adversary", ["exclusive", "independent"])
def test_source_promise_holds_for_every_class_and_with_less_noise(adversary: str) -> None:
    parameters = SOURCE.parameters() | {"adversary": adversary}
    method = AlphaBeta(**parameters)
    plan, gamma = method.plan(SMALL), Fraction(1, 3)
    law = plan.noise
    assert isinstance(law, SourceInsertions)
    lowest = 1 - law.alpha / (1 - law.beta_bounds(10)[1])
    total = (10 * 5 + 20) * (20 * 2 + 20)
    for weight in (1, 2, 5, 10):
        beta, _ = law.beta_bounds(weight)
        d = Fraction(50 * weight, total)
        high = (law.alpha + beta) / beta
        rest = (1 - d) * (lowest if adversary == "exclusive" else 1)
        assert d * high / (d * high + rest) <= gamma
        assert 1 - law.alpha / (1 - beta) >= d / gamma
    # Uniform noise against the same observers needs the largest prior for all tuples.
    uniform = AlphaBeta(d=Fraction(500, total), gamma="1/3", adversary=adversary)  # type: ignore[arg-type]
    assert law.expected < uniform.plan(SMALL).noise.expected
    assert plan.d == Fraction(50, total)
    with pytest.raises(ParameterError, match="prior_factor is 1/2, below 1"):
        method.guarantee(SMALL)


def test_weighted_counts_equal_adding_up() -> None:
    law = SOURCE.plan(SMALL).noise
    assert isinstance(law, SourceInsertions)
    codes = {name: SMALL.domain.grid()[:, i] for i, name in enumerate("ab")}
    weights = np.array(law.weights[0])[codes["a"]] * np.array(law.weights[1])[codes["b"]]
    beta = 1 - (1 - float(law.hit)) ** weights
    for where in ("TRUE", "a < 12", "a < 3 * b OR b = 7", "(a + b) % 3 = 0", "FALSE"):
        predicate = parse(where, SMALL)
        assert expected_insertions(predicate, law) == pytest.approx(
            beta[predicate.mask(codes)].sum(), rel=1e-12
        )


# --- estimates ------------------------------------------------------------------------------------

TINY = grid(3, 2)
CELLS: Rows = list(product(range(3), range(2)))


def all_views() -> list[tuple[tuple[int, ...], ...]]:
    return [c for n in range(len(CELLS) + 1) for c in combinations(CELLS, n)]


def estimator(method: AlphaBeta, views: list[Any], schema: Schema = TINY) -> InsertionEstimator:
    table = table_of(schema, [row for view in views for row in view])
    if method.views > 1:
        numbers = [number for number, view in enumerate(views, 1) for _ in view]
        table = table.append_column("view", pa.array(numbers, pa.int64()))
    settings = {"view": len(views), "notes": [""]}
    return InsertionEstimator(schema, method.parameters(), settings, {"data": table})


def chance(view: Iterable[Any], p: dict[tuple[int, ...], float]) -> float:
    inside = set(view)
    return math.prod(p[t] if t in inside else 1 - p[t] for t in CELLS)


@pytest.mark.parametrize("where", ["TRUE", "a >= 1", "a = b", "NOT a > b OR b = 0"])
def test_estimates_are_unbiased_by_exact_expectation(where: str) -> None:
    table = {(0, 0), (1, 1), (2, 1)}
    codes = {name: np.array([t[i] for t in table]) for i, name in enumerate("ab")}
    truth = int(parse(where, TINY).mask(codes).sum())
    uniform = AlphaBeta(alpha="3/7", beta="1/11")
    source = AlphaBeta(
        prior_factor="1/10", n_public=3, gamma="1/2", source={"a": [3, 1, 1], "b": [2, 1]}
    )
    explicit = AlphaBeta(alpha="3/7", beta="1/11", source={"a": [3, 2, 2], "b": [2, 1]})
    for method in (uniform, source, explicit):
        law = method.plan(TINY).noise
        p = {}
        for t in CELLS:
            beta = 1 / 11
            if isinstance(law, SourceInsertions):
                beta = float(law.beta_bounds(law.weights[0][t[0]] * law.weights[1][t[1]])[0])
            p[t] = beta + float(law.alpha) * (t in table)
        mean = sum(
            chance(view, p) * estimator(method, [view]).answer(where).unbiased
            for view in all_views()
        )
        assert mean == pytest.approx(truth, abs=1e-9)


def test_estimates_of_later_views_are_unbiased_by_exact_expectation() -> None:
    """View 2 of Algorithm 4 over all pairs of views of two tuples' fates (rastogi-2007-11)."""
    schema, cells = grid(3), [(0,), (1,), (2,)]
    method = AlphaBeta(alpha="3/8", beta="1/8", views=2, view_rule="algorithm-4")
    table, s, b = {(0,), (1,)}, 0.5, 0.125
    every = [c for n in range(4) for c in combinations(cells, n)]
    mean = 0.0
    for one, two in product(every, repeat=2):
        p = 1.0
        for t in cells:
            first = s if t in table else b
            p *= first if t in one else 1 - first
            known = s * math.exp(-0.5) if t in one else (1 - s) * b
            again = s if t in table else known
            p *= again if t in two else 1 - again
        mean += p * estimator(method, [one, two], schema).answer("a <= 1").unbiased
    assert mean == pytest.approx(2, abs=1e-12)


def test_memoized_views_are_unbiased_by_exact_expectation() -> None:
    schema, cells = grid(3), [(0,), (1,), (2,)]
    method = AlphaBeta(alpha="3/8", beta="1/8", views=2)
    news = [{(0,)}, {(2,)}]  # tuple 2 came with the second view
    every = [c for n in range(4) for c in combinations(cells, n)]
    mean = 0.0
    for pair in product(every, repeat=2):
        p = 1.0
        for view, new in zip(pair, news, strict=True):
            for t in cells:
                here = 0.5 if t in new else 0.125
                p *= here if t in view else 1 - here
        mean += p * estimator(method, list(pair), schema).answer("a <> 1").unbiased
    assert mean == pytest.approx(2, abs=1e-12)


def test_memoized_views_of_a_source_are_unbiased_by_exact_expectation() -> None:
    schema, cells = grid(3), [(0,), (1,), (2,)]
    method = AlphaBeta(alpha="3/8", beta="1/8", views=2, source={"a": [1, 2, 1]})
    beta = {(0,): 1 / 8, (1,): 1 - (7 / 8) ** 2, (2,): 1 / 8}
    news = [{(0,), (1,)}, {(2,)}]
    every = [c for n in range(4) for c in combinations(cells, n)]
    mean = 0.0
    for pair in product(every, repeat=2):
        p = 1.0
        for view, new in zip(pair, news, strict=True):
            for t in cells:
                here = beta[t] + 3 / 8 * (t in new)
                p *= here if t in view else 1 - here
        mean += p * estimator(method, list(pair), schema).answer("a >= 1").unbiased
    assert mean == pytest.approx(2, abs=1e-12)


def test_source_with_explicit_probabilities_promises_what_the_rarest_tuple_has(
    tmp_path: Path,
) -> None:
    weights = {"a": [2] * 10 + [3] * 20}
    method = AlphaBeta(alpha="2/5", beta="1/10", source=weights)
    plan = method.plan(SMALL)
    law = plan.noise
    assert isinstance(law, SourceInsertions)
    rarest, likeliest = law.beta_bounds(2)[0], law.beta_bounds(3)[1]
    assert Fraction(1, 10) <= rarest < Fraction(1, 10) * (1 + Fraction(1, 2**50))
    assert likeliest == pytest.approx(1 - 0.9**1.5)
    # The rarest tuple is most informative if published, the most likely one if not.
    high, low = (law.alpha + rarest) / rarest, 1 - law.alpha / (1 - likeliest)
    assert method.guarantee(SMALL)[0].epsilon == pytest.approx(math.log(max(high, 1 / low)))
    twice = AlphaBeta(**method.parameters() | {"views": 2, "view_history": tmp_path / "history"})
    assert twice.guarantee(SMALL)[0].epsilon == pytest.approx(math.log(high / low))
    for turn, rows in enumerate(([(1, 1)], [(1, 1), (2, 3)]), 1):
        made = publish(table_of(SMALL, rows), SMALL, twice, out=tmp_path / f"view {turn}")
        answer = made.count("a >= 0")
        assert abs(answer.unbiased - turn) < 8 * answer.privacy_std  # an interval of 95% may miss
    with pytest.raises(ParameterError, match="is 1 or more"):
        AlphaBeta(alpha="2/5", beta="3/10", source={"a": [1] * 29 + [9]}).plan(SMALL)


def test_source_with_explicit_probabilities_is_checked_against_the_promise() -> None:
    weights = {"a": [1] * 10 + [2] * 20}
    bounded = {"prior_factor": 1, "n_public": 10, "gamma": "1/2", "source": weights}
    found = AlphaBeta(**bounded).plan(SMALL).noise
    assert isinstance(found, SourceInsertions)
    kept = AlphaBeta(**bounded, alpha=found.alpha, beta=found.hit)
    assert [p.family for p in kept.guarantee(SMALL)] == ["bounded-adversary", "pure-dp"]
    with pytest.raises(ParameterError, match="violate gamma"):
        AlphaBeta(**bounded, alpha="3/5", beta="1/1000").plan(SMALL)


def test_estimates_stay_within_what_counts_can_be(tmp_path: Path) -> None:
    method = AlphaBeta(d="1/20", n_public=1, gamma="1/2")
    release = publish(
        table_of(SMALL, []), SMALL, method, out=tmp_path / "r", noise=SeededNoise(shifted(4))
    )
    negative = 0
    for a in range(30):
        estimate = release.count(f"a = {a}")
        assert 0 <= estimate.low <= estimate.value <= estimate.high <= 40
        assert isinstance(estimate, RandomizedEstimate)
        negative += estimate.unbiased < 0
        assert 0 <= estimate.bernstein_low <= estimate.low
        assert estimate.high <= estimate.bernstein_high <= 40
        written = estimate.to_dict()
        assert written["unbiased"] == estimate.unbiased
        assert written["bernstein_high"] == estimate.bernstein_high
        assert "distinct tuples" in estimate.notes[0]
    assert negative


def test_questions_about_a_single_tuple_come_with_a_caution(tmp_path: Path) -> None:
    method = AlphaBeta(d="1/1000", n_public=1, gamma="1/5")
    release = publish(table_of(SMALL, [(1, 1)]), SMALL, method, out=tmp_path / "r")
    assert any("too narrow" in note for note in release.count("a = 1 AND b = 1").notes)
    assert not any("too narrow" in note for note in release.count("a < 20").notes)


# --- the baseline ---------------------------------------------------------------------------------


@pytest.mark.parametrize("retention", [0, 1, "3/2", "x"])
def test_frapp_refuses_bad_retention(retention: object) -> None:
    with pytest.raises(ParameterError, match="retention"):
        Frapp(retention=retention)  # type: ignore[arg-type]


def test_frapp_is_local_and_unbiased(tmp_path: Path) -> None:
    """5,000 rows; false alarm below 1e-6."""
    with pytest.raises(ParameterError, match="unit is person"):
        Frapp(retention="1/5").guarantee(
            grid(9, unit={"kind": "person", "column": "who", "max_rows": 1})
        )
    (promise,) = Frapp(retention="1/5").guarantee(SMALL)
    assert isinstance(promise, PureDP)
    assert promise.neighbors == "replace"
    assert float(promise.epsilon) == pytest.approx(math.log(1 + 1200 / 4), abs=1e-6)
    rows = [(i % 7, i % 3) for i in range(5000)]
    release = publish(table_of(SMALL, rows), SMALL, Frapp(retention="1/5"), out=tmp_path / "r")
    assert release.table().num_rows == 5000
    assert "Local perturbation" in (tmp_path / "r" / "STATEMENT.md").read_text()
    for where, truth in (("a < 7", 5000), ("b = 0", 1667), ("a > 7", 0)):
        answer = release.estimator.answer(where)  # type: ignore[attr-defined]
        assert abs(answer.unbiased - truth) < 5.5 * answer.std(truth)


def test_engines_agree(tmp_path: Path) -> None:
    """The same seed gives the same release on memory and DuckDB."""
    rows = [(i % 30, i % 40) for i in range(3000)]
    method = AlphaBeta(d="1/100", n_public=1, gamma="1/5")
    made = [
        method.run(connect(table_of(SMALL, rows), SMALL, engine=engine), SeededNoise(shifted(9)))  # type: ignore[arg-type]
        for engine in ("memory", "duckdb")
    ]
    assert made[0].tables["data"].equals(made[1].tables["data"])
