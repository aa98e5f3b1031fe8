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

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hushtable.audit.bounds import EventTally, at_least, at_most
from hushtable.audit.clock import Clock
from hushtable.audit.everything import everything, seen_of
from hushtable.audit.features import Features
from hushtable.audit.inputs import Input, TableInput
from hushtable.audit.neighbors import Pair
from hushtable.audit.prices import own_price, spent_at_most
from hushtable.audit.report import Finding, Witness
from hushtable.audit.subject import Subject
from hushtable.audit.watched import Draw, Watched, WatchedNoise, watched, watching
from hushtable.privacy.bit_reader import BitReader
from hushtable.privacy.count_mechanisms import CountMechanism
from hushtable.privacy.domain_mechanism import DomainMechanism
from hushtable.privacy.guarantee import ApproxDP, PureDP
from hushtable.privacy.mechanism import Gaussian, Laplace
from hushtable.privacy.noise import SecureNoise, SeededNoise

PROMISE = (
    "What is published hangs on nothing but what was drawn and paid for, at no more than was "
    "promised."
)


MOST_LAWS = 8
"""Mechanisms for single counts that are held against their law, at most."""

LAW_DRAWS = 20_000
"""Draws that a mechanism for single counts is held against its law by."""

MOST_WAYS = 1000
"""Ways of one run that are looked at one by one."""

ENOUGH = 20
"""Pairs without a single draw of a mechanism, after which no more are watched."""


class FaultError(Exception):
    """Say what is wrong with a run."""


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
    _checked: set[str] = field(default_factory=set)

    def finding(self, error: float, clock: Clock) -> Finding | None:
        """Watch as long as there is time, and stop at the first fault.

        None where nothing sealed was opened, so that there was nothing to watch.
        """
        self._error = error
        with watching():
            for subject, name, pairs in self.neighbors:
                for number, pair in enumerate(pairs):
                    if clock.seconds is not None and clock.now() > clock.seconds:
                        break
                    if self.n_pairs == ENOUGH and not self.n_draws:
                        return None
                    if not _is_plain(pair.one):
                        continue
                    try:
                        self._watch(subject, pair.one, pair.two, number)
                    except FaultError as fault:
                        return self._violation(
                            str(fault), f"{pair.name} ({name})", pair.one, pair.two
                        )
                    clock.tell("watching", min(1.0, number / len(pairs)))
        if not self.n_draws:
            return None
        return Finding(
            promise=PROMISE,
            verdict="NO VIOLATION FOUND",
            would_see=f"what is not paid for, on any of {self.n_pairs:,} pairs",
            n_inputs=self.n_pairs,
        )

    def _violation(self, fault: str, name: str, one: Input, two: Input) -> Finding:
        return Finding(
            promise=PROMISE,
            verdict="VIOLATION",
            n_inputs=self.n_pairs,
            witness=Witness(name, one, two, fault, EventTally(1, 1), None),
        )

    def _watch(self, subject: Subject, one: Input, two: Input, seed: int) -> None:
        """Run two neighbors with the same outcomes, and compare."""
        far = seed % 4 == 3
        rows = subject.schema.unit.max_rows or 1
        first = _run(subject, one, WatchedNoise(seed, far=far, rows=rows))
        second = _run(subject, two, WatchedNoise(seed, script=first.draws, rows=rows))
        self.n_pairs += 1
        self.n_draws += len(first.draws)
        for run in (first, second):
            _check_account(run, subject)
        if not far:
            for draw in first.draws:
                _check_sampler(draw)
                self._check_law(draw.mechanism)
        if not first.draws and not second.draws:
            # A method that opens sealed counts in other runs publishes nothing else in these.
            self._silent += first.seen != second.seen
        else:
            check_same(first, second, is_counted=self.is_counted)
        if self.n_draws and self._silent:
            raise FaultError("runs that opened nothing differ between neighbors")

    def _check_law(self, mechanism: Any) -> None:
        """Check a mechanism for single counts by its law, once."""
        mechanism = getattr(mechanism, "count", mechanism)
        if isinstance(mechanism, CountMechanism) and repr(mechanism) not in self._checked:
            self._checked.add(repr(mechanism))
            if len(self._checked) <= MOST_LAWS:
                _check_counts(mechanism, error=self._error / MOST_LAWS)


def _run(subject: Subject, given: Input, noise: WatchedNoise) -> Watched:
    def see(noise: WatchedNoise) -> Features:
        subject.n_runs += 1
        return seen_of(
            lambda: everything(subject.prepared.run(subject.opened(given), noise), subject.schema)
        )

    return watched(see, noise)


def _is_plain(given: Input) -> bool:
    """Tell whether all rows count, so that which ones do is not a matter of chance."""
    if not isinstance(given, TableInput) or given.schema.unit.kind != "person":
        return True
    owners = given.persons or range(len(given.rows))
    return max(Counter(owners).values(), default=0) <= (given.schema.unit.max_rows or 1)


# --- two runs -------------------------------------------------------------------------------------


