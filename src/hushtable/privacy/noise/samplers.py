"""Exact samplers: Bernoulli variables, random subsets and indexes, and noise for counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtable import kernels
from hushtable.arrays import Bools, Integers
from hushtable.errors import ParameterError, TooLarge
from hushtable.privacy.noise.bit_reader import DIGIT_BITS, KERNEL_LIMIT, BitReader, Words
from hushtable.privacy.noise.random_words import (
    RandomWords,
    as_integers,
    not_fraction,
    not_whole,
    refuse_if,
)

MAX_TRIALS = 10**12
"""Limit of n for `subset`; n = 1e9 takes some 0.7 s."""


class BernoulliSampler(RandomWords):
    """Bernoulli samplers for probabilities p and exp(-x), p and x fractions."""

    def bernoulli(self, p: Fraction, *, size: int) -> Bools:
        """Draw `size` booleans that are True with probability p, any fraction from 0 to 1.

        Examples
        --------
        >>> from hushtable import SecureNoise
        >>> SecureNoise().bernoulli(Fraction(1), size=3)
        array([ True,  True,  True])
        """
        refuse_if(not_fraction("p", p, high=1), not_whole("size", size))
        if p == 1:
            return np.ones(size, np.bool_)
        digits, rest = divmod(p.numerator << 64, p.denominator)
        threshold = np.uint64(digits)
        out = np.empty(size, np.bool_)
        for begin in range(0, size, self._chunk):
            part = out[begin : begin + self._chunk]
            words = self._words(len(part))
            np.less(words, threshold, out=part)
            # All 64 bits agree with those of p: compare later digits.
            for i in np.flatnonzero(words == threshold):
                part[i] = self._reader().bernoulli(rest, p.denominator)
        return out

    def bernoulli_exp(self, x: Fraction, *, size: int) -> Bools:
        """Draw `size` booleans that are True with probability exp(-x), x >= 0.

        Examples
        --------
        >>> from hushtable import SecureNoise
        >>> SecureNoise().bernoulli_exp(Fraction(0), size=2)
        array([ True,  True])
        """
        refuse_if(not_fraction("x", x), not_whole("size", size))
        fits = x.numerator < KERNEL_LIMIT
        numerators = np.full(size, x.numerator, np.int64 if fits else object)
        return self.bernoulli_exp_each(numerators, denominator=x.denominator)

    def bernoulli_exp_each(self, numerators: NDArray[Any], *, denominator: int) -> Bools:
        """Draw one boolean per element, True with probability exp(-numerators[i]/denominator).

        Numbers of 2**62 and more are exact too, but slower (Python integers).

        Examples
        --------
        >>> from hushtable import SecureNoise
        >>> SecureNoise().bernoulli_exp_each(np.array([0, 10**6]), denominator=1)
        array([ True, False])
        """
        refuse_if(not_whole("denominator", denominator, low=1))
        numerators = as_integers("numerators", numerators)
        if len(numerators) and numerators.min() < 0:
            raise ParameterError("numerators: all must be at least 0.")
        out = np.empty(len(numerators), np.bool_)
        if denominator < KERNEL_LIMIT and (not len(out) or numerators.max() < KERNEL_LIMIT):
            parameters = (numerators.astype(np.int64), denominator)
            self._fill(kernels.samplers.fill_bernoulli_exp, parameters, out, bits_per_draw=6)
            return out
        reader = self._reader()
        for i, numerator in enumerate(numerators.tolist()):
            out[i] = reader.bernoulli_exp(numerator, denominator)
        return out

    def subset(self, n: int, *, p: Fraction) -> Integers:
        """Keep each of 0, ..., n-1 independently with probability p; return those kept, in order.

        Reads about n/9 random words; n is at most `MAX_TRIALS`.

        Examples
        --------
        >>> from hushtable import SecureNoise
        >>> SecureNoise().subset(3, p=Fraction(1))
        array([0, 1, 2])
        """
        refuse_if(not_whole("n", n), not_fraction("p", p, high=1))
        if n > MAX_TRIALS:
            raise TooLarge(f"subset: n is {n}; at most {MAX_TRIALS} trials can be drawn exactly.")
        if p == 1:
            return np.arange(n, dtype=np.int64)
        digits, rest = _binary_digits(p.numerator, p.denominator, 128)
        out = np.empty(_buffer_size(n, p), np.int64)
        words: Words = np.empty(0, np.uint64)
        group = kept = 0
        while group * 64 < n:
            if kept + 64 > len(out):
                out = np.concatenate((out, np.empty(len(out) // 4 + 64, np.int64)))
            n_words = min((-(-n // 64) - group) * 8 + 16, self._chunk)
            words = np.concatenate((words, self._words(n_words)))
            group, position, kept, short = kernels.samplers.fill_subset(
                n, digits, rest == 0, group, words, 0, out, kept
            )
            words = words[position:]
            if short:  # the digits did not decide a group, which restarts with more of them
                more, rest = _binary_digits(rest, p.denominator, len(digits))
                digits = np.concatenate((digits, more))
        return out[:kept].copy()


def _binary_digits(numerator: int, denominator: int, n_digits: int) -> tuple[Bools, int]:
    """Return binary digits of a fraction below 1 (up to its end, if finite) and the remainder."""
    whole, rest = divmod(numerator << n_digits, denominator)
    if not rest:
        n_zeros = (whole & -whole).bit_length() - 1 if whole else n_digits
        whole, n_digits = whole >> n_zeros, n_digits - n_zeros
    n_bytes = -(-n_digits // 8)
    digits = np.unpackbits(np.frombuffer(whole.to_bytes(n_bytes, "big"), np.uint8))
    return digits[8 * n_bytes - n_digits :].astype(np.bool_), rest


def _buffer_size(n: int, p: Fraction) -> int:
    mean = int(n * p)
    return min(n, mean + 8 * math.isqrt(mean)) + 64


# Random indexes and orders.


class IndexSampler(RandomWords):
    """Samplers of integers in [0, n), and of permutations of them."""

    def uniform_below(self, n: int, *, size: int) -> Integers:
        """Draw `size` independent uniform integers in [0, n), n at most 2**62.

        Examples
        --------
        >>> from hushtable import SecureNoise
        >>> set(SecureNoise().uniform_below(3, size=200).tolist())
        {0, 1, 2}
        """
        refuse_if(not_whole("n", n, low=1, high=KERNEL_LIMIT), not_whole("size", size))
        out = np.empty(size, np.int64)
        self._fill(kernels.samplers.fill_below, (n,), out, bits_per_draw=2 * n.bit_length())
        return out

    def integer_below(self, n: int) -> int:
        """Draw a uniform integer in [0, n) for n of any size.

        Examples
        --------
        >>> from hushtable import SecureNoise
        >>> 0 <= SecureNoise().integer_below(10**40) < 10**40
        True
        """
        refuse_if(not_whole("n", n, low=1))
        return self._reader().below(n)

    def permutation(self, n: int) -> Integers:
        """Draw a uniformly random order of 0, ..., n-1.

        Examples
        --------
        >>> from hushtable import SecureNoise
        >>> sorted(SecureNoise().permutation(4).tolist())
        [0, 1, 2, 3]
        """
        refuse_if(not_whole("n", n, high=KERNEL_LIMIT))
        items = np.arange(n, dtype=np.int64)
        bits = 2 * n.bit_length()
        self._fill(kernels.samplers.fill_shuffle, (), items, bits_per_draw=bits)
        return items


# Samplers of noise for counts: geometric, discrete Laplace, discrete and rounded Gaussian.

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
        check_scale(scale, size)
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
        check_variance(variance, size)
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
        check_variance(variance, size)
        a, b = variance.numerator, variance.denominator
        out = np.empty(size, np.int64)
        self._fill(
            kernels.samplers.fill_rounded_gaussian, (math.sqrt(a / b), DIGIT_BITS), out,
            bits_per_draw=240, undecided=lambda reader: reader.rounded_gaussian(a, b),
        )  # fmt: skip
        return out


def check_scale(scale: Fraction, size: int) -> None:
    """Raise `ParameterError` for a scale or size that `discrete_laplace` does not support."""
    problem = not_fraction("scale", scale, positive=True, high=MAX_SCALE)
    refuse_if(problem, not_whole("size", size))


def check_variance(variance: Fraction, size: int) -> None:
    """Raise `ParameterError` for a variance or size that Gaussian samplers do not support."""
    problem = not_fraction("variance", variance, positive=True, high=MAX_SCALE**2)
    refuse_if(problem, not_whole("size", size))


def not_rate(name: str, value: Fraction) -> str | None:
    """Return what is wrong with the rate of a geometric distribution, or None."""
    problem = not_fraction(name, value, positive=True)
    if problem is None and value * MAX_SCALE < 1:
        return f"{name}: {value} is below 1/{MAX_SCALE}; draws might not fit an int64."
    return problem
