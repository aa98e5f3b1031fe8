"""Events that tell two inputs apart: proposed and chosen on runs that prove nothing afterwards."""

from __future__ import annotations

import itertools
import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hushtable.audit.bounds import deviations
from hushtable.audit.features import Features

Mask = NDArray[np.bool_]
Values = NDArray[np.float64]

MAX_CUTS = 24
"""Values of one feature at which events begin or end."""

N_PARENTS = 12
"""Best single events of which pairs are made."""

LEAST_SHARE = 0.01
"""A feature that is there in fewer runs than this on both sides is not looked at."""

HINT_ERROR, FOUND_ERROR = 0.5, 0.05
"""How pessimistic the choice is: rates are taken at the end of an interval of this error.

Of many events that were found, some look better than they are; those named beforehand are few."""

SEEN_APART = 3.0
"""Standard deviations by which a feature must differ before a score makes use of it."""


LEANING = 1.0
"""The same for weights along a line, of which each feature has only one to learn."""


class Samples:
    """Hold what was seen in the runs on one input: the values of each feature, where it was there.

    Many features are there in one run only, such as a digest, so absence takes no room.
    """

    def __init__(self) -> None:
        self.n_runs = 0
        self._seen: dict[str, tuple[array[int], array[float]]] = {}  # in which run, and the value
        self._ordered: dict[str, Values] = {}

    def add(self, found: Iterable[Features]) -> None:
        """Add runs."""
        self._ordered.clear()
        for run in found:
            for name, value in run.items():
                runs, values = self._seen.setdefault(name, (array("q"), array("d")))
                runs.append(self.n_runs)
                values.append(value)
            self.n_runs += 1

    @property
    def names(self) -> Iterable[str]:
        """The features seen so far."""
        return self._seen.keys()

    def column(self, name: str) -> Values:
        """Give the values of a feature, NaN where it was absent."""
        column = np.full(self.n_runs, math.nan)
        if name in self._seen:
            runs, values = self._seen[name]
            column[np.asarray(runs)] = values
        return column

    def ordered(self, name: str) -> Values:
        """Give the values of a feature where it was there, in order."""
        if name not in self._ordered:
            values = np.array(self._seen[name][1]) if name in self._seen else np.empty(0)
            self._ordered[name] = np.sort(values[~np.isnan(values)])
        return self._ordered[name]

    def n_seen(self, name: str) -> int:
        """Count the runs in which a feature was there."""
        return len(self._seen[name][0]) if name in self._seen else 0

    def part(self, start: int) -> Samples:
        """Take every other run, from the first or from the second."""
        half = Samples()
        half.n_runs = len(range(start, self.n_runs, 2))
        for name, (runs, values) in self._seen.items():
            taken = [at for at, run in enumerate(runs) if run % 2 == start]
            if taken:
                half._seen[name] = (
                    array("q", [runs[at] // 2 for at in taken]),
                    array("d", [values[at] for at in taken]),
                )
        return half


class Event(Protocol):
    """Say in which runs something happened."""

    def mask(self, samples: Samples) -> Mask:
        """Mark the runs in which it happened."""
        ...

    def describe(self) -> str:
        """Say what happened, in words."""
        ...


@dataclass(frozen=True)
class Within:
    """A feature is there and its value lies between two numbers, both included.

    Examples
    --------
    >>> Within("data[F].count", 3, math.inf).describe()
    'data[F].count >= 3'
    >>> Within("data[F]").describe()
    'data[F] is there'
    """

    feature: str
    low: float = -math.inf
    high: float = math.inf

    def mask(self, samples: Samples) -> Mask:
        """Mark the runs in which it happened; comparisons with an absent value are false."""
        values = samples.column(self.feature)
        return np.asarray((values >= self.low) & (values <= self.high))

    def describe(self) -> str:
        """Say what happened, in words."""
        if self.low == self.high:
            return f"{self.feature} = {self.low:g}"
        if self.low > -math.inf and self.high < math.inf:
            return f"{self.low:g} <= {self.feature} <= {self.high:g}"
        if self.low > -math.inf:
            return f"{self.feature} >= {self.low:g}"
        return f"{self.feature} is there" + (
            "" if self.high == math.inf else f" and <= {self.high:g}"
        )


@dataclass(frozen=True)
class Not:
    """Something did not happen."""

    event: Event

    def mask(self, samples: Samples) -> Mask:
        """Mark the runs in which it did not happen."""
        return ~self.event.mask(samples)

    def describe(self) -> str:
        """Say what did not happen, in words."""
        return f"not ({self.event.describe()})"


@dataclass(frozen=True)
class Both:
    """Two things happened in the same run."""

    one: Event
    two: Event

    def mask(self, samples: Samples) -> Mask:
        """Mark the runs in which both happened."""
        return self.one.mask(samples) & self.two.mask(samples)

    def describe(self) -> str:
        """Say what happened, in words."""
        return f"{self.one.describe()} and {self.two.describe()}"


@dataclass(frozen=True)
class Several:
    """Of some things, at least so many happened in the same run."""

    least: int
    events: tuple[Event, ...]

    def mask(self, samples: Samples) -> Mask:
        """Mark the runs in which enough of them happened."""
        happened = sum(event.mask(samples).astype(np.int64) for event in self.events)
        return np.asarray(happened >= self.least)

    def describe(self) -> str:
        """Say what happened, in words."""
        return (
            f"at least {self.least} of {len(self.events)} events like {self.events[0].describe()}"
        )


@dataclass(frozen=True)
class WeighedFeatures:
    """Features add up to evidence for the first input: logarithms of ratios of frequencies.

    Parameters
    ----------
    weights : mapping of str to (edges, logs)
        For each feature, where its bins begin and what a value in each bin weighs; the last log is
        for absence.
    least : float
        The event is that the sum is at least this.
    """

    weights: Mapping[str, tuple[Values, Values]] = field(repr=False, compare=False)
    least: float

    def sums(self, samples: Samples) -> Values:
        """Add up the evidence of each run."""
        total = np.zeros(samples.n_runs)
        for name, (edges, logs) in self.weights.items():
            total += logs[_bins(samples.column(name), edges)]
        return total

    def mask(self, samples: Samples) -> Mask:
        """Mark the runs with enough evidence."""
        return np.asarray(self.sums(samples) >= self.least)

    def describe(self) -> str:
        """Say what happened, in words."""
        names = list(self.weights)
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        return f"evidence of at least {self.least:.3g} from {shown}"


@dataclass(frozen=True)
class Limits:
    """Say what an event must not show, and how hard it is going to be tested.

    Parameters
    ----------
    forward, backward : float
        Largest loss, where the event is likelier on the first input, and on the second.
    delta : float
        What is allowed on top.
    n_runs : int
        Runs on each side of the final test.
    error : float
        Chance of a false alarm of the final test.
    """

    forward: float
    backward: float
    delta: float
    n_runs: int
    error: float


@dataclass(frozen=True)
class ChosenEvent:
    """An event, the input on which it is likelier, and by how much it should break its limit."""

    excess: float
    event: Event
    on_first: bool


def best_event(
    one: Samples, two: Samples, limits: Limits, *, hints: Sequence[Event] = (), deep: bool = True
) -> ChosenEvent:
    """Choose the event that should break its limit by most, judging by these runs.

    Parameters
    ----------
    one, two : Samples
        Runs on both inputs.
    limits : Limits
        What the event will be held against.
    hints : sequence of Event
        Events to try besides those that are found.
    deep : bool
        Whether pairs of events and sums of evidence are tried, too.
    """
    choices = _singles(one, two, limits)
    choices += [
        choice for event in hints for choice in _judged(event, one, two, limits, HINT_ERROR)
    ]
    if deep:
        # Found on every other run and judged by the others, or chance would look like evidence.
        known, judges = (one.part(0), two.part(0)), (one.part(1), two.part(1))
        parents = sorted(_singles(*known, limits), key=lambda choice: -choice.excess)[:N_PARENTS]
        for first, second in itertools.combinations(parents, 2):
            choices += _judged(Both(first.event, second.event), *judges, limits)
        choices += _evidence(known, judges, limits)
    return max(choices, key=lambda choice: choice.excess)


# --- judging ------------------------------------------------------------------------------------


def _interval(rate: Values, n: float, z: float) -> tuple[Values, Values]:
    """Give Wilson's interval: quick, and good enough to choose by."""
    center = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z * np.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return np.maximum(center - half, 0.0), np.minimum(center + half, 1.0)


def _promise(
    more: Values, n_more: int, less: Values, n_less: int, limits: Limits, *, z: float
) -> Values:
    """Predict what loss the final test will find for events of these rates, pessimistically."""
    low, high = _interval(more, n_more, z)[0], _interval(less, n_less, z)[1]
    final = deviations(limits.error / 2)
    low, high = _interval(low, limits.n_runs, final)[0], _interval(high, limits.n_runs, final)[1]
    return np.asarray(np.log(np.maximum(low - limits.delta, 1e-12) / high))


def _excess(
    hits: Values,
    n: int,
    others: Values,
    n_others: int,
    limits: Limits,
    *,
    error: float = FOUND_ERROR,
) -> Values:
    """Judge events, an array (4, events): likelier on one, on two, and the opposite of each."""
    p, q, z = hits / n, others / n_others, deviations(error)
    return np.stack(
        (
            _promise(p, n, q, n_others, limits, z=z) - limits.forward,
            _promise(q, n_others, p, n, limits, z=z) - limits.backward,
            _promise(1 - p, n, 1 - q, n_others, limits, z=z) - limits.forward,
            _promise(1 - q, n_others, 1 - p, n, limits, z=z) - limits.backward,
        )
    )


def _judged(
    event: Event, one: Samples, two: Samples, limits: Limits, error: float = FOUND_ERROR
) -> Iterator[ChosenEvent]:
    hits, others = (
        np.array([float(np.count_nonzero(event.mask(samples)))]) for samples in (one, two)
    )
    yield from _as_choices(
        [event], _excess(hits, one.n_runs, others, two.n_runs, limits, error=error)
    )


def _as_choices(events: Sequence[Event], excess: Values) -> Iterator[ChosenEvent]:
    for number, event in enumerate(events):
        kind = int(np.argmax(excess[:, number]))
        chosen = Not(event) if kind >= 2 else event
        yield ChosenEvent(float(excess[kind, number]), chosen, on_first=kind % 2 == 0)


# --- finding ------------------------------------------------------------------------------------


def _singles(one: Samples, two: Samples, limits: Limits) -> list[ChosenEvent]:
    """Judge every feature: being there, equal to a value, at most and at least a value."""
    names, cuts_of, hits, others = [], [], [], []
    for name in _frequent(one, two):
        x, y = one.ordered(name), two.ordered(name)
        cuts = _cuts(np.concatenate((x, y)))
        names.append(name)
        cuts_of.append(cuts)
        hits.append(_counts(x, cuts))
        others.append(_counts(y, cuts))
    if not names:
        return [ChosenEvent(-math.inf, Within("nothing"), on_first=True)]
    excess = _excess(np.concatenate(hits), one.n_runs, np.concatenate(others), two.n_runs, limits)
    best = excess.max(axis=0)
    ends = np.cumsum([len(counts) for counts in hits])
    found: list[ChosenEvent] = []
    for name, cuts, start, end in zip(names, cuts_of, [0, *ends], ends, strict=False):
        place = int(np.argmax(best[start:end]))
        found += _as_choices([_at(name, cuts, place)], excess[:, [start + place]])
    return found


def _frequent(one: Samples, two: Samples) -> list[str]:
    """List the features that are there often enough to tell anything."""
    names = dict.fromkeys([*one.names, *two.names])
    return [
        name
        for name in names
        if any(s.n_seen(name) >= max(3, LEAST_SHARE * s.n_runs) for s in (one, two))
    ]


def _cuts(values: Values) -> Values:
    different = np.unique(values)
    if len(different) > MAX_CUTS:
        places = np.linspace(0, len(values) - 1, MAX_CUTS).astype(int)
        different = np.unique(np.sort(values)[places])
    return different


def _counts(values: Values, cuts: Values) -> Values:
    """Count: there; then for every cut at most, at least and equal to it."""
    up_to = np.searchsorted(values, cuts, "right")
    below = np.searchsorted(values, cuts, "left")
    counts = np.concatenate(([len(values)], up_to, len(values) - below, up_to - below))
    return counts.astype(np.float64)


def _at(name: str, cuts: Values, place: int) -> Event:
    if place == 0:
        return Within(name)
    kind, cut = divmod(place - 1, len(cuts))
    value = float(cuts[cut])
    return (Within(name, high=value), Within(name, low=value), Within(name, value, value))[kind]


def _bins(values: Values, edges: Values) -> NDArray[np.int64]:
    """Find the bins of values; absence is the last one."""
    places = np.clip(np.searchsorted(edges, values, "right") - 1, 0, len(edges) - 1)
    return np.where(np.isnan(values), len(edges), places)


def _evidence(
    known: tuple[Samples, Samples], judges: tuple[Samples, Samples], limits: Limits
) -> Iterator[ChosenEvent]:
    """Learn weights from some runs, and judge thresholds of their sum by others."""
    if min(samples.n_runs for samples in known) < 8:
        return
    for weigh in (_ratios, _leaning):
        weights = {}
        for name in _frequent(*known):
            x, y = (samples.column(name) for samples in known)
            edges = _cuts(np.concatenate((known[0].ordered(name), known[1].ordered(name))))
            logs = None if " sum of " in name else weigh(x, y, edges)
            if logs is not None:
                weights[name] = (edges, logs)
        if len(weights) < 2:
            continue
        score = WeighedFeatures(weights, 0.0)
        sums = np.concatenate([score.sums(samples) for samples in known])
        for least in np.unique(np.quantile(sums, np.linspace(0.02, 0.98, MAX_CUTS))):
            yield from _judged(replace(score, least=float(least)), *judges, limits)


def _ratios(x: Values, y: Values, edges: Values) -> Values | None:
    """Weigh each bin by how much likelier it is on one side, if the sides are clearly apart."""
    counts = [np.bincount(_bins(v, edges), minlength=len(edges) + 1) for v in (x, y)]
    if _apart(*counts) < SEEN_APART:
        return None
    shares = [(c + 1.0) / (c.sum() + len(c)) for c in counts]
    return np.asarray(np.log(shares[0] / shares[1]))


def _leaning(x: Values, y: Values, edges: Values) -> Values | None:
    """Weigh values along a line, as many small shifts are seen best; bounded against outliers."""
    x, y = x[~np.isnan(x)], y[~np.isnan(y)]
    both = np.concatenate((x, y))
    spread = float(both.std())
    if min(len(x), len(y)) < 8 or spread == 0:
        return None
    shift = float(x.mean() - y.mean()) / spread
    if abs(shift) * math.sqrt(len(x) * len(y) / len(both)) < LEANING:
        return None
    steps = np.clip((edges - both.mean()) / spread, -2.0, 2.0)
    return np.append(shift * steps, 0.0)


def _apart(one: NDArray[np.int64], two: NDArray[np.int64]) -> float:
    """Give the largest distance of two histograms' running sums, in standard deviations."""
    n = one.sum() * two.sum() / (one.sum() + two.sum())
    gaps = np.abs(np.cumsum(one / one.sum()) - np.cumsum(two / two.sum()))
    return float(2 * math.sqrt(n) * gaps.max())
