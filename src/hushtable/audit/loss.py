"""Bound the privacy loss from below: search for neighbors and an event, then test them afresh."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hushtable.audit.bounds import (
    EventTally,
    loss_at_least,
    visible_delta,
    visible_loss,
)
from hushtable.audit.clock import Clock
from hushtable.audit.events import ChosenEvent, Event, Limits, Samples, best_event
from hushtable.audit.inputs import Input
from hushtable.audit.neighbors import Pair
from hushtable.audit.report import Finding, Verdict, Witness
from hushtable.audit.subject import Outlook, Subject
from hushtable.privacy.guarantee import Neighbors

BLOCK = 256
"""Runs of the final test that are held at a time."""

KEEP = 4
"""One of so many pairs stays in the search after each of its rounds."""

FINALISTS = 4
"""Pairs that stay in the search until its end."""

FEWEST = 12
"""Runs on an input before anything is concluded from them, and between two looks at the clock."""


@dataclass(frozen=True)
class LossClaim:
    """Claim that events are not much likelier on one input than on its neighbor.

    Parameters
    ----------
    promise : str
        The promise this belongs to, in words.
    pairs : sequence of Pair
        The neighbors it is about; the worst ones first.
    forward, backward : float
        Largest loss where an event is likelier on the first input of a pair, and on the second.
    delta : float
        What is allowed on top.
    measure : str
        What the loss is called.
    about_delta : bool
        Whether it is delta that could be too large here, and not the loss.
    relation : {"add-remove", "replace"}
        What neighbors are.
    """

    promise: str
    pairs: Sequence[Pair]
    forward: float
    backward: float
    delta: float = 0.0
    measure: str = "epsilon"
    about_delta: bool = False
    relation: Neighbors = "add-remove"


@dataclass
class LossTest:
    """Test one claim.

    Parameters
    ----------
    subject : Subject
        What is run.
    claim : LossClaim
        What is to be falsified.
    runs : int
        Runs on each side: one half to find an event, the other half to test it.
    error : float
        Chance of a false alarm.
    clock : Clock
        How much time there is, and who is told how far it has come.
    """

    subject: Subject
    claim: LossClaim
    runs: int
    error: float
    clock: Clock

    def __post_init__(self) -> None:
        self._seen: dict[Input, Samples] = {}

    def finding(self) -> Finding:
        """Search on one half of the runs, test on the other."""
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
        least, where = visible(tallies[1], **asked), "as common as this one"
        if math.isinf(least):  # too common an event, so that none could have been seen at this one
            least, where = visible(EventTally(0, n_tested), **asked), "that the neighbor never has"
        notes = (
            f"What would have been seen: with a chance of 95 %, at an event {where}.",
            *_delta_note(claim.delta, n_tested),
        )
        reason = self.subject.outlook.nothing_to_compare(is_rare=claim.about_delta)
        if not reason and math.isinf(least):
            reason = f"{n_tested:,} runs on each side are too few to see any violation"
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
        """Keep the most promising quarter of the pairs again and again, running them more often.

        Half of the budget is for the last few pairs. Inputs are shared among pairs, so that each
        run serves them all.
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
        """Divide some runs evenly over the inputs of these pairs, as far as there is time."""
        inputs = list(dict.fromkeys(side for pair in pairs for side in (pair.one, pair.two)))
        each = max(FEWEST, budget // len(inputs))
        for start in range(0, each, FEWEST):
            for given in inputs:
                samples = self._seen.setdefault(given, Samples())
                block = range(start, min(start + FEWEST, each))
                samples.add(self.subject.seen(given) for _ in block)
            self.clock.tell("searching", done / 2)
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
            self.clock.tell("testing", 0.5 + 0.5 * start / n)
        return EventTally(hits, n)


def _delta_note(delta: float, n_runs: int) -> tuple[str, ...]:
    if 0 < delta < 20 / n_runs:
        return (
            f"delta = {delta:g} is too small for {n_runs:,} runs: whether it is kept was not seen. "
            "Audit the same method with a larger delta, such as 0.01, or with more runs.",
        )
    return ()
