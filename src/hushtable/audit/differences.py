"""Test for certain differences between neighbors, in everything that is published.

A feature separates two inputs if all its values on one input are below all those on the other, or
if it always occurs on one and never on the other. Each pair is run a few times. Pairs without such
a feature are dropped; the others are run again. A difference that persists after 96 runs on each
side is counted in new runs. Only these last runs prove anything; see ``auditor.md``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from hushtable.audit import sweep
from hushtable.audit.bounds import EventTally, loss_at_least
from hushtable.audit.cases import Case
from hushtable.audit.code_constants import CodeConstants, constants_of
from hushtable.audit.events import Event, Not, Samples, Within
from hushtable.audit.features import Features
from hushtable.audit.inputs import Input, Pair
from hushtable.audit.loss import LossClaim
from hushtable.audit.recorder import run_plan
from hushtable.audit.report import Finding, Witness
from hushtable.audit.subject import (
    Clock,
    FolderSubject,
    Prepared,
    Subject,
    published,
    scratch,
)
from hushtable.audit.white_box import Watched
from hushtable.methods.base import GraphMethod, Plan
from hushtable.privacy.guarantee import ApproxDP, PureDP
from hushtable.schema import Schema

ROUNDS = (4, 4, 8, 16, 32, 32)
"""Runs on every remaining input, in each round of the search."""

CANDIDATES = 4
"""Maximum number of differences counted in new runs; each gets an equal share of the error."""

KEPT = (48, 24, 8, 4, 4)
"""Maximum number of pairs, separated by a varying feature, that remain after each round.

The first round keeps all pairs that are separated by a constant feature (the same in all runs on
each side), because such a feature may separate only one pair. A feature that separates many pairs
is detected at any of them.
"""

CHUNK = 10
"""Pairs of the first round between two checks of the time."""

OVERTIME = 1.5
"""Share of the time after which even promising pairs are not run again."""


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
    """Test that nothing published differs with certainty between neighbors."""

    claim: LossClaim
    observations: Iterable[Observation]
    runs: int  # maximum number of runs on each side of a pair
    error: float  # probability of a false alarm
    clock: Clock
    _seen: dict[Input, list[Features]] = field(default_factory=dict)
    _first: Features = field(default_factory=dict)
    _varied: bool = False

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
        reason = "" if n_pairs else "the time limit left no time for runs"
        if needed > self.runs:
            reason = f"{self.runs:,} runs on each side are not enough"
        elif n_pairs and not self._varied:
            reason = "all runs on all inputs had the same output"
        if reason:
            return Finding(
                promise=promise,
                verdict="NOT TESTED",
                reason=reason,
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
            self.clock.report("comparing", min(1.0, start / len(observation.pairs)))
            if self.clock.is_past(1):
                break
        n_tried = min(len(observation.pairs), start + CHUNK)
        for more, most in zip(ROUNDS[1:], KEPT, strict=True):
            if self.clock.is_past(OVERTIME):
                return [], n_tried
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
                found = observation.see(given)
                self._first = self._first or found
                self._varied = self._varied or found != self._first
                self._seen.setdefault(given, []).append(found)

    def _distinguished(self, pairs: Sequence[Pair]) -> list[Pair]:
        return [pair for pair in pairs if self._event(pair) is not None]

    def _event(self, pair: Pair, *, fixed: bool = False) -> Event | None:
        return separating(self._seen[pair.one], self._seen[pair.two], fixed=fixed)

    def _tested(self, difference: Difference, n: int, n_pairs: int) -> Finding | None:
        """Count the event in new runs, alternating between both sides; None without a violation."""
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
    """Return the number of runs on each side that prove a loss above `limit`.

    The event occurs in all runs on one side and in none on the other.

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


# Inputs, schemas and observations for the tests of certain differences.

VARIANT_SIZES = (0, 1, 2, 5, 9, 10, 11, 29, 30, 39, 40, 49, 50, 60, 99, 100, 128, 200, 255, 299)
"""Rows of tables with variants of the schema."""

FOLDER_SIZES = (0, 5, 40, 150)
"""Rows of tables that are observed on disk, or that have several additional columns."""

DISTANT_SIZES = (7, 60, 700, 30_000)
"""Rows of tables that are compared with very different tables."""

GRAPH_SIZES = (*range(1, 41), 49, 50, 63, 64, 99, 100)
"""Numbers of edges of graphs, in each shape."""

LARGE, HUGE = 50_000, 2_000_000
"""Rows of a large table, and of the largest one, which consists of copies of one row."""

N_SWEPT = 5
"""Variants of the schema for which tables of many sizes are tried."""

