"""Exact samplers on a stream of random 64-bit words, with Python integers of any size.

`hushtable.kernels.samplers` has the same algorithms for small parameters. They are Algorithms 1 to
3 of Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020). Bernoulli
draws compare random bits with the binary expansion of the probability until they differ. Normal
numbers use Algorithm N of Karney, "Sampling Exactly from the Normal Distribution" (2016), which
draws only as many digits as needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

KERNEL_LIMIT = 2**62
"""Numerators and denominators below this fit the kernels: twice the value fits int64."""

DIGIT_BITS = 48
"""Bits per digit of a lazily drawn number; tests use fewer."""


class LazyNumber:
    """Uniform number between 0 and 1 whose digits are drawn on demand."""

    def __init__(self, reader: BitReader, digit_bits: int) -> None:
        self._reader, self.digit_bits = reader, digit_bits
        self._digits: list[int] = []

    def digit(self, place: int) -> int:
        """Return the digit at a position, drawing missing digits up to it."""
        while len(self._digits) <= place:
            self._digits.append(self._reader.take(self.digit_bits))
        return self._digits[place]

    def is_below(self, other: LazyNumber) -> bool:
        """Return whether this number is below another: compare digits until two differ."""
        place = 0
        while self.digit(place) == other.digit(place):
            place += 1
        return self.digit(place) < other.digit(place)

    def head(self, n_digits: int) -> int:
        """Return the first digits as one integer."""
        whole = 0
        for place in range(n_digits):
            whole = whole << self.digit_bits | self.digit(place)
        return whole


class BitReader:
    """Samplers on Python integers of any size, fed by a source of random words."""

    def __init__(self, words: Callable[[int], Words], held: tuple[int, int] = (0, 0)) -> None:
        self._words = words
        self._held, self._n_held = held

    @property
    def held(self) -> tuple[int, int]:
        """Bits that were fetched and not yet used, as an integer, and their number."""
        return self._held, self._n_held

    def take(self, n_bits: int) -> int:
        """Return `n_bits` random bits as an integer."""
        missing = n_bits - self._n_held
        if missing > 0:
            n_words = -(-missing // 64)
            fresh = int.from_bytes(self._words(n_words).astype("<u8").tobytes(), "little")
            self._held |= fresh << self._n_held
            self._n_held += 64 * n_words
        taken = self._held & ((1 << n_bits) - 1)
        self._held >>= n_bits
        self._n_held -= n_bits
        return taken

    def below(self, n: int) -> int:
        """Return a uniform integer in [0, n)."""
        n_bits = (n - 1).bit_length()
        while True:
            value = self.take(n_bits)
            if value < n:
                return value

    def bernoulli(self, numerator: int, denominator: int) -> bool:
        """Return True with probability numerator/denominator in [0, 1]."""
        if numerator >= denominator:
            return True
        while numerator > 0:
            numerator *= 2
            digit = numerator >= denominator
            if digit:
                numerator -= denominator
            if self.take(1) != digit:
                return digit
        return False  # all digits agree: the random number is at least p

    def bernoulli_exp(self, numerator: int, denominator: int) -> bool:
        """Return True with probability exp(-numerator/denominator), numerator at least 0."""
        whole, part = divmod(numerator, denominator)
        return all(self._bernoulli_exp_within_one(1, 1) for _ in range(whole)) and (
            self._bernoulli_exp_within_one(part, denominator)
        )

    def _bernoulli_exp_within_one(self, numerator: int, denominator: int) -> bool:
        k = 1
        while self.below(k) == 0 and self.bernoulli(numerator, denominator):
            k += 1
        return k % 2 == 1

    def geometric(self, numerator: int, denominator: int) -> int:
        """Draw g >= 0 with probability proportional to exp(-g * numerator / denominator)."""
        while True:
            remainder = self.below(denominator)
            if self.bernoulli_exp(remainder, denominator):
                break
        whole = 0
        while self._bernoulli_exp_within_one(1, 1):
            whole += 1
        # remainder + denominator * whole has P[x] ~ exp(-x / denominator); runs of `numerator`
        # consecutive values then have P[g] ~ exp(-g * numerator / denominator).
        return (remainder + denominator * whole) // numerator

    def laplace(self, numerator: int, denominator: int) -> int:
        """Draw z with probability proportional to exp(-abs(z) * denominator / numerator)."""
        while True:
            magnitude = self.geometric(denominator, numerator)
            negative = self.take(1)
            if magnitude or not negative:  # otherwise zero would be twice as likely
                return -magnitude if negative else magnitude

    def gaussian(self, numerator: int, denominator: int, scale: int) -> int:
        """Draw z with P[z] ~ exp(-z**2 / (2 * numerator/denominator)), by rejection.

        Proposals are draws of `laplace(scale, 1)`. The distribution is exact for any positive
        integer `scale`; floor(sigma) + 1 is fast.
        """
        while True:
            z = self.laplace(scale, 1)
            offset = abs(z) * scale * denominator - numerator
            if self.bernoulli_exp(offset * offset, 2 * numerator * denominator * scale * scale):
                return z

    def rounded_gaussian(
        self, numerator: int, denominator: int, digit_bits: int = DIGIT_BITS
    ) -> int:
        """Draw a normal number of variance numerator/denominator, rounded to an integer.

        Karney's Algorithm N: k has P[k] ~ exp(-k/2) and is accepted with probability exp(-k (k - 1)
        / 2); a uniform x is accepted with probability exp(-x (2 k + x) / 2). So k + x has a density
        proportional to exp(-(k + x)**2 / 2) above 0, and gets a random sign.
        """
        while True:
            k = self.geometric(1, 2)
            if not self.bernoulli_exp(k * (k - 1), 2):
                continue
            x = LazyNumber(self, digit_bits)
            x.digit(0)  # drawn before the numbers that it is compared with
            if all(self._bernoulli_tail(k, x) for _ in range(k + 1)):
                break
        negative = self.take(1)
        size = self._rounded(k, x, numerator, denominator)
        return -size if negative else size

    def _bernoulli_tail(self, k: int, x: LazyNumber) -> bool:
        """Return True with probability exp(-x (2 k + x) / (2 k + 2)).

        n uniform numbers decrease from x with probability x**n / n!, and n draws with probability
        (2 k + x) / (2 k + 2) all succeed with its n-th power. The probability that the first
        failure comes after an even number of successes is the alternating sum of the products,
        which is the series of the exponential function.
        """
        last, n = x, 0
        while True:
            number = LazyNumber(self, x.digit_bits)
            if not number.is_below(last):
                break
            part = self.below(2 * k + 2)
            if part > 2 * k or (part == 2 * k and not LazyNumber(self, x.digit_bits).is_below(x)):
                break
            last, n = number, n + 1
        return n % 2 == 0

    def _rounded(self, k: int, x: LazyNumber, numerator: int, denominator: int) -> int:
        """Round (k + x) sigma, with as many digits of x as needed.

        With t = k + x, the rounded value is the largest m with 2 m - 1 <= 2 sigma t, where the
        integer part of 2 sigma t is the integer square root of 4 sigma**2 t**2.
        """
        n_digits = 1
        while True:
            one = 1 << n_digits * x.digit_bits
            least = k * one + x.head(n_digits)
            low, high = (
                (math.isqrt(4 * numerator * t * t // (denominator * one * one)) + 1) // 2
                for t in (least, least + 1)
            )
            if low == high:
                return low
            n_digits += 1
