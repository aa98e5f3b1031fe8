"""Recorded runs: every draw of a mechanism is recorded and can be replayed.

Everything that a run releases from sealed counts is drawn by a mechanism
(`hushtable.privacy.mechanisms.mechanism`). Each draw is recorded with the exact counts behind it.
In a second run on a neighbor, each draw is replaced by the outcome of the first run, and all other
random bits are the same. So both runs follow the same path, and any difference between them was not
paid for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from hushtable.arrays import Bools, Integers
from hushtable.audit.features import Features
from hushtable.methods.base import Plan, Released
from hushtable.privacy.accounting.run_account import (
    DataPart,
    Draw,
    DrawObserver,
    QueryRecord,
    RunAccount,
)
from hushtable.privacy.accounting.sealed import SealedValue
from hushtable.privacy.accounting.sensitivity import Sensitivity
from hushtable.privacy.mechanisms.cells import NoisyCells
from hushtable.privacy.mechanisms.mechanism import Mechanism
from hushtable.privacy.noise.bit_reader import Words
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.sources import SeededNoise

FAR = 50
"""Noise scales by which outcomes are shifted, to test very unlikely outcomes."""

N_UNLIKELY = 100
"""Number of requests with unlikely random bits. It is limited because some samplers repeat until
they get other ones."""

FEW_UNLIKELY = 20
"""Number of requests after which no Boolean is unlikely: each makes a sampler double its digits."""


@dataclass(frozen=True)
class RecordedDraw:
    """One draw of a mechanism: its input and its outcome."""

    what: str  # description in the account
    mechanism: Any
    sensitivity: Sensitivity  # recorded sensitivity, of a unit
    exact: Any  # input of the mechanism
    outcome: Any
    noise: LuckyNoise  # the noise of this draw, before the draw
    parts: tuple[DataPart, ...] = ()  # parts that were charged for it


class LuckyNoise(SeededNoise):
    """Seeded noise with very unlikely random numbers.

    Every request starts with `first_word`. With `coin`, all numbers of `uniform_below` are `coin`
    (modulo the number of values), and `bernoulli` has its less likely outcome. Any random bits are
    possible, so a run must keep its promise for these, too.
    """

    def __init__(
        self, seed: int, *, first_word: int | None = None, coin: int | None = None
    ) -> None:
        super().__init__(seed)
        self._first_word, self._coin, self._n_unlikely = first_word, coin, 0

    def again(self, seed: int) -> LuckyNoise:
        """Return noise of another seed with the same `coin`, for a draw.

        Its words are left alone: exact samplers may request them in other portions.
        """
        return LuckyNoise(seed, coin=self._coin)

    def _is_unlikely(self, most: int = N_UNLIKELY) -> bool:
        self._n_unlikely += 1
        return self._n_unlikely <= most

    def _words(self, n: int) -> Words:
        words = super()._words(n)
        if self._first_word is not None and self._is_unlikely():
            words[:1] = self._first_word
        return words

    def uniform_below(self, n: int, *, size: int) -> Integers:
        """Draw numbers, all of them `coin` if that is set."""
        drawn = super().uniform_below(n, size=size)
        if self._coin is not None and self._is_unlikely():
            drawn[:] = self._coin % n
        return drawn

    def bernoulli(self, p: Fraction, *, size: int) -> Bools:
        """Draw booleans, all of them the less likely one if `coin` is set."""
        drawn = super().bernoulli(p, size=size)
        if self._coin is not None and 0 < p < 1 and self._is_unlikely(FEW_UNLIKELY):
            drawn[:] = p < Fraction(1, 2)
        return drawn


class RecordingNoise(LuckyNoise):
    """Noise of a recorded run, and observer of its draws, which it can replay.

    All random bits outside of mechanisms come from `seed`, and each draw of a mechanism has its own
    seed. The outcomes of `script` are replayed in order; after the last one, mechanisms draw. With
    `far`, noisy numbers are shifted to very unlikely values. `rows` is the number of rows of one
    unit, for costs that are recorded by row.
    """

    def __init__(
        self,
        seed: int,
        *,
        script: Sequence[RecordedDraw] = (),
        far: bool = False,
        rows: int = 1,
        first_word: int | None = None,
        coin: int | None = None,
    ) -> None:
        super().__init__(seed, first_word=first_word, coin=coin)
        self.seed, self.script, self.far, self.rows = seed, script, far, rows
        self.draws: list[RecordedDraw] = []
        self.accounts: dict[RunAccount, None] = {}
        self.seen: Features = {}  # features of the run
        self.faults: list[str] = []  # descriptions of noise drawn outside of recorded queries

    def open(self, sealed: SealedValue, mechanism: Mechanism, what: str) -> Any:
        """Open sealed counts; this noise observes the account, whatever code created it."""
        for part in sealed.all_parts[:1]:
            part.account.observer = self
        return super().open(sealed, mechanism, what)

    def observe(self, record: QueryRecord, draw: Draw, exact: Any, noise: Any) -> Any:
        """Record a draw, or replay the one in the script.

        A replayed draw is also made, from other words, and discarded: a run may depend on the
        outcome of a draw, but not on its words or noise.
        """
        if noise is not self:
            self.faults.append(f"{record.what} was opened with noise other than that of the run")
        if not record.parts:
            self.faults.append(f"{record.what} was opened without a charge")
        if noise is not self or not record.parts:
            return draw(exact, noise)
        account = record.parts[0].account
        self.accounts[account] = None
        place = len(self.draws)
        seed = 1_000_003 * self.seed + place
        if place < len(self.script):
            draw(exact, SeededNoise(-seed - 1))
            outcome = self.script[place].outcome
        else:
            outcome = self._moved(record.mechanism, draw(exact, self.again(seed)), place)
        sensitivity = record.sensitivity
        if account.promise is not None and account.promise.of_row:
            sensitivity = replace(sensitivity, rows=self.rows)
        self.draws.append(
            RecordedDraw(
                record.what,
                record.mechanism,
                sensitivity,
                _kept(exact),
                outcome,
                self.again(seed),
                record.parts,
            )
        )
        return _kept(outcome)

    def discrete_laplace(self, scale: Fraction, *, size: int) -> Integers:
        """Draw outside of a recorded query, which is a fault."""
        self.faults.append("discrete_laplace was drawn without a recorded cost")
        return super().discrete_laplace(scale, size=size)

    def discrete_gaussian(self, variance: Fraction, *, size: int) -> Integers:
        """Draw outside of a recorded query, which is a fault."""
        self.faults.append("discrete_gaussian was drawn without a recorded cost")
        return super().discrete_gaussian(variance, size=size)

    def rounded_gaussian(self, variance: Fraction, *, size: int) -> Integers:
        """Draw outside of a recorded query, which is a fault."""
        self.faults.append("rounded_gaussian was drawn without a recorded cost")
        return super().rounded_gaussian(variance, size=size)

    def _moved(self, mechanism: Any, outcome: Any, place: int) -> Any:
        if not self.far:
            return outcome
        if isinstance(outcome, NoisyCells) and getattr(mechanism, "threshold", 0) is None:
            return replace(outcome, noisy=_moved_away(outcome.noisy, 1 / mechanism.rate, place))
        scale = getattr(mechanism, "scale", None) or math.sqrt(getattr(mechanism, "variance", 0))
        return _moved_away(outcome, scale, place) if isinstance(outcome, np.ndarray) else outcome


def _moved_away(numbers: Any, scale: Any, place: int) -> Any:
    signs = np.where(np.arange(numbers.size) % 3 == place % 3, -1, 1).reshape(numbers.shape)
    return numbers + signs * math.ceil(FAR * scale)


def _kept(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def observer_of(noise: Noise) -> DrawObserver | None:
    """Return the observer of a run with this noise: the noise itself, if it records."""
    return noise if isinstance(noise, RecordingNoise) else None


def run_plan(plan: Plan[Any], source: Any, noise: Noise) -> Released:
    """Run a plan; if the noise records, it observes the draws."""
    if observer_of(noise) is None:
        return plan.run(source, noise)
    observed: Any = PlanWrapper(plan)
    return type(plan).run(observed, source, noise)


class PlanWrapper:
    """Wrapper of a plan: if the noise of a run records, it observes the draws.

    Everything else is delegated to the plan, so that the whole pipeline can run it.
    """

    def __init__(self, plan: Plan[Any]) -> None:
        self._plan = plan

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plan, name)

    def accounted(self, source: Any, noise: Noise, **options: Any) -> Any:
        """Run the plan, observed by the noise if that records."""
        return self._plan.accounted(source, noise, observer=observer_of(noise), **options)
