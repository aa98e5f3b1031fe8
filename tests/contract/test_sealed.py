"""Sealed counts: forbidden operations, wrong payments, and accounts of runs.

Tiny methods repeat mistakes that others made (or could make), for every way of counting, and so do
real methods with one line changed. Each ends in an error, and nothing is published. All tests are
deterministic: no random draw decides whether a mistake is found.
"""

from __future__ import annotations

import ast
import copy
import json
import math
import pickle
from array import array
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import FrozenInstanceError, dataclass, replace
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

import contract.examples as method_examples
import hushtable
from hushtable.engine import connect
from hushtable.engine.baskets import ItemColumns
from hushtable.engine.edges import read_graph
from hushtable.engine.graph import SealedGraph
from hushtable.engine.sealed_table import SealedTable, seal
from hushtable.errors import ParameterError, SealedError
from hushtable.methods import (
    AlphaBeta,
    Columns,
    ContingencyTable,
    DiffGen,
    Frapp,
    GeneralizeSuppress,
    NoisyCounts,
    Partition,
)
from hushtable.methods.base import Forecast, Method, Plan, Released
from hushtable.methods.degrees.degrees import Degrees
from hushtable.methods.degrees.hay import HayDegrees
from hushtable.methods.diffgen.diffgen import DiffGenPlan
from hushtable.methods.diffgen.dp_c45 import DpC45
from hushtable.methods.parameters import parameter
from hushtable.methods.partition import tree as tree_module
from hushtable.methods.partition.tree import PartitionTree
from hushtable.methods.registry import specs
from hushtable.privacy.accounting.run_account import (
    Draw,
    QueryRecord,
    RunAccount,
    SpendingLimit,
    TotalCost,
)
from hushtable.privacy.accounting.sealed import SealedCells, SealedCounts, SealedValue, unseal
from hushtable.privacy.accounting.sensitivity import PrivacyCost, Sensitivity
from hushtable.privacy.guarantee import Guarantee, KAnonymity, PureDP
from hushtable.privacy.mechanisms.cells import CellCounts, DomainMechanism, TupleCounts
from hushtable.privacy.mechanisms.mechanism import Gaussian, Laplace, Mechanism
from hushtable.privacy.mechanisms.private_choice import HistogramCuts, TopChoices, distance_scores
from hushtable.privacy.mechanisms.scored_splits import (
    InformationGain,
    Max,
    ScoreChoice,
    SealedClassTable,
    SealedSplitsOfParts,
    SplitChoice,
    TotalVariation,
    scores_of_ways,
)
from hushtable.privacy.mechanisms.sealed_regions import SealedRegions
from hushtable.privacy.mechanisms.single_counts import OneSidedGeometric, TwoSidedGeometric
from hushtable.privacy.mechanisms.tuple_perturbation import (
    KeptTuples,
    NextView,
    RowReplacement,
    UniformInsertions,
    ViewHistory,
)
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.sources import SecureNoise, SeededNoise
from hushtable.privacy.unit import Unit
from hushtable.publishing.publish import publish
from hushtable.schema import Schema
from seeds import shifted

ROWS = pa.table({"x": [0, 1, 2, 3] * 5, "y": ["a", "b"] * 10})
SCHEMA = Schema.from_dict(
    {
        "name": "t",
        "columns": {
            "x": {"type": "integer", "low": 0, "high": 9},
            "y": {"type": "categorical", "values": ["a", "b"], "role": "target"},
        },
    }
)
LONG = pa.table({"who": [0, 0, 1, 1, 2, 2], "item": list("ababac"), "stars": [1, 2, 1, 2, 1, 1]})
LONG_SCHEMA = Schema.from_dict(
    {
        "name": "long",
        "unit": {"kind": "person", "column": "who", "max_rows": 3},
        "columns": {
            "who": {"role": "identifier"},
            "item": {"type": "categorical", "values": ["a", "b", "c"]},
            "stars": {"type": "integer", "low": 1, "high": 2},
        },
    }
)
ITEMS = ItemColumns("item", "stars")
GRAPH = read_graph([("a", "b"), ("b", "c"), ("a", "d")], nodes=list("abcde"))
ONE = Fraction(1)

Look = Callable[[Any, Noise], Any]


# --- a method with one line -----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class OneLine(Method):
    """Method that promises something and runs a given function."""

    name: ClassVar[str] = "one-line"
    paper: ClassVar[str] = "None."
    summary: ClassVar[str] = "Whatever a line says."
    estimator_kind: ClassVar[str] = "cells"

    line: Any = parameter(default=None)
    promised: Any = parameter(default=None)

    def plan(self, schema: Schema) -> OneLinePlan:
        return OneLinePlan(self, schema)

    def parameters(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True)
class OneLinePlan(Plan[Any]):
    method: OneLine
    schema: Schema

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        pure = PureDP(epsilon=ONE, unit=self.schema.unit, neighbors="add-remove")
        return (self.method.promised or pure,)

    def forecast(self, rows: int | None = None) -> Forecast:
        return Forecast(lines={}, split={}, n_cells=1, memory_mb=1.0)

    def release(self, source: Any, noise: Noise) -> Released:
        found = self.method.line(source, noise)
        return Released({"data": pa.table({"found": [str(found)]})})


def run(line: Look, source: Any = None, **how: Any) -> RunAccount:
    """Run a function as in production, on a table or a graph; return the account."""
    if source is None:
        source = connect(ROWS, SCHEMA)
    schema = getattr(source, "schema", SCHEMA)
    return OneLine(line=line, **how).plan(schema).accounted(source, SecureNoise()).account


# --- sealed values, for every way of counting -----------------------------------------------------

TABLE_WAYS: dict[str, Callable[[SealedTable], Any]] = {
    "number of rows": lambda t: t.n_rows(),
    "histogram": lambda t: t.histograms(["x"])["x"],
    "histogram by class": lambda t: t.histograms(["x"], by="y")["x"],
    "cells": lambda t: t.counts(["x", "y"]),
    "dense cells": lambda t: t.counts(["x", "y"]).dense(),
    "part of the cells": lambda t: t.counts(["x", "y"]).divided("y", [0, 1])[0],
    "marginal": lambda t: t.marginals([["x", "y"]])[0],
    "sum of a marginal": lambda t: t.marginals([["x", "y"]])[0].sum(axis=0),
    "one count": lambda t: t.histograms(["x"])["x"][3],
    "merged values": lambda t: t.histograms(["x"])["x"].merged([0] * 5 + [1] * 5, 2),
    "difference": lambda t: t.histograms(["x"])["x"][:5] - t.histograms(["x"])["x"][5:],
    "distance": lambda t: distance_scores(
        [t.histograms(["x"])["x"]], [np.zeros(10, np.int64)], weights=[1], penalties=[0]
    ),
    "class table": lambda t: SealedClassTable.of(t.histograms(["x"], by="y")["x"], 10, True),
    "ways to split": lambda t: SealedClassTable.of(
        t.histograms(["x"], by="y")["x"], 10, True
    ).score_spans(0, 9, Max(), with_special=False),
    "ways to halve": lambda t: SealedClassTable.of(
        t.histograms(["x"], by="y")["x"], 10, False
    ).score_halvings([0, 1, 2], [[0], [1]], Max(), with_special=False),
    "tuples of columns": lambda t: t.tuples([[0], [1]], max_groups=2),
}
LONG_WAYS: dict[str, Callable[[SealedTable], Any]] = {
    "tuples of items": lambda t: t.tuples([[0, 1], [2]], max_groups=1, item_columns=ITEMS),
    "number of records": lambda t: t.tuples([[0, 1]], max_groups=1, item_columns=ITEMS).n_records,
    "items": lambda t: t.item_support(ITEMS),
    "sizes of baskets": lambda t: t.basket_sizes(ITEMS),
    "pairs of items": lambda t: t.item_pairs(ITEMS, items=[0, 1]),
}
GRAPH_WAYS: dict[str, Callable[[SealedGraph], Any]] = {
    "number of nodes": lambda g: g.n_nodes(),
    "nodes up to a degree": lambda g: g.bounded(key=1).cumulative(3),
    "nodes of a degree": lambda g: g.bounded(key=1).histogram(3),
    "h-index": lambda g: g.h_index(),
    "degrees": lambda g: g.falling_degrees(5),
    "bounded degrees": lambda g: g.bounded(key=1).falling_degrees(5, 2),
}
WAYS = [
    *((name, way, lambda: connect(ROWS, SCHEMA)) for name, way in TABLE_WAYS.items()),
    *((name, way, lambda: connect(LONG, LONG_SCHEMA)) for name, way in LONG_WAYS.items()),
    *((name, way, lambda: GRAPH) for name, way in GRAPH_WAYS.items()),
]

