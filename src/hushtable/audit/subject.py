"""The method under audit: opened inputs, runs, and what was seen in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hushtable.audit.events import Samples
from hushtable.audit.everything import everything, seen_of
from hushtable.audit.features import Features, features
from hushtable.audit.inputs import CodedTable, Input
from hushtable.errors import HushtableError
from hushtable.methods.base import Released
from hushtable.methods.parameters import Parameters
from hushtable.privacy.guarantee import Guarantee
from hushtable.privacy.noise import Noise
from hushtable.privacy.random_words import Integers
from hushtable.privacy.seeded_noise import SeededNoise
from hushtable.schema import Schema


class SameCoins(SeededNoise):
    """Choose rows by the same coins in every run, and at every request from the first on.

    So a request that is longer by the coins of one person more gives all others those they had.
    """

    def __init__(self) -> None:
        super().__init__(0)

    def uniform_below(self, n: int, *, size: int) -> Integers:
        """Draw from the beginning of the stream."""
        return SeededNoise(0).uniform_below(n, size=size)


@dataclass(frozen=True)
class Prepared:
    """Hold a method that was planned once, to be run often.

    Parameters
    ----------
    guarantees : tuple of Guarantee
        What is promised.
    run : callable
        Takes an opened input and noise, and gives what is published.
    """

    guarantees: tuple[Guarantee, ...]
    run: Callable[[Any, Noise], Released]


@dataclass
class Outlook:
    """Tell whether the runs so far could show anything at all."""

    n_released: int = 0
    refusal: str = ""
    _first: Features | None = None
    _varied: bool = False

    def refused(self, error: HushtableError) -> None:
        """Remember what the method said when it first refused."""
        self.refusal = self.refusal or f"{type(error).__name__}: {error.problems[0]}"

    def shown(self, found: Features) -> None:
        """Remember whether anything ever differed from what was seen first."""
        if self._first is None:
            self._first = found
        self._varied = self._varied or found != self._first

    def nothing_to_compare(self, *, is_rare: bool) -> str:
        """Say why no difference could have been seen, or nothing if one could.

        What is rare (`is_rare`) need not happen once to have been looked for.
        """
        if self._varied:  # be it by refusing some of the runs
            return ""
        if self.n_released == 0:
            return f"every run was refused: {self.refusal or 'there was none'}"
        if is_rare:
            return ""
        return "all runs on all inputs showed the same, so that nothing could tell them apart"


@dataclass
class Subject:
    """Run a method on made-up inputs.

    Parameters
    ----------
    method : Parameters
        The method.
    schema : Schema
        The public schema of the inputs.
    prepared : Prepared
        What is promised, and what is run.
    noise : Noise
        Where randomness comes from.
    """

    method: Parameters
    schema: Schema
    prepared: Prepared
    noise: Noise
    n_runs: int = 0
    outlook: Outlook = field(default_factory=Outlook)
    _opened: dict[Input, Any] = field(default_factory=dict)

    def opened(self, given: Input, coins: Noise | None = None) -> Any:
        """Give what the method reads of an input; opened once, rows that count chosen anew."""
        if given not in self._opened:
            self._opened[given] = given.open(self.noise)
        opened = self._opened[given]
        if isinstance(opened, CodedTable):
            opened.renew(coins or self.noise)
        return opened

    def released(self, given: Input) -> Released:
        """Run the method once."""
        opened = self.opened(given)
        self.n_runs += 1
        try:
            released = self.prepared.run(opened, self.noise)
        except HushtableError as error:
            self.outlook.refused(error)
            raise
        self.outlook.n_released += 1
        return released

    def seen(self, given: Input) -> Features:
        """Run the method once and list what can be seen; a refusal and its words are seen, too."""
        try:
            found = features(self.released(given), self.schema.attributes)
        except HushtableError as error:
            found = {f"refused: {type(error).__name__}": 1.0, f"refused: {error}": 1.0}
        self.outlook.shown(found)
        return found

    def seen_in_full(self, given: Input) -> Features:
        """Run the method once and list all there is to see; a failure of any kind is seen, too."""
        return seen_of(lambda: everything(self.released(given), self.schema))

    def seen_with(self, given: Input, noise: Noise) -> Features:
        """Run the method once with other noise, and list all there is to see.

        Which rows count where somebody has too many is chosen by the same coins each time.
        """
        self.n_runs += 1
        opened = self.opened(given, SameCoins())
        return seen_of(lambda: everything(self.prepared.run(opened, noise), self.schema))

    def samples(self, given: Input, n: int) -> Samples:
        """Run the method `n` times."""
        found = Samples()
        found.add(self.seen(given) for _ in range(n))
        return found
