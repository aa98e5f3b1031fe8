"""Recorded runs on linked tables and waves: neighbors differ in all rows of one person."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from hushtable.audit.recorder import RecordingNoise, run_plan
from hushtable.audit.reference_costs import ReferenceCost, spent_at_most
from hushtable.audit.white_box import FaultError, check_same
from hushtable.engine.linked_tables import open_linked
from hushtable.engine.sealed_table import Counting
from hushtable.methods.base import Plan
from hushtable.methods.linked.linked import LinkedPlan
from hushtable.privacy.noise.sources import SeededNoise

Connect = Callable[[SeededNoise], Counting]
"""Function that opens private tables, given the noise that selects the rows of each person."""


def record_linked(
    plan: LinkedPlan, one: Mapping[str, Any], two: Mapping[str, Any], *, seed: int
) -> int:
    """Run a plan on tables that differ in all rows of one person; return the number of draws.

    At most one person may have more rows than are used, and rows of one parent must differ in the
    column that orders them: otherwise the selection of rows depends on other random bits.
    """

    def connected(data: Mapping[str, Any]) -> Connect:
        return lambda noise: open_linked(data, plan.linked).connect(plan.linked, noise=noise)

    return record_runs(plan, connected(one), connected(two), seed=seed)


def record_runs(plan: Plan[Any], one: Connect, two: Connect, *, seed: int) -> int:
    """Run a plan on neighbors with the same outcomes; return the number of draws."""
    first = RecordingNoise(seed)
    second = RecordingNoise(seed, script=first.draws)
    for connect, run in ((one, first), (two, second)):
        released = run_plan(plan, connect(SeededNoise(seed)), run)
        texts = {name: str(table.to_pydict()) for name, table in released.tables.items()}
        texts["settings"] = json.dumps(released.settings, sort_keys=True)
        run.seen = {f"{name} ({text})": 1.0 for name, text in texts.items()}
        check_total_cost(run, plan.promise)
    check_same(first, second, is_counted=True)
    return len(first.draws)


def check_total_cost(run: RecordingNoise, promise: Any) -> None:
    """Check that the recomputed cost on all tables together is within the promise."""
    for fault in run.faults:
        raise FaultError(fault)
    epsilon, delta = float(promise.epsilon), float(promise.delta)
    costs = (spent_at_most(one, epsilon=promise.epsilon, unknown=set()) for one in run.accounts)
    cost = sum(costs, ReferenceCost())
    if not cost.is_within(epsilon, delta):
        raise FaultError(
            f"the recomputed cost of the run on all tables is {cost.in_words()}; the promise is "
            f"epsilon {epsilon:g} and delta {delta:g}"
        )