MISTAKES: dict[str, Callable[[Any], Any]] = {
    "branches on a count": lambda c: "many" if c else "few",
    "asks whether there are more": lambda c: "many" if c > 10 else "few",
    "asks whether there are fewer": lambda c: "few" if c <= 10 else "many",
    "asks whether there are none": lambda c: "none" if c == 0 else "some",
    "thresholds on true counts": lambda c: c[c >= 2],
    "thresholds with NumPy": lambda c: np.where(c, 1, 0),
    "merges values by exact counts": np.argsort,
    "sorts": sorted,
    "takes the largest": max,
    "takes the largest by name": lambda c: c.max(),
    "takes the places that are not empty": np.flatnonzero,
    "publishes an exact total": int,
    "publishes it as a float": float,
    "publishes it as an array": np.asarray,
    "publishes a copy of it": lambda c: np.array(c, copy=True),
    "publishes it as Arrow": pa.array,
    "publishes it as a list": lambda c: c.tolist(),
    "publishes it as JSON": json.dumps,
    "writes it into a text": lambda c: f"{c:,}",
    "writes it as bytes": bytes,
    "takes rounds from the exact n": lambda c: [0 for _ in range(c)],
    "takes a depth from the exact n": math.log2,
    "takes a whole depth": math.floor,
    "counts the occupied": len,
    "goes through it": list,
    "goes through it backward": lambda c: list(reversed(c)),
    "unpacks it": lambda c: [*c],
    "looks for a value": lambda c: 3 in c,
    "uses it as a place": lambda c: [10, 20, 30][c],
    "stores it": pickle.dumps,
    "copies it": copy.deepcopy,
    "uses it as a key": lambda c: {c: 1},
    "adds noise by itself": lambda c: np.zeros(10) + c,
    "sums it with NumPy": np.sum,
    "looks at the memory": memoryview,
    "reads a number of it": lambda c: c.item(),
    "reads its codes": lambda c: c.codes,
    "reads its counts": lambda c: c.counts,
}


PYTHON_REFUSES = [MISTAKES["publishes it as JSON"], MISTAKES["looks at the memory"]]
"""Operations that Python itself refuses with a TypeError (`memoryview` only before 3.12)."""


@pytest.mark.parametrize(("name", "way", "source"), WAYS, ids=[name for name, _, _ in WAYS])
def test_a_query_without_payment_raises_an_error(
    name: str, way: Callable[[Any], Any], source: Callable[[], Any]
) -> None:
    private, passed = source(), []
    for what, mistake in MISTAKES.items():
        refusals = (SealedError, TypeError) if mistake in PYTHON_REFUSES else SealedError
        with suppress(refusals):
            run(lambda table, noise, mistake=mistake: mistake(way(table)), private)
            passed.append(what)
    assert not passed


@pytest.mark.parametrize(("name", "way", "source"), WAYS, ids=[name for name, _, _ in WAYS])
def test_repr_of_a_sealed_value_contains_only_public_information(
    name: str, way: Callable[[Any], Any], source: Callable[[], Any]
) -> None:
    thing = way(seal(source(), RunAccount(SpendingLimit(ONE))))
    empty = {
        "t": connect(ROWS.slice(0, 0), SCHEMA),
        "long": connect(LONG.slice(0, 0), LONG_SCHEMA),
    }
    other: Any = empty.get(getattr(getattr(source(), "schema", None), "name", ""))
    if other is None:
        other = read_graph([("a", "b")], nodes=list("abcdefgh"))
    assert repr(thing) == repr(way(seal(other, RunAccount(SpendingLimit(ONE)))))
    assert str(thing) == repr(thing)


def test_a_method_that_reads_sealed_counts_publishes_nothing(tmp_path: Path) -> None:
    method = OneLine(line=lambda table, noise: int(table.n_rows()))
    with pytest.raises(SealedError, match=r"converted to numbers.*noise\.open"):
        publish(ROWS, SCHEMA, method, out=tmp_path / "release")
    assert list(tmp_path.iterdir()) == []


# --- payment --------------------------------------------------------------------------------------


def opened(scale: Fraction | int, times: int = 1) -> Look:
    def line(table: SealedTable, noise: Noise) -> Any:
        counts = table.histograms(["x"])["x"]
        return [noise.open(counts, Laplace(Fraction(scale)), "counts") for _ in range(times)][-1]

    return line


PERSONS = Schema.from_dict(
    {
        "name": "persons",
        "unit": {"kind": "person", "column": "who", "max_rows": 3},
        "columns": {"who": {"role": "identifier"}, "x": {"type": "integer", "low": 0, "high": 9}},
    }
)
OF_PERSONS = pa.table({"who": [0, 0, 1], "x": [1, 2, 3]})


def test_recorded_costs_match_the_promise() -> None:
    account = run(opened(1))
    assert account.spent().epsilon == 1
    (opening,) = account.records
    assert (opening.what, opening.sensitivity.l1, opening.cost) == (
        "counts",
        1,
        PrivacyCost.pure(ONE),
    )
    assert opening.mechanism == Laplace(ONE)
    assert run(opened(2, times=2)).spent().epsilon == 1
    assert run(opened(3), connect(OF_PERSONS, PERSONS)).spent().epsilon == 1


