"""Events that distinguish two inputs, chosen on runs that are not used as evidence."""

from __future__ import annotations

import itertools
import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from hushtable.arrays import Bools, Floats, Integers
from hushtable.audit.bounds import deviations
from hushtable.audit.features import Features

Values = Floats

MAX_CUTS = 24
"""Maximum number of thresholds of one feature."""

N_PARENTS = 12
"""Number of best single events that are combined in pairs."""

LEAST_SHARE = 0.01
"""Minimum share of the runs on one side in which a feature is present (and at least 3 runs)."""

HINT_ERROR, FOUND_ERROR = 0.5, 0.05
"""Error probabilities of the interval ends that replace the observed rates during the selection.

Among many events found by search, some look better than they are. Predefined events are few, so
their observed rates are used unchanged (0.5)."""

DISTINGUISHED = 3.0
"""Standard deviations by which a feature must differ to be used in a score."""


LEANING = 1.0
"""Standard deviations by which means must differ for linear weights (one parameter per feature)."""


class Samples:
    """Features of the runs on one input, stored sparsely.

    Many features, such as digests, are present in only one run, so absent values are not stored.
    """

    def __init__(self) -> None:
        self.n_runs = 0
        self._seen: dict[str, tuple[array[int], array[float]]] = {}  # runs, and values in them
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
        """Return the values of a feature, NaN if absent."""
        column = np.full(self.n_runs, math.nan)
        if name in self._seen:
            runs, values = self._seen[name]
            column[np.asarray(runs)] = values
        return column

    def ordered(self, name: str) -> Values:
        """Return the sorted values of a feature, without absent ones."""
        if name not in self._ordered:
            values = np.array(self._seen[name][1]) if name in self._seen else np.empty(0)
            self._ordered[name] = np.sort(values[~np.isnan(values)])
        return self._ordered[name]

    def n_seen(self, name: str) -> int:
        """Return the number of runs in which a feature was present."""
        return len(self._seen[name][0]) if name in self._seen else 0

    def part(self, start: int) -> Samples:
        """Return every other run, starting with run `start` (0 or 1)."""
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
    """A condition on a run."""

    def mask(self, samples: Samples) -> Bools:
        """Return in which runs the event occurred."""
        ...

    def describe(self) -> str:
        """Return a description of the event."""
        ...


@dataclass(frozen=True)
class Within:
    """A feature is present with a value between two numbers, inclusive.

    Examples
    --------
    >>> Within("data[F].count", 3, math.inf).describe()
    'data[F].count >= 3'
    >>> Within("data[F]").describe()
    'data[F] is present'
    """

    feature: str
    low: float = -math.inf
    high: float = math.inf

    def mask(self, samples: Samples) -> Bools:
        """Return in which runs the event occurred; comparisons with an absent value are False."""
        values = samples.column(self.feature)
        return np.asarray((values >= self.low) & (values <= self.high))

    def describe(self) -> str:
        """Return a description of the event."""
        if self.low == self.high:
            return f"{self.feature} = {self.low:g}"
        if self.low > -math.inf and self.high < math.inf:
            return f"{self.low:g} <= {self.feature} <= {self.high:g}"
        if self.low > -math.inf:
            return f"{self.feature} >= {self.low:g}"
        return f"{self.feature} is present" + (
            "" if self.high == math.inf else f" and <= {self.high:g}"
        )


@dataclass(frozen=True)
class Not:
    """The complement of an event."""

    event: Event

    def mask(self, samples: Samples) -> Bools:
        """Return in which runs the event did not occur."""
        return ~self.event.mask(samples)

    def describe(self) -> str:
        """Return a description of the complement."""
        return f"not ({self.event.describe()})"


@dataclass(frozen=True)
class Both:
    """Two events occur in the same run."""

    one: Event
    two: Event

    def mask(self, samples: Samples) -> Bools:
        """Return in which runs both events occurred."""
        return self.one.mask(samples) & self.two.mask(samples)

    def describe(self) -> str:
        """Return a description of both events."""
        return f"{self.one.describe()} and {self.two.describe()}"


@dataclass(frozen=True)
class Several:
    """At least `least` of some events occur in the same run."""

    least: int
    events: tuple[Event, ...]

    def mask(self, samples: Samples) -> Bools:
        """Return in which runs enough of the events occurred."""
        happened = sum(event.mask(samples).astype(np.int64) for event in self.events)
        return np.asarray(happened >= self.least)

    def describe(self) -> str:
        """Return a description of the event."""
        return (
            f"at least {self.least} of {len(self.events)} events like {self.events[0].describe()}"
        )


