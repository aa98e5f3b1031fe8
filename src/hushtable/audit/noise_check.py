"""Tests of the noise source: fresh random words and exact samplers.

These tests do not run the method. Words are compared with each other: a seed with few bits, or a
state that a later run or a forked child repeats, produces equal words. Samplers are compared draw
by draw with `hushtable.privacy.noise.bit_reader` on the same words: a sampler that rounds or clips
deviates. Noise sources other than `SecureNoise` and `SeededNoise` may use words differently: if
their draws deviate, their distribution is tested with Clopper-Pearson intervals, out to tail
probabilities of 1 in 10,000, and Laplace and geometric draws must be able to exceed `FARTHEST`
scales.
"""

from __future__ import annotations

import datetime
import hashlib
import itertools
import math
import os
import random
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hushtable import kernels
from hushtable.audit.bounds import EventTally, fits
from hushtable.audit.report import Finding
from hushtable.privacy.noise import sources
from hushtable.privacy.noise.bit_reader import DIGIT_BITS, BitReader, Words
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.sources import SecureNoise, SeededNoise

PROMISE = (
    "All randomness comes from the noise layer: fresh random words of the operating system, and "
    "exact samplers."
)

SHORT, LONG = 1 << 15, 1 << 12
"""Numbers of requests, of 2 words and of 40 words, that are compared with each other."""

MANY = 1 << 19
"""Requests, and new sources, of other classes: keys of 32 bits repeat, with probability 1-1e-13."""

WORD_BITS = 27
"""Bits of seeds that `SHORT` requests repeat with near certainty; 35 for `MANY`."""

LONG_WORDS = 1 << 23
"""Length of a stream in which no word may repeat."""

DRAWS, FEW_DRAWS = 400, 8
"""Draws that are compared individually, for each sampler and fixed or random parameter."""

RANDOM_PARAMETERS = 40
"""Random parameters of each sampler."""

FAR_DRAWS = 1 << 18
"""Draws compared with the compiled samplers; the largest are about 4.6 standard deviations."""

_FAR_WORDS = 4
"""Words per draw; a draw needs two to four."""

LAW_DRAWS = 1 << 18
"""Draws used to test the distribution of other samplers."""

FARTHEST = 40
"""Number of noise scales that an exact sampler can exceed.

A sampler that inverts a uniform double cannot: -ln(2**-53) is 36.7.
"""

LAPLACE = (Fraction(1), Fraction(7, 2), Fraction(20))
GAUSSIAN = (Fraction(1), Fraction(9, 2), Fraction(100))
GEOMETRIC = (Fraction(1), Fraction(1, 7))
PROBABILITIES = (Fraction(1, 3), Fraction(7, 1000))
BELOW = (5, 1000)

Draw = Callable[[Noise, int], NDArray[Any]]


@dataclass(frozen=True)
class Sampler:
    """A sampler with its parameter and its exact reference."""

    name: str
    draw: Draw  # draws this many numbers
    exact: Callable[[BitReader], int]  # reads the same draws from words, one by one
    reaches: Callable[[int], float]  # probability of an absolute value of at least this much
    scale: float = 1.0  # scale or standard deviation, in which the range of the tail is measured


def samplers() -> Iterator[Sampler]:
    """Yield the samplers of the noise layer."""
    yield from map(_laplace, LAPLACE)
    yield from map(_geometric, GEOMETRIC)
    for variance in GAUSSIAN:
        yield _gaussian(variance)
        yield _rounded_gaussian(variance)
    yield from map(_bernoulli, PROBABILITIES)
    yield from map(_uniform, BELOW)