@pytest.mark.parametrize(
    ("line", "source", "words"),
    [
        (opened(1, times=2), None, "cost of the run to epsilon 2, but its limit is epsilon 1"),
        (opened(Fraction(1, 2)), None, "would raise the cost of the run to epsilon 2"),
        (opened(1), (OF_PERSONS, PERSONS), "would raise the cost of the run to epsilon 3"),
        (opened(2), None, "less than promised"),
        (lambda table, noise: 1, None, "spent nothing"),
        (
            lambda t, n: n.open(t.histograms(["x"])["x"], Gaussian(ONE), "counts"),
            None,
            "would raise the cost of the run to rho 1/2, but its limit is epsilon 1",
        ),
        (
            lambda t, n: n.open(t.histograms(["x"])["x"] * 2, Laplace(ONE), "doubled"),
            None,
            "used in this operation",
        ),
        (
            lambda t, n: n.open(
                t.histograms(["x"])["x"] + t.histograms(["x"])["x"], Laplace(ONE), "added"
            ),
            None,
            "would raise the cost of the run to epsilon 2",
        ),
        (
            lambda t, n: n.open(t.histograms(["x"])["x"][[1, 1]], Laplace(ONE), "twice"),
            None,
            "selected several times",
        ),
        *(
            (lambda t, n, p=places: t.histograms(["x"])["x"][p], None, "selected several times")
            for places in (((1, 1),), array("l", [1, 1]), deque([1, 1]), [-1, 9], [[0, 1]])
        ),
        (
            lambda t, n: n.open(
                t.histograms(["x"])["x"] - t.n_rows(), Laplace(Fraction(2)), "rows, ten times"
            ),
            None,
            "same shape",
        ),
        (lambda t, n: t.n_rows() + t.histograms(["x"])["x"], None, "same shape"),
        (lambda t, n: t.n_rows().merged([0, 1, 2], 3), None, "one group number for each"),
        (
            lambda t, n: t.histograms(["x"])["x"].merged([list(range(10))] * 2, 10),
            None,
            "one group number for each",
        ),
        (lambda t, n: t.n_rows().merged([True], 1), None, "one group number for each"),
        (lambda t, n: t.counts(["x", "y"]).divided("x", [0, 1]), None, "10 codes"),
        (lambda t, n: doubled(t.n_rows(), 21), None, "added to one"),
        (
            lambda t, n: distance_scores(
                [t.histograms(["x"])["x"]], [np.zeros((9, 10), np.int64)],
                weights=[1], penalties=[0],
            ),
            None,
            "both must agree",
        ),
        (
            lambda t, n: distance_scores(
                [t.n_rows()], [np.full(1, 0.5)], weights=[1], penalties=[0]
            ),
            None,
            "both must agree",
        ),
        (
            lambda t, n: distance_scores(
                [t.n_rows()], [np.full(1, 5 - 2**63)], weights=[1], penalties=[0]
            ),
            None,
            "than any table has",
        ),
        (
            lambda t, n: n.open(
                distance_scores(
                    [t.n_rows()], [np.zeros(1, np.int64)], weights=[1], penalties=[0]
                ).only([0], beside=[0]),
                ScoreChoice(ONE),
                "scores that move both ways, for half",
            ),
            None,
            "monotone scores only",
        ),
        (lambda t, n: n.open(t.n_rows(), Laplace(-ONE), "to earn"), None, "not a fraction"),
        (lambda t, n: n.open(t.n_rows(), Gaussian(-ONE), "to earn"), None, "not a fraction"),
        (lambda t, n: n.open(t.n_rows(), Laplace(3.0), "floats"), None, "not a fraction"),
        (
            lambda t, n: n.open(t.n_rows() + np.zeros(9, np.int64), Laplace(ONE), "nine times"),
            None,
            "same shape",
        ),
        (lambda t, n: n.open(np.zeros(3), Laplace(ONE), "bare"), None, "is not sealed"),
        (
            lambda t, n: n.open(t.counts(["x"]), CellCounts(TwoSidedGeometric(epsilon=ONE)), "c"),
            None,
            "also enumerates empty cells",
        ),
        (
            lambda t, n: n.open(
                t.counts(["x"]),
                DomainMechanism(domain=SCHEMA.domain, rate=ONE, max_cells=99),
                "another domain",
            ),
            None,
            "different domains",
        ),
        (
            lambda t, n: n.open(
                t.tuples([[0], [1]], max_groups=2),
                TupleCounts(OneSidedGeometric(epsilon=ONE, delta=Fraction(1, 99), k=2)),
                "two groups for the price of one",
            ),
            None,
            "would raise the cost of the run to epsilon 2",
        ),
        (lambda t, n: t.exact_engine("counts").n_rows(), None,
         "only for methods that declare sees_exact_counts"),
        (
            lambda t, n: n.open(
                distance_scores(
                    [t.n_rows()], [np.zeros(1, np.int64)], weights=[3], penalties=[0]
                ).only([0], beside=[0]),
                TopChoices(Fraction(1, 2), k=3),
                "three choices for two",
            ),
            None,
            "would raise the cost of the run to epsilon 3/2",
        ),
    ],
)  # fmt: skip
def test_a_wrong_payment_ends_in_an_error(line: Look, source: Any, words: str) -> None:
    with pytest.raises(SealedError, match=words):
        run(line, None if source is None else connect(*source))


def doubled(counts: SealedCounts, times: int) -> SealedCounts:
    for _ in range(times):
        counts = counts + counts
    return counts


def test_opened_tuples_contain_noisy_counts_only() -> None:
    """The noisy counts decide which tuples are published; exact counts are dropped."""
    table = pa.table({"x": [1] * 500 + [2] * 300, "y": ["a"] * 800})
    account = RunAccount(SpendingLimit(ONE, Fraction(1, 2)))
    tuples = seal(connect(table, SCHEMA), account).tuples([[0]], max_groups=1)
    mechanism = TupleCounts(OneSidedGeometric(epsilon=ONE, delta=Fraction(1, 4), k=2))
    shown, noisy = SecureNoise().open(tuples, mechanism, "tuples")
    assert shown.counts.tolist() == noisy.tolist()
    assert shown.n_records == 0
    assert len(noisy) == 2  # except with probability below e**-250


@dataclass(frozen=True)
class LookedTooOften(OneLinePlan):
    """Divide the table twice, query both as if they were disjoint, and report the results."""

    def release(self, source: Any, noise: Noise) -> Released:
        cells = source.counts(["x", "y"])
        for part in (cells.divided("y", [0, 1])[0], cells.divided("x", [0] * 9 + [1])[0]):
            seen = noise.open(part.total(), Laplace(ONE), "part")
        raise RuntimeError(f"there are {seen}")


def test_error_of_an_overspent_run_reveals_nothing_else() -> None:
    plan = LookedTooOften(OneLine(), SCHEMA)
    with pytest.raises(SealedError, match="but spent more") as caught:
        plan.run(connect(ROWS, SCHEMA), SecureNoise())
    assert caught.value.__suppress_context__

    class Failed(OneLinePlan):
        def release(self, source: Any, noise: Noise) -> Released:
            noise.open(source.n_rows(), Laplace(Fraction(2)), "rows")
            raise RuntimeError("within the promise")

    with pytest.raises(RuntimeError, match="within the promise"):
        Failed(OneLine(), SCHEMA).run(connect(ROWS, SCHEMA), SecureNoise())


def test_a_promise_per_row_shares_rho_by_the_square_of_the_rows() -> None:
    promise = SpendingLimit(ONE, Fraction(1, 1000), rho=Fraction(9, 100)).for_each_of(3)
    assert promise.rho == Fraction(1, 100)  # three rows change a count by three: 9 times the rho


def test_a_replaced_person_of_a_long_table_counts_twice() -> None:
    table = seal(connect(LONG, LONG_SCHEMA), RunAccount(SpendingLimit(ONE, exchanged=True)))
    for name, way in LONG_WAYS.items():
        assert way(table).sensitivity.rows == 2, name


def test_exact_counts_need_a_declaration_and_no_promise_of_differential_privacy() -> None:
    line = lambda table, noise: table.exact_engine("rows").n_rows()  # noqa: E731
    with pytest.raises(SealedError, match="sees_exact_counts"):
        run(line, promised=KAnonymity(k=2))

    class Declared(OneLine):
        sees_exact_counts: ClassVar[str] = "the number of rows is published."

    method = Declared(line=line, promised=KAnonymity(k=2))
    made = method.plan(SCHEMA).accounted(connect(ROWS, SCHEMA), SecureNoise())
    assert made.released.tables["data"]["found"].to_pylist() == ["20"]
    assert [opening.cost for opening in made.account.records] == [None]
    with pytest.raises(SealedError, match="must not see exact counts"):
        Declared(line=line).plan(SCHEMA).run(connect(ROWS, SCHEMA), SecureNoise())
    with pytest.raises(SealedError, match="no budget for queries"):
        run(opened(1), promised=KAnonymity(k=2))