FEW_SIZES = (0, 5, 40)
"""Rows of small tables with every variant of the schema."""

COMMON = ("persons with two rows", "missing values", "persons, columns of every type")
"""Variants of the schema that come first, and for which raw tables are published."""

RANDOM_PAIRS = 400
"""Random tables with the schema of the audit case."""


def some_inputs(claim: LossClaim) -> list[Input]:
    """Return up to four different inputs."""
    pairs = list(claim.pairs)
    chosen = [pairs[0], pairs[len(pairs) // 2], pairs[-1]]
    return list(dict.fromkeys(side for pair in chosen for side in (pair.one, pair.two)))[:4]


def observations_of(
    claim: LossClaim, case: Case[Any], subject: Subject, *, is_given: bool, is_watched: bool
) -> Iterator[Observation]:
    """Yield the observations for the test of certain differences.

    If runs were recorded (`is_watched`), `hushtable.audit.white_box` has already tested tables of
    many sizes more thoroughly, so only the claim's pairs and the folder are observed.
    """
    plan = plan_of(subject)
    known_only = is_given or is_watched
    tried = neighbors_for(claim, case, subject, is_given=known_only)
    for number, (of, name, pairs) in enumerate(tried):
        yield Observation(name, of.seen_in_full, pairs)
        if plan is not None and number == 0:
            yield from _folder(claim, subject, plan, is_given=is_given)


def watched_for(
    claim: LossClaim, case: Case[Any], subject: Subject, *, is_given: bool
) -> Iterator[Watched]:
    """Yield neighbors for recorded runs, with the subject to run, a name and a share of the time.

    First come few pairs of each kind: the claim's pairs, small and raw tables with common features
    of schemas, some observed in the release folder, and very different tables for every variant of
    the schema. Then come large and random tables, and those of `neighbors_for`.
    """
    plan, schema = plan_of(subject), subject.schema
    is_wide = not is_given and not isinstance(subject.method, GraphMethod)
    is_free = is_wide and schema.rows is None
    variants: list[tuple[str, Subject]] = []
    code = constants_of(plan)
    pairs: Sequence[Pair] = list(claim.pairs)
    # Repeated so often that each unlikely number of the code is tried on several pairs.
    often = range(max(1, -(-10 * len(code.unlikely()) // max(1, len(pairs)))))
    yield Watched(subject, "what is published", [pair for _ in often for pair in pairs], 0.15)
    if is_wide:
        sizes: Sequence[int] = DISTANT_SIZES if schema.rows is None else (schema.rows,)
        far = list(sweep.distant_pairs(schema, claim.relation, sizes))
        yield Watched(subject, "very different tables", far, 0.1)
        variants = list(_variants(claim, case, subject, code))
        variants.sort(key=lambda one: (one[0] not in COMMON, one[1].schema.domain.size))
    small = []
    for name, of in variants if is_free else ():
        pairs = list(sweep.swept(of.schema, claim.relation, FEW_SIZES))
        small.append(Watched(of, f"small tables, {name}", pairs, 0.01 + 0.02 * (name in COMMON)))
    yield from small[: len(COMMON)]
    if plan is not None:
        with scratch() as place:
            pairs = _pairs_for_folders(claim, subject, is_given=is_given)
            yield Watched(FolderSubject.of(subject, plan, place), "the folder", pairs, 0.15)
            if is_free and claim.relation == "add-remove":
                for name, of in variants[: len(COMMON)]:
                    raw = FolderSubject.of(of, plan_of(of), place)
                    pairs = list(sweep.raw_pairs(of.schema))
                    yield Watched(raw, f"raw tables, {name}", pairs, 0.05)
    for name, of in variants:
        sizes = DISTANT_SIZES[:2] if of.schema.rows is None else (of.schema.rows,)
        pairs = list(sweep.distant_pairs(of.schema, claim.relation, sizes))
        yield Watched(of, f"very different tables, {name}", pairs, 0.01)
    yield from small[len(COMMON) :]
    if is_free:
        pairs = list(sweep.swept(schema, claim.relation, sweep.named_sizes(code)))
        yield Watched(subject, "tables of sizes that the code names", pairs, 0.2)
        pairs = list(sweep.random_pairs(schema, claim.relation, RANDOM_PAIRS))
        yield Watched(subject, "random tables", pairs, 0.2)
        climb = partial(sweep.climbing_pairs, schema, claim.relation, RANDOM_PAIRS)
        yield Watched(subject, "tables chosen by a search", climb, 0.25)
        large = list(itertools.islice(sweep.swept(schema, claim.relation, [LARGE]), 2))
        yield Watched(subject, "large tables", large, 0.1)
        if schema.unit.kind == "row" and claim.relation == "add-remove":
            copies = list(sweep.large_pairs(schema, sweep.large_sizes(code)))
            huge = [sweep.huge_pair(schema, HUGE)]
            yield Watched(subject, "huge tables", huge, 0.1)
            yield Watched(subject, "large tables of sizes that the code names", copies, 0.1)
        for name, of in variants:
            pairs = list(sweep.random_pairs(of.schema, claim.relation, RANDOM_PAIRS // 16))
            yield Watched(of, f"random tables, {name}", pairs, 0.01)
    yield from itertools.starmap(
        Watched, itertools.islice(neighbors_for(claim, case, subject, is_given=is_given), 1, None)
    )


def neighbors_for(
    claim: LossClaim, case: Case[Any], subject: Subject, *, is_given: bool
) -> Iterator[tuple[Subject, str, list[Pair]]]:
    """Yield neighbors to try, with their subject and a name; only the claim's if `is_given`."""
    yield subject, "what is published", list(claim.pairs)
    if is_given:
        return
    if isinstance(subject.method, GraphMethod):
        listed = getattr(subject.method, "population", "listed") == "listed"
        graphs = list(sweep.swept_graphs(GRAPH_SIZES, listed=listed))
        yield subject, "graphs of many sizes", graphs
        plan = plan_of(subject)
        if plan is not None:
            # The audit case runs only the measurement. Post-processing is published, too; it is
            # slower, so only every fourth graph is run.
            whole = replace(subject, prepared=Prepared(plan.guarantees, partial(run_plan, plan)))
            yield whole, "whole releases of graphs", graphs[::4]
        return
    if claim.relation == "add-remove" and subject.schema.rows is not None:
        return  # the number of rows is public, so neighbors must not differ in it
    every = _variants(claim, case, subject, CodeConstants())
    for name, other in itertools.islice(every, N_SWEPT):
        is_wide = len(other.schema.attributes) > len(subject.schema.attributes) + 1
        sizes = FOLDER_SIZES if is_wide else VARIANT_SIZES
        yield other, f"tables with {name}", list(sweep.swept(other.schema, claim.relation, sizes))
    many = sweep.sizes_of(constants_of(plan_of(subject)))
    yield subject, "tables of many sizes", list(sweep.swept(subject.schema, claim.relation, many))


def plan_of(subject: Subject) -> Plan[Any] | None:
    """Return the plan of the method; None if it has none."""
    method: Any = subject.method
    if not hasattr(method, "plan"):
        return None
    plan: Plan[Any] = (
        method.plan(subject.schema.name)
        if isinstance(method, GraphMethod)
        else method.plan(subject.schema)
    )
    return plan


def _folder(
    claim: LossClaim, subject: Subject, plan: Plan[Any], *, is_given: bool
) -> Iterator[Observation]:
    """Yield an observation of the written folder, for some of the neighbors."""
    pairs = _pairs_for_folders(claim, subject, is_given=is_given)
    with scratch() as place:

        def see(given: Input) -> Features:
            subject.n_runs += 1
            return published(plan, subject.opened(given), subject.noise, place)

        yield Observation("the folder", see, pairs)


def _pairs_for_folders(claim: LossClaim, subject: Subject, *, is_given: bool) -> list[Pair]:
    pairs: list[Pair] = list(claim.pairs)[:: max(1, len(claim.pairs) // 8)][:8]
    is_graph = isinstance(subject.method, GraphMethod)
    if not is_given and not is_graph and subject.schema.rows is None:
        pairs += list(sweep.swept(subject.schema, claim.relation, FOLDER_SIZES))
    return pairs


def _variants(
    claim: LossClaim, case: Case[Any], subject: Subject, code: CodeConstants
) -> Iterator[tuple[str, Subject]]:
    """Yield the method prepared for variants of the schema, if its promise is the same."""
    counted = [p for p in subject.prepared.guarantees if isinstance(p, PureDP | ApproxDP)]
    if not counted:
        return
    prepared: dict[int, Prepared] = {}

    def fits(schema: Schema) -> None:
        prepared[id(schema)] = case.prepare(subject.method, schema)

    for name, schema in sweep.variants(subject.schema, fits, code):
        ready = prepared[id(schema)]
        same = [
            p
            for p in ready.guarantees
            if isinstance(p, PureDP | ApproxDP)
            and (float(p.epsilon), float(p.delta)) == (claim.forward, claim.delta)
            and p.neighbors == claim.relation
        ]
        if same:
            yield name, Subject(subject.method, schema, ready, subject.noise)