def random_samplers() -> Iterator[Sampler]:
    """Yield samplers with random parameters: of all sizes, with short and long denominators."""
    chance = random.Random(1)  # noqa: S311 - parameters, not noise
    for number in range(RANDOM_PARAMETERS):
        # From 1 to 70 bits: beyond 62 bits, samplers use Python integers.
        a, b = (chance.getrandbits(chance.randint(1, 70)) | 1 for _ in range(2))
        scale = Fraction(a, b) if a < b << 30 else Fraction(a % (b << 30) + 1, b)
        rate = Fraction(a, b) if number % 2 else Fraction(chance.randint(1, 200))
        yield _laplace(scale)
        yield _geometric(max(rate, Fraction(1, 1 << 30)))
        yield _gaussian(scale)
        yield _rounded_gaussian(scale)
        yield _bernoulli(Fraction(a % b, b))
        yield _uniform(chance.getrandbits(chance.randint(1, 61)) + 1)


def _laplace(scale: Fraction) -> Sampler:
    return Sampler(
        f"discrete_laplace of scale {scale}",
        lambda noise, n: noise.discrete_laplace(scale, size=n),
        lambda reader: reader.laplace(scale.numerator, scale.denominator),
        lambda t: 2 * math.exp(-t / scale) / (1 + math.exp(-1 / scale)),
        float(scale),
    )


def _geometric(rate: Fraction) -> Sampler:
    return Sampler(
        f"geometric of rate {rate}",
        lambda noise, n: noise.geometric(rate, size=n),
        lambda reader: reader.geometric(rate.numerator, rate.denominator),
        lambda t: math.exp(-rate * t),
        float(1 / rate),
    )


