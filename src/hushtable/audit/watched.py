"""Runs whose every look at private counts is seen, and can be made to show the same again.

Whatever a run lets out of sealed counts is drawn by a mechanism (`hushtable.privacy.mechanism`).
Here each draw is recorded with the exact counts behind it, and in a second run, on a neighbor, each
draw is replaced by what the first run saw. All other coins are the same in both. So two runs follow
the same path, and whatever differs between them was not paid for.
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

from hushtable.privacy.bit_reader import Words
from hushtable.privacy.domain_mechanism import NoisyCells
from hushtable.privacy.mechanism import Mechanism
from hushtable.privacy.seeded_noise import SeededNoise
from hushtable.privacy.spending import Account, Part, Sensitivity

FAR = 50
"""Scales by which outcomes are moved in runs that try what hardly ever happens."""


N_COINS = 1000
"""Requests whose first word is one that hardly ever falls; then there is an end to it, since some
samplers draw until a word is another one."""

DRAWS = ("draw", "draw_some")
"""How mechanisms let something out; what one calls inside another is one draw."""


@dataclass(frozen=True)
class Draw:
    """One draw of a mechanism: what it saw, and what it let out.

    Parameters
    ----------
    what : str
        What it was booked as; empty if it was not.
    mechanism : Mechanism
        What drew.
    sensitivity : Sensitivity or None
        How far one unit moves what it saw, as booked.
    exact : any
        What it saw.
    outcome : any
        What it let out.
    seed : int
        The seed of the noise that it drew from.
    parts : tuple of Part
        The parts of what was counted that paid for it.
    """

    what: str
    mechanism: Any
    sensitivity: Sensitivity | None
    exact: Any
    outcome: Any
    seed: int
    parts: tuple[Part, ...] = ()


class WatchedNoise(SeededNoise):
    """Noise that sees what mechanisms see, and can repeat what they let out.

    Parameters
    ----------
    seed : int
        The seed of all coins that are not a mechanism's; draws have seeds of their own.
    script : sequence of Draw
        What mechanisms let out, in their order; where it ends, they draw.
    far : bool
        Whether noisy numbers are moved to where they hardly ever are.
    rows : int
        Rows of one unit, for what is booked row by row.
    coins : int, optional
        The first word of requests for coins that are not a mechanism's: one that hardly ever falls.
    """

    def __init__(
        self,
        seed: int,
        *,
        script: Sequence[Draw] = (),
        far: bool = False,
        rows: int = 1,
        coins: int | None = None,
    ) -> None:
        super().__init__(seed)
        self._coins, self._n_coins = coins, 0
        self.seed, self.script, self.far, self.rows = seed, script, far, rows
        self.draws: list[Draw] = []
        self.accounts: list[Account] = []
        self._n_booked = 0

    def _words(self, n: int) -> Words:
        words = super()._words(n)
        if self._coins is not None and self._n_coins < N_COINS:
            words[:1] = self._coins
            self._n_coins += 1
        return words

    def drawn(self, mechanism: Any, exact: Any, draw: Callable[[Any], Any]) -> Any:
        """Record a draw, or repeat the one of the script.

        What is repeated is drawn all the same, from other words, and forgotten: nothing but what a
        draw lets out may be known of it, neither its words nor its noise.
        """
        place = len(self.draws)
        seed = 1_000_003 * self.seed + place
        if place < len(self.script):
            draw(SeededNoise(-seed - 1))
            outcome = self.script[place].outcome
        else:
            outcome = self._moved(mechanism, draw(SeededNoise(seed)), place)
        what, sensitivity, parts = self._booked(mechanism)
        self.draws.append(Draw(what, mechanism, sensitivity, _kept(exact), outcome, seed, parts))
        return _kept(outcome)

    def _moved(self, mechanism: Any, outcome: Any, place: int) -> Any:
        if not self.far:
            return outcome
        if isinstance(outcome, NoisyCells) and getattr(mechanism, "threshold", 0) is None:
            return replace(outcome, noisy=_moved_away(outcome.noisy, 1 / mechanism.rate, place))
        scale = getattr(mechanism, "scale", None) or math.sqrt(getattr(mechanism, "variance", 0))
        return _moved_away(outcome, scale, place) if isinstance(outcome, np.ndarray) else outcome

    def _booked(self, mechanism: Any) -> tuple[str, Sensitivity | None, tuple[Part, ...]]:
        """Find what a draw was booked as: the last opening of an account that is still unused."""
        openings = [(opening, account.promise) for account in self.accounts
                    for opening in account.openings]  # fmt: skip
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


_current: list[WatchedNoise] = []


def _kinds(kind: Any) -> Iterator[Any]:
    yield kind
    for below in kind.__subclasses__():
        yield from _kinds(below)


@contextlib.contextmanager
def watching() -> Iterator[None]:
    """See the draws of all mechanisms that are run with a `WatchedNoise`."""
    with contextlib.ExitStack() as stack:
        for kind, name in itertools.product(dict.fromkeys(_kinds(Mechanism)), DRAWS):
            real = vars(kind).get(name)
            if real is not None and not getattr(real, "__isabstractmethod__", False):
                stack.enter_context(mock.patch.object(kind, name, _seen(real)))
        opened = Account.__post_init__

        def noticed(account: Account) -> None:
            opened(account)
            if _current:
                _current[-1].accounts.append(account)

        stack.enter_context(mock.patch.object(Account, "__post_init__", noticed))
        yield


def _seen(real: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    def draw(self: Any, exact: Any, noise: Any) -> Any:
        if not isinstance(noise, WatchedNoise):  # inside another draw, or not watched
            return real(self, exact, noise)
        return noise.drawn(self, exact, lambda own: real(self, exact, own))

    return draw


@dataclass
class Watched:
    """What a watched run did.

    Parameters
    ----------
    seen : dict
        All that it published.
    draws : list of Draw
        What it looked at.
    accounts : list of Account
        What it booked.
    """

    seen: dict[str, float]
    draws: list[Draw] = field(default_factory=list)
    accounts: list[Account] = field(default_factory=list)


def watched(see: Callable[[WatchedNoise], dict[str, float]], noise: WatchedNoise) -> Watched:
    """Run something with this noise, and give what it published and what it looked at."""
    _current.append(noise)
    try:
        seen = see(noise)
    finally:
        _current.pop()
    return Watched(seen, noise.draws, noise.accounts)
