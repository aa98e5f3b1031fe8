"""Checks of recorded runs: the account against the promise, and each draw against its record.

A method is run on two neighbors with the same outcomes of all draws and the same other random bits
(`hushtable.audit.recorder`). Then these must hold:

- The releases are equal: they depend only on the outcomes.
- The draws have the same mechanisms and noise, which depend only on earlier outcomes.
- The inputs of each draw differ by at most the sensitivity that was recorded for it.
- Each draw equals that of the exact sampler on the same words, for mechanisms known here.
- Mechanisms for single counts and choices of splits have the right distribution. This is tested
  with many draws. No other check has an error probability.
- The costs, recomputed here, add up to no more than the promise.

``auditor.md`` explains why each failure is a violation.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from hushtable.audit.bounds import EventTally, fits
from hushtable.audit.inputs import Pair, RawInput, TableInput
from hushtable.audit.recorder import RecordedDraw, RecordingNoise
from hushtable.audit.reference_costs import reference_cost, spent_at_most
from hushtable.audit.report import Finding, Witness
from hushtable.audit.subject import Clock, Subject
from hushtable.privacy.accounting.run_account import DataPart
from hushtable.privacy.guarantee import ApproxDP, PureDP
from hushtable.privacy.mechanisms.cells import CommonTuples, DomainMechanism
from hushtable.privacy.mechanisms.mechanism import Gaussian, Laplace, RoundedGaussian
from hushtable.privacy.mechanisms.private_choice import HistogramCuts, TopChoices
from hushtable.privacy.mechanisms.scored_splits import ScoreChoice, SplitChoice
from hushtable.privacy.mechanisms.single_counts import CountMechanism
from hushtable.privacy.mechanisms.tuple_perturbation import RowReplacement
from hushtable.privacy.noise.bit_reader import BitReader
from hushtable.privacy.noise.sources import SecureNoise, SeededNoise

__all__ = ["PROMISE", "FaultError", "WhiteBox", "faults_of_count_mechanism", "reference_cost"]


# Checks of single draws against their mechanism: on the same random words, or by many draws.
#
# ``auditor.md`` explains why each deviation is a violation.

LAW_DRAWS = 20_000
"""Draws used to test the distribution of a mechanism for single counts."""

WAY_DRAWS = 1_000
"""Draws used to test the distribution of a choice among ways to split."""

LEAST_CHANGE = 0.1
"""Minimum change of some probability of a choice if its exponent is doubled: more than six
standard deviations of a frequency in `WAY_DRAWS` draws."""


class FaultError(Exception):
    """A fault found in a run."""


def check_sampler(draw: RecordedDraw) -> bool:
    """Compare a draw with the exact sampler on the same words; return whether one is known."""
    if isinstance(draw.mechanism, CountMechanism | SplitChoice) or hasattr(draw.mechanism, "count"):
        return True  # their distributions are tested with many draws
    expected = _expected(draw)
    if expected is not None and not np.array_equal(expected, _numbers(draw.outcome)):
        raise FaultError(
            f"{type(draw.mechanism).__name__} ({draw.what}) deviates from its exact sampler"
        )
    return expected is not None


def _numbers(outcome: Any) -> Any:
    return np.asarray(outcome.noisy if hasattr(outcome, "noisy") else outcome).ravel()


def _expected(draw: RecordedDraw) -> Any:  # noqa: PLR0911 - one for each mechanism
    mechanism, exact = draw.mechanism, draw.exact
    stream = draw.noise
    reader = BitReader(stream._words)
    if isinstance(mechanism, ScoreChoice):
        mechanism, exact = TopChoices(mechanism.eta), exact._replace(most=1)
    if isinstance(mechanism, TopChoices):
        return _chosen(mechanism, exact, stream)
    if isinstance(mechanism, HistogramCuts):
        return _cut(mechanism, exact, stream)
    if isinstance(mechanism, RowReplacement):
        return _replaced(mechanism, exact, stream)
    if isinstance(mechanism, Laplace) and isinstance(exact, np.ndarray):
        a, b = mechanism.scale.numerator, mechanism.scale.denominator
        return exact.ravel() + [reader.laplace(a, b) for _ in range(exact.size)]
    if isinstance(mechanism, Gaussian) and isinstance(exact, np.ndarray):
        a, b = mechanism.variance.numerator, mechanism.variance.denominator
        scale = math.isqrt(a // b) + 1
        return exact.ravel() + [reader.gaussian(a, b, scale) for _ in range(exact.size)]
    if isinstance(mechanism, RoundedGaussian) and isinstance(exact, np.ndarray):
        a, b = mechanism.variance.numerator, mechanism.variance.denominator
        return exact.ravel() + [reader.rounded_gaussian(a, b) for _ in range(exact.size)]
    if isinstance(mechanism, DomainMechanism) and mechanism.threshold is None:
        full = np.zeros(mechanism.domain.size, np.int64)
        full[exact.keys[:, 0]] = exact.counts
        a, b = (1 / mechanism.rate).numerator, (1 / mechanism.rate).denominator
        return full + [reader.laplace(a, b) for _ in range(len(full))]
    return None


def _chosen(mechanism: TopChoices, exact: Any, noise: SeededNoise) -> list[int]:
    """Recompute the choices on the same words, each among the remaining candidates."""
    values = np.asarray(exact.values, np.int64)
    kinds = mechanism.exclusive_groups
    if kinds is None:
        kinds = tuple(range(len(values)))
    left, chosen = list(range(len(values))), list[int]()
    while left and len(chosen) < mechanism.k:
        place = left[
            noise.choose(
                values[left], epsilon=mechanism.epsilon, sensitivity=Fraction(exact.most),
                monotone=exact.monotone, rule=mechanism.rule,
            )
        ]  # fmt: skip
        if place >= len(kinds):  # stop
            break
        chosen.append(place)
        left = [at for at in left if at >= len(kinds) or kinds[at] != kinds[place]]
    return chosen


def _replaced(mechanism: RowReplacement, exact: Any, noise: SeededNoise) -> Any:
    """Recompute the replacement of rows on the same words; return the sorted codes of all rows."""
    codes = np.repeat(exact.codes, exact.counts, axis=0)
    others = np.flatnonzero(~noise.bernoulli(mechanism.retention, size=len(codes)))
    for place, size in enumerate(exact.domain.shape):
        codes[others, place] = noise.uniform_below(size, size=len(others))
    return np.array(sorted(codes.tolist()), np.int64).ravel()


def _cut(mechanism: HistogramCuts, exact: Any, noise: SeededNoise) -> list[int]:
    """Recompute the cuts on the same words; return the ends of the resulting runs of bins."""
    cut: list[int] = []
    for begin, end in mechanism.runs:
        run = exact[begin:end]
        if len(run) == 1:
            cut += [begin, end]
            continue
        scores = [int(min(run[:at].sum(), run[at:].sum())) for at in range(1, len(run))]
        place = noise.choose(scores, epsilon=mechanism.rate, sensitivity=Fraction(1), monotone=True)
        middle = begin + place + 1
        cut += [begin, middle, middle, end]
    return cut


def _law_of_ways(mechanism: SplitChoice, exact: Any, *, sharper: int = 1) -> Any:
    """Return the probability of each run of ways to split that have the same score.

    `sharper` multiplies the exponent.
    """
    scores = np.concatenate([ways.scores for ways in exact]).astype(float)
    weights = np.concatenate(
        [ways.n_ways * float(weight) for ways, weight in zip(exact, mechanism.weights, strict=True)]
    )
    law = weights * np.exp(sharper * float(mechanism.eta) * (scores - scores.max()))
    return law / law.sum()


def is_sensitive(draw: RecordedDraw) -> bool:
    """Return whether a test of this choice would detect a doubled exponent."""
    laws = [_law_of_ways(draw.mechanism, draw.exact, sharper=by) for by in (1, 2)]
    return bool(np.abs(laws[0] - laws[1]).max() > LEAST_CHANGE)


def check_choices(draw: RecordedDraw, *, error: float) -> None:
    """Repeat a choice many times, and test the frequency of each run of ways."""
    exact, law, source = draw.exact, _law_of_ways(draw.mechanism, draw.exact), SecureNoise()
    starts = np.cumsum([0, *(len(ways.scores) for ways in exact)])
    hits = np.zeros(len(law), np.int64)
    for _ in range(WAY_DRAWS):
        which, way = draw.mechanism.draw(exact, source)
        run = int(np.searchsorted(exact[which].starts, way, side="right")) - 1
        hits[starts[which] + run] += 1
    for chance, n in zip(law, hits, strict=True):
        if not fits(EventTally(int(n), WAY_DRAWS), chance, error=error / (2 * len(law))):
            raise FaultError(
                f"{type(draw.mechanism).__name__} ({draw.what}) makes a choice in {n:,} of "
                f"{WAY_DRAWS:,} draws; expected {chance * WAY_DRAWS:,.1f}"
            )


def check_counts(mechanism: CountMechanism, *, error: float) -> None:
    """Check a mechanism for single counts: its exact probabilities, and draws against them."""
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
            if not fits(tally, chance, error=error / (6 * len(counts))):
                raise FaultError(
                    f"{type(mechanism).__name__} publishes at least {least} for {count} rows in "
                    f"{tally.hits:,} of {LAW_DRAWS:,} draws; expected {chance * LAW_DRAWS:,.1f}"
                )


def faults_of_count_mechanism(mechanism: CountMechanism, counts: Sequence[int]) -> Iterator[str]:
    """Yield counts at which a mechanism's exact probabilities violate its epsilon and delta.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from hushtable.privacy.mechanisms.single_counts import OneSidedGeometric
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
                    f"{excess:.3g}; the promise is {delta:g}"
                )


