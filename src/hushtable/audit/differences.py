"""Test for certain differences between neighbors, in everything that is published.

A feature separates two inputs if all its values on one input are below all those on the other, or
if it always occurs on one and never on the other. Each pair is run a few times. Pairs without such
a feature are dropped; the others are run again. A difference that persists after 96 runs on each
side is counted in new runs. Only these last runs prove anything; see ``auditor.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from hushtable.audit.bounds import EventTally, loss_at_least
from hushtable.audit.clock import Clock
from hushtable.audit.events import Event, Not, Samples, Within
from hushtable.audit.features import Features
from hushtable.audit.inputs import Input
from hushtable.audit.loss import LossClaim
from hushtable.audit.neighbors import Pair
from hushtable.audit.report import Finding, Witness

ROUNDS = (4, 4, 8, 16, 32, 32)
"""Runs on every remaining input, in each round of the search."""

CANDIDATES = 4
"""Maximum number of differences counted in new runs; each gets an equal share of the error."""

KEPT = (48, 24, 8, 4, 4)
"""Maximum number of pairs, separated by a varying feature, that remain after each round.

The first round keeps all pairs that are separated by a constant feature (the same in all runs on
each side): such a feature may separate a single pair. A feature that separates many pairs is
detected at any of them.
"""

CHUNK = 50
"""Pairs of the first round between two checks of the time."""


@dataclass(frozen=True)
class Observation:
    """An observation: a function that runs and observes the method, and neighbors to run it on."""

    name: str
    see: Callable[[Input], Features]
    pairs: Sequence[Pair]


@dataclass(frozen=True)
class Difference:
    """An event that occurred in all runs on one input and in none on its neighbor."""

    observation: Observation
    pair: Pair
    event: Event  # always on the first input of the pair, never on the second


@dataclass
class DifferenceTest:
    """Test that nothing differs with certainty."""

    claim: LossClaim
    observations: Iterable[Observation]
    runs: int  # maximum number of runs on each side of a pair
    error: float  # probability of a false alarm
    clock: Clock
    _seen: dict[Input, list[Features]] = field(default_factory=dict)

    def finding(self) -> Finding:
        """Search for differences, then count them in new runs."""
        needed = runs_to_prove(
            min(self.claim.forward, self.claim.backward), self.claim.delta, self.error / CANDIDATES
        )
        n_pairs, n_tested = 0, 0
        notes: tuple[str, ...] = ()
        for observation in self.observations:
            differences, n_tried = self._search(observation)
            n_pairs += n_tried
            for difference in differences[: CANDIDATES - n_tested]:
                if needed > self.runs:
                    notes = (
                        f"In all of {sum(ROUNDS)} runs on each side, {difference.pair.name}: "
                        f"{difference.event.describe()}. Proving a violation requires {needed:,} "
                        "runs on each side.",
                    )
                    break
                n_tested += 1
                tested = self._tested(difference, min(self.runs, needed + needed // 2), n_pairs)
                if tested is not None:
                    return tested
            self._seen.clear()
            if self.clock.is_past(1):
                break
        promise = (
            f"Nothing published differs with certainty between neighbors. {self.claim.promise}"
        )
        if needed > self.runs or not n_pairs:
            return Finding(
                promise=promise,
                verdict="NOT TESTED",
                reason=f"{self.runs:,} runs on each side are not enough"
                if needed > self.runs
                else "the time limit left no time for runs",
                n_inputs=n_pairs,
                notes=notes,
            )
        return Finding(
            promise=promise,
            verdict="NO VIOLATION FOUND",
            would_see=f"any certain difference, on any of {n_pairs:,} pairs",
            n_inputs=n_pairs,
        )

    def _search(self, observation: Observation) -> tuple[list[Difference], int]:
        """Return the differences that held in all runs, and the number of pairs tried."""
        pairs: list[Pair] = []
        start = 0
        for start in range(0, len(observation.pairs), CHUNK):
            chunk = observation.pairs[start : start + CHUNK]
            inputs = _inputs(chunk)
            self._run(
                observation, [given for given in inputs if given not in self._seen], ROUNDS[0]
            )
            pairs += self._distinguished(chunk)
            self.clock.tell("comparing", min(1.0, start / len(observation.pairs)))
            if self.clock.is_past(1):
                break
        n_tried = min(len(observation.pairs), start + CHUNK)
        for more, most in zip(ROUNDS[1:], KEPT, strict=True):
            fixed = [pair for pair in pairs if self._event(pair, fixed=True) is not None]
            kept = {id(pair) for pair in fixed}
            varied = [pair for pair in pairs if id(pair) not in kept]
            pairs = [*(fixed if most == KEPT[0] else _some(fixed, most)), *_some(varied, most)]
            self._run(observation, _inputs(pairs), more)
            pairs = self._distinguished(pairs)
        events = [(pair, self._event(pair)) for pair in pairs]
        return [Difference(observation, pair, e) for pair, e in events if e is not None], n_tried

    def _run(self, observation: Observation, inputs: Sequence[Input], times: int) -> None:
        """Run all inputs alternately, so that changes over time do not separate them."""
        for _ in range(times):
            for given in inputs:
                self._seen.setdefault(given, []).append(observation.see(given))

    def _distinguished(self, pairs: Sequence[Pair]) -> list[Pair]:
        return [pair for pair in pairs if self._event(pair) is not None]

    def _event(self, pair: Pair, *, fixed: bool = False) -> Event | None:
        return separating(self._seen[pair.one], self._seen[pair.two], fixed=fixed)

    def _tested(self, difference: Difference, n: int, n_pairs: int) -> Finding | None:
        """Count the event in new runs, alternating between both sides."""
        claim, pair = self.claim, difference.pair
        samples = Samples(), Samples()
        for _ in range(n):
            for kept, given in zip(samples, (pair.one, pair.two), strict=True):
                kept.add([difference.observation.see(given)])
        # The event is certain on the first input, and its complement on the second.
        on_first = claim.forward <= claim.backward
        event = difference.event if on_first else Not(difference.event)
        sides = (pair.one, pair.two) if on_first else (pair.two, pair.one)
        hits = [int(event.mask(kept).sum()) for kept in samples]
        ordered = hits if on_first else hits[::-1]
        tallies = EventTally(ordered[0], n), EventTally(ordered[1], n)
        limit = claim.forward if on_first else claim.backward
        bound = loss_at_least(*tallies, delta=claim.delta, error=self.error / CANDIDATES)
        if bound <= limit:
            return None
        return Finding(
            promise=f"Nothing published differs with certainty between neighbors. {claim.promise}",
            verdict="VIOLATION",
            measure=claim.measure,
            limit=limit,
            bound=bound,
            n_inputs=n_pairs,
            witness=Witness(
                f"{pair.name} ({difference.observation.name})",
                sides[0],
                sides[1],
                event.describe(),
                tallies[0],
                tallies[1],
            ),
        )


def _some(pairs: list[Pair], most: int) -> list[Pair]:
    """Return at most this many pairs, evenly spaced."""
    return pairs[:: max(1, -(-len(pairs) // most))]


def _inputs(pairs: Sequence[Pair]) -> list[Input]:
    return list(dict.fromkeys(side for pair in pairs for side in (pair.one, pair.two)))


def separating(
    one: Sequence[Features], two: Sequence[Features], *, fixed: bool = False
) -> Event | None:
    """Return an event that separates all runs on two inputs; None if there is none.

    With `fixed`, only features that are constant in all runs on each side are used.

    Examples
    --------
    >>> event = separating([{"n": 3.0}, {"n": 4.0}], [{"n": 5.0}, {"n": 7.0}])
    >>> event.describe() if event else None
    'n is present and <= 4.5'
    >>> separating([{"n": 3.0}, {"n": 6.0}], [{"n": 5.0}, {"n": 7.0}]) is None
    True
    """
    always = [set(runs[0]).intersection(*runs) for runs in (one, two)]
    ever = [set().union(*runs) for runs in (one, two)]
    for name in sorted(always[0] - ever[1]):
        return Within(name)
    for name in sorted(always[1] - ever[0]):
        return Not(Within(name))
    for name in sorted(always[0] & always[1]):
        x, y = [run[name] for run in one], [run[name] for run in two]
        if fixed and (min(x) < max(x) or min(y) < max(y)):
            continue
        if max(x) < min(y):
            return Within(name, high=(max(x) + min(y)) / 2)
        if max(y) < min(x):
            return Within(name, low=(max(y) + min(x)) / 2)
    return None


def runs_to_prove(limit: float, delta: float, error: float) -> int:
    """Return the runs on each side that prove more than a limit, for a certain difference.

    Examples
    --------
    >>> runs_to_prove(1.0, 0.0, 1e-8)
    62
    """
    if math.isinf(limit):
        return 1 << 62
    low, high = 0, 1
    while not _proves(high, limit, delta, error):
        low, high = high, 2 * high
        if high > 1 << 40:
            return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _proves(middle, limit, delta, error) else (middle, high)
    return high


def _proves(n: int, limit: float, delta: float, error: float) -> bool:
    return loss_at_least(EventTally(n, n), EventTally(0, n), delta=delta, error=error) > limit