def check_same(one: Watched, two: Watched, *, is_counted: bool) -> None:
    """Hold two runs with the same outcomes against each other, draw by draw; raise what differs."""
    for number, (a, b) in enumerate(zip(one.draws, two.draws, strict=False)):
        if _noise_of(a.mechanism) != _noise_of(b.mechanism):
            raise FaultError(
                f"draw {number + 1} ({a.what or 'not booked'}) has other noise on the neighbor, "
                "after the same outcomes"
            )
        if is_counted:
            _check_distance(a, b, number)
    if len(one.draws) != len(two.draws):
        raise FaultError(
            f"{len(one.draws)} draws on one input and {len(two.draws)} on its neighbor, after the "
            "same outcomes"
        )
    if one.seen != two.seen:
        names = sorted(
            name for name in one.seen.keys() | two.seen.keys()
            if one.seen.get(name) != two.seen.get(name)
        )  # fmt: skip
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
    if hasattr(one, "codes") and hasattr(one, "counts") and hasattr(two, "counts"):
        found: Counter[tuple[int, ...]] = Counter()
        for cells, sign in ((one, 1), (two, -1)):
            for row, count in zip(np.asarray(cells.codes).tolist(), cells.counts, strict=True):
                found[tuple(row)] += sign * int(count)
        return np.array(list(found.values()) or [0], np.int64)
    return None


# --- one draw -------------------------------------------------------------------------------------


def _check_sampler(draw: Draw) -> None:
    """Compare a draw with the exact sampler on the same words, for mechanisms known here."""
    expected = _expected(draw)
    if expected is not None and not np.array_equal(expected, _numbers(draw.outcome)):
        raise FaultError(
            f"{type(draw.mechanism).__name__} ({draw.what}) departs from its exact sampler"
        )


def _numbers(outcome: Any) -> Any:
    return np.asarray(outcome.noisy if hasattr(outcome, "noisy") else outcome).ravel()


def _expected(draw: Draw) -> Any:
    mechanism, exact = draw.mechanism, draw.exact
    stream = SeededNoise(draw.seed)
    reader = BitReader(stream._words)
    if type(mechanism) is Laplace and isinstance(exact, np.ndarray):
        a, b = mechanism.scale.numerator, mechanism.scale.denominator
        return exact.ravel() + [reader.laplace(a, b) for _ in range(exact.size)]
    if type(mechanism) is Gaussian and isinstance(exact, np.ndarray):
        a, b = mechanism.variance.numerator, mechanism.variance.denominator
        scale = math.isqrt(a // b) + 1
        return exact.ravel() + [reader.gaussian(a, b, scale) for _ in range(exact.size)]
    if type(mechanism) is DomainMechanism and mechanism.threshold is None:
        full = np.zeros(mechanism.domain.size, np.int64)
        full[mechanism.domain.pack(exact.codes)[:, 0]] = exact.counts
        a, b = (1 / mechanism.rate).numerator, (1 / mechanism.rate).denominator
        return full + [reader.laplace(a, b) for _ in range(len(full))]
    return None


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


def _check_counts(mechanism: CountMechanism, *, error: float) -> None:
    """Check a mechanism for single counts: its masses keep the promise, its draws the masses."""
    k = getattr(mechanism, "k", 1)
    half = mechanism.release_count(0.5) if hasattr(mechanism, "k") else 5
    for fault in faults_of_count_mechanism(mechanism, range(max(0, k - 2), half + 8)):
        raise FaultError(fault)
    counts = sorted({max(0, k - 1), k, half, half + 3})
    for count in counts:
        mass = mechanism.mass(count)
        drawn = mechanism.noisy(np.full(LAW_DRAWS, count, np.int64), SecureNoise())
        for least in sorted({1, max(count, 1), half}):
            chance = sum(p for value, p in mass.items() if value >= least)
            tally = EventTally(int((drawn >= least).sum()), LAW_DRAWS)
            share = error / (6 * len(counts))
            if (
                not at_least(tally, error=share)
                <= chance + 1e-9
                <= at_most(tally, error=share) + 2e-9
            ):
                raise FaultError(
                    f"{type(mechanism).__name__} publishes at least {least} for {count} rows in "
                    f"{tally.hits:,} of {LAW_DRAWS:,} draws; its law says {chance * LAW_DRAWS:,.1f}"
                )


def faults_of_count_mechanism(mechanism: CountMechanism, counts: Sequence[int]) -> Iterator[str]:
    """Check by its exact masses that a mechanism for one count keeps its epsilon and delta.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from hushtable.privacy.count_mechanisms import OneSidedGeometric
    >>> tight = OneSidedGeometric(epsilon=Fraction(1), delta=Fraction(1, 100), k=5)
    >>> list(faults_of_count_mechanism(tight, range(30)))
    []
    """
    epsilon, delta = float(mechanism.epsilon), float(getattr(mechanism, "delta", 0))
    for count in counts:
        masses = [mechanism.mass(count), mechanism.mass(count + 1)]
        for one, two in (masses, masses[::-1]):
            excess = sum(
                max(0.0, chance - math.exp(epsilon) * two.get(value, 0.0))
                for value, chance in one.items()
            )
            if excess > delta * (1 + 1e-9) + 1e-12:
                yield (
                    f"{type(mechanism).__name__} at {count} and {count + 1} rows needs a delta of "
                    f"{excess:.3g}; {delta:g} was promised"
                )


__all__ = ["PROMISE", "FaultError", "WhiteBox", "faults_of_count_mechanism", "own_price"]