def test_statements_of_methods_with_exact_counts_say_so(tmp_path: Path) -> None:
    for method, expected in (
        (GeneralizeSuppress(k=5, generalize=method_examples.COARSE), 1),
        (NoisyCounts(epsilon=1, delta="1e-6", k=10, generalize=method_examples.COARSE), 0),
    ):
        data, public = method_examples.sample(), method_examples.sample_schema()
        release = publish(data, public, method, out=tmp_path / method.name)
        told = [one for one in release.statement.unprotected if "sees exact counts" in one]
        assert told == ["This method sees exact counts: " + method.sees_exact_counts] * expected
        text = (release.folder / "STATEMENT.md").read_text()
        assert ("sees exact counts" in text) == bool(expected)


# --- disjoint parts -------------------------------------------------------------------------------


def cells_by_class(account: RunAccount, rows: int = 1) -> list[SealedCells]:
    exact = connect(ROWS, SCHEMA).counts(["x", "y"])
    return SealedCells(exact, Sensitivity(rows=rows), account.root).divided("y", [0, 1])


def test_disjoint_parts_are_charged_once_and_repeated_queries_again() -> None:
    account, noise = RunAccount(SpendingLimit(Fraction(10))), SecureNoise()
    one, other = cells_by_class(account)
    noise.open(one.total(), Laplace(ONE), "one")
    noise.open(other.total(), Laplace(Fraction(1, 2)), "other")
    assert account.spent().epsilon == 2  # the larger of 1 and 2
    noise.open(one.total(), Laplace(ONE), "one again")
    noise.open(one.total(), Laplace(ONE), "and again")
    assert account.spent().epsilon == 3
    noise.open((one.total() + other.total()), Laplace(Fraction(2)), "both")
    assert (
        account.spent().epsilon == 4
    )  # a sum of two parts is a query of the whole, and changes by 2
    left, right = one.divided("x", [0] * 5 + [1] * 5)
    for half in (left, right):
        noise.open(half.total(), Laplace(ONE), "half")
    assert account.spent().epsilon == 5
    again = one.divided("x", [0] * 2 + [1] * 8)  # another division of the same part is not disjoint
    noise.open(again[1].total(), Laplace(ONE), "another half")
    assert account.spent().epsilon == 6


@pytest.mark.parametrize(("n", "spared"), [(1, 0), (3, 0), (3, 1), (6, 1), (6, 2), (7, 3)])
def test_tuples_cost_what_the_worst_mechanisms_lose_together(n: int, spared: int) -> None:
    """Each count reveals everything with delta and otherwise loses epsilon: enumerated."""
    law = OneSidedGeometric(epsilon=Fraction(1, 3), delta=Fraction(1, 10**4), k=5)
    price = TupleCounts(law, spared).cost(Sensitivity(rows=1, cells=n))
    assert price.epsilon == (n - 2 * spared) * law.epsilon
    delta, bound = float(law.delta), math.exp(float(price.epsilon))
    likely = math.exp(float(law.epsilon)) / (1 + math.exp(float(law.epsilon)))
    unseen = sum(
        math.comb(n, i)
        * max(
            0.0, likely**i * (1 - likely) ** (n - i) - bound * likely ** (n - i) * (1 - likely) ** i
        )
        for i in range(n + 1)
    )
    lost = 1 - (1 - delta) ** n * (1 - unseen)
    assert lost * (1 - 1e-9) <= float(price.delta) <= lost * 1.001


def test_cost_of_several_rows_covers_the_probability_of_publication() -> None:
    """The tuple is absent, or one unit has it in all its rows: publication reveals the unit."""
    law = OneSidedGeometric(epsilon=Fraction(1, 2), delta=Fraction(1, 10**6), k=4)
    for rows in range(1, law.n_head + 1):
        price = law.cost(Sensitivity(rows=rows))
        assert price.epsilon == rows * law.epsilon
        shown = law.release_probability(law.k - 1 + rows)
        assert shown * (1 - 1e-9) <= float(price.delta) <= shown * (1 + 1e-6)


@pytest.mark.parametrize(
    "mechanism",
    [
        Laplace(ONE),
        TwoSidedGeometric(epsilon=ONE),
        CellCounts(TwoSidedGeometric(epsilon=ONE)),
        DomainMechanism(domain=SCHEMA.domain, rate=ONE, max_cells=99),
        HistogramCuts(((0, 4),), ONE),
        SplitChoice(ONE, (1,)),
        ScoreChoice(ONE),
        KeptTuples(UniformInsertions(SCHEMA.domain, Fraction(1, 4), Fraction(1, 4))),
        NextView(
            UniformInsertions(SCHEMA.domain, Fraction(1, 4), Fraction(1, 4)),
            ViewHistory(np.empty((0, 1), np.int64)), 3, repeats=False,
        ),
    ],
    ids=lambda mechanism: type(mechanism).__name__,
)  # fmt: skip
def test_three_times_the_sensitivity_costs_three_times_as_much(mechanism: Mechanism) -> None:
    one, three, spread = (
        mechanism.cost(sensitivity)
        for sensitivity in (Sensitivity(rows=1), Sensitivity(rows=3), Sensitivity(rows=1, cells=3))
    )
    assert one.epsilon is not None
    assert one.epsilon > 0
    assert three.epsilon == spread.epsilon == 3 * one.epsilon
    assert one.rho is not None
    assert one.rho >= one.epsilon**2 / 8
    assert three.rho == 9 * one.rho


def test_replaced_rows_cost_the_ratio_of_their_probabilities() -> None:
    g, m = Fraction(1, 4), 7
    stays, comes = g + (1 - g) / m, (1 - g) / m
    for rows in (1, 3):
        price = RowReplacement(g, m).cost(Sensitivity(rows=2 * rows, exchanged=True))
        assert price.epsilon is not None
        lost = rows * math.log(stays / comes)
        assert lost <= float(price.epsilon) <= lost * (1 + 1e-6)  # rounded up


def test_each_number_of_disjoint_parts_is_the_largest_of_them() -> None:
    several = [TotalCost(ONE, Fraction(1, 9), Fraction(3)), TotalCost(Fraction(2), Fraction(1, 99))]
    assert TotalCost.most_of(several) == TotalCost(Fraction(2), Fraction(1, 9), Fraction(3))
    account = RunAccount(SpendingLimit(Fraction(10), Fraction(1, 2)))
    for part, delta in zip(cells_by_class(account), (99, 9), strict=True):
        law = OneSidedGeometric(epsilon=ONE, delta=Fraction(1, delta), k=2)
        SecureNoise().open(part, CellCounts(law), "cells")
    assert account.spent() == TotalCost(ONE, Fraction(1, 9))


def test_combined_splits_cost_the_largest_sensitivity_in_their_common_part() -> None:
    account = RunAccount(SpendingLimit(Fraction(100)))
    counts = SealedCounts(np.ones((10, 2), np.int64), Sensitivity(rows=1), account.root)
    table = SealedClassTable.of(counts, 10, True)
    low, high = table.divided([range(3), range(3, 10)])
    coarse = low.score_spans(0, 2, TotalVariation(), with_special=False)
    fine = high.score_spans(3, 9, Max(), with_special=False)
    for both in ([coarse, fine], [fine, coarse]):
        chosen = scores_of_ways([(ways, int(unseal(ways).starts[0])) for ways in both])
        for sealed in (SealedSplitsOfParts.of(both), chosen):
            assert sealed.sensitivity.l1 == coarse.sensitivity.l1 == 8
            assert sealed.part is account.root
        assert unseal(chosen).most == 8
    assert coarse.n_in_all == 2
    assert SealedSplitsOfParts.of_one(coarse).sensitivity == coarse.sensitivity
    only = low.score_spans(0, 1, Max(), with_special=False)
    assert SealedSplitsOfParts.of_one(only).sensitivity.l1 == 0


def test_runs_of_a_histogram_are_disjoint() -> None:
    account = RunAccount(SpendingLimit(ONE))
    counts = SealedCounts(np.arange(10), Sensitivity(rows=3), account.root)
    for part in counts.divided([0, 4, 7]):
        SecureNoise().open(part, Laplace(Fraction(3)), "part")
    account.settle()
    with pytest.raises(SealedError, match="must increase"):
        counts.divided([4, 2])


