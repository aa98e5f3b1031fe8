"""Noise sources: the operating system, OpenDP, and a seed (for tests)."""

from __future__ import annotations

import hashlib
import math
import os
import threading
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hushtable import kernels
from hushtable.arrays import Integers
from hushtable.errors import ParameterError
from hushtable.extras import needing
from hushtable.privacy.noise.bit_reader import Words
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.samplers import (
    check_scale,
    check_variance,
    not_rate,
    not_whole,
    refuse_if,
)

# Secure noise for releases, from the operating system.


class SecureNoise(Noise):
    """Noise from the operating system's randomness, for releases.

    Every word is read from the operating system when it is needed. No key and no unused words are
    stored, so there is no state that threads could share, that a forked child or a restored
    snapshot could repeat, or that could be read later to recompute past noise.

    Examples
    --------
    >>> SecureNoise().is_private
    True
    """

    is_private = True

    def _words(self, n: int) -> Words:
        # A copy: some samplers write into their words.
        return np.frombuffer(os.urandom(8 * n), np.uint64).copy()


class OpenDPNoise(SecureNoise):
    """Noise from OpenDP where it has the distribution, otherwise from `SecureNoise`.

    OpenDP represents scales as floats. A scale that is not a float is rounded up to the next one,
    which only adds noise. `geometric` then uses the sampler of `SecureNoise` instead, because other
    code relies on its exact tail.

    OpenDP provides `discrete_laplace`, `discrete_gaussian`, `geometric` (the non-negative half of
    its Laplace distribution) and, in versions with a noisy max, `choose` without a base measure
    for scores in int64. A noisy max with exponential noise is permute-and-flip, and one with Gumbel
    noise is the exponential mechanism. OpenDP has no exact rounded normal noise, so
    `rounded_gaussian` is that of `SecureNoise`.
    """

    def __init__(self) -> None:
        with needing("opendp", "noise 'opendp'"):
            import opendp.prelude as dp  # noqa: PLC0415 - slow to import, and optional
        dp.enable_features("contrib")
        self._dp: Any = dp

    def discrete_laplace(self, scale: Fraction, *, size: int) -> Integers:
        """Draw from OpenDP's integer Laplace; see `Noise.discrete_laplace`."""
        check_scale(scale, size)
        return self._opendp_laplace(_float_at_least(scale), size)

    def discrete_gaussian(self, variance: Fraction, *, size: int) -> Integers:
        """Draw from OpenDP's integer Gaussian; see `Noise.discrete_gaussian`."""
        check_variance(variance, size)
        scale = _root_at_least(variance)
        space = self._dp.vector_domain(self._dp.atom_domain(T="i64")), self._dp.l2_distance(T="f64")
        return np.array(self._dp.m.make_gaussian(*space, scale)([0] * size), np.int64)

    def geometric(self, x: Fraction, *, size: int) -> Integers:
        """Draw from the non-negative half of OpenDP's Laplace; see `Noise.geometric`."""
        refuse_if(not_rate("x", x), not_whole("size", size))
        scale = _float_at_least(1 / Fraction(x))
        if Fraction(scale) * x != 1:
            return super().geometric(x, size=size)
        kept = np.empty(0, np.int64)
        while len(kept) < size:
            # P[z] ~ exp(-abs(z) x); given z >= 0 this is the geometric distribution.
            drawn = self._opendp_laplace(scale, 2 * (size - len(kept)) + 8)
            kept = np.concatenate((kept, drawn[drawn >= 0]))
        return kept[:size]

    def _opendp_laplace(self, scale: float, size: int) -> Integers:
        space = self._dp.vector_domain(self._dp.atom_domain(T="i64")), self._dp.l1_distance(T="i64")
        return np.array(self._dp.m.make_laplace(*space, scale)([0] * size), np.int64)

    def _exponential(self, gaps: NDArray[Any], factor: Fraction, base: list[int] | None) -> int:
        if self._has_noisy_max(gaps, base):
            return self._noisy_max(gaps, factor, self._dp.zero_concentrated_divergence())
        return super()._exponential(gaps, factor, base)

    def _permute_and_flip(
        self, gaps: NDArray[Any], factor: Fraction, base: list[int] | None
    ) -> int:
        if self._has_noisy_max(gaps, base):
            return self._noisy_max(gaps, factor, self._dp.max_divergence())
        return super()._permute_and_flip(gaps, factor, base)

    def _has_noisy_max(self, gaps: NDArray[Any], base: list[int] | None) -> bool:
        return base is None and gaps.dtype == np.int64 and hasattr(self._dp.m, "make_noisy_max")

    def _noisy_max(self, gaps: NDArray[Any], factor: Fraction, measure: Any) -> int:
        domain = self._dp.vector_domain(self._dp.atom_domain(T="i64"))
        metric = self._dp.linf_distance(T="i64")
        scale = _float_at_least(1 / factor)
        return int(self._dp.m.make_noisy_max(domain, metric, measure, scale)((-gaps).tolist()))


def _float_at_least(value: Fraction) -> float:
    rounded = float(value)
    return rounded if Fraction(rounded) >= value else math.nextafter(rounded, math.inf)


def _root_at_least(value: Fraction) -> float:
    root = math.sqrt(value)
    while Fraction(root) ** 2 < value:
        root = math.nextafter(root, math.inf)
    return root


# Noise sources by name.


def make_noise(noise: Literal["secure", "opendp"] | Noise = "secure") -> Noise:
    """Return the noise of that name, or the noise itself.

    Examples
    --------
    >>> make_noise("secure").is_private
    True
    """
    if isinstance(noise, Noise):
        return noise
    if noise == "secure":
        return SecureNoise()
    if noise == "opendp":
        return OpenDPNoise()
    raise ParameterError(f"noise: {noise!r} is unknown. Use 'secure', 'opendp' or a Noise.")


# Reproducible noise for tests; its results are not private.


class SeededNoise(Noise):
    """Noise that is reproducible from a seed: for tests only, never private.

    The algorithms are those of `SecureNoise`, on a ChaCha20 keystream whose key is derived from the
    seed. Threads may share an instance, but then the order of their draws is not reproducible.

    Examples
    --------
    >>> one, two = SeededNoise(7), SeededNoise(7)
    >>> bool((one.uniform_below(100, size=9) == two.uniform_below(100, size=9)).all())
    True
    >>> one.is_private
    False
    """

    is_private = False

    def __init__(self, seed: int) -> None:
        refuse_if(not_whole("seed", seed, low=None))
        key = hashlib.blake2b(str(seed).encode(), digest_size=32, person=b"hushtable seed")
        self._key = np.frombuffer(key.digest(), "<u4").astype(np.uint32)
        self._n_read = 0
        self._lock = threading.Lock()

    def _words(self, n: int) -> Words:
        words = np.empty(n, np.uint64)
        with self._lock:
            begin, self._n_read = self._n_read, self._n_read + n
        kernels.samplers.fill_words(self._key, begin, words)
        return words