PROMISE = (
    "The release depends only on outcomes that were drawn and paid for, and their cost is within "
    "the promise."
)

PRICED = "The cost and the distribution of each draw follow from formulas that the auditor knows."

MOST_LAWS = 8
"""Maximum number of mechanisms for single counts whose distribution is tested."""

MOST_WAY_LAWS = 3
"""Maximum number of choices among ways to split whose distribution is tested."""

MOST_WAYS = 1000
"""Maximum number of ways of one run that are compared individually."""

FIRST_WORDS = {1: 0, 4: 2**64 - 1}
"""First word of random bits, by the pair's number modulo 5; otherwise random. Extreme words trigger
behavior that would occur once in a million runs. Pairs of number 2 get a number of the code."""

AT_LEAST = 4
"""Minimum number of pairs, regardless of time."""

ENOUGH = 20
"""Number of pairs without any draw of a mechanism after which the test stops."""


class Watched(NamedTuple):
    """Pairs for recorded runs, and the largest share of the time that they may take.

    A function gets another one that returns the tightness of the pair before (see `check_same`).
    """

    subject: Subject
    name: str
    pairs: Sequence[Pair] | Callable[..., Iterator[Pair]]
    share: float = 1.0


@dataclass
class WhiteBox:
    """Test with recorded runs of a method on many neighbors."""

    neighbors: Iterable[Watched]
    # whether neighbors differ in one unit, so that sensitivities can be checked
    is_counted: bool = True
    n_pairs: int = 0
    n_draws: int = 0
    _error: float = 0.0
    # numbers that unlikely random numbers may equal
    coins: Sequence[int] = (0,)
    _unknown: dict[str, set[str]] = field(default_factory=lambda: {"cost": set(), "sampler": set()})
    _tightness: float = 0.0
    _silent: int = 0
    _n_ways: int = 0
    _checked: set[str] = field(default_factory=set)

    def findings(self, error: float, clock: Clock) -> list[Finding]:
        """Check pairs until the time limit or the first fault; nothing if nothing was drawn."""
        self._error = error
        for subject, name, pairs, share in self.neighbors:
            until = clock.now() + share * (clock.seconds or math.inf)
            listed = pairs(tightness=lambda: self._tightness) if callable(pairs) else pairs
            for number, pair in enumerate(listed):
                if self._is_over(clock) or (number and clock.now() > until):
                    break
                if self.n_pairs == ENOUGH and not self.n_draws:
                    return []
                if _is_crowded(pair) and not _is_coupled(pair):
                    continue
                try:
                    self._watch(subject, pair)
                except FaultError as fault:
                    where, sides = f"{pair.name} ({name})", (pair.one, pair.two)
                    return [
                        Finding(
                            promise=PROMISE,
                            verdict="VIOLATION",
                            n_inputs=self.n_pairs,
                            witness=Witness(where, *sides, str(fault), EventTally(1, 1), None),
                        )
                    ]
                clock.report(f"comparing runs on {name}")
            if self._is_over(clock):
                break  # listing more neighbors would also take time
        if not self.n_draws:
            return []
        return [
            Finding(
                promise=PROMISE,
                verdict="NO VIOLATION FOUND",
                would_see=f"any unpaid output, on any of {self.n_pairs:,} pairs",
                n_inputs=self.n_pairs,
            ),
            *self._untested(),
        ]

    def _untested(self) -> list[Finding]:
        """Report mechanisms that were observed but are not known here."""
        reasons = [
            f"the {what} not known to the auditor: {', '.join(sorted(names))}"
            for what, names in (
                ("costs of these mechanisms, as they state them, are", self._unknown["cost"]),
                ("samplers of these mechanisms are", self._unknown["sampler"]),
            )
            if names
        ]
        return [Finding(promise=PRICED, verdict="NOT TESTED", reason=reason) for reason in reasons]

    def _is_over(self, clock: Clock) -> bool:
        return clock.is_past(1) and self.n_pairs >= AT_LEAST

    def _watch(self, subject: Subject, pair: Pair) -> None:
        """Run two neighbors with the same outcomes, and compare."""
        seed = self.n_pairs
        far = seed % 4 == 3
        rows = subject.schema.unit.max_rows or 1
        word, today = FIRST_WORDS.get(seed % 5), _today()
        coin = self.coins[seed // 5 % len(self.coins)] if seed % 5 == 2 else None
        first = RecordingNoise(seed, far=far, rows=rows, first_word=word, coin=coin)
        first.seen = subject.seen_with(pair.one, first)
        second = RecordingNoise(seed, script=first.draws, rows=rows, first_word=word, coin=coin)
        second.seen = subject.seen_with(pair.two, second)
        self.n_pairs += 1
        self.n_draws += len(first.draws)
        if _today() != today:
            return  # a release contains its date
        promises = (p for p in subject.prepared.guarantees if isinstance(p, PureDP | ApproxDP))
        promise = next(promises, None)
        for run in (first, second):
            self._unknown["cost"] |= check_costs(run, promise)
        if not far:
            for draw in first.draws:
                if not check_sampler(draw):
                    self._unknown["sampler"].add(type(draw.mechanism).__name__)
                self._check_law(draw.mechanism)
            self._check_ways(first.draws)
        if not first.draws and not second.draws:
            # A method that opens sealed counts in some runs must publish nothing private in others.
            self._silent += first.seen != second.seen
        else:
            is_counted = self.is_counted and not pair.distant
            self._tightness = check_same(
                first, second, is_counted=is_counted, is_coupled=_is_coupled(pair)
            )
        if self.n_draws and self._silent:
            raise FaultError("runs without any draw differ between neighbors")

    def _check_law(self, mechanism: Any) -> None:
        """Test the distribution of a mechanism for single counts, once."""
        mechanism = getattr(mechanism, "count", mechanism)
        if isinstance(mechanism, CountMechanism) and repr(mechanism) not in self._checked:
            self._checked.add(repr(mechanism))
            if len(self._checked) <= MOST_LAWS:
                check_counts(mechanism, error=self._error / (2 * MOST_LAWS))

    def _check_ways(self, draws: Sequence[RecordedDraw]) -> None:
        """Test the distribution of a few choices, if the test would detect a wrong one."""
        if self._n_ways == MOST_WAY_LAWS:
            return
        for draw in draws:
            if isinstance(draw.mechanism, SplitChoice) and is_sensitive(draw):
                self._n_ways += 1
                check_choices(draw, error=self._error / (2 * MOST_WAY_LAWS))
                return


def _today() -> datetime.date:
    return datetime.datetime.now(datetime.UTC).date()


def _is_crowded(pair: Pair) -> bool:
    """Return whether a person has more rows than are used."""
    return any(isinstance(given, TableInput) and given.is_crowded for given in (pair.one, pair.two))


def _is_coupled(pair: Pair) -> bool:
    """Return whether the same random bits select the same rows of all common persons.

    Each row has its own bits, in the order of rows, so the person that is in only one table must
    come last. In databases, bits do not follow the order of rows.
    """
    if isinstance(pair.one, RawInput):
        return False
    if not isinstance(pair.one, TableInput) or not isinstance(pair.two, TableInput):
        return True
    both = len(pair.two.rows) if len(pair.two.rows) < len(pair.one.rows) else len(pair.two.rows) - 1
    sides = [(given.rows[:both], (given.persons or ())[:both]) for given in (pair.one, pair.two)]
    return sides[0] == sides[1]


# --- two runs -------------------------------------------------------------------------------------


def check_same(
    one: RecordingNoise, two: RecordingNoise, *, is_counted: bool, is_coupled: bool = True
) -> float:
    """Compare two runs with the same outcomes, draw by draw; raise `FaultError` if they differ.

    Return the largest change of scores, as a share of what their noise allows.

    If the same random bits do not select the same tuples of all records (not `is_coupled`), changes
    of tuple counts are not checked.
    """
    tightest = 0.0
    for number, (a, b) in enumerate(zip(one.draws, two.draws, strict=False)):
        if repr(a.mechanism) != repr(b.mechanism):
            raise FaultError(
                f"draw {number + 1} ({a.what}) has different noise on the neighbor, after the same "
                "outcomes"
            )
        if is_counted and (is_coupled or not isinstance(a.exact, CommonTuples)):
            tightest = max(tightest, _check_distance(a, b, number))
    if len(one.draws) != len(two.draws):
        raise FaultError(
            f"there are {len(one.draws)} draws on one input and {len(two.draws)} on its neighbor, "
            "after the same outcomes"
        )
    if is_counted:
        _check_parts(one, two)
    if one.seen != two.seen:
        differing = {
            name for name in one.seen.keys() | two.seen.keys()
            if one.seen.get(name) != two.seen.get(name)
        }  # fmt: skip
        # Digests of everything are the least informative.
        names = sorted(differing, key=lambda name: (name.startswith("all "), name))
        raise FaultError(
            f"with the same outcomes of all {len(one.draws)} draws and the same other random bits, "
            f"{names[0]} differs (and {len(names) - 1} more)"
        )
    return tightest


def _check_distance(one: RecordedDraw, two: RecordedDraw, number: int) -> float:
    """Check that the inputs of two draws differ by at most the recorded sensitivity.

    Return the share of it that scores reach.
    """
    recorded, place = one.sensitivity, f"draw {number + 1} ({one.what})"
    if _is_scores(one.exact) or _is_ways(one.exact):
        return _check_scores(one, two, place)
    moved = _moved(one.exact, two.exact)
    if moved is None:
        return 0.0
    sizes = np.abs(moved)
    for how, seen, allowed in (
        ("in total", int(sizes.sum()), recorded.l1),
        ("in one entry", int(sizes.max(initial=0)), recorded.most),
        ("in squared L2 norm", int((sizes**2).sum()), recorded.l2_squared),
    ):
        if seen > allowed:
            raise FaultError(
                f"{place} changes by {seen} {how} between neighbors; {allowed} was recorded"
            )
    return 0.0


def _check_parts(one: RecordingNoise, two: RecordingNoise) -> None:
    """Check divisions: one unit affects no more parts than it has rows or steps."""
    moved: set[int] = set()
    steps = 0
    for a, b in zip(one.draws, two.draws, strict=True):
        if not a.sensitivity.divisible:
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
                        f"{n} parts of {whole!r} change between neighbors that differ in {steps} "
                        "steps; they were charged as disjoint parts"
                    )


