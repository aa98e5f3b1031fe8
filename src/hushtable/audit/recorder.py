"""Recorded runs: every draw of a mechanism is recorded and can be replayed.

Everything that a run releases from sealed counts is drawn by a mechanism
(`hushtable.privacy.mechanisms.mechanism`). Each draw is recorded with the exact counts behind it.
In a second run on a neighbor, each draw is replaced by the outcome of the first run, and all other
random bits are the same. So both runs follow the same path, and any difference between them was not
paid for.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import numpy as np

from hushtable.privacy.accounting.run_account import DataPart, RunAccount
from hushtable.privacy.accounting.sensitivity import Sensitivity
from hushtable.privacy.mechanisms.cells import NoisyCells
from hushtable.privacy.mechanisms.mechanism import Mechanism
from hushtable.privacy.noise.bit_reader import Words
from hushtable.privacy.noise.sources import SeededNoise

FAR = 50
"""Noise scales by which outcomes are shifted, to test very unlikely outcomes."""


N_ROW_CHOICES = 1000
"""Number of requests that start with an unlikely word. It is limited because some samplers repeat
until they get another word."""

DRAWS = ("draw", "draw_some")
"""Methods by which mechanisms release outcomes; nested calls count as one draw."""


@dataclass(frozen=True)
class RecordedDraw:
    """One draw of a mechanism: its input and its outcome."""

    what: str  # description in the account; empty if not recorded there
    mechanism: Any
    sensitivity: Sensitivity | None  # recorded sensitivity
    exact: Any  # input of the mechanism
    outcome: Any
    seed: int  # seed of the noise of this draw
    parts: tuple[DataPart, ...] = ()  # parts that were charged for it


class RecordingNoise(SeededNoise):
    """Noise that records what mechanisms see, and can replay their outcomes.

    Parameters
    ----------
    seed : int
        Seed of all random bits outside of mechanisms; each draw of a mechanism has its own seed.
    script : sequence of RecordedDraw
        Outcomes to replay, in order; after the last one, mechanisms draw.
    far : bool
        Whether to shift noisy numbers to very unlikely values.
    rows : int
        Rows of one unit, for costs that are recorded by row.
    coins : int, optional
        First word of requests outside of mechanisms: a very unlikely one.
    """

    def __init__(
        self,
        seed: int,
        *,
        script: Sequence[RecordedDraw] = (),
        far: bool = False,
        rows: int = 1,
        coins: int | None = None,
    ) -> None:
        super().__init__(seed)
        self._coins, self._n_coins = coins, 0
        self.seed, self.script, self.far, self.rows = seed, script, far, rows
        self.draws: list[RecordedDraw] = []
        self.accounts: list[RunAccount] = []
        self._n_booked = 0

    def _words(self, n: int) -> Words:
        words = super()._words(n)
        if self._coins is not None and self._n_coins < N_ROW_CHOICES:
            words[:1] = self._coins
            self._n_coins += 1
        return words

    def drawn(self, mechanism: Any, exact: Any, draw: Callable[[Any], Any]) -> Any:
        """Record a draw, or replay the one in the script.

        A replayed draw is also made, from other words, and discarded: a run may depend on the
        outcome of a draw, but not on its words or noise.
        """
        place = len(self.draws)
        seed = 1_000_003 * self.seed + place
        if place < len(self.script):
            draw(SeededNoise(-seed - 1))
            outcome = self.script[place].outcome
        else:
            outcome = self._moved(mechanism, draw(SeededNoise(seed)), place)
        what, sensitivity, parts = self._recorded(mechanism)
        self.draws.append(
            RecordedDraw(what, mechanism, sensitivity, _kept(exact), outcome, seed, parts)
        )
        return _kept(outcome)

    def _moved(self, mechanism: Any, outcome: Any, place: int) -> Any:
        if not self.far:
            return outcome
        if isinstance(outcome, NoisyCells) and getattr(mechanism, "threshold", 0) is None:
            return replace(outcome, noisy=_moved_away(outcome.noisy, 1 / mechanism.rate, place))
        scale = getattr(mechanism, "scale", None) or math.sqrt(getattr(mechanism, "variance", 0))
        return _moved_away(outcome, scale, place) if isinstance(outcome, np.ndarray) else outcome

    def _recorded(self, mechanism: Any) -> tuple[str, Sensitivity | None, tuple[DataPart, ...]]:
        """Find the record of a draw: the first unused one in the accounts with this mechanism."""
        openings = [(opening, account.promise) for account in self.accounts
                    for opening in account.records]  # fmt: skip
        for opening, promise in openings[self._n_booked :]:
            if opening.mechanism is mechanism:
                self._n_booked += 1
                by_rows = promise is not None and promise.of_row
                moved = opening.sensitivity
                moved = replace(moved, rows=self.rows) if by_rows else moved
                return opening.what, moved, opening.parts
        return "", None, ()


def _moved_away(numbers: Any, scale: Any, place: int) -> Any:
    signs = np.where(np.arange(numbers.size) % 3 == place % 3, -1, 1).reshape(numbers.shape)
    return numbers + signs * math.ceil(FAR * scale)


def _kept(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


_current: list[RecordingNoise] = []


def _kinds(kind: Any) -> Iterator[Any]:
    yield kind
    for below in kind.__subclasses__():
        yield from _kinds(below)


@contextlib.contextmanager
def recording_draws() -> Iterator[None]:
    """Record the draws of all mechanisms that are run with a `RecordingNoise`."""
    with contextlib.ExitStack() as stack:
        for kind, name in itertools.product(dict.fromkeys(_kinds(Mechanism)), DRAWS):
            real = vars(kind).get(name)
            if real is not None and not getattr(real, "__isabstractmethod__", False):
                stack.enter_context(mock.patch.object(kind, name, _seen(real)))
        opened = RunAccount.__post_init__

        def noticed(account: RunAccount) -> None:
            opened(account)
            if _current:
                _current[-1].accounts.append(account)

        stack.enter_context(mock.patch.object(RunAccount, "__post_init__", noticed))
        yield


def _seen(real: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    def draw(self: Any, exact: Any, noise: Any) -> Any:
        if not isinstance(noise, RecordingNoise):  # inside another draw, or not recorded
            return real(self, exact, noise)
        return noise.drawn(self, exact, lambda own: real(self, exact, own))

    return draw


@dataclass
class RecordedRun:
    """Features, draws and accounts of a recorded run."""

    seen: dict[str, float]
    draws: list[RecordedDraw] = field(default_factory=list)
    accounts: list[RunAccount] = field(default_factory=list)


def record_run(
    see: Callable[[RecordingNoise], dict[str, float]], noise: RecordingNoise
) -> RecordedRun:
    """Run a function with this noise, and return its features, draws and accounts."""
    _current.append(noise)
    try:
        seen = see(noise)
    finally:
        _current.pop()
    return RecordedRun(seen, noise.draws, noise.accounts)
