"""Noise from few seeds, floats, truncated tails or another generator."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction
from typing import Any

import numpy as np

from audit.broken.kind import Broken, Patch, around
from hushtable.methods import ContingencyTable, DiffGen, NoisyCounts, Partition, Quilt
from hushtable.methods.base import Released
from hushtable.methods.counts.noisy_counts import NoisyCountsPlan
from hushtable.methods.degrees.degrees import Degrees
from hushtable.methods.diffgen.contingency_table import ContingencyTablePlan
from hushtable.methods.quilt.quilt import QuiltPlan
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.sources import SecureNoise, SeededNoise

TABLE = ContingencyTable(epsilon=1)
PURE = NoisyCounts(epsilon=1, mechanism="pure")


def clipped(patch: Patch) -> None:
    """Noise truncated at six scales."""
    real = Noise.discrete_laplace

    def draw(self: Noise, scale: Fraction, *, size: int) -> Any:
        most = int(6 * scale)
        return np.clip(real(self, scale, size=size), -most, most)

    patch.setattr(Noise, "discrete_laplace", draw)


def clipped_gaussian(patch: Patch) -> None:
    for name in ("discrete_gaussian", "rounded_gaussian"):
        real = getattr(Noise, name)

        def draw(self: Noise, variance: Fraction, *, size: int, real: Any = real) -> Any:
            most = int(4 * math.isqrt(math.ceil(variance)) + 1)
            return np.clip(real(self, variance, size=size), -most, most)

        patch.setattr(Noise, name, draw)


def _uniform(noise: Noise, size: int) -> Any:
    return (noise.uniform_below(1 << 53, size=size) + 0.5) / (1 << 53)


def rounded_laplace(patch: Patch) -> None:
    def draw(self: Noise, scale: Fraction, *, size: int) -> Any:
        u = _uniform(self, 2 * size)
        x = float(scale) * (np.log(u[:size]) - np.log(u[size:]))
        return np.rint(x).astype(np.int64)

    patch.setattr(Noise, "discrete_laplace", draw)


def geometric_of_floats(patch: Patch) -> None:
    """Probabilities that are right except for rounding."""

    def draw(self: Noise, scale: Fraction, *, size: int) -> Any:
        u = _uniform(self, 2 * size)
        drawn = np.floor(-float(scale) * np.log(u)).astype(np.int64)
        return drawn[:size] - drawn[size:]

    patch.setattr(Noise, "discrete_laplace", draw)


def rounded_gaussian(patch: Patch) -> None:
    def draw(self: Noise, variance: Fraction, *, size: int) -> Any:
        u = _uniform(self, 2 * size)
        z = np.sqrt(-2 * np.log(u[:size])) * np.cos(2 * math.pi * u[size:])
        return np.rint(math.sqrt(variance) * z).astype(np.int64)

    patch.setattr(Noise, "discrete_gaussian", draw)
    patch.setattr(Noise, "rounded_gaussian", draw)


def geometric_off_by_one(patch: Patch) -> None:
    real = Noise.geometric
    patch.setattr(
        Noise, "geometric", lambda self, x, *, size: np.maximum(real(self, x, size=size) - 1, 0)
    )


def sharp_choices(patch: Patch) -> None:
    """The exponent of a choice without its factor of 1/2."""
    patch.setattr(
        "hushtable.privacy.noise.samplers.exponent_per_score",
        lambda epsilon, sensitivity, monotone: Fraction(epsilon) / sensitivity,
    )


def few_seeds(patch: Patch) -> None:
    """A key of 16 bits for every request."""

    def words(self: Any, n: int) -> Any:
        seed = int.from_bytes(np.random.default_rng().bytes(2), "little")
        return SeededNoise(seed)._words(n)

    patch.setattr(SecureNoise, "_words", words)


def kept_state(patch: Patch) -> None:
    """A stream with one key, which a forked child continues."""
    stream = SeededNoise(random.SystemRandom().getrandbits(256))
    patch.setattr(SecureNoise, "_words", lambda self, n: stream._words(n))


def same_start(patch: Patch) -> None:
    """Sources that all start from the same counter."""
    numbers = itertools.count()

    def words(self: Any, n: int) -> Any:
        if "_own" not in self.__dict__:
            self.__dict__["_own"] = SeededNoise(next(numbers) % 256)
        return self.__dict__["_own"]._words(n)

    patch.setattr(SecureNoise, "_words", words)


def biased_words(patch: Patch) -> None:
    real = SecureNoise._words

    def words(self: Any, n: int) -> Any:
        drawn = real(self, n)
        return drawn & ~(drawn >> np.uint64(1) & np.uint64(1 << 7))

    patch.setattr(SecureNoise, "_words", words)


def seed_of_16_bits(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    return real(plan, source, SeededNoise(int(noise.uniform_below(1 << 16, size=1)[0])))


def one_seed(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    return real(plan, source, SeededNoise(2012))


class _NumpyNoise(SecureNoise):
    """Laplace noise of another library."""

    def discrete_laplace(self, scale: Fraction, *, size: int) -> Any:
        return np.rint(np.random.default_rng().laplace(0, float(scale), size)).astype(np.int64)


class _StandardNoise(SecureNoise):
    """Laplace noise of the standard library, with a seed from the noise layer."""

    def discrete_laplace(self, scale: Fraction, *, size: int) -> Any:
        own = random.Random(  # noqa: S311 - the mistake itself
            int(self.uniform_below(1 << 62, size=1)[0])
        )
        drawn = [own.expovariate(1 / scale) - own.expovariate(1 / scale) for _ in range(size)]
        return np.array([round(x) for x in drawn], np.int64)


def noise_of_numpy(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    return real(plan, source, _NumpyNoise())


def noise_of_the_library(real: Any, plan: Any, source: Any, noise: Any) -> Released:
    other = _StandardNoise()
    other._words = noise._words
    return real(plan, source, other)


GAUSSIAN = Quilt(epsilon=1, delta="1e-6", particles=1000)
CONCENTRATED = Quilt(epsilon=1, delta="1e-6", particles=1000, accounting="concentrated")

BROKEN = (
    Broken("noise clipped at 6 scales", TABLE, clipped, True),
    Broken("Gaussian noise clipped", GAUSSIAN, clipped_gaussian),
    Broken("discrete Gaussian noise clipped", CONCENTRATED, clipped_gaussian),
    Broken("a rounded float sampler", PURE, rounded_laplace, True),
    Broken("geometric numbers of floats", Partition(epsilon=1, max_depth=2), geometric_of_floats),
    Broken("a rounded Gaussian of floats", GAUSSIAN, rounded_gaussian),
    Broken("a rounded Gaussian for a discrete one", CONCENTRATED, rounded_gaussian),
    Broken("geometric numbers one too low", NoisyCounts(epsilon=1, delta="1/100", k=5),
           geometric_off_by_one),
    Broken("choices without the factor of two", DiffGen(epsilon=1, specializations=1),
           sharp_choices),
    Broken("words from keys of 16 bits", TABLE, few_seeds, True),
    Broken("a stream that a fork repeats", Degrees(epsilon=1, max_degree=2), kept_state),
    Broken("sources that start alike", PURE, same_start),
    Broken("a bit that is rarely set", TABLE, biased_words),
    Broken("all noise from a seed of 16 bits", TABLE,
           around(ContingencyTablePlan, seed_of_16_bits), True),
    Broken("all noise of noisy counts from a seed of 16 bits", PURE,
           around(NoisyCountsPlan, seed_of_16_bits)),
    Broken("one seed for all", Quilt(epsilon=1, particles=1000), around(QuiltPlan, one_seed)),
    Broken("noise of another library", TABLE, around(ContingencyTablePlan, noise_of_numpy), True),
    Broken("noise of the standard library", PURE, around(NoisyCountsPlan, noise_of_the_library)),
)  # fmt: skip
