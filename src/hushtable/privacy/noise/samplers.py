"""Bernoulli draws: individual ones, the number of successes among n, and random subsets."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtable import kernels
from hushtable.arrays import Bools, Integers
from hushtable.errors import ParameterError, TooLarge
from hushtable.privacy.noise.arguments import as_integers, not_fraction, not_whole, refuse_if
from hushtable.privacy.noise.bit_reader import KERNEL_LIMIT, Words
from hushtable.privacy.noise.random_words import RandomWords

MAX_TRIALS = 10**12
"""Limit of n for `binomial` and `subset`; n = 1e9 takes some 0.2 s and 0.7 s."""


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

    def binomial(self, n: int, *, p: Fraction) -> int:
        """Draw the number of successes in n trials of probability p, n at most `MAX_TRIALS`.

        All n uniform numbers are compared with the binary digits of p at once. Of the m numbers
        that agree so far, Binomial(m, 1/2) have 0 as their next bit; this is the number of ones in
        m random bits. So about 2n bits are read, however small p is.

        Examples
        --------
        >>> from hushtable import SecureNoise
        >>> SecureNoise().binomial(10, p=Fraction(1))
        10
        """
        refuse_if(not_whole("n", n), not_fraction("p", p, high=1))
        _check_trials("binomial", n)
        if p == 1:
            return n
        heads, undecided, rest = 0, n, p.numerator
        while undecided and rest:
            rest *= 2
            n_zero = self._fair_heads(undecided)
            if rest >= p.denominator:
                rest -= p.denominator
                heads += n_zero  # bit 0 at a digit 1: below p
                undecided -= n_zero
            else:
                undecided = n_zero  # bit 1 at a digit 0: not below p
        return heads

    def _fair_heads(self, n: int) -> int:
        heads, n_words = 0, -(-n // 64)
        for begin in range(0, n_words, self._chunk):
            words = self._words(min(self._chunk, n_words - begin))
            if begin + len(words) == n_words and n % 64:
                words[-1] &= np.uint64((1 << n % 64) - 1)
            heads += int(np.bitwise_count(words).sum(dtype=np.int64))
        return heads

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
        _check_trials("subset", n)
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


def _check_trials(what: str, n: int) -> None:
    if n > MAX_TRIALS:
        raise TooLarge(f"{what}: n is {n}; at most {MAX_TRIALS} trials can be drawn exactly.")
