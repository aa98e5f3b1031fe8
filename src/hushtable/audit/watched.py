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

from hushtable.privacy.domain_mechanism import NoisyCells
from hushtable.privacy.mechanism import Mechanism
from hushtable.privacy.noise import SeededNoise
from hushtable.privacy.spending import Account, Sensitivity

FAR = 50
"""Scales by which outcomes are moved in runs that try what hardly ever happens."""


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
    """

    what: str
    mechanism: Any
    sensitivity: Sensitivity | None
    exact: Any
    outcome: Any
    seed: int


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
    """

    def __init__(
        self, seed: int, *, script: Sequence[Draw] = (), far: bool = False, rows: int = 1
    ) -> None:
        super().__init__(seed)
        self.seed, self.script, self.far, self.rows = seed, script, far, rows
        self.draws: list[Draw] = []
        self.accounts: list[Account] = []
        self._n_booked = 0

    def drawn(self, mechanism: Any, exact: Any, draw: Callable[[Any], Any]) -> Any:
        """Record a draw, or repeat the one of the script."""
        place = len(self.draws)
        seed = 1_000_003 * self.seed + place
        outcome = (
            self.script[place].outcome
            if place < len(self.script)
            else self._moved(mechanism, draw(SeededNoise(seed)), place)
        )
        what, sensitivity = self._booked(mechanism)
        self.draws.append(Draw(what, mechanism, sensitivity, _kept(exact), outcome, seed))
        return _kept(outcome)

    def _moved(self, mechanism: Any, outcome: Any, place: int) -> Any:
        if not self.far:
            return outcome
        if isinstance(outcome, NoisyCells) and getattr(mechanism, "threshold", 0) is None:
            return replace(outcome, noisy=_moved_away(outcome.noisy, 1 / mechanism.rate, place))
        scale = getattr(mechanism, "scale", None) or math.sqrt(getattr(mechanism, "variance", 0))
        return _moved_away(outcome, scale, place) if isinstance(outcome, np.ndarray) else outcome

    def _booked(self, mechanism: Any) -> tuple[str, Sensitivity | None]:
        """Find what a draw was booked as: the last opening of an account that is still unused."""
        openings = [(opening, account.promise) for account in self.accounts
                    for opening in account.openings]  # fmt: skip
        for opening, promise in openings[self._n_booked :]:
            if opening.mechanism is mechanism:
                self._n_booked += 1
                by_rows = promise is not None and promise.of_row
                moved = opening.sensitivity
                return opening.what, replace(moved, rows=self.rows) if by_rows else moved
        return "", None


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