def test_counts_that_one_row_changes_in_several_places_are_not_divided() -> None:
    counts = SealedCounts(
        np.arange(10), Sensitivity(rows=1, cells=2), RunAccount(SpendingLimit(ONE)).root
    )
    with pytest.raises(SealedError, match="one after the other"):
        counts.divided([0, 5])


@pytest.mark.parametrize(("max_rows", "cost"), [(1, 1), (3, 2)])
def test_indivisible_scores_are_charged_in_each_part(max_rows: int, cost: int) -> None:
    # Information gain may change by its whole range, however few rows of a person are in a part.
    account, noise = RunAccount(SpendingLimit(Fraction(10))), SecureNoise()
    counts = SealedCounts(np.ones((10, 2), np.int64), Sensitivity(rows=max_rows), account.root)
    table = SealedClassTable.of(counts, 10, True)
    for part, (first, last) in zip(
        table.divided([range(5), range(5, 10)]), [(0, 4), (5, 9)], strict=True
    ):
        ways = part.score_spans(first, last, InformationGain(), with_special=False)
        eta = ONE / ways.sensitivity.l1
        noise.open(SealedSplitsOfParts.of([ways]), SplitChoice(eta, (1,)), "split")
    assert account.spent().epsilon == cost


def test_all_selections_are_charged_even_if_they_stop_early() -> None:
    """A selection removes its group; stopping ends the selections at the full cost.

    Scores differ so much that any other outcome has a probability below e**-1000.
    """
    for scores, beside, chosen in (
        ([9000, 8000, 5000], [], [0, 2]),  # the second is in the group of the first
        ([9000, 8000, 5000], [7000], [0]),  # then stopping is best
    ):
        account = RunAccount(SpendingLimit(Fraction(10)))
        tables = [
            SealedCounts(np.array([score]), Sensitivity(rows=1), account.root) for score in scores
        ]
        sealed = distance_scores(
            tables, [np.zeros(1, np.int64)] * 3, weights=[1] * 3, penalties=[0] * 3
        ).only(range(3), beside=beside)
        choice = TopChoices(Fraction(2), k=2, exclusive_groups=("a", "a", "b"))
        assert SecureNoise().open(sealed, choice, "choices") == chosen
        assert account.spent().epsilon == 4


@pytest.mark.parametrize(("rule", "quarters"), [("exponential", 1), ("permute-and-flip", 4)])
def test_selections_cost_the_rho_of_their_distribution(rule: Any, quarters: int) -> None:
    """Exact divergences for two candidates, tied or one ahead by as much as a unit can change."""
    for epsilon in (0.05, 0.5, 2.0):
        behind = math.exp(-epsilon)
        chance = behind / (1 + behind) if rule == "exponential" else behind / 2
        even, apart = np.array([0.5, 0.5]), np.array([1 - chance, chance])
        rho = TopChoices(Fraction(epsilon), rule=rule).cost(Sensitivity(rows=1)).rho
        assert rho == Fraction(epsilon) ** 2 * quarters / 8
        three = TopChoices(Fraction(epsilon), k=3, rule=rule).cost(Sensitivity(rows=1))
        assert (three.epsilon, three.rho) == (3 * Fraction(epsilon), 3 * rho)
        per_alpha = [
            math.log((p**a * q ** (1 - a)).sum()) / (a - 1) / a
            for a in (1.001, 1.1, 2.0, 5.0, 20.0)
            for p, q in ((even, apart), (apart, even))
        ]
        assert max(per_alpha) <= float(rho) * (1 + 1e-9)
        # The bound is nearly reached for a small epsilon, so no smaller rho suffices.
        assert epsilon > 0.05 or max(per_alpha) > 0.9 * float(rho)


def test_distance_scores_change_by_at_most_l1_times_their_weight() -> None:
    """In both directions: one distance may fall while another rises."""
    account = RunAccount(SpendingLimit(Fraction(10)))
    one, other = cells_by_class(account)
    tables = [
        SealedCounts(np.zeros(6, np.int64), Sensitivity(rows=2, cells=3), one.part),
        SealedCounts(np.zeros(6, np.int64), Sensitivity(rows=2), other.part),
    ]
    expected = [np.full(6, 9), np.zeros(6, np.int64)]
    scores = distance_scores(tables, expected, weights=[-5, 7], penalties=[0, 0])
    assert unseal(scores).most == scores.sensitivity.most == 2 * 3 * 5
    assert not unseal(scores).monotone
    assert scores.part is account.root  # a unit may be in both
    assert unseal(scores).values.tolist() == [-5 * 54, 0]
    # Of some candidates, the largest change is theirs alone; public ones beside them do not move.
    some = scores.only([1], beside=[3])
    assert unseal(some).values.tolist() == [0, 3]
    assert unseal(some).most == some.sensitivity.most == 2 * 7
    assert scores.only([0, 1]).sensitivity.most == 2 * 3 * 5
    assert scores.only([0]).only([0]).sensitivity.most == 2 * 3 * 5


@pytest.mark.parametrize(
    ("begins", "n_ways"), [(None, 9), ([0, 5], 1), ([0, 3, 4, 9], 3), ([0], 0)]
)
def test_number_of_splits_at_public_bins_follows_from_the_schema(begins: Any, n_ways: int) -> None:
    """A part with a single split is free, so the number of splits must be that of the bins."""
    account = RunAccount(SpendingLimit(Fraction(10)))
    rng = np.random.default_rng()
    for _ in range(20):
        counts = SealedCounts(rng.integers(0, 2, (10, 2)), Sensitivity(rows=1), account.root)
        bins = None if begins is None else np.array(begins)
        ways = SealedClassTable.of(counts, 10, True, bins).score_spans(
            0, 9, Max(), with_special=False
        )
        assert ways.n_in_all == n_ways == unseal(ways).n_ways.sum()


def test_parts_of_a_histogram_must_be_disjoint_and_contained_in_it() -> None:
    counts = SealedCounts(
        np.ones((10, 2), np.int64), Sensitivity(rows=1), RunAccount(SpendingLimit(ONE)).root
    )
    table = SealedClassTable.of(counts, 10, True)
    with pytest.raises(SealedError, match="disjoint"):
        table.divided([range(6), range(5, 10)])
    with pytest.raises(SealedError, match="proved for counts in which each row"):
        SealedClassTable.of(counts + counts, 10, True)
    low, _ = table.divided([range(5), range(5, 10)])
    with pytest.raises(SealedError, match="do not belong to this part"):
        low.score_spans(0, 9, Max(), with_special=False)
    with pytest.raises(SealedError, match="do not belong to this part"):
        low.score_spans(0, 4, Max(), with_special=True)
    with pytest.raises(SealedError, match="do not belong to this part"):
        low.score_halvings([3, 5], [[3]], Max(), with_special=False)
    with pytest.raises(SealedError, match="must be a subset"):
        low.score_halvings([3, 4], [[2]], Max(), with_special=False)
    for twice in (
        lambda: low.score_halvings([3, 4], [[3, 3]], Max(), with_special=False),
        lambda: low.score_halvings([3, 4, 4], [[3]], Max(), with_special=False),
        lambda: low.score_groups([[0, 1], [1, 2]], Max(), with_special=False),
        lambda: low.score_groups([[0, 0], [2]], Max(), with_special=False),
    ):
        with pytest.raises(SealedError, match="once"):
            twice()
    assert low.score_halvings([2, 3, 4], [[2], [4]], Max(), with_special=False).n_in_all == 2


