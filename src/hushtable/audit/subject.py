"""The method under audit: opened inputs, runs, and what was seen in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hushtable.audit.events import Samples
from hushtable.audit.features import Features, features
from hushtable.audit.inputs import CodedTable, Input
from hushtable.errors import HushtableError
from hushtable.methods.base import Released
from hushtable.methods.parameters import Parameters
from hushtable.privacy.guarantee import Guarantee
from hushtable.privacy.noise import Noise
from hushtable.schema import Schema


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
    _opened: dict[Input, Any] = field(default_factory=dict)

    def released(self, given: Input) -> Released:
        """Run the method once."""
        if given not in self._opened:
            self._opened[given] = given.open(self.noise)
        opened = self._opened[given]
        if isinstance(opened, CodedTable):
            opened.renew()
        self.n_runs += 1
        return self.prepared.run(opened, self.noise)

    def seen(self, given: Input) -> Features:
        """Run the method once and list what can be seen; a refusal is seen, too."""
        try:
            return features(self.released(given), self.schema.attributes)
        except HushtableError as error:
            return {f"refused: {type(error).__name__}": 1.0}

    def samples(self, given: Input, n: int) -> Samples:
        """Run the method `n` times."""
        found = Samples()
        found.add(self.seen(given) for _ in range(n))
        return found
