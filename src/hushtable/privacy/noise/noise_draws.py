"""Samplers of noise for counts: geometric, discrete Laplace, discrete and rounded Gaussian."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from hushtable import kernels
from hushtable.arrays import Integers
from hushtable.privacy.noise.arguments import not_fraction, not_whole, refuse_if
from hushtable.privacy.noise.bit_reader import DIGIT_BITS, KERNEL_LIMIT, BitReader
from hushtable.privacy.noise.random_words import RandomWords

MAX_SCALE = 2**50
"""Noise of a larger scale might exceed int64."""


class CountNoiseSampler(RandomWords):
    """Samplers of integer noise."""

    def geometric(self, x: Fraction, *, size: int) -> Integers:
        """Draw `size` integers g >= 0 with P[g] = (1 - exp(-x)) * exp(-x * g), x > 0.

        The time per draw does not depend on x.

        Examples
        --------
        >>> from hushtable import SecureNoise
        >>> SecureNoise().geometric(Fraction(10**6), size=3)
        array([0, 0, 0])
        """
        refuse_if(not_rate("x", x), not_whole("size", size))
        bits = 2 * x.denominator.bit_length() + 16
        return self._draw(
            kernels.samplers.fill_geometric, BitReader.geometric, x, size=size, bits_per_draw=bits
        )

    def discrete_laplace(self, scale: Fraction, *, size: int) -> Integers:
        """Draw `size` integers z with P[z] proportional to exp(-abs(z) / scale).

        Added to counts with L1 sensitivity `sensitivity`, a scale of sensitivity/epsilon gives
        epsilon-differential privacy.

        Examples
        --------
        >>> from hushtable import SecureNoise
        >>> SecureNoise().discrete_laplace(Fraction(10), size=5).dtype
        dtype('int64')
        """
        refuse_if(
            not_fraction("scale", scale, positive=True, high=MAX_SCALE), not_whole("size", size)
        )
        bits = 2 * scale.numerator.bit_length() + 24
        return self._draw(
            kernels.samplers.fill_laplace, BitReader.laplace, scale, size=size, bits_per_draw=bits
        )

    def _draw(
        self,
        kernel: Callable[..., int],
        slow: Callable[[BitReader, int, int], int],
        parameter: Fraction,
        *,
        size: int,
        bits_per_draw: int,
    ) -> Integers:
        numerator, denominator = parameter.numerator, parameter.denominator
        if max(numerator, denominator) >= KERNEL_LIMIT:
            reader = self._reader()
            drawn = (slow(reader, numerator, denominator) for _ in range(size))
            return np.fromiter(drawn, np.int64, size)
        out = np.empty(size, np.int64)
        self._fill(kernel, (numerator, denominator), out, bits_per_draw=bits_per_draw)
        return out

    def discrete_gaussian(self, variance: Fraction, *, size: int) -> Integers:
        """Draw `size` integers z with P[z] proportional to exp(-z**2 / (2 * variance)).

        `variance` is the parameter of the distribution; for small values the true variance is
        smaller. A variance with a long denominator needs Python integers, which are some hundred
        times slower; round it up to a simple fraction to avoid this.

        Examples
        --------
        >>> from hushtable import SecureNoise
        >>> SecureNoise().discrete_gaussian(Fraction(9, 2), size=5).dtype
        dtype('int64')
        """
        refuse_if(
            not_fraction("variance", variance, positive=True, high=MAX_SCALE**2),
            not_whole("size", size),
        )
        a, b = variance.numerator, variance.denominator
        scale = math.isqrt(a // b) + 1
        over = 2 * a * b * scale * scale
        # The kernel squares |z| * scale * b - a; |z| < 2**12 * scale except with prob. e**-4096.
        if (scale * scale * b << 12) + a >= 1 << 63 or over >= 1 << 126:
            reader = self._reader()
            drawn = (reader.gaussian(a, b, scale) for _ in range(size))
            return np.fromiter(drawn, np.int64, size)
        out = np.empty(size, np.int64)
        words_of_over = np.uint64(over >> 64), np.uint64(over & (1 << 64) - 1)
        bits = 3 * scale.bit_length() + 48
        self._fill(
            kernels.samplers.fill_gaussian, (a, b, scale, *words_of_over), out, bits_per_draw=bits
        )
        return out

    def rounded_gaussian(self, variance: Fraction, *, size: int) -> Integers:
        """Draw `size` normal numbers of this variance, each rounded to the nearest integer.

        P[z] is Phi((z + 1/2) / sigma) - Phi((z - 1/2) / sigma). Added to integers, this is the
        Gaussian mechanism with its result rounded. The true variance is larger by 1/12, or by less
        if the standard deviation is below a half.

        Examples
        --------
        >>> from hushtable import SecureNoise
        >>> SecureNoise().rounded_gaussian(Fraction(9, 2), size=5).dtype
        dtype('int64')
        """
        refuse_if(
            not_fraction("variance", variance, positive=True, high=MAX_SCALE**2),
            not_whole("size", size),
        )
        a, b = variance.numerator, variance.denominator
        out = np.empty(size, np.int64)
        self._fill(
            kernels.samplers.fill_rounded_gaussian, (math.sqrt(a / b), DIGIT_BITS), out,
            bits_per_draw=240, undecided=lambda reader: reader.rounded_gaussian(a, b),
        )  # fmt: skip
        return out


def not_rate(name: str, value: Fraction) -> str | None:
    """Return what is wrong with the rate of a geometric distribution, or None."""
    problem = not_fraction(name, value, positive=True)
    if problem is None and value * MAX_SCALE < 1:
        return f"{name}: {value} is below 1/{MAX_SCALE}; draws might not fit an int64."
    return problem