def test_a_region_is_divided_once() -> None:
    """Dividing it again would put other cells into the earlier halves."""
    exact = connect(ROWS, SCHEMA).counts(["x", "y"])
    cells = SealedCells(exact, Sensitivity(rows=1), RunAccount(SpendingLimit(ONE)).root)
    regions = SealedRegions.of(cells, Partition(epsilon=1).plan(SCHEMA).axes, n_classes=2)
    with pytest.raises(SealedError, match="divided only once"):
        regions.divide([0, 0], np.array([0, 0]), np.array([5, 2]))
    regions.divide([0], np.array([0]), np.array([5]))
    with pytest.raises(SealedError, match="divided only once"):
        regions.divide([0], np.array([0]), np.array([2]))


def test_regions_pay_for_their_whole_path() -> None:
    account, noise = RunAccount(SpendingLimit(Fraction(10))), SecureNoise()
    plan = Partition(epsilon=1).plan(SCHEMA)
    cells = SealedCells(connect(ROWS, SCHEMA).counts(["x", "y"]), Sensitivity(rows=1), account.root)
    regions = SealedRegions.of(cells, plan.axes, n_classes=2)
    noise.open(regions.totals([0]), Laplace(ONE), "root")
    halves = regions.divide([0], np.array([0]), np.array([5]))
    noise.open(regions.totals(halves), Laplace(ONE), "halves")
    assert account.spent().epsilon == 2
    quarters = regions.divide(halves[:1], np.array([0]), np.array([2]))
    noise.open(regions.class_counts(quarters), Laplace(ONE), "quarters")
    assert account.spent().epsilon == 3
    noise.open(regions.totals(halves[1:]), Laplace(ONE), "the other half again")
    assert account.spent().epsilon == 3
    noise.open(regions.totals([halves[0], halves[0]]), Laplace(ONE), "one half, listed twice")
    assert account.spent().epsilon == 5


# --- sensitivities --------------------------------------------------------------------------------


def test_operations_update_sensitivities() -> None:
    counts = SealedCounts(np.zeros((4, 3), np.int64), Sensitivity(rows=2), RunAccount(None).root)
    spread = SealedCounts(
        np.zeros(6, np.int64), Sensitivity(rows=1, cells=5), RunAccount(None).root
    )
    assert counts[1:, 0].sensitivity == counts.ravel().sensitivity == Sensitivity(rows=2)
    assert counts.sum(axis=0).sensitivity.l2_squared == 4
    assert (spread.sum().sensitivity.most, spread.sum().sensitivity.l2_squared) == (5, 25)
    assert (spread.sensitivity.l1, spread.sensitivity.l2_squared, spread.sensitivity.most) == (
        5,
        5,
        1,
    )
    merged = spread.merged([0, 0, 0, 1, 1, 1], 2).sensitivity
    assert (merged.l1, merged.l2_squared, merged.most) == (5, 25, 5)
    assert (counts - counts).sensitivity.most == 4
    both = (spread + spread).sensitivity  # all ten cells of a step may be in one sum
    assert (both.l1, both.l2_squared, both.most) == (10, 100, 10)
    assert unseal(counts + counts - counts).shape == (4, 3)


def test_sealed_values_are_immutable() -> None:
    counts = SealedCounts(np.zeros(3, np.int64), Sensitivity(rows=2), RunAccount(None).root)
    with pytest.raises(SealedError, match="are immutable"):
        counts.sensitivity = Sensitivity(rows=1)
    with pytest.raises(SealedError, match="are immutable"):
        SealedValue.__init__(
            counts, np.zeros(3, np.int64), Sensitivity(rows=1), RunAccount(None).root
        )
    assert counts.sensitivity == Sensitivity(rows=2)
    with pytest.raises(SealedError, match="are immutable"):
        counts.part = RunAccount(SpendingLimit(ONE)).root
    with pytest.raises(SealedError, match="changed"):
        counts[0] = 5
    for name in ("sensitivity", "part", "shape"):  # once deleted, it could be set again
        with pytest.raises(SealedError, match="changed"):
            delattr(counts, name)
    with pytest.raises(FrozenInstanceError):
        counts.sensitivity.rows = 0  # type: ignore[misc]
    assert counts.sensitivity == Sensitivity(rows=2)
    assert not hasattr(counts.sensitivity, "__dict__")


def test_sealed_values_have_no_dictionary_of_attributes() -> None:
    kinds = [SealedValue]
    for kind in kinds:
        kinds += kind.__subclasses__()
        assert not any("__dict__" in vars(base) for base in kind.__mro__), kind
    assert len(kinds) > 5


def answers(table: SealedTable | SealedGraph, ways: dict[str, Any]) -> dict[str, Any]:
    return {name: way(table) for name, way in ways.items()}


def vector(sealed: Any) -> Any:
    exact = unseal(sealed)
    return exact if isinstance(exact, np.ndarray) else None


