"""Test for repeated releases, which indicate noise from a seed with few bits.

If there are few possible releases, a release can be recognized. The releases of one input are
listed. A correct mechanism produces a listed release on the neighbor almost as often, whatever the
list is.
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
"""Releases of each input in the first stage."""

MOST = 8_000
"""Releases listed, and compared with the list, if the first stage is suspicious."""

SUSPICIOUS = 8
"""Minimum number of repeated releases for a second stage."""


@dataclass
class RepeatTest:
    """Test whether releases of one input repeat more often than on its neighbor."""

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


def _rows(given: Input) -> tuple[object, ...]:
    return given.rows if isinstance(given, TableInput) else given.edges