@dataclass(frozen=True)
class WeighedFeatures:
    """The log-likelihood ratio of some features, summed, is at least a threshold."""

    # by feature: bin edges, and a weight per bin; the last weight is for absence
    weights: Mapping[str, tuple[Values, Values]] = field(repr=False, compare=False)
    least: float

    def sums(self, samples: Samples) -> Values:
        """Return the sum of weights of each run."""
        total = np.zeros(samples.n_runs)
        for name, (edges, logs) in self.weights.items():
            total += logs[_bins(samples.column(name), edges)]
        return total

    def mask(self, samples: Samples) -> Bools:
        """Return in which runs the sum reaches the threshold."""
        return np.asarray(self.sums(samples) >= self.least)

    def describe(self) -> str:
        """Return a description of the event."""
        names = list(self.weights)
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        return f"log-likelihood ratio of at least {self.least:.3g} from {shown}"


@dataclass(frozen=True)
class Limits:
    """Allowed losses, and size and error probability of the final test."""

    forward: float  # largest loss if the event is more likely on the first input
    backward: float  # largest loss if it is more likely on the second
    delta: float
    n_runs: int  # runs on each side of the final test
    error: float  # false alarm probability of the final test


@dataclass(frozen=True)
class ChosenEvent:
    """An event, the input on which it is more likely, and its predicted excess over the limit."""

    excess: float
    event: Event
    on_first: bool


def best_event(
    one: Samples, two: Samples, limits: Limits, *, hints: Sequence[Event] = (), deep: bool = True
) -> ChosenEvent:
    """Return the event with the largest predicted excess over its limit, judged by these runs.

    With `deep`, pairs of events and sums of weights are tried, too.
    """
    choices = _singles(one, two, limits)
    choices += [
        choice for event in hints for choice in _judged(event, one, two, limits, HINT_ERROR)
    ]
    if deep:
        # Events are found on half of the runs and judged on the other half, to avoid overfitting.
        known, judges = (one.part(0), two.part(0)), (one.part(1), two.part(1))
        parents = sorted(_singles(*known, limits), key=lambda choice: -choice.excess)[:N_PARENTS]
        for first, second in itertools.combinations(parents, 2):
            choices += _judged(Both(first.event, second.event), *judges, limits)
        choices += _evidence(known, judges, limits)
    return max(choices, key=lambda choice: choice.excess)


# --- judging ------------------------------------------------------------------------------------


def _interval(rate: Values, n: float, z: float) -> tuple[Values, Values]:
    """Return Wilson's interval: fast, and sufficient for selection."""
    center = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z * np.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return np.maximum(center - half, 0.0), np.minimum(center + half, 1.0)


def _promise(
    more: Values, n_more: int, less: Values, n_less: int, limits: Limits, *, z: float
) -> Values:
    """Predict, pessimistically, the loss that the final test will find at these rates."""
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
    """Return predicted excesses over the limits, shape (4, events).

    The event is more likely on the first input, or on the second; then the same for its complement.
    """
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
    """Return the best event of each feature: present, or equal to, at most or at least a value."""
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
    """Return the features that are present often enough."""
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
    """Return counts of runs: present; then for every cut at most, at least, and equal."""
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


def _bins(values: Values, edges: Values) -> Integers:
    """Return the bins of values; absence is the last bin."""
    places = np.clip(np.searchsorted(edges, values, "right") - 1, 0, len(edges) - 1)
    return np.where(np.isnan(values), len(edges), places)


def _evidence(
    known: tuple[Samples, Samples], judges: tuple[Samples, Samples], limits: Limits
) -> Iterator[ChosenEvent]:
    """Learn weights from some runs, and judge thresholds of their sum with others."""
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
    """Return the log ratio of frequencies by bin, if the sides clearly differ."""
    counts = [np.bincount(_bins(v, edges), minlength=len(edges) + 1) for v in (x, y)]
    if _distance(*counts) < DISTINGUISHED:
        return None
    shares = [(c + 1.0) / (c.sum() + len(c)) for c in counts]
    return np.asarray(np.log(shares[0] / shares[1]))


def _leaning(x: Values, y: Values, edges: Values) -> Values | None:
    """Return linear weights, which detect many small shifts; clipped against outliers."""
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


def _distance(one: Integers, two: Integers) -> float:
    """Return the largest distance of two cumulative histograms, in standard deviations."""
    n = one.sum() * two.sum() / (one.sum() + two.sum())
    gaps = np.abs(np.cumsum(one / one.sum()) - np.cumsum(two / two.sum()))
    return float(2 * math.sqrt(n) * gaps.max())