def require_within(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Compare the changes of answers between neighbors with their sensitivities."""
    compared = 0
    for name, sealed in before.items():
        one, two = vector(sealed), vector(after[name])
        if one is None:
            continue
        change, bound = np.abs(one - two), sealed.sensitivity
        compared += 1
        assert change.sum() <= bound.l1, name
        assert (change**2).sum() <= bound.l2_squared, name
        assert change.max(initial=0) <= bound.most, name
    assert compared >= 3


def test_units_change_answers_by_at_most_their_sensitivity() -> None:
    draw = np.random.default_rng(shifted(1))  # any tables suffice: the bounds hold for all
    for _ in range(30):
        n = int(draw.integers(1, 12))
        table = pa.table(
            {"x": draw.integers(0, 10, n), "y": [["a", "b"][i] for i in draw.integers(0, 2, n)]}
        )
        pair = [
            answers(seal(connect(t, SCHEMA), RunAccount(SpendingLimit(ONE))), TABLE_WAYS)
            for t in (table, table.slice(1))
        ]
        require_within(*pair)
        who = np.sort(draw.integers(0, 4, n))
        seen = {
            (int(w), i)
            for w in who
            for i in draw.choice(3, int(draw.integers(1, 4)), replace=False)
        }
        rows = sorted(seen)
        long = pa.table(
            {
                "who": [w for w, _ in rows],
                "item": ["abc"[i] for _, i in rows],
                "stars": draw.integers(1, 3, len(rows)),
            }
        )
        without = long.filter(pa.array([w != rows[0][0] for w, _ in rows]))
        pair = [
            answers(seal(connect(t, LONG_SCHEMA), RunAccount(SpendingLimit(ONE))), LONG_WAYS)
            for t in (long, without)
        ]
        require_within(*pair)


def test_people_with_many_items_change_answers_by_at_most_their_sensitivity() -> None:
    """One item is in three groups, and a person with four items has six pairs."""
    schema = Schema.from_dict(
        {
            "name": "many",
            "unit": {"kind": "person", "column": "who", "max_rows": 4},
            "columns": {
                "who": {"role": "identifier"},
                "item": {"type": "categorical", "values": list("abcde")},
                "stars": {"type": "integer", "low": 1, "high": 2},
            },
        }
    )
    everybody = {"who": [0] * 4 + [1] * 2, "item": list("abcdab"), "stars": [1, 2, 1, 2, 1, 1]}
    table = pa.table(everybody)
    groups = [[0, 1], [0], [0, 2], [4]]

    def tuples(data: pa.Table, most: int) -> tuple[dict[Any, int], Sensitivity]:
        sealed = seal(connect(data, schema), RunAccount(SpendingLimit(ONE))).tuples(
            groups, max_groups=most, item_columns=ITEMS, max_values=1 if most == 3 else None
        )
        found = unseal(sealed).tuples
        ends = zip(found.starts, found.starts[1:], found.groups, found.counts, strict=False)
        held = {
            (int(g), *found.items[a:b].tolist(), *found.values[a:b].tolist()): int(n)
            for a, b, g, n in ends
        }
        return held, sealed.sensitivity

    reached = []
    for most in (4, 3):  # with one value each, item a is still in three groups
        for _ in range(30):  # random draws select the value that counts
            (with_, bound), (without, _) = tuples(table, most), tuples(table.slice(4), most)
            assert (bound.rows, bound.step, bound.cells) == (1, 1, most)
            if most == 4:
                moved = sum(abs(with_.get(t, 0) - without.get(t, 0)) for t in with_ | without)
                reached.append(moved)
                assert moved <= bound.l1
    assert max(reached) == 3  # no person has an item of the last group and all others
    pairs = [
        seal(connect(data, schema), RunAccount(SpendingLimit(ONE))).item_pairs(
            ITEMS, items=range(5)
        )
        for data in (table, table.slice(4))
    ]
    change = np.abs(unseal(pairs[0]) - unseal(pairs[1]))
    assert change.sum() == (change**2).sum() == pairs[0].sensitivity.l1 == 6
    assert pairs[0].sensitivity.l2_squared == 6


def test_nodes_of_an_edge_list_change_answers_by_at_most_their_sensitivity() -> None:
    """Without a list of nodes, removing one also removes those with no other edge: tight."""
    ways = {name: GRAPH_WAYS[name] for name in ("nodes up to a degree", "nodes of a degree")}
    ways["bounded degrees"] = lambda g: g.bounded(key=1).falling_degrees(9, 2)
    star = read_graph([("hub", leaf) for leaf in "abc"])
    path = read_graph([("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "c")])
    moved = []
    for graph in (star, path):
        for name in graph.ids.to_pylist():
            edges = [
                (graph.ids[int(a)].as_py(), graph.ids[int(b)].as_py())
                for a, b in zip(graph.source, graph.target, strict=True)
            ]
            left = [edge for edge in edges if name not in edge]
            if not left and graph is path:
                continue
            both = [
                answers(seal(g, RunAccount(SpendingLimit(ONE))), ways)
                for g in (graph, read_graph(left))
            ]
            require_within(*both)
            up_to = [vector(one["nodes up to a degree"]) for one in both]
            moved.append(int(np.abs(up_to[0] - up_to[1]).sum()))
    assert max(moved) == 6  # the hub: itself, at each of three degrees, and its three leaves


def test_nodes_change_answers_by_at_most_their_sensitivity() -> None:
    draw = np.random.default_rng(shifted(2))
    ways = {name: way for name, way in GRAPH_WAYS.items() if name != "degrees"}  # of one edge
    for _ in range(30):
        edges = [(int(a), int(b)) for a, b in draw.integers(0, 8, (12, 2)) if a != b]
        graph = read_graph(edges, nodes=list(range(8)))
        sealed = [seal(g, RunAccount(SpendingLimit(ONE))) for g in (graph, graph.without(3))]
        require_within(*(answers(one, ways) for one in sealed))


# --- real methods with one line changed -----------------------------------------------------------

PUBLIC = method_examples.sample_schema()


def on_sample(method: Method) -> RunAccount:
    engine = connect(method_examples.sample(), PUBLIC)
    return method.plan(PUBLIC).accounted(engine, SecureNoise()).account


def mutants() -> dict[str, Callable[[pytest.MonkeyPatch], Any]]:
    def forgetful_tree(patch: pytest.MonkeyPatch) -> Any:
        """Spend all of epsilon on the leaves, whatever was spent before (qardaji-2012-8)."""
        real = PartitionTree.add
        patch.setattr(PartitionTree, "add", lambda self, level, epsilon: real(self, level, ONE))
        return on_sample(Partition(epsilon=1, max_depth=3))

    def sharp_splits(patch: pytest.MonkeyPatch) -> Any:
        """Treat a score of sensitivity three as one of sensitivity one (qardaji-2012-3)."""
        patch.setattr(tree_module.GrowthRules, "sensitivity", property(lambda self: 1))
        return on_sample(Partition(epsilon=1, max_depth=3, target="diagnosis"))

    def sharp_cuts(patch: pytest.MonkeyPatch) -> Any:
        patch.setattr(DiffGenPlan, "sensitivity", lambda self, score: 1)
        return on_sample(DiffGen(epsilon=1, specializations=3, score="balanced-gain"))

    def rounds_that_do_not_share(patch: pytest.MonkeyPatch) -> Any:
        patch.setattr(DiffGenPlan, "round_epsilon", lambda self, n: self.structure_epsilon)
        return on_sample(DiffGen(epsilon=1, specializations=3))

    def free_class_sizes(patch: pytest.MonkeyPatch) -> Any:
        """Spend the budget of the class sizes on the counts as well."""
        patch.setattr(
            DiffGenPlan,
            "counts_epsilon",
            property(lambda self: self.method.epsilon - self.structure_epsilon),
        )
        return on_sample(DiffGen(epsilon=1, specializations=3))

    def exact_class_sizes(patch: pytest.MonkeyPatch) -> Any:
        patch.setattr(DiffGenPlan, "class_sizes", lambda self, sizes, noise: sizes)
        return on_sample(DiffGen(epsilon=1))

    def one_row_for_three(patch: pytest.MonkeyPatch) -> Any:
        plan = NoisyCounts(epsilon=1, mechanism="pure").plan(PERSONS)
        careless = replace(plan, mechanism=TwoSidedGeometric(epsilon=ONE))
        return careless.run(connect(OF_PERSONS, PERSONS), SecureNoise())

    def rows_for_free(patch: pytest.MonkeyPatch) -> Any:
        method = NoisyCounts(epsilon=1, delta="1e-6", k=10, row_count_share="1/20")
        plan = method.plan(PUBLIC)
        careless = replace(plan, mechanism=method._mechanism(method.epsilon, 1))
        return careless.run(connect(method_examples.sample(), PUBLIC), SecureNoise())

    def half_of_the_degrees(patch: pytest.MonkeyPatch) -> Any:
        """Assume half of the sensitivity of a node (qardaji-2012-1)."""
        patch.setattr(Degrees, "sensitivity", lambda self, bound: bound // 2)
        return Degrees(epsilon=1, max_degree=4).run(GRAPH, SecureNoise())

    def cuts_as_if_disjoint(patch: pytest.MonkeyPatch) -> Any:
        patch.setattr(Degrees, "sensitivity", lambda self, bound: 1)
        method = Degrees(epsilon=1, max_degree=4, mechanism="partition")
        return method.run(GRAPH, SecureNoise())

    def groups_that_do_not_share(patch: pytest.MonkeyPatch) -> Any:
        patch.setattr("hushtable.methods.counts.columns.shares_of", lambda e, d, n: iter([(e, d)]))
        columns = [["age", "sex"], ["region", "smoker"]]
        return on_sample(Columns(epsilon=1, delta="1e-6", k=5, max_columns=2, columns=columns))

    def coins_that_keep_more(patch: pytest.MonkeyPatch) -> Any:
        plan = AlphaBeta(alpha="1/4", beta="1/4").plan(PUBLIC)
        careless = replace(plan, noise=replace(plan.noise, beta=Fraction(1, 20)))
        return careless.run(connect(method_examples.sample(), PUBLIC), SecureNoise())

    def rows_that_stay(patch: pytest.MonkeyPatch) -> Any:
        plan = Frapp(retention="1/100").plan(PUBLIC)
        careless = replace(plan, method=Frapp(retention="1/2"))
        return careless.run(connect(method_examples.sample(), PUBLIC), SecureNoise())

    def cells_for_half(patch: pytest.MonkeyPatch) -> Any:
        plan = ContingencyTable(epsilon=1).plan(SCHEMA)
        careless = replace(plan, groups=replace(plan.groups, rate=Fraction(2)))
        return careless.run(connect(ROWS, SCHEMA), SecureNoise())

    def sorted_for_half(patch: pytest.MonkeyPatch) -> Any:
        patch.setattr(HayDegrees, "scale", Fraction(1))
        return HayDegrees(epsilon=1, level="edge", n_nodes=5).sequence(GRAPH, SecureNoise())

    def a_tree_for_nothing(patch: pytest.MonkeyPatch) -> Any:
        patch.setattr(DpC45, "step_epsilon", lambda self, schema: self.epsilon)
        return DpC45(epsilon=1, depth=2).fit(connect(ROWS, SCHEMA), SecureNoise())

    return {name: made for name, made in locals().items() if callable(made)}


@pytest.mark.parametrize("mutant", mutants().values(), ids=mutants())
def test_a_real_method_with_a_wrong_line_ends_in_an_error(
    mutant: Callable[[pytest.MonkeyPatch], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SealedError):
        mutant(monkeypatch)


# --- every method, as it is -----------------------------------------------------------------------


def test_query_records_describe_the_query() -> None:
    """`hushtable.testing` tests that accounts match promises."""
    plan = DiffGen(epsilon=1, specializations=2).plan(PUBLIC)
    account = plan.accounted(connect(method_examples.sample(), PUBLIC), SecureNoise()).account
    assert all("table" in repr(opening.parts[0]) for opening in account.records)


def test_plans_do_not_run_themselves() -> None:
    plans = set()
    for listing in specs().values():
        listing.load(listing.method)
        module = import_module(listing.method.partition(":")[0])
        plans |= {p for p in vars(module).values() if isinstance(p, type) and issubclass(p, Plan)}
    assert len(plans) > 10
    for plan in plans:
        assert plan.run is Plan.run, plan
        assert plan.accounted is Plan.accounted, plan


# --- observers of draws, for audits ---------------------------------------------------------------


class Recorder:
    """Observer that records each draw, and replays outcomes of another run while there are some."""

    def __init__(self, outcomes: list[Any] | None = None) -> None:
        self.outcomes, self.script = list[Any](), list(outcomes or [])
        self.records, self.exact = list[QueryRecord](), list[Any]()

    def observe(self, record: QueryRecord, draw: Draw, exact: Any, noise: Any) -> Any:
        drawn = draw(exact, SeededNoise(len(self.records)))
        self.records.append(record)
        self.exact.append(exact)
        self.outcomes.append(self.script.pop(0) if self.script else drawn)
        return self.outcomes[-1]


@pytest.mark.parametrize(
    "method",
    [
        NoisyCounts(epsilon=1, delta="1e-6", k=10, generalize=method_examples.COARSE),
        DiffGen(epsilon=1, specializations=2),
        Partition(epsilon=1),
    ],
    ids=lambda method: method.name,
)
def test_an_observer_sees_and_replaces_every_draw(method: Method) -> None:
    data, public = method_examples.sample(), method_examples.sample_schema()
    plan, noise = method.plan(public), SeededNoise(shifted(1))
    first = Recorder()
    made = plan.accounted(connect(data, public), noise, observer=first)
    assert first.records == made.account.records
    assert first.records

    second, again = Recorder(first.outcomes), SeededNoise(shifted(1))
    neighbor = connect(data.slice(1), public)
    replayed = plan.accounted(neighbor, again, observer=second)
    assert replayed.released.tables == made.released.tables
    pairs = zip(first.exact, second.exact, strict=True)
    assert any(pickle.dumps(one) != pickle.dumps(two) for one, two in pairs)


def test_publishing_never_passes_an_observer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = list[RunAccount]()
    opened = RunAccount.__post_init__

    def noticed(account: RunAccount) -> None:
        opened(account)
        made.append(account)

    monkeypatch.setattr(RunAccount, "__post_init__", noticed)
    data, public = method_examples.sample(), method_examples.sample_schema()
    publish(data, public, DiffGen(epsilon=1, specializations=2), out=tmp_path / "release")
    assert [account.observer for account in made] == [None]
    with pytest.raises(ParameterError, match="observer"):
        publish(data, public, DiffGen(epsilon=1), out=tmp_path / "no", observer=Recorder())  # type: ignore[call-arg]


def test_only_plans_and_audits_name_an_observer() -> None:
    """So no function of the publishing API has a parameter that leads to one."""
    root = Path(hushtable.__file__).parent
    naming = set[str]()
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = {getattr(node, field, None) for field in ("arg", "attr", "id", "value")}
            if "observer" in {name for name in names if isinstance(name, str)}:
                naming.add(path.relative_to(root).as_posix())
    allowed = {"methods/base.py", "privacy/accounting/run_account.py"}
    assert allowed <= naming
    assert {path for path in naming - allowed if not path.startswith("audit/")} == set()


def test_a_promise_per_row_is_lifted_to_the_unit() -> None:
    whole = SpendingLimit(ONE, Fraction(1, 1000))
    each = whole.for_each_of(3)
    assert each.epsilon == Fraction(1, 3)
    growth = sum(math.exp(i / 3) for i in range(3))
    assert float(each.delta) == pytest.approx(float(whole.delta) / growth)
    account = RunAccount(each)
    counts = SealedCounts(np.zeros(4, np.int64), Sensitivity(rows=3), account.root)
    mechanism = OneSidedGeometric(epsilon=each.epsilon, delta=each.delta, k=2)
    SecureNoise().open(counts, mechanism, "counts")
    account.settle()


@pytest.mark.parametrize(
    ("scale", "variance", "fits"), [(2, 400, True), (2, 20, False), (1, 400, False)]
)
def test_rho_is_checked_against_the_reserved_part(scale: int, variance: int, fits: bool) -> None:
    promise = SpendingLimit(ONE, Fraction(1, 10**6), aside=(Fraction(1, 2), Fraction(1, 10**6)))
    account = RunAccount(promise, spends_all=False)
    counts = SealedCounts(np.zeros(4, np.int64), Sensitivity(rows=1), account.root)

    def look() -> None:
        SecureNoise().open(counts, Gaussian(Fraction(variance)), "in rho")
        SecureNoise().open(counts, Laplace(Fraction(scale)), "in epsilon")

    if fits:
        look()
        account.settle()
        return
    with pytest.raises(SealedError, match="The counts stay sealed"):
        look()


def test_the_reserved_part_is_not_available_to_other_queries() -> None:
    whole, half, tiny = ONE, Fraction(1, 2), Fraction(1, 10**9)
    promise = SpendingLimit(whole, 2 * tiny, aside=(half, tiny))
    assert promise.covers(TotalCost(half, tiny))
    assert not promise.covers(TotalCost(half + tiny, tiny))
    assert not promise.covers(TotalCost(half, 2 * tiny))
    assert not SpendingLimit(whole).covers(TotalCost(rho=tiny))


def test_counts_of_one_run_are_not_opened_in_another() -> None:
    kept: list[Any] = []

    def keeping(table: SealedTable, noise: Noise) -> Any:
        kept.append(table.histograms(["x"])["x"])
        return noise.open(kept[0], Laplace(ONE), "counts")

    run(keeping)
    with pytest.raises(SealedError, match="that has ended"):
        run(keeping)


def test_a_node_of_an_edge_list_is_not_counted() -> None:
    ends = read_graph([("a", "b")])
    with pytest.raises(SealedError, match="go with any of their neighbors"):
        seal(ends, RunAccount(SpendingLimit(ONE))).n_nodes()


def test_units_are_those_of_the_schema() -> None:
    assert Unit(kind="row").max_rows is None
    assert seal(connect(OF_PERSONS, PERSONS), RunAccount(None)).sensitivity == Sensitivity(rows=3)
    exchanged = RunAccount(SpendingLimit(ONE, exchanged=True))
    assert seal(connect(ROWS, SCHEMA), exchanged).sensitivity == Sensitivity(2, exchanged=True)
