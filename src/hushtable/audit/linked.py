"""Audit of linked tables: runs on neighbors that differ in all rows of one person.

As for one table (`hushtable.audit.white_box`), a plan is run on two neighbors with the same
outcomes of all draws and the same other random bits. The inputs of each draw may differ by at most
the recorded sensitivity, and the costs recorded for all tables must not exceed the promise.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from hushtable.audit.recorder import RecordedRun, RecordingNoise, record_run, recording_draws
from hushtable.audit.reference_costs import ReferenceCost, spent_at_most
from hushtable.audit.white_box import FaultError, check_same
from hushtable.engine.linked_tables import open_linked
from hushtable.engine.sealed_table import Counting
from hushtable.methods.base import Plan, Released
from hushtable.methods.linked.linked import LinkedPlan
from hushtable.privacy.noise.seeded_noise import SeededNoise

Connect = Callable[[SeededNoise], Counting]
"""Function that opens private tables, given the noise that selects the rows of each person."""


def record_linked(
    plan: LinkedPlan, one: Mapping[str, Any], two: Mapping[str, Any], *, seed: int
) -> int:
    """Run a plan on neighbors with the same outcomes; return the number of draws.

    `one` and `two` are tables that differ in all rows of one person. At most one person may have
    more rows than are used, and rows of one parent must differ in the column that orders them:
    otherwise the selection of rows depends on other random bits.

    Raises
    ------
    FaultError
        If the runs differ, or their cost exceeds the promise.
    """

    def connected(data: Mapping[str, Any]) -> Connect:
        return lambda coins: open_linked(data, plan.linked).connect(plan.linked, noise=coins)

    return record_runs(plan, connected(one), connected(two), seed=seed)


def record_runs(plan: Plan[Any], one: Connect, two: Connect, *, seed: int) -> int:
    """Run a plan on neighbors with the same outcomes; return the number of draws."""
    with recording_draws():
        first = _run(plan, one, RecordingNoise(seed))
        second = _run(plan, two, RecordingNoise(seed, script=first.draws))
    for run in (first, second):
        _check_accounts(run, plan)
    check_same(first, second, is_counted=True)
    return len(first.draws)


def _run(plan: Plan[Any], connect: Connect, noise: RecordingNoise) -> RecordedRun:
    source = connect(SeededNoise(noise.seed))
    return record_run(lambda noise: _seen(plan.run(source, noise)), noise)


def _seen(released: Released) -> dict[str, float]:
    """Return a digest of each table and of the settings."""
    texts = {name: str(table.to_pydict()) for name, table in released.tables.items()}
    texts["settings"] = json.dumps(released.settings, sort_keys=True)
    return {
        f"{name} ({hashlib.sha256(text.encode()).hexdigest()[:12]})": 1.0
        for name, text in texts.items()
    }


def _check_accounts(run: RecordedRun, plan: Plan[Any]) -> None:
    """Check that the recomputed costs of all tables are within the promise."""
    unbooked = [draw for draw in run.draws if not draw.what]
    if unbooked:
        raise FaultError(f"{type(unbooked[0].mechanism).__name__} drew without a recorded cost")
    promise = plan.promise
    assert promise is not None  # noqa: S101 - every such plan has one
    total = ReferenceCost()
    for account in run.accounts:
        spent = spent_at_most(account, epsilon=promise.epsilon)
        total += spent or ReferenceCost()
    epsilon, delta = float(promise.epsilon), float(promise.delta)
    if not total.is_within(epsilon, delta):
        raise FaultError(
            f"the recomputed cost of the run on all tables is {total.in_words()}; the promise is "
            f"epsilon {epsilon:g} and delta {delta:g}"
        )
