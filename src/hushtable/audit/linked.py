"""Hold runs on tables that belong together against their promise: neighbors of one person.

As for one table (`hushtable.audit.white_box`) two neighbors are run with the same outcomes of all
draws and the same other coins; what each draw saw may differ by no more than was booked for it, and
all that was booked, for whatever table, must add up to no more than what is promised.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from hushtable.audit.prices import Cost, spent_at_most
from hushtable.audit.watched import Watched, WatchedNoise, watched, watching
from hushtable.audit.white_box import FaultError, check_same
from hushtable.engine.linked import open_linked
from hushtable.engine.sealed import Counting
from hushtable.linked.linked import LinkedPlan
from hushtable.methods.base import Plan, Released
from hushtable.privacy.seeded_noise import SeededNoise

Connect = Callable[[SeededNoise], Counting]
"""Gives what counts private tables, by coins that say which rows of a person count."""


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

    def connected(data: Mapping[str, Any]) -> Connect:
        return lambda coins: open_linked(data, plan.linked).connect(plan.linked, noise=coins)

    return watch_runs(plan, connected(one), connected(two), seed=seed)


def watch_runs(plan: Plan[Any], one: Connect, two: Connect, *, seed: int) -> int:
    """Run a plan on neighbors with the same outcomes; give the number of draws.

    Parameters
    ----------
    plan : Plan
        What is run.
    one, two : callable
        Give what counts private tables that differ in one person, by coins that are theirs.
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


def _run(plan: Plan[Any], connect: Connect, noise: WatchedNoise) -> Watched:
    source = connect(SeededNoise(noise.seed))
    return watched(lambda noise: _seen(plan.run(source, noise)), noise)


def _seen(released: Released) -> dict[str, float]:
    """Give a digest of each table, and of all that the estimator needs."""
    texts = {name: str(table.to_pydict()) for name, table in released.tables.items()}
    texts["settings"] = json.dumps(released.settings, sort_keys=True)
    return {
        f"{name} ({hashlib.sha256(text.encode()).hexdigest()[:12]})": 1.0
        for name, text in texts.items()
    }


def _check_accounts(run: Watched, plan: Plan[Any]) -> None:
    """Add up what was booked for all tables, at prices computed anew."""
    unbooked = [draw for draw in run.draws if not draw.what]
    if unbooked:
        raise FaultError(f"{type(unbooked[0].mechanism).__name__} drew without being booked")
    promise = plan.promise
    assert promise is not None  # noqa: S101 - every such plan has one
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
