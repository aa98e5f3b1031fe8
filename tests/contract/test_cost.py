"""Charges of a ledger: they never fall when a method protects less.

Every parameter of every method with a promise has a `Ladder` here, a list of values from most to
least protective, or is listed as one that does not change the protection. From each value to the
next, the charge may rise, stay the same or become a refusal. If the ledger can count the cost of
one value, it can count the cost of all later ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pytest

from contract.examples import schema as example_schema
from hushtable.datasets import sample_schema
from hushtable.errors import InvalidInput, Refused
from hushtable.methods import METHODS
from hushtable.methods.alpha_beta.alpha_beta import AlphaBeta
from hushtable.methods.alpha_beta.frapp import Frapp
from hushtable.methods.counts.columns import Columns
from hushtable.methods.counts.generalize_suppress import GeneralizeSuppress
from hushtable.methods.counts.noisy_counts import NoisyCounts
from hushtable.methods.counts.random_sampling import RandomSampling
from hushtable.methods.degrees.degrees import Degrees
from hushtable.methods.degrees.hay import HayDegrees
from hushtable.methods.diffgen.contingency_table import ContingencyTable
from hushtable.methods.diffgen.diffgen import DiffGen
from hushtable.methods.diffgen.dp_c45 import DpC45
from hushtable.methods.diffgen.top_down_specialization import TopDownSpecialization
from hushtable.methods.partition.mondrian import Mondrian
from hushtable.methods.partition.partition import Partition
from hushtable.methods.quilt.quilt import Quilt
from hushtable.methods.uncertain.condensation import Condensation
from hushtable.methods.uncertain.uncertain import Uncertain
from hushtable.privacy.guarantee import Guarantee
from hushtable.privacy.ledger.budget import Budget
from hushtable.privacy.ledger.records import is_counted
from hushtable.privacy.ledger.state import LedgerState
from hushtable.schema import Schema

EPSILONS = ("1/100", "1/2", 1, 5, 100, 101, 10_000)
DELTAS = ("1e-12", "1e-6", "1e-2", "1/2")
KS = (50, 10, 5, 2, 1)
COARSE = {"age": 20, "region": 1, "diagnosis": 1}


def wide(n_columns: int, n_values: int = 100, **more: Any) -> Schema:
    columns = {f"x{i}": {"type": "integer", "low": 0, "high": n_values - 1}
               for i in range(n_columns)}  # fmt: skip
    return Schema.from_dict({"name": "wide", "columns": columns, **more})


def persons(max_rows: int) -> Schema:
    content = sample_schema().to_dict()
    unit = {"kind": "person", "column": "visit", "max_rows": max_rows}
    return Schema.from_dict({**content, "unit": unit})


@dataclass(frozen=True, kw_only=True)
class Ladder:
    """Values of one parameter, from most to least protection; all else stays fixed."""

    method: type[Any]
    parameter: str
    steps: Sequence[Any]  # the most protective value first
    others: Mapping[str, Any] = field(default_factory=dict)
    schema: Schema = field(default_factory=sample_schema)

    def promises(self, step: Any) -> tuple[Guarantee, ...]:
        made = self.method(**{**self.others, self.parameter: step})
        graph = self.method in {Degrees, HayDegrees}
        found: tuple[Guarantee, ...] = made.guarantee() if graph else made.guarantee(self.schema)
        return found

    def __str__(self) -> str:
        return f"{self.method.__name__}-{self.parameter}-{len(self.others)}"


def ladders(method: type[Any], others: Mapping[str, Any], **steps: Sequence[Any]) -> list[Ladder]:
    return [
        Ladder(
            method=method,
            parameter=name,
            steps=values,
            others={n: v for n, v in others.items() if n != name},
        )
        for name, values in steps.items()
    ]


# Priors and probabilities from far above the allowed range to far below; 1e60 and 21,000 tuples.
PRIORS = ("1/2", "1/10", "1e-3", "1e-9", "1e-30", "1e-44", "1e-50", "1e-59", "1e-60", "1e-61",
          "1e-90", "1e-300")  # fmt: skip
GAMMAS = ("1/1000", "1/10", "1/5", "1/2", "9/10", "999/1000", Fraction(10**30 - 1, 10**30))
BETAS = ("1/10", "1/50", "1e-3", "1e-9", "1e-30", "1e-44", "1e-60", "1e-300")
ENDLESS = {"max_tuples": 10**70}


def alpha_beta_ladders() -> list[Ladder]:
    found = []
    for adversary in ("exclusive", "independent"):
        for schema, n_public in ((wide(30), 1), (wide(30), 30_000), (sample_schema(), 1),
                                 (sample_schema(), 6000)):  # fmt: skip
            most = Fraction(n_public, schema.domain.size)
            base = {**ENDLESS, "adversary": adversary, "n_public": n_public}
            priors = sorted({*map(Fraction, PRIORS), most, most * Fraction(999, 1000)})[::-1]
            found += [
                Ladder(method=AlphaBeta, parameter="d", steps=priors, schema=schema,
                       others={**base, "gamma": "3/5"}),
                Ladder(method=AlphaBeta, parameter="gamma", steps=GAMMAS, schema=schema,
                       others={**base, "d": most}),
                Ladder(method=AlphaBeta, parameter="prior_factor", schema=schema,
                       steps=(1000, 10, 2, 1, "999/1000", "1/10", "1e-9", "1e-60"),
                       others={**base, "gamma": "3/5"}),
            ]  # fmt: skip
    found += [
        Ladder(method=AlphaBeta, parameter="n_public", steps=(10**6, 30_000, 100, 1),
               schema=wide(30), others={**ENDLESS, "prior_factor": 10, "gamma": "1/5"}),
        Ladder(method=AlphaBeta, parameter="adversary", steps=("exclusive", "independent"),
               others={"d": "3/10", "n_public": 6000, "gamma": "1/2"}),
        Ladder(method=AlphaBeta, parameter="alpha", steps=("1e-3", "1/10", "1/2", "9/10", "98/100"),
               others={"beta": "1e-3"}),
        Ladder(method=AlphaBeta, parameter="beta", steps=BETAS, schema=wide(30),
               others={**ENDLESS, "alpha": "1/2"}),
        Ladder(method=AlphaBeta, parameter="max_copies", steps=(1000, 10, 2, 1),
               others={"alpha": "9/20", "beta": "1/20"}),
        Ladder(method=AlphaBeta, parameter="views", steps=(1, 2, 5, 20),
               others={"alpha": "9/20", "beta": "1/20"}),
        Ladder(method=AlphaBeta, parameter="view_rule", steps=("memoized", "algorithm-4"),
               others={"alpha": "9/20", "beta": "1/20"}),
        Ladder(method=AlphaBeta, parameter="source",
               steps=[{"region": [1, 1, 1, 1, weight]} for weight in (1, 2, 9, 99, 10**6, 10**60)],
               others={"prior_factor": 1, "n_public": 60, "gamma": "3/4", **ENDLESS}),
    ]  # fmt: skip
    return found


NUMERIC = {"schema": example_schema(Condensation(k=2, carry=["sex"]))}
LADDERS = [
    *alpha_beta_ladders(),
    *ladders(
        Columns,
        {"epsilon": 1, "delta": "1e-6", "k": 10, "max_columns": 2, "generalize": COARSE,
         "columns": [["age", "sex"], ["region", "smoker"]]},
        epsilon=EPSILONS, delta=DELTAS, k=KS,
    ),
    *ladders(Columns, {"epsilon": 1, "delta": "1e-6", "k": 10, "generalize": COARSE,
                       "columns": [["age", "sex"], ["region", "smoker"]]}, max_columns=(2, 1)),
    *ladders(ContingencyTable, {}, epsilon=EPSILONS),
    *ladders(DiffGen, {}, epsilon=EPSILONS),
    *ladders(Frapp, {}, retention=("1e-9", "1/100", "1/5", "9/10", Fraction(10**40 - 1, 10**40),
                                   Fraction(10**300 - 1, 10**300))),
    *ladders(NoisyCounts, {"epsilon": 1, "delta": "1e-6", "k": 10, "generalize": COARSE},
             epsilon=EPSILONS, delta=DELTAS, k=KS, mechanism=("tight", "paper")),
    *ladders(NoisyCounts, {"mechanism": "pure", "generalize": COARSE}, epsilon=EPSILONS),
    *ladders(Partition, {}, epsilon=EPSILONS),
    *ladders(Quilt, {"epsilon": 1}, epsilon=EPSILONS, delta=DELTAS),
    *ladders(Quilt, {"epsilon": 1, "delta": "1e-6"}, accounting=("concentrated", "gaussian")),
    *ladders(Degrees, {"epsilon": 1, "max_degree": 8}, epsilon=EPSILONS,
             population=("endpoints", "listed")),
    *ladders(HayDegrees, {"level": "node", "n_nodes": 9, "max_degree": 3}, epsilon=EPSILONS),
    *ladders(DpC45, {"target": "diagnosis"}, epsilon=EPSILONS),
    *ladders(GeneralizeSuppress, {}, k=KS),
    *ladders(TopDownSpecialization, {}, k=KS),
    *ladders(Mondrian, {}, k=KS),
    *ladders(RandomSampling, {}, rate=("1e-9", "1/100", "1/5", "9/10", 1 - Fraction(1, 10**40))),
    *(dataclasses.replace(ladder, **NUMERIC)
      for ladder in (*ladders(Condensation, {"carry": ["sex"]}, k=KS),
                     *ladders(Uncertain, {"k": 5, "carry": ["sex"]}, k=KS,
                              eta=(0, "1/20", "1/2", "999/1000", "expectation"),
                              levels=("safe", "exact")))),
]  # fmt: skip

# These change the output, its accuracy or the run time; the promise is the same for all values.
NEUTRAL = {
    AlphaBeta: {"view_history", "max_tuples"},
    Columns: {"columns", "clusters", "schema_share", "similarity", "item", "value", "max_values",
              "mechanism", "generalize", "count_share", "size_share"},
    Condensation: {"scales", "carry"},
    ContingencyTable: {"max_cells"},
    DiffGen: {"specializations", "target", "score", "calibration", "structure_share", "consistent",
              "max_groups"},
    GeneralizeSuppress: {"generalize"},
    NoisyCounts: {"generalize", "row_count_share", "max_cells"},
    Partition: {"max_depth", "stop_count", "test_from", "target", "split", "budget", "test_share",
                "summarize", "consistent", "max_regions", "column_share"},
    Quilt: {
        "target", "particles", "max_published", "prior", "prior_public", "workload",
        "workload_share",
    },
    TopDownSpecialization: {"target"},
    Uncertain: {"model", "local", "local_floor", "scales", "carry", "k_column", "k_by", "edges"},
    Degrees: {"max_degree", "mechanism", "n_nodes_share", "bound_share", "largest_bound",
              "n_levels", "fit", "tail"},
    HayDegrees: {"level", "n_nodes", "max_degree"},
    DpC45: {"depth", "target"},
    Mondrian: {"relaxed", "by_class", "target", "cuts"},
}  # fmt: skip


def charge(promises: tuple[Guarantee, ...]) -> Budget | None:
    """Return the charge in a ledger of matching unit and relation, or None if it is uncountable."""
    if not is_counted(promises):
        return None
    counted: Any = next(promise for promise in promises if promise.counted)
    return LedgerState(unit=counted.unit, neighbors=counted.neighbors).priced(promises).cost.basic


@pytest.mark.parametrize("method", [*METHODS.values(), Degrees, HayDegrees, DpC45, Mondrian],
                         ids=lambda method: method.__name__)  # fmt: skip
def test_every_parameter_is_on_a_ladder_or_says_nothing_about_protection(method: type) -> None:
    tried = {ladder.parameter for ladder in LADDERS if ladder.method is method}
    neutral = NEUTRAL.get(method, set())
    assert tried
    assert tried.isdisjoint(neutral)
    assert tried | neutral == {field.name for field in dataclasses.fields(method)}


@pytest.mark.parametrize("ladder", LADDERS, ids=str)
def test_protecting_less_never_costs_less(ladder: Ladder) -> None:
    last: Budget | None = None
    n_charged = n_refused = 0
    for step in ladder.steps:
        try:
            cost = charge(ladder.promises(step))
        except (InvalidInput, Refused):
            n_refused += 1
            continue
        if n_charged:
            assert (cost is None) == (last is None), f"{step} changed whether it is counted"
            if cost is not None and last is not None:
                dearer = cost.epsilon >= last.epsilon and cost.delta >= last.delta
                assert dearer, f"{ladder.parameter} = {step} costs less than before"
        last = cost
        n_charged += 1
    assert n_charged >= 1
    assert n_charged + n_refused == len(ladder.steps)


@pytest.mark.parametrize("d", ["1e-44", "1e-50", "1e-59"])
def test_beyond_any_meaning_the_charge_is_beyond_any_cap(d: str) -> None:
    """No digit is dropped: epsilon is ln of the likelihood ratio, even above the largest cap."""
    ladder = Ladder(method=AlphaBeta, parameter="d", steps=(), schema=wide(30),
                    others={"n_public": 1, "gamma": "3/5", **ENDLESS})  # fmt: skip
    cost = charge(ladder.promises(d))
    assert cost is not None
    assert cost.epsilon > 100
    rows = charge(dataclasses.replace(ladder, schema=wide(40)).promises(d))
    assert rows == cost  # the cost depends on the ratio, not on the domain


@pytest.mark.parametrize("max_rows", [1, 2, 7])
def test_more_rows_of_a_person_cost_more(max_rows: int) -> None:
    made = AlphaBeta(alpha="9/20", beta="1/20")
    few, many = (charge(made.guarantee(persons(n))) for n in (max_rows, max_rows + 1))
    assert few is not None
    assert many is not None
    assert many.epsilon > few.epsilon
