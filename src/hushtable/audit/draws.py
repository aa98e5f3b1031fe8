"""Checks of single draws against their mechanism: on the same random words, or by many draws.

``auditor.md`` explains why each deviation is a violation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from hushtable.audit.bounds import EventTally, at_least, at_most
from hushtable.audit.recorder import RecordedDraw
from hushtable.privacy.mechanisms.cells import DomainMechanism
from hushtable.privacy.mechanisms.degree_mechanisms import HistogramCuts
from hushtable.privacy.mechanisms.mechanism import Gaussian, Laplace, RoundedGaussian
from hushtable.privacy.mechanisms.private_choice import TopChoices
from hushtable.privacy.mechanisms.row_replacement import RowReplacement
from hushtable.privacy.mechanisms.scored_splits import ScoreChoice, SplitChoice
from hushtable.privacy.mechanisms.single_counts import CountMechanism
from hushtable.privacy.noise.bit_reader import BitReader
from hushtable.privacy.noise.secure_noise import SecureNoise
from hushtable.privacy.noise.seeded_noise import SeededNoise

LAW_DRAWS = 20_000
"""Draws used to test the distribution of a mechanism for single counts."""

WAY_DRAWS = 1_000
"""Draws used to test the distribution of a choice among ways."""

TELLING = 0.1
"""Minimum change of some probability of a choice if its exponent is doubled: more than six
standard deviations of that many draws."""


class FaultError(Exception):
    """A fault found in a run."""


def check_sampler(draw: RecordedDraw) -> None:
    """Compare a draw with the exact sampler on the same words, if the mechanism is known here."""
    expected = _expected(draw)
    if expected is not None and not np.array_equal(expected, _numbers(draw.outcome)):
        raise FaultError(
            f"{type(draw.mechanism).__name__} ({draw.what}) deviates from its exact sampler"
        )


def _numbers(outcome: Any) -> Any:
    return np.asarray(outcome.noisy if hasattr(outcome, "noisy") else outcome).ravel()


def _expected(draw: RecordedDraw) -> Any:  # noqa: PLR0911 - one for each mechanism
    mechanism, exact = draw.mechanism, draw.exact
    stream = SeededNoise(draw.seed)
    reader = BitReader(stream._words)
    if isinstance(mechanism, ScoreChoice):
        mechanism, exact = TopChoices(mechanism.eta), exact._replace(most=1)
    if isinstance(mechanism, TopChoices):
        return _chosen(mechanism, exact, stream)
    if isinstance(mechanism, HistogramCuts):
        return _cut(mechanism, exact, stream)
    if isinstance(mechanism, RowReplacement):
        return _replaced(mechanism, exact, stream)
    if isinstance(mechanism, Laplace) and isinstance(exact, np.ndarray):
        a, b = mechanism.scale.numerator, mechanism.scale.denominator
        return exact.ravel() + [reader.laplace(a, b) for _ in range(exact.size)]
    if isinstance(mechanism, Gaussian) and isinstance(exact, np.ndarray):
        a, b = mechanism.variance.numerator, mechanism.variance.denominator
        scale = math.isqrt(a // b) + 1
        return exact.ravel() + [reader.gaussian(a, b, scale) for _ in range(exact.size)]
    if isinstance(mechanism, RoundedGaussian) and isinstance(exact, np.ndarray):
        a, b = mechanism.variance.numerator, mechanism.variance.denominator
        return exact.ravel() + [reader.rounded_gaussian(a, b) for _ in range(exact.size)]
    if isinstance(mechanism, DomainMechanism) and mechanism.threshold is None:
        full = np.zeros(mechanism.domain.size, np.int64)
        full[mechanism.domain.pack(exact.codes)[:, 0]] = exact.counts
        a, b = (1 / mechanism.rate).numerator, (1 / mechanism.rate).denominator
        return full + [reader.laplace(a, b) for _ in range(len(full))]
    return None


def _chosen(mechanism: TopChoices, exact: Any, noise: SeededNoise) -> list[int]:
    """Choose as recorded: each choice with its epsilon, among the remaining candidates."""
    values = np.asarray(exact.values, np.int64)
    kinds = (
        tuple(range(len(values)))
        if mechanism.exclusive_groups is None
        else mechanism.exclusive_groups
    )
    left, chosen = list(range(len(values))), list[int]()
    while left and len(chosen) < mechanism.k:
        place = left[
            noise.choose(
                values[left], epsilon=mechanism.epsilon, sensitivity=Fraction(exact.most),
                monotone=exact.monotone, rule=mechanism.rule,
            )
        ]  # fmt: skip
        if place >= len(kinds):  # stop
            break
        chosen.append(place)
        left = [at for at in left if at >= len(kinds) or kinds[at] != kinds[place]]
    return chosen


def _replaced(mechanism: RowReplacement, exact: Any, noise: SeededNoise) -> Any:
    """Replace rows as recorded; return the sorted codes of all rows."""
    codes = np.repeat(exact.codes, exact.counts, axis=0)
    others = np.flatnonzero(~noise.bernoulli(mechanism.retention, size=len(codes)))
    for place, size in enumerate(exact.domain.shape):
        codes[others, place] = noise.uniform_below(size, size=len(others))
    return np.array(sorted(codes.tolist()), np.int64).ravel()


def _cut(mechanism: HistogramCuts, exact: Any, noise: SeededNoise) -> list[int]:
    """Cut runs as recorded; return the ends of the resulting runs."""
    cut: list[int] = []
    for begin, end in mechanism.runs:
        run = exact[begin:end]
        if len(run) == 1:
            cut += [begin, end]
            continue
        scores = [int(min(run[:at].sum(), run[at:].sum())) for at in range(1, len(run))]
        place = noise.choose(scores, epsilon=mechanism.rate, sensitivity=Fraction(1), monotone=True)
        middle = begin + place + 1
        cut += [begin, middle, middle, end]
    return cut


def _law_of_ways(mechanism: SplitChoice, exact: Any, *, sharper: int = 1) -> Any:
    """Return the probability of each run of ways, from their number, weights and scores."""
    scores = np.concatenate([ways.scores for ways in exact]).astype(float)
    weights = np.concatenate(
        [ways.n_ways * float(weight) for ways, weight in zip(exact, mechanism.weights, strict=True)]
    )
    law = weights * np.exp(sharper * float(mechanism.eta) * (scores - scores.max()))
    return law / law.sum()


def is_telling(draw: RecordedDraw) -> bool:
    """Return whether a test of this choice would detect a doubled exponent."""
    laws = [_law_of_ways(draw.mechanism, draw.exact, sharper=by) for by in (1, 2)]
    return bool(np.abs(laws[0] - laws[1]).max() > TELLING)


def check_choices(draw: RecordedDraw, *, error: float) -> None:
    """Repeat a choice many times, and test the frequency of each run of ways."""
    exact, law, source = draw.exact, _law_of_ways(draw.mechanism, draw.exact), SecureNoise()
    starts = np.cumsum([0, *(len(ways.scores) for ways in exact)])
    hits = np.zeros(len(law), np.int64)
    for _ in range(WAY_DRAWS):
        which, way = draw.mechanism.draw(exact, source)
        run = int(np.searchsorted(exact[which].starts, way, side="right")) - 1
        hits[starts[which] + run] += 1
    for chance, n in zip(law, hits, strict=True):
        tally, share = EventTally(int(n), WAY_DRAWS), error / (2 * len(law))
        if not at_least(tally, error=share) <= chance + 1e-9 <= at_most(tally, error=share) + 2e-9:
            raise FaultError(
                f"{type(draw.mechanism).__name__} ({draw.what}) makes a choice in {n:,} of "
                f"{WAY_DRAWS:,} draws; expected {chance * WAY_DRAWS:,.1f}"
            )


def check_counts(mechanism: CountMechanism, *, error: float) -> None:
    """Check a mechanism for single counts: its exact probabilities, and draws against them."""
    k = getattr(mechanism, "k", 1)
    half = mechanism.release_count(0.5) if hasattr(mechanism, "k") else 5
    for fault in faults_of_count_mechanism(mechanism, range(max(0, k - 2), half + 8)):
        raise FaultError(fault)
    counts = sorted({max(0, k - 1), k, half, half + 3})
    for count in counts:
        mass = mechanism.mass(count)
        drawn = mechanism.noisy(np.full(LAW_DRAWS, count, np.int64), SecureNoise())
        for least in sorted({1, max(count, 1), half}):
            chance = sum(p for value, p in mass.items() if value >= least)
            tally = EventTally(int((drawn >= least).sum()), LAW_DRAWS)
            share = error / (6 * len(counts))
            if (
                not at_least(tally, error=share)
                <= chance + 1e-9
                <= at_most(tally, error=share) + 2e-9
            ):
                raise FaultError(
                    f"{type(mechanism).__name__} publishes at least {least} for {count} rows in "
                    f"{tally.hits:,} of {LAW_DRAWS:,} draws; expected {chance * LAW_DRAWS:,.1f}"
                )


def faults_of_count_mechanism(mechanism: CountMechanism, counts: Sequence[int]) -> Iterator[str]:
    """Yield counts at which a mechanism's exact probabilities violate its epsilon and delta.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from hushtable.privacy.mechanisms.single_counts import OneSidedGeometric
    >>> tight = OneSidedGeometric(epsilon=Fraction(1), delta=Fraction(1, 100), k=5)
    >>> list(faults_of_count_mechanism(tight, range(30)))
    []
    """
    epsilon, delta = float(mechanism.epsilon), float(getattr(mechanism, "delta", 0))
    for count in counts:
        masses = [mechanism.mass(count), mechanism.mass(count + 1)]
        for one, two in (masses, masses[::-1]):
            excess = sum(
                max(0.0, chance - math.exp(epsilon) * two.get(value, 0.0))
                for value, chance in one.items()
            )
            if excess > delta * (1 + 1e-9) + 1e-12:
                yield (
                    f"{type(mechanism).__name__} at {count} and {count + 1} rows needs a delta of "
                    f"{excess:.3g}; the promise is {delta:g}"
                )
