"""Look for releases that come again: all noise from a seed of few bits.

A release that is one of few is known again. Its copies are listed on one input; a right mechanism
hits that list on the neighbor almost as often, whatever the list is.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass

from hushtable.audit.bounds import EventTally, loss_at_least
from hushtable.audit.clock import Clock
from hushtable.audit.features import Features
from hushtable.audit.inputs import Input, TableInput
from hushtable.audit.loss import LossClaim
from hushtable.audit.neighbors import Pair
from hushtable.audit.report import Finding, Witness
from hushtable.audit.subject import Subject

FIRST = 1_500
"""Releases of each input that are compared at first."""

MOST = 8_000
"""Releases that are listed, and tried against the list, where the first ones are suspicious."""

SUSPICIOUS = 8
"""Releases that come again, at least, before more are run."""


@dataclass
class RepeatTest:
    """Test that a release is not known again on one input alone.

    Parameters
    ----------
    subject : Subject
        What is run.
    claim : LossClaim
        What is promised.
    runs : int
        Runs on each side, at most.
    error : float
        Chance of a false alarm.
    clock : Clock
        How much time there is.
    """

    subject: Subject
    claim: LossClaim
    runs: int
    error: float
    clock: Clock

    def finding(self) -> Finding:
        """Compare some releases, and list many only where that is suspicious."""
        promise = f"Releases of one input are not known again. {self.claim.promise}"
        pair = self._pair()
        one: list[bytes] = []
        two: list[bytes] = []
        while len(one) < min(FIRST, self.runs) and not self.clock.is_past(1):
            one.append(self._digest(pair.one))
            two.append(self._digest(pair.two))
        n = len(one)
        known = set(one)
        within, across = len(one) - len(known), sum(digest in known for digest in two)
        # A right mechanism meets the list again on the neighbor in proportion to e**-epsilon.
        if within < SUSPICIOUS or across > within / 8:
            bits = int(2 * math.log2(max(n, 2)) - 1 - math.log2(2 * SUSPICIOUS))
            return Finding(
                promise=promise,
                verdict="NO VIOLATION FOUND" if bits > 0 else "NOT TESTED",
                would_see=f"seeds of at most {bits} bits" if bits > 0 else "",
                reason="" if bits > 0 else f"{n} runs are too few",
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
            would_see="" if broken else f"releases that hit a list of {len(known):,}",
            measure=self.claim.measure,
            limit=self.claim.forward,
            bound=bound,
            n_inputs=1,
            witness=Witness(
                pair.name, pair.one, pair.two,
                f"the release is one of {len(known):,} that this input had before", *tallies,
            ),
        )  # fmt: skip

    def _pair(self) -> Pair:
        """Take the largest inputs: releases with most in them are least alike by chance."""
        return max(self.claim.pairs, key=lambda pair: len(_rows(pair.one)))

    def _digest(self, given: Input) -> bytes:
        seen: Features = self.subject.seen(given)
        return hashlib.blake2b(json.dumps(seen, sort_keys=True).encode(), digest_size=12).digest()


def _rows(given: Input) -> tuple[object, ...]:
    return given.rows if isinstance(given, TableInput) else given.edges
