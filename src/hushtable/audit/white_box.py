"""Hold the account of each run against the promise, and each draw against what was booked for it.

But for one thing, nothing here is estimated. Two neighbors are run with the same outcomes of all
draws and the same other coins (`hushtable.audit.watched`). Then

- what is published must be the same: it hangs on nothing but what was let out;
- the draws must be the same ones: which there are, and how noisy, hangs on nothing else either;
- what each draw saw may differ by no more than the sensitivity that was booked for it;
- each draw must be the exact sampler's on its words, for the mechanisms that are known here;
- mechanisms for single counts are held against their law by draws, the one thing with an error;
- the prices, computed here again, must add up to no more than what is promised.

Why each of these is a violation is said in ``auditor.md``.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hushtable.audit.bounds import EventTally
from hushtable.audit.clock import Clock
from hushtable.audit.draws import (
    FaultError,
    check_choices,
    check_counts,
    check_sampler,
    faults_of_count_mechanism,
    is_telling,
)
from hushtable.audit.inputs import Input, TableInput
from hushtable.audit.neighbors import Pair
from hushtable.audit.prices import own_price, spent_at_most
from hushtable.audit.report import Finding, Witness
from hushtable.audit.subject import Subject
from hushtable.audit.watched import Draw, Watched, WatchedNoise, watched, watching
from hushtable.privacy.count_mechanisms import CountMechanism
from hushtable.privacy.guarantee import ApproxDP, PureDP
from hushtable.privacy.spending import Part
from hushtable.privacy.splits import WayChoice
from hushtable.privacy.tuple_counts import CommonTuples

PROMISE = (
    "What is published hangs on nothing but what was drawn and paid for, at no more than was "
    "promised."
)


MOST_LAWS = 8
"""Mechanisms for single counts that are held against their law, at most."""

MOST_WAY_LAWS = 3
"""Choices among ways that are held against their law, at most."""

MOST_WAYS = 1000
"""Ways of one run that are looked at one by one."""

COINS = (None, 0, None, None, 2**64 - 1)
"""What the first word of coins is, pair by pair; None for any. So what is done once in a million
runs is done in some of these."""

AT_LEAST = 4
"""Pairs that are watched however little time there is."""

ENOUGH = 20
"""Pairs without a single draw of a mechanism, after which no more are watched."""


@dataclass
class WhiteBox:
    """Watch a method on many neighbors.

    Parameters
    ----------
    neighbors : iterable of (Subject, str, pairs)
        What is run, and on which neighbors.
    is_counted : bool
        Whether neighbors differ in a unit, as differential privacy has it, so that sensitivities
        can be held against them.
    """

    neighbors: Iterable[tuple[Subject, str, Sequence[Pair]]]
    is_counted: bool = True
    n_pairs: int = 0
    n_draws: int = 0
    _error: float = 0.0
    _silent: int = 0
    _n_ways: int = 0
    _checked: set[str] = field(default_factory=set)

    def finding(self, error: float, clock: Clock) -> Finding | None:
        """Watch as long as there is time, and stop at the first fault.

        None where nothing sealed was opened, so that there was nothing to watch.
        """
        self._error = error
        with watching():
            for subject, name, pairs in self.neighbors:
                for number, pair in enumerate(pairs):
                    if self._is_over(clock):
                        break
                    if self.n_pairs == ENOUGH and not self.n_draws:
                        return None
                    if _is_crowded(pair) and not _is_coupled(pair):
                        continue
                    try:
                        self._watch(subject, pair, number)
                    except FaultError as fault:
                        return self._violation(
                            str(fault), f"{pair.name} ({name})", pair.one, pair.two
                        )
                    clock.tell("watching", min(1.0, number / len(pairs)))
                if self._is_over(clock):
                    break  # to list more neighbors takes time, too
        if not self.n_draws:
            return None
        return Finding(
            promise=PROMISE,
            verdict="NO VIOLATION FOUND",
            would_see=f"what is not paid for, on any of {self.n_pairs:,} pairs",
            n_inputs=self.n_pairs,
        )

    def _is_over(self, clock: Clock) -> bool:
        return clock.is_past(1) and self.n_pairs >= AT_LEAST

    def _violation(self, fault: str, name: str, one: Input, two: Input) -> Finding:
        return Finding(
            promise=PROMISE,
            verdict="VIOLATION",
            n_inputs=self.n_pairs,
            witness=Witness(name, one, two, fault, EventTally(1, 1), None),
        )

    def _watch(self, subject: Subject, pair: Pair, seed: int) -> None:
        """Run two neighbors with the same outcomes, and compare."""
        far = seed % 4 == 3
        rows = subject.schema.unit.max_rows or 1
        coins, today = COINS[seed % len(COINS)], _today()
        first = _run(subject, pair.one, WatchedNoise(seed, far=far, rows=rows, coins=coins))
        again = WatchedNoise(seed, script=first.draws, rows=rows, coins=coins)
        second = _run(subject, pair.two, again)
        self.n_pairs += 1
        self.n_draws += len(first.draws)
        if _today() != today:
            return  # a release has its date
        for run in (first, second):
            _check_account(run, subject)
        if not far:
            for draw in first.draws:
                check_sampler(draw)
                self._check_law(draw.mechanism)
            self._check_ways(first.draws)
        if not first.draws and not second.draws:
            # A method that opens sealed counts in other runs publishes nothing else in these.
            self._silent += first.seen != second.seen
        else:
            is_counted = self.is_counted and not pair.apart
            check_same(first, second, is_counted=is_counted, is_coupled=_is_coupled(pair))
        if self.n_draws and self._silent:
            raise FaultError("runs that opened nothing differ between neighbors")

    def _check_law(self, mechanism: Any) -> None:
        """Check a mechanism for single counts by its law, once."""
        mechanism = getattr(mechanism, "count", mechanism)
        if isinstance(mechanism, CountMechanism) and repr(mechanism) not in self._checked:
            self._checked.add(repr(mechanism))
            if len(self._checked) <= MOST_LAWS:
                check_counts(mechanism, error=self._error / (2 * MOST_LAWS))

    def _check_ways(self, draws: Sequence[Draw]) -> None:
        """Check a choice among ways by its law, where another law would tell, a few times."""
        if self._n_ways == MOST_WAY_LAWS:
            return
        for draw in draws:
            if isinstance(draw.mechanism, WayChoice) and is_telling(draw):
                self._n_ways += 1
                check_choices(draw, error=self._error / (2 * MOST_WAY_LAWS))
                return


def _run(subject: Subject, given: Input, noise: WatchedNoise) -> Watched:
    return watched(lambda noise: subject.seen_with(given, noise), noise)


def _today() -> datetime.date:
    return datetime.datetime.now(datetime.UTC).date()


def _is_crowded(pair: Pair) -> bool:
    """Tell whether anybody has more rows than count."""
    for given in (pair.one, pair.two):
        if isinstance(given, TableInput) and given.schema.unit.kind == "person":
            most = max(Counter(given.persons or ()).values(), default=1)
            if most > (given.schema.unit.max_rows or 1):
                return True
    return False


def _is_coupled(pair: Pair) -> bool:
    """Tell whether the same coins choose the same rows of all who are in both tables.

    Each row has its coin, in the order of rows: whoever is in one table alone must come last.
    """
    if not isinstance(pair.one, TableInput) or not isinstance(pair.two, TableInput):
        return True
    both = len(pair.two.rows) if len(pair.two.rows) < len(pair.one.rows) else len(pair.two.rows) - 1
    sides = [(given.rows[:both], (given.persons or ())[:both]) for given in (pair.one, pair.two)]
    return sides[0] == sides[1]


# --- two runs -------------------------------------------------------------------------------------


def check_same(one: Watched, two: Watched, *, is_counted: bool, is_coupled: bool = True) -> None:
    """Hold two runs with the same outcomes against each other, draw by draw; raise what differs.

    Where the same coins do not choose the same tuples of all records (`is_coupled`), how far tuples
    move is not known.
    """
    for number, (a, b) in enumerate(zip(one.draws, two.draws, strict=False)):
        if _noise_of(a.mechanism) != _noise_of(b.mechanism):
            raise FaultError(
                f"draw {number + 1} ({a.what or 'not booked'}) has other noise on the neighbor, "
                "after the same outcomes"
            )
        if is_counted and (is_coupled or not isinstance(a.exact, CommonTuples)):
            _check_distance(a, b, number)
    if len(one.draws) != len(two.draws):
        raise FaultError(
            f"{len(one.draws)} draws on one input and {len(two.draws)} on its neighbor, after the "
            "same outcomes"
        )
    if is_counted:
        _check_parts(one, two)
    if one.seen != two.seen:
        differing = {
            name for name in one.seen.keys() | two.seen.keys()
            if one.seen.get(name) != two.seen.get(name)
        }  # fmt: skip
        # What is about everything at once tells least.
        names = sorted(differing, key=lambda name: (name.startswith("all "), name))
        raise FaultError(
            f"with the same outcomes of all {len(one.draws)} draws and the same other coins, "
            f"{names[0]} differs (and {len(names) - 1} more)"
        )


def _noise_of(mechanism: Any) -> str:
    return repr(mechanism)


def _check_distance(one: Draw, two: Draw, number: int) -> None:
    """Hold the difference of what two draws saw against the sensitivity that was booked."""
    if one.sensitivity is None:
        raise FaultError(f"draw {number + 1} was not booked")
    booked, place = one.sensitivity, f"draw {number + 1} ({one.what})"
    if _is_scores(one.exact) or _is_ways(one.exact):
        _check_scores(one, two, place)
        return
    moved = _moved(one.exact, two.exact)
    if moved is None:
        return
    sizes = np.abs(moved)
    for how, seen, allowed in (
        ("in all", int(sizes.sum()), booked.l1),
        ("at one place", int(sizes.max(initial=0)), booked.most),
        ("in squares", int((sizes**2).sum()), booked.l2_squared),
    ):
        if seen > allowed:
            raise FaultError(
                f"{place} moves by {seen} {how} between neighbors; {allowed} was booked"
            )


def _check_parts(one: Watched, two: Watched) -> None:
    """Hold divisions against the neighbors: one unit is in no more parts than it has steps."""
    moved: set[int] = set()
    steps = 0
    for a, b in zip(one.draws, two.draws, strict=True):
        if a.sensitivity is None or not a.sensitivity.divisible:
            continue
        steps = max(steps, a.sensitivity.rows)
        for part in _parts_that_moved(a, b):
            moved.update(id(above) for above in part.line())
    for account in one.accounts:
        for whole in account.parts:
            for division in whole.divisions or ():
                n = sum(id(part) in moved for part in division)
                if n > steps:
                    raise FaultError(
                        f"{n} parts of {whole!r} move between neighbors that differ in {steps} "
                        "steps; they were paid for as if no two had a step in common"
                    )


def _parts_that_moved(one: Draw, two: Draw) -> list[Part]:
    """Say in which parts what two draws saw differs; none where that is not known."""
    if _is_ways(one.exact):
        changed = _moved_ways(one.exact, two.exact)
    elif _is_scores(one.exact):
        changed = _moved_scores(one.exact, two.exact)
    else:
        changed = _moved(one.exact, two.exact)
    if changed is None:
        return []
    if len(one.parts) == 1:
        return [*one.parts] if np.any(changed) else []
    if len(one.parts) != len(changed):
        return []
    return [part for part, row in zip(one.parts, changed, strict=True) if np.any(row)]


def _check_scores(one: Draw, two: Draw, place: str) -> None:
    """Hold the change of scores against what the exponent of their choice is made for."""
    if _is_ways(one.exact):
        moved, is_range = _moved_ways(one.exact, two.exact), True
        allowed = one.sensitivity.l1 if one.sensitivity else 0
    else:
        moved, is_range, allowed = _moved_scores(one.exact, two.exact), one.exact.monotone, (
            one.exact.most
        )  # fmt: skip
    if moved is None or not len(moved):
        return
    # An exponent that is not halved is paid by how far scores move against each other.
    seen = int(moved.max() - moved.min()) if is_range else int(np.abs(moved).max())
    if seen > allowed:
        how = "against each other" if is_range else "at most"
        raise FaultError(f"scores of {place} move by {seen} {how}; their noise is for {allowed}")


def _moved_scores(one: Any, two: Any) -> Any:
    if len(one.values) != len(two.values):
        return None
    return np.array([int(a) - int(b) for a, b in zip(one.values, two.values, strict=True)])


def _moved_ways(one: Any, two: Any) -> Any:
    """Give by how much the score of each single way differs, over all parts."""
    scores: list[dict[tuple[int, int], int]] = [{}, {}]
    for found, exact in zip(scores, (one, two), strict=True):
        for part, ways in enumerate(exact):
            for score, n, start in zip(ways.scores, ways.n_ways, ways.starts, strict=True):
                for way in range(int(start), int(start) + min(int(n), MOST_WAYS)):
                    found[part, way] = int(score)
    common = scores[0].keys() & scores[1].keys()
    return np.array([scores[0][way] - scores[1][way] for way in common])


def _is_scores(exact: Any) -> bool:
    return hasattr(exact, "values") and hasattr(exact, "monotone")


def _is_ways(exact: Any) -> bool:
    return isinstance(exact, list) and all(hasattr(ways, "n_ways") for ways in exact)


def _moved(one: Any, two: Any) -> Any:
    """Give by how much each number differs; None where that is not known here."""
    if isinstance(one, np.ndarray) and isinstance(two, np.ndarray) and one.shape == two.shape:
        return one.astype(np.int64) - two.astype(np.int64)
    if isinstance(one, CommonTuples) and isinstance(two, CommonTuples):
        both = _counted(one), _counted(two)
        return np.array([both[0][t] - both[1][t] for t in both[0] | both[1]] or [0], np.int64)
    if hasattr(one, "codes") and hasattr(one, "counts") and hasattr(two, "counts"):
        found: Counter[tuple[int, ...]] = Counter()
        for cells, sign in ((one, 1), (two, -1)):
            for row, count in zip(np.asarray(cells.codes).tolist(), cells.counts, strict=True):
                found[tuple(row)] += sign * int(count)
        return np.array(list(found.values()) or [0], np.int64)
    return None


def _counted(common: CommonTuples) -> Counter[Any]:
    """Count tuples, those of few records, which were left out, as one record less than these."""
    tuples, found = common.tuples, Counter[Any]()
    for at, count in enumerate(tuples.counts):
        where = slice(int(tuples.starts[at]), int(tuples.starts[at + 1]))
        elements = (*tuples.items[where].tolist(), *tuples.values[where].tolist())
        found[int(tuples.groups[at]), elements] = int(count) - common.at_least + 1
    return found


# --- the account ----------------------------------------------------------------------------------


def _check_account(run: Watched, subject: Subject) -> None:
    """Add up what was booked, at prices computed here, and hold it against the promise."""
    promised = [p for p in subject.prepared.guarantees if isinstance(p, PureDP | ApproxDP)]
    for draw in run.draws:
        if not draw.what:
            raise FaultError(f"{type(draw.mechanism).__name__} drew without being booked")
    if not run.draws and any(account.openings for account in run.accounts):
        raise FaultError("counts were opened with other noise than the run was given")
    if not promised or not run.draws:
        return
    promise = promised[0]
    for account in run.accounts:
        spent = spent_at_most(account, epsilon=promise.epsilon)
        if spent is None:
            continue
        epsilon, delta = float(promise.epsilon), float(promise.delta)
        if not spent.is_within(epsilon, delta):
            raise FaultError(
                f"the run spent {spent.told()}, by prices computed anew; promised were epsilon "
                f"{epsilon:g} and delta {delta:g}"
            )


__all__ = ["PROMISE", "FaultError", "WhiteBox", "faults_of_count_mechanism", "own_price"]