def _gaussian(variance: Fraction) -> Sampler:
    a, b = variance.numerator, variance.denominator
    return Sampler(
        f"discrete_gaussian of variance {variance}",
        lambda noise, n: noise.discrete_gaussian(variance, size=n),
        lambda reader: reader.gaussian(a, b, math.isqrt(a // b) + 1),
        lambda t: _gaussian_tail(float(variance), t),
        math.sqrt(variance),
    )


def _rounded_gaussian(variance: Fraction) -> Sampler:
    return Sampler(
        f"rounded_gaussian of variance {variance}",
        lambda noise, n: noise.rounded_gaussian(variance, size=n),
        lambda reader: reader.rounded_gaussian(variance.numerator, variance.denominator),
        lambda t: math.erfc((t - 0.5) / math.sqrt(2 * variance)) if t > 0 else 1.0,
        math.sqrt(variance),
    )


def _bernoulli(p: Fraction) -> Sampler:
    return Sampler(
        f"bernoulli of {p}",
        lambda noise, n: noise.bernoulli(p, size=n).astype(np.int64),
        lambda reader: int(Fraction(reader.take(64), 1 << 64) < p),
        lambda t: float(p) if t == 1 else 0.0,
    )


def _uniform(n_values: int) -> Sampler:
    return Sampler(
        f"uniform_below {n_values}",
        lambda noise, n: noise.uniform_below(n_values, size=n),
        lambda reader: reader.below(n_values),
        lambda t: max(0.0, 1 - t / n_values),
    )


def _gaussian_tail(variance: float, t: int) -> float:
    most = math.ceil(12 * math.sqrt(variance)) + 2
    masses = {z: math.exp(-z * z / (2 * variance)) for z in range(-most, most + 1)}
    return sum(mass for z, mass in masses.items() if abs(z) >= t) / sum(masses.values())


def checked(noise: Noise, *, error: float) -> Finding:
    """Test the words and samplers of a noise source; false alarm probability at most `error`."""
    problems = [*_repeats(noise), *_uneven(noise, error=error / 2)]
    departed = [sampler for sampler in samplers() if not is_exact(sampler, noise)]
    own = type(noise) in {SecureNoise, SeededNoise}
    if own and not departed:
        others = random_samplers()
        departed += [s for s in others if not is_exact(s, noise, n_draws=FEW_DRAWS)][:1]
    departed += [sampler for sampler in _tails() if not is_exact_far_out(sampler, noise)]
    for sampler in departed:
        if own:
            problems.append(f"{sampler.name} deviates from the exact sampler on the same words")
        else:
            problems += _unlawful(sampler, noise, error=error / (2 * len(departed)))
    problems += _choices(noise, error=error / 4)
    if problems:
        return Finding(promise=PROMISE, verdict="VIOLATION", notes=(*(f"{p}." for p in problems),))
    seen = (
        "any deviation from the exact samplers"
        if own or not departed
        else "tails that end before a probability of 1 in 10,000, or before 40 scales"
    )
    return Finding(
        promise=PROMISE,
        verdict="NO VIOLATION FOUND",
        would_see=f"{seen}, words from seeds of up to {WORD_BITS} bits",
        about_runs=False,
    )


# --- words ----------------------------------------------------------------------------------------


def _repeats(noise: Noise) -> Iterator[str]:
    """Yield problems with repeated words: in one source, in another of its kind, after a fork."""
    fresh: Callable[[], Noise] = (lambda: noise) if isinstance(noise, SeededNoise) else type(noise)
    yield from _not_of_the_system(noise)
    # The words of `SecureNoise` were compared with those of the system. Others may have short keys.
    times = SHORT if isinstance(noise, SeededNoise) or type(noise) is SecureNoise else MANY
    for n_words, most in ((2, times), (40, LONG)):
        seen = np.stack([noise._words(n_words)[:2] for _ in range(most)])
        if n_repeated(seen):
            yield f"of {most:,} requests of {n_words} words, {n_repeated(seen):,} repeat another"
    others = np.stack([fresh()._words(2) for _ in range(times)])
    if n_repeated(others):
        yield f"of {times:,} new sources, {n_repeated(others):,} start with the words of another"
    marked = np.concatenate([_marked(noise._words(n)) for n in _requests()])
    if n_repeated(marked):
        yield f"a stream of {sum(_requests()):,} words repeats some of them"
    if not hasattr(os, "fork") or isinstance(noise, SeededNoise):  # seeded noise repeats by design
        return
    if _words_of_a_child(noise) == noise._words(4).tobytes():
        yield "a forked child draws the same words as its parent"
    if _words_of_a_child(noise, at_noon=True) == _words_of_a_child(noise, at_noon=True):
        yield "two processes with the same process ID and clock time draw the same words"


def _requests() -> Iterator[int]:
    """Yield sizes of requests: many small ones, then large ones."""
    yield from itertools.islice(itertools.cycle((2, 5, 17, 80)), SHORT)
    yield from itertools.repeat(1 << 16, LONG_WORDS >> 16)


def _marked(words: Words) -> Words:
    """Return the pairs of words that start with one that ends in eight zeros.

    A repeated stretch repeats its marked pairs; other pairs are equal with probability 2**-120.
    """
    places = np.flatnonzero((words[:-1] & np.uint64(255)) == 0)
    return np.stack((words[places], words[places + 1]), axis=1)


def _not_of_the_system(noise: Noise) -> Iterator[str]:
    """Yield a problem if words of `SecureNoise` are not those that the system supplies meanwhile.

    Its documentation promises this: a stored key or pool could be repeated, or read later. The
    system's function stays in use; only what it returns to this thread is recorded.
    """
    if type(noise) is not SecureNoise:
        return
    system: Any = vars(sources)["os"]  # the module, or what tests put in its place
    real, mine, supplied = system.urandom, threading.get_ident(), bytearray()

    def recording(n: int) -> bytes:
        drawn: bytes = real(n)
        if threading.get_ident() == mine:
            supplied.extend(drawn)
        return drawn

    system.urandom = recording
    try:
        for n in (1, 2, 3, 40, 1000, 1 << 17):
            for source in (noise, type(noise)()):
                supplied.clear()
                if source._words(n).tobytes() != bytes(supplied):
                    yield f"a request of {n:,} words does not return words of the operating system"
                    return
    finally:
        system.urandom = real


def n_repeated(words: NDArray[np.uint64]) -> int:
    """Return the number of rows that repeat an earlier row.

    Examples
    --------
    >>> n_repeated(np.array([[1, 2], [3, 4], [1, 2]], np.uint64))
    1
    """
    return len(words) - len(np.unique(words, axis=0))


def _words_of_a_child(noise: Noise, *, at_noon: bool = False) -> bytes:
    """Fork, and return the first words that the child draws.

    With `at_noon`, its clocks are stopped and its process ID is replaced.
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child only draws words
        child = os.fork()
    if child == 0:
        try:
            if at_noon:
                _stop_clocks()
            os.write(writing, noise._words(4).tobytes())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as theirs:
        words = theirs.read()
    os.waitpid(child, 0)
    return words


_NOON = 1_600_000_000
_CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")


def _stop_clocks() -> None:
    """Stop all clocks of this process, and replace its process ID."""
    for name in _CLOCKS:
        setattr(time, name, lambda: float(_NOON))
        setattr(time, f"{name}_ns", lambda: _NOON * 10**9)

    class Noon(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Self:
            return cls.fromtimestamp(_NOON, tz)

    datetime.datetime = Noon  # type: ignore[misc]
    os.getpid = os.getppid = lambda: 1


def _uneven(noise: Noise, *, error: float) -> Iterator[str]:
    """Yield problems with biased bits."""
    n = 1 << 15
    words = noise._words(n)
    for bit in range(64):
        hits = int(((words >> np.uint64(bit)) & np.uint64(1)).sum())
        if not fits(EventTally(hits, n), 0.5, error=error / 128):
            yield f"bit {bit} of {n:,} words is 1 in {hits:,} of them"


# --- samplers -------------------------------------------------------------------------------------


def driven(noise: Noise, words: Words) -> Noise:
    """Return the noise with these words as its source; after the last it raises EOFError."""
    place = [0]

    def read(n: int) -> Words:
        start, place[0] = place[0], place[0] + n
        if place[0] > len(words):
            raise EOFError("no more words")
        return words[start : place[0]].copy()

    return noise.with_words(read)


def _made_words(n: int, label: str) -> Words:
    raw = hashlib.shake_256(f"words for {label}".encode()).digest(8 * n)
    return np.frombuffer(raw, "<u8").astype(np.uint64)


def is_exact(sampler: Sampler, noise: Noise, *, n_draws: int = DRAWS) -> bool:
    """Return whether a sampler's draws equal the exact ones on the same words.

    Examples
    --------
    >>> all(is_exact(sampler, SeededNoise(1)) for sampler in samplers())
    True
    """
    words = _made_words(1 << 16, sampler.name)
    place = [0]

    def take(n: int) -> Words:
        place[0] += n
        return words[place[0] - n : place[0]]

    reader = BitReader(take)
    exact = [sampler.exact(reader) for _ in range(n_draws)]
    try:
        drawn = sampler.draw(driven(noise, words), n_draws)
    except EOFError:
        return False
    return bool(exact == np.asarray(drawn).tolist())


def _tails() -> Iterator[Sampler]:
    """Yield samplers with wide noise."""
    yield _laplace(LAPLACE[-1])
    yield _gaussian(GAUSSIAN[-1])
    yield _rounded_gaussian(GAUSSIAN[-1])


def is_exact_far_out(sampler: Sampler, noise: Noise) -> bool:
    """Return whether many draws, including tails, equal those of the compiled sampler.

    `is_exact` and the tests of `kernels` check that the compiled samplers are exact.

    Examples
    --------
    >>> all(is_exact_far_out(sampler, SeededNoise(1)) for sampler in _tails())
    True
    """
    words, drawn = _made_words(_FAR_WORDS * FAR_DRAWS, sampler.name), np.empty(FAR_DRAWS, np.int64)
    state = np.zeros(4, np.uint64)
    if sampler.name.startswith("discrete_laplace"):
        scale = LAPLACE[-1]
        done = kernels.samplers.fill_laplace(
            scale.numerator, scale.denominator, drawn, 0, words, state
        )
    elif sampler.name.startswith("rounded_gaussian"):
        sigma = math.sqrt(GAUSSIAN[-1])
        done = kernels.samplers.fill_rounded_gaussian(sigma, DIGIT_BITS, drawn, 0, words, state)
    else:
        a, b = GAUSSIAN[-1].numerator, GAUSSIAN[-1].denominator
        root = math.isqrt(a // b) + 1
        over = 2 * a * b * root * root
        halves = np.uint64(over >> 64), np.uint64(over & (1 << 64) - 1)
        done = kernels.samplers.fill_gaussian(a, b, root, *halves, drawn, 0, words, state)
    try:
        theirs = sampler.draw(driven(noise, words), done - 1000)
    except EOFError:
        return False
    return bool(np.array_equal(np.asarray(theirs), drawn[: done - 1000]))


def _unlawful(sampler: Sampler, noise: Noise, *, error: float) -> Iterator[str]:
    """Yield problems with the distribution of a sampler, and with its range."""
    if sampler.name.startswith(("discrete_laplace", "geometric")):
        reached = farthest(sampler, noise)
        if reached < FARTHEST * sampler.scale:
            yield (
                f"{sampler.name} reaches at most {reached / sampler.scale:.1f} scales, whatever "
                f"words it reads; an exact sampler exceeds {FARTHEST}"
            )
    drawn = np.abs(np.asarray(sampler.draw(noise, LAW_DRAWS), np.int64))
    steps = [t for t in range(1, math.ceil(12 * sampler.scale) + 1)
             if sampler.reaches(t) >= 1e-4]  # fmt: skip
    for t in steps[:: max(1, len(steps) // 24)] + steps[-1:]:
        tally = EventTally(int((drawn >= t).sum()), LAW_DRAWS)
        if not fits(tally, sampler.reaches(t), error=error / 64):
            yield (
                f"{sampler.name} reaches {t} in {tally.hits:,} of {LAW_DRAWS:,} draws; expected "
                f"{sampler.reaches(t) * LAW_DRAWS:,.1f}"
            )
            return


def farthest(sampler: Sampler, noise: Noise) -> int:
    """Return the largest number that a sampler draws from highly regular words.

    Examples
    --------
    >>> laplace = next(samplers())
    >>> farthest(laplace, SeededNoise(1)) > FARTHEST
    True
    """
    most = 0
    for pattern in _PATTERNS:
        # Some regular words, then random ones, so that every sampler terminates.
        for length in (1, 8, 64, 512):
            words = np.concatenate(
                (np.resize(np.array(pattern, np.uint64), length),
                 _made_words(1 << 14, f"{pattern} {length}"))
            )  # fmt: skip
            try:
                drawn = sampler.draw(driven(noise, words), 2)
            except EOFError:
                continue
            most = max(most, int(np.abs(np.asarray(drawn, np.int64)).max()))
    return most


_ALL = (1 << 64) - 1
_PATTERNS = (
    (0,), (_ALL,), (0, _ALL), (0x5555555555555555,), (0xAAAAAAAAAAAAAAAA,), (1,), (1 << 63,),
    (0x9249249249249249, 0x4924924924924924, 0x2492492492492492),
    (0x6DB6DB6DB6DB6DB6, 0xB6DB6DB6DB6DB6DB, 0xDB6DB6DB6DB6DB6D),
)  # fmt: skip


CHOICES = 2_000
"""Private choices used to test their distribution."""


def _choices(noise: Noise, *, error: float) -> Iterator[str]:
    """Yield problems with the distribution of private choices (exponential mechanism)."""
    scores, epsilon = [0, 1, 4], Fraction(1)
    for monotone in (True, False):
        factor = 1.0 if monotone else 0.5
        weights = np.exp(factor * np.array(scores))
        chances = weights / weights.sum()
        drawn = np.bincount(
            [noise.choose(scores, epsilon=epsilon, sensitivity=Fraction(1), monotone=monotone)
             for _ in range(CHOICES)],
            minlength=len(scores),
        )  # fmt: skip
        for place, chance in enumerate(chances):
            tally = EventTally(int(drawn[place]), CHOICES)
            if not fits(tally, chance, error=error / 12):
                yield (
                    f"choose selects candidate {place} in {tally.hits:,} of {CHOICES:,} draws; "
                    f"expected {chance * CHOICES:,.1f}"
                )
                return
