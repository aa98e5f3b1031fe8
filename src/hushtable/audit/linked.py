"""Hold runs on linked tables against their promise: neighbors that differ in one person.

As for one table (`hushtable.audit.white_box`) two neighbors are run with the same outcomes of all
draws and the same other coins; what each draw saw may differ by no more than was booked for it, and
all that was booked, for whatever table, must add up to no more than what is promised.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from hushtable.audit.prices import Cost, spent_at_most
from hushtable.audit.watched import Watched, WatchedNoise, watched, watching
from hushtable.audit.white_box import FaultError, check_same
from hushtable.engine.linked import open_linked
from hushtable.linked.linked import LinkedPlan
from hushtable.methods.base import Released
from hushtable.privacy.noise import SeededNoise


def watch_linked(
    plan: LinkedPlan, one: Mapping[str, Any], two: Mapping[str, Any], *, seed: int
) -> int:
    """Run neighbors with the same outcomes; give the number of draws, or raise `FaultError`.

    No more than one person may have more rows than count, and rows of one parent must differ in
    what orders them: otherwise which rows count is a matter of other coins.

    Parameters
    ----------
    plan : LinkedPlan
        What is run.
    one, two : mapping of str to table
        Private tables that differ in all rows of one person.
    seed : int
        Of all coins.
    """
    with watching():
        first = _run(plan, one, WatchedNoise(seed))
        second = _run(plan, two, WatchedNoise(seed, script=first.draws))
    for run in (first, second):
        _check_accounts(run, plan)
    check_same(first, second, is_counted=True)
    return len(first.draws)


def _run(plan: LinkedPlan, data: Mapping[str, Any], noise: WatchedNoise) -> Watched:
    engines = open_linked(data, plan.linked).connect(plan.linked, noise=SeededNoise(noise.seed))
    return watched(lambda noise: _seen(plan.run(engines, noise)), noise)


def _seen(released: Released) -> dict[str, float]:
    """Give a digest of each table, and of all that the estimator needs."""
    texts = {name: str(table.to_pydict()) for name, table in released.tables.items()}
    texts["settings"] = json.dumps(released.settings, sort_keys=True)
    return {
        f"{name} ({hashlib.sha256(text.encode()).hexdigest()[:12]})": 1.0
        for name, text in texts.items()
    }


def _check_accounts(run: Watched, plan: LinkedPlan) -> None:
    """Add up what was booked for all tables, at prices computed anew."""
    unbooked = [draw for draw in run.draws if not draw.what]
    if unbooked:
        raise FaultError(f"{type(unbooked[0].mechanism).__name__} drew without being booked")
    promise = plan.promise
    assert promise is not None  # noqa: S101 - every plan for linked tables has one
    total = Cost()
    for account in run.accounts:
        spent = spent_at_most(account, epsilon=promise.epsilon)
        total += spent or Cost()
    epsilon, delta = float(promise.epsilon), float(promise.delta)
    if not total.is_within(epsilon, delta):
        raise FaultError(
            f"the run spent {total.told()} on all tables, by prices computed anew; promised were "
            f"epsilon {epsilon:g} and delta {delta:g}"
        )
