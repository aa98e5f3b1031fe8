"""Lower bounds on the privacy loss: search for neighbors and an event, then test with new runs."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from hushtable.audit.bounds import EventTally, loss_at_least, visible_delta, visible_loss
from hushtable.audit.events import ChosenEvent, Event, Limits, Samples, best_event
from hushtable.audit.features import Features
from hushtable.audit.inputs import GraphInput, Input, Pair
from hushtable.audit.report import Finding, Verdict, Witness
from hushtable.audit.subject import Clock, Outlook, Subject
from hushtable.privacy.unit import Neighbors

BLOCK = 256
"""Runs of the final test that are kept in memory at a time."""

KEEP = 4
"""Each round of the search keeps one in this many pairs."""

FINALISTS = 4
"""Pairs in the last round of the search."""

FEWEST = 12
"""Minimum number of runs on an input, and number of runs between two checks of the time."""


@dataclass(frozen=True)
class LossClaim:
    """A claim that no event is much more likely on one input than on its neighbor."""

    promise: str  # the promise in words
    pairs: Sequence[Pair]  # neighbors; the worst known ones first
    forward: float  # largest loss if an event is more likely on the first input of a pair
    backward: float  # largest loss if it is more likely on the second
    delta: float = 0.0
    measure: str = "epsilon"  # name of the loss
    about_delta: bool = False  # whether delta is tested, not the loss
    relation: Neighbors = "add-remove"


@dataclass
class LossTest:
    """Test of one claim."""

    subject: Subject
    claim: LossClaim
    runs: int  # total for the search, and again for the test, which runs half on each side
    error: float  # probability of a false alarm
    clock: Clock

    def __post_init__(self) -> None:
        self._seen: dict[Input, Samples] = {}

    def finding(self) -> Finding:
        """Search with one half of the runs, and test with the other half."""
        claim, n_tested = self.claim, max(1, self.runs // 2)
        self.subject.outlook = Outlook()
        limits = Limits(claim.forward, claim.backward, claim.delta, n_tested, self.error)
        started = self.subject.n_runs, self.clock.now()
        pair, choice = self._search(limits)
        n_tested = self.clock.affordable(n_tested, 2, self.subject.n_runs - started[0], started[1])
        sides = (pair.one, pair.two) if choice.on_first else (pair.two, pair.one)
        tallies = [self._tally(side, choice.event, n_tested) for side in sides]
        limit = claim.forward if choice.on_first else claim.backward
        bound = loss_at_least(*tallies, delta=claim.delta, error=self.error)
        visible = visible_delta if claim.about_delta else visible_loss
        asked = {"limit": limit, "delta": claim.delta, "error": self.error}
        least, where = visible(tallies[1], **asked), "as frequent as this one"
        if math.isinf(least):  # the event is too frequent to detect a violation
            least, where = (
                visible(EventTally(0, n_tested), **asked),
                "that never occurs on the neighbor",
            )
        notes = (
            f"The detection limit holds with probability 95%, for an event {where}.",
            *_delta_note(claim.delta, n_tested),
        )
        reason = self.subject.outlook.nothing_to_compare(is_rare=claim.about_delta)
        if not reason and math.isinf(least):
            reason = f"{n_tested:,} runs on each side are not enough to detect any violation"
        verdict: Verdict = "NOT TESTED" if reason else "NO VIOLATION FOUND"
        if bound > limit:
            verdict, reason = "VIOLATION", ""
        what = "delta" if claim.about_delta else claim.measure
        return Finding(
            promise=claim.promise,
            verdict=verdict,
            would_see=f"{what} above {least:.4g}" if verdict == "NO VIOLATION FOUND" else "",
            reason=reason,
            measure=claim.measure,
            limit=limit,
            bound=bound,
            resolution=least,
            n_inputs=len(claim.pairs),
            witness=Witness(
                pair.name, sides[0], sides[1], choice.event.describe(), tallies[0], tallies[1]
            ),
            notes=notes if verdict == "NO VIOLATION FOUND" else (),
        )

    def _search(self, limits: Limits) -> tuple[Pair, ChosenEvent]:
        """Run the pairs in rounds, keeping the most promising quarter after each round.

        Half of the budget is for the last few pairs. Inputs are shared among pairs, so that each
        run serves all of them.
        """
        pairs = list(self.claim.pairs)
        n_rounds = max(0, math.ceil(math.log(len(pairs) / FINALISTS, KEEP)))
        for number in range(n_rounds):
            self._run_all(pairs, self.runs // (2 * n_rounds), number / n_rounds)
            ranked = sorted(pairs, key=lambda pair: -self._choice(pair, limits, deep=False).excess)
            pairs = ranked[: max(FINALISTS, math.ceil(len(pairs) / KEEP))]
            if self.clock.is_past(0.5):
                break
        self._run_all(pairs, self.runs // 2 if n_rounds else self.runs, 1.0)
        choices = [(pair, self._choice(pair, limits, deep=True)) for pair in pairs]
        return max(choices, key=lambda pair_and_choice: pair_and_choice[1].excess)

    def _run_all(self, pairs: Sequence[Pair], budget: int, done: float) -> None:
        """Divide some runs evenly among the inputs of these pairs, within the time limit."""
        inputs = list(dict.fromkeys(side for pair in pairs for side in (pair.one, pair.two)))
        each = max(FEWEST, budget // len(inputs))
        for start in range(0, each, FEWEST):
            for given in inputs:
                samples = self._seen.setdefault(given, Samples())
                block = range(start, min(start + FEWEST, each))
                samples.add(self.subject.seen(given) for _ in block)
            self.clock.report("searching", done / 2)
            if self.clock.is_past(0.5):
                break

    def _choice(self, pair: Pair, limits: Limits, *, deep: bool) -> ChosenEvent:
        return best_event(
            self._seen[pair.one], self._seen[pair.two], limits, hints=pair.hints, deep=deep
        )

    def _tally(self, given: Input, event: Event, n: int) -> EventTally:
        hits = 0
        for start in range(0, n, BLOCK):
            block = self.subject.samples(given, min(BLOCK, n - start))
            hits += int(event.mask(block).sum())
            self.clock.report("testing", 0.5 + 0.5 * start / n)
        return EventTally(hits, n)


def _delta_note(delta: float, n_runs: int) -> tuple[str, ...]:
    if 0 < delta < 20 / n_runs:
        return (
            f"delta = {delta:g} is too small to be tested with {n_runs:,} runs. Audit the same "
            "method with a larger delta, such as 0.01, or with more runs.",
        )
    return ()


# Test for repeated releases, which indicate noise from a seed with few bits.
#
# If there are few possible releases, a release can be recognized. The releases of one input are
# listed. A correct mechanism produces a listed release on the neighbor almost as often, whatever
# the list is.

FIRST = 1_500
"""Releases of each input in the first stage."""

MOST = 8_000
"""Number of releases to list, and to compare with the list, if the first stage is suspicious."""

SUSPICIOUS = 8
"""Minimum number of repeated releases for a second stage."""


@dataclass
class RepeatTest:
    """Test whether releases of one input recur on it more often than on its neighbor."""

    subject: Subject
    claim: LossClaim
    runs: int  # maximum number of runs on each side
    error: float  # probability of a false alarm
    clock: Clock

    def finding(self) -> Finding:
        """Compare some releases, and list many only if there are suspicious repetitions."""
        promise = f"Releases of one input cannot be recognized. {self.claim.promise}"
        pair = self._pair()
        one: list[bytes] = []
        two: list[bytes] = []
        while len(one) < min(FIRST, self.runs) and not self.clock.is_past(1):
            one.append(self._digest(pair.one))
            two.append(self._digest(pair.two))
        n = len(one)
        known = set(one)
        within, across = len(one) - len(known), sum(digest in known for digest in two)
        # With a correct mechanism, the neighbor hits the list at least e**-epsilon times as often.
        if within < SUSPICIOUS or across > within / 8:
            bits = int(2 * math.log2(max(n, 2)) - 1 - math.log2(2 * SUSPICIOUS))
            return Finding(
                promise=promise,
                verdict="NO VIOLATION FOUND" if bits > 0 else "NOT TESTED",
                would_see=f"seeds of at most {bits} bits" if bits > 0 else "",
                reason="" if bits > 0 else f"{n} runs are not enough",
                n_inputs=1,
            )
        n = min(MOST, self.runs)
        known |= {self._digest(pair.one) for _ in range(n)}
        hits = [0, 0]
        for _ in range(n):
            for place, side in enumerate((pair.one, pair.two)):
                hits[place] += self._digest(side) in known
        tallies = EventTally(hits[0], n), EventTally(hits[1], n)
        bound = loss_at_least(*tallies, delta=self.claim.delta, error=self.error)
        broken = bound > self.claim.forward
        return Finding(
            promise=promise,
            verdict="VIOLATION" if broken else "NO VIOLATION FOUND",
            would_see="" if broken else f"releases that match a list of {len(known):,}",
            measure=self.claim.measure,
            limit=self.claim.forward,
            bound=bound,
            n_inputs=1,
            witness=Witness(
                pair.name, pair.one, pair.two,
                f"the release is one of {len(known):,} earlier releases of this input", *tallies,
            ),
        )  # fmt: skip

    def _pair(self) -> Pair:
        """Return the pair with the most rows, whose releases coincide least often by chance."""
        return max(self.claim.pairs, key=lambda pair: len(_rows(pair.one)))

    def _digest(self, given: Input) -> bytes:
        seen: Features = self.subject.seen(given)
        return hashlib.blake2b(json.dumps(seen, sort_keys=True).encode(), digest_size=12).digest()


def _rows(given: Input) -> Sequence[object]:
    return given.edges if isinstance(given, GraphInput) else given.rows
