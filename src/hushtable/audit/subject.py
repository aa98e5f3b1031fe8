"""The method under audit: opened inputs, runs and their features; time limits of tests."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from hushtable.arrays import Integers
from hushtable.audit.events import Samples
from hushtable.audit.features import Features, everything, features, folder, seen_of
from hushtable.audit.inputs import Input, RawInput, TableInput
from hushtable.audit.recorder import PlanWrapper
from hushtable.errors import HushtableError
from hushtable.files.progress import Progress, silent
from hushtable.methods.base import Plan, Released
from hushtable.methods.parameters import Parameters
from hushtable.privacy.guarantee import Guarantee
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.publishing.run import PublishRun
from hushtable.schema import Schema

WALL = 4
"""On a busy or slow machine, this many seconds count as one CPU second."""


def stopwatch() -> Callable[[], float]:
    """Return a clock of CPU seconds from now on, which also advances if others use the CPU."""
    cpu, wall = time.process_time(), time.monotonic()
    return lambda: max(time.process_time() - cpu, (time.monotonic() - wall) / WALL)


@dataclass
class Clock:
    """CPU time limit of one test, and its share of the progress."""

    seconds: float | None = None  # CPU seconds that this test may take
    progress: Progress = silent
    done: float = 0.0  # share of the audit completed before this test
    share: float = 1.0  # share of the audit that this test is
    _watch: Callable[[], float] = field(default_factory=stopwatch)
    _most: float = 0.0

    def now(self) -> float:
        """Return the CPU seconds since the test started."""
        return self._watch()

    def report(self, what: str, part: float | None = None) -> None:
        """Report the progress of this test, by default by its time; it never decreases."""
        if part is None:
            part = min(1.0, self.now() / self.seconds) if self.seconds else 0.0
        self._most = max(self._most, part)
        self.progress(what, self.done + self.share * self._most)

    def is_past(self, part: float) -> bool:
        """Return whether this share of the time is used up."""
        return self.seconds is not None and self.now() > self.seconds * part

    def affordable(self, wanted: int, n_sides: int, n_before: int, started: float) -> int:
        """Return the number of runs that fit the remaining time, judging by the runs so far.

        The number is fixed before the first of them, so that it cannot depend on their outcomes.
        """
        if self.seconds is None or n_before == 0:
            return wanted
        each = (self.now() - started) / n_before
        left = max(0.0, self.seconds - self.now())
        return max(1, min(wanted, int(left / (each * n_sides)))) if each > 0 else wanted


class FixedRowChoice(SeededNoise):
    """Noise that starts the same random stream at every request, for the selection of rows.

    A longer request, for one more person, therefore gives all others the same random bits.
    """

    def __init__(self) -> None:
        super().__init__(0)

    def uniform_below(self, n: int, *, size: int) -> Integers:
        """Draw from the beginning of the stream."""
        return SeededNoise(0).uniform_below(n, size=size)


@dataclass(frozen=True)
class Prepared:
    """A planned method that can be run many times."""

    guarantees: tuple[Guarantee, ...]
    # function of an opened input and noise that returns the release
    run: Callable[[Any, Noise], Released]


@dataclass
class Outlook:
    """Record of whether the runs so far could show any difference."""

    n_released: int = 0
    refusal: str = ""
    _first: Features | None = None
    _varied: bool = False

    def refused(self, error: HushtableError) -> None:
        """Record the first error of the method."""
        self.refusal = self.refusal or f"{type(error).__name__}: {error.problems[0]}"

    def shown(self, found: Features) -> None:
        """Record whether any features differed from the first ones."""
        if self._first is None:
            self._first = found
        self._varied = self._varied or found != self._first

    def nothing_to_compare(self, *, is_rare: bool) -> str:
        """Return why no difference could have been detected, or an empty string if one could.

        A rare event (`is_rare`) need not occur for the test to be valid.
        """
        if self._varied:  # possibly only because some runs were refused
            return ""
        if self.n_released == 0:
            return f"every run was refused: {self.refusal or 'nothing was run'}"
        if is_rare:
            return ""
        return "all runs on all inputs had the same output, so no difference could be detected"


@dataclass
class Subject:
    """A method that is run on artificial inputs."""

    method: Parameters
    schema: Schema
    prepared: Prepared
    noise: Noise
    n_runs: int = 0
    outlook: Outlook = field(default_factory=Outlook)
    _opened: dict[Input, Any] = field(default_factory=dict)

    def opened(self, given: Input, row_choice: Noise | None = None) -> Any:
        """Return the opened input, which selects rows by `row_choice` (by default, by `noise`).

        If a person has too many rows, they are selected again at each call.
        """
        if isinstance(given, RawInput):
            return given.open(row_choice or self.noise)
        if given not in self._opened:
            self._opened[given] = given.open(self.noise)
        opened = self._opened[given]
        if isinstance(given, TableInput):
            # Needed even if all rows are used, because a method may select tuples at random.
            opened.use_noise(row_choice or self.noise, resample_rows=given.is_crowded)
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
        """Run the method once and return the features, including an error and its message."""
        try:
            found = features(self.released(given), self.schema.attributes)
        except HushtableError as error:
            found = {f"refused: {type(error).__name__}": 1.0, f"refused: {error}": 1.0}
        self.outlook.shown(found)
        return found

    def seen_in_full(self, given: Input) -> Features:
        """Run the method once and return everything observable, including failures of any kind."""
        return seen_of(lambda: everything(self.released(given), self.schema))

    def seen_with(self, given: Input, noise: Noise) -> Features:
        """Run the method once with the given noise, and return everything observable.

        If a person has too many rows, the same random bits select them each time.
        """
        self.n_runs += 1
        opened = self.opened(given, FixedRowChoice())
        return seen_of(lambda: everything(self.prepared.run(opened, noise), self.schema))

    def samples(self, given: Input, n: int) -> Samples:
        """Run the method `n` times."""
        found = Samples()
        found.add(self.seen(given) for _ in range(n))
        return found


# Runs of a method through the whole pipeline, including the folder on disk.

MEMORY = Path("/dev/shm")  # noqa: S108 - new folders there are private to the user


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Yield a temporary folder, in memory if the system supports it."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as place:
        yield Path(place)


@dataclass
class FolderSubject(Subject):
    """A method that is run through the pipeline and observed in its release folder."""

    plan: Plan[Any] | None = None
    place: Path = Path()

    @classmethod
    def of(cls, subject: Subject, plan: Plan[Any] | None, place: Path) -> FolderSubject:
        """Create from the method and the inputs of another subject."""
        return cls(subject.method, subject.schema, subject.prepared, subject.noise, plan=plan,
                   place=place)  # fmt: skip

    def seen_with(self, given: Input, noise: Noise) -> Features:
        """Publish once with the given noise, and return the features of the folder."""
        assert self.plan is not None  # noqa: S101 - made by `of`
        self.n_runs += 1
        opened = self.opened(given, FixedRowChoice())
        return published(self.plan, opened, noise, self.place)


def published(plan: Plan[Any], opened: Any, noise: Noise, place: Path) -> Features:
    """Publish to a folder, return the features of the folder and the output, and delete it."""
    out = place / "release"

    def act() -> Features:
        observed: Any = PlanWrapper(plan)
        run = PublishRun(observed, noise=noise, out=out, progress=cast(Any, print))
        run.publish(lambda: opened)
        return folder(out)

    try:
        return seen_of(act)
    finally:
        shutil.rmtree(out, ignore_errors=True)
