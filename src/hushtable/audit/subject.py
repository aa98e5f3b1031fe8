"""The method under audit: opened inputs, runs, and what was seen in them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hushtable.audit.events import Samples
from hushtable.audit.features import Features, features
from hushtable.audit.inputs import CodedTable, Input
from hushtable.errors import HushtableError
from hushtable.methods.base import Released
from hushtable.privacy.noise import Noise
from hushtable.schema import Schema

Run = Callable[[Any, Any, Noise], Released]


@dataclass
class Subject:
    """Run a method on made-up inputs.

    Parameters
    ----------
    method : Method or GraphMethod
        The method; a copy of the caller's.
    schema : Schema
        The public schema of the inputs.
    run : callable
        Takes the method, an opened input and noise, and gives what is published.
    noise : Noise
        Where randomness comes from.
    """

    method: Any
    schema: Schema
    run: Run
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
        return self.run(self.method, opened, self.noise)

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


def remembering_plans(copy: Any) -> Any:
    """Let a copy of a method work out only once what follows from its parameters and a schema.

    A plan sees no data (the first law of the house), so that it is the same in every run; working
    it out in exact arithmetic takes longer than many a run.
    """
    for name in ("plan", "_plan"):
        bound = getattr(copy, name, None)
        if callable(bound):
            plans: dict[int, Any] = {}

            @functools.wraps(bound)
            def remembered(
                schema: Any = "graph", bound: Any = bound, plans: dict[int, Any] = plans
            ) -> Any:
                if id(schema) not in plans:
                    plans[id(schema)] = bound(schema)
                return plans[id(schema)]

            object.__setattr__(copy, name, remembered)
    return copy