def _parts_that_moved(one: RecordedDraw, two: RecordedDraw) -> list[DataPart]:
    """Return the parts in which the inputs of two draws differ; none if not known."""
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


def _check_scores(one: RecordedDraw, two: RecordedDraw, place: str) -> float:
    """Check the change of scores against the sensitivity of their choice."""
    if _is_ways(one.exact):
        moved = _moved_ways(one.exact, two.exact)
        is_range, allowed = True, one.sensitivity.l1
    else:
        moved = _moved_scores(one.exact, two.exact)
        is_range, allowed = one.exact.monotone, one.exact.most
    if moved is None or not len(moved):
        return 0.0
    # If the exponent is not halved, the cost depends on the range of the scores' changes.
    seen = int(moved.max() - moved.min()) if is_range else int(np.abs(moved).max())
    if seen > allowed:
        how = "relative to each other" if is_range else "at most"
        raise FaultError(f"scores of {place} change by {seen} {how}; their noise is for {allowed}")
    return seen / max(allowed, 1)


def _moved_scores(one: Any, two: Any) -> Any:
    if len(one.values) != len(two.values):
        return None
    return np.array([int(a) - int(b) for a, b in zip(one.values, two.values, strict=True)])


def _moved_ways(one: Any, two: Any) -> Any:
    """Return the change of each way's score, over all parts."""
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
    """Return the change of each number; None if the type is not known here."""
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
    """Return by how much the count of each tuple exceeds the largest count that is omitted."""
    tuples, found = common.tuples, Counter[Any]()
    for at, count in enumerate(tuples.counts):
        where = slice(int(tuples.starts[at]), int(tuples.starts[at + 1]))
        elements = (*tuples.items[where].tolist(), *tuples.values[where].tolist())
        found[int(tuples.groups[at]), elements] = int(count) - common.at_least + 1
    return found


# --- the account ----------------------------------------------------------------------------------


def check_costs(run: RecordingNoise, promise: Any) -> set[str]:
    """Check that all noise was recorded, and that recomputed costs are within the promise.

    The promise is about each account of the run. Return the names of mechanisms whose stated cost
    could not be recomputed.
    """
    for fault in run.faults:
        raise FaultError(fault)
    unknown = set[str]()
    if promise is None:
        return unknown
    epsilon, delta = float(promise.epsilon), float(promise.delta)
    for account in run.accounts:
        cost = spent_at_most(account, epsilon=promise.epsilon, unknown=unknown)
        if not cost.is_within(epsilon, delta):
            raise FaultError(
                f"the recomputed cost of the run is {cost.in_words()}; the promise is epsilon "
                f"{epsilon:g} and delta {delta:g}"
            )
    return unknown
