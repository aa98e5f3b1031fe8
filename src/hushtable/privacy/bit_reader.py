"""Exact samplers on a stream of random 64-bit words, on Python integers of any size.

`hushtable.kernels.samplers` has the same algorithms for small parameters. The building blocks are
those of Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020),
Algorithms 1 to 3, with coins tossed by comparing random bits with the binary expansion of the
probability until they differ.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

KERNEL_LIMIT = 2**62
"""Numerators and denominators below this fit the kernels: doubling one stays within int64."""


class BitReader:
    """Sample with Python integers of any size from a source of random words."""

    def __init__(self, words: Callable[[int], Words]) -> None:
        self._words = words
        self._held = 0
        self._n_held = 0

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

    def coin(self, numerator: int, denominator: int) -> bool:
        """Toss a coin with probability numerator/denominator in [0, 1]."""
        if numerator >= denominator:
            return True
        while numerator > 0:
            numerator *= 2
            digit = numerator >= denominator
            if digit:
                numerator -= denominator
            if self.take(1) != digit:
                return digit
        return False  # the random number has met every digit of a finite expansion: not below it

    def exp_coin(self, numerator: int, denominator: int) -> bool:
        """Toss a coin with probability exp(-numerator/denominator), any non-negative exponent."""
        whole, part = divmod(numerator, denominator)
        return all(self._exp_coin_within_one(1, 1) for _ in range(whole)) and (
            self._exp_coin_within_one(part, denominator)
        )

    def _exp_coin_within_one(self, numerator: int, denominator: int) -> bool:
        k = 1
        while self.below(k) == 0 and self.coin(numerator, denominator):
            k += 1
        return k % 2 == 1

    def geometric(self, numerator: int, denominator: int) -> int:
        """Draw g >= 0 with probability proportional to exp(-g * numerator / denominator)."""
        while True:
            remainder = self.below(denominator)
            if self.exp_coin(remainder, denominator):
                break
        whole = 0
        while self._exp_coin_within_one(1, 1):
            whole += 1
        # remainder + denominator * whole has P[x] ~ exp(-x / denominator); runs of `numerator`
        # consecutive values then have P[g] ~ exp(-g * numerator / denominator).
        return (remainder + denominator * whole) // numerator

    def laplace(self, numerator: int, denominator: int) -> int:
        """Draw z with probability proportional to exp(-abs(z) * denominator / numerator)."""
        while True:
            magnitude = self.geometric(denominator, numerator)
            negative = self.take(1)
            if magnitude or not negative:  # zero would otherwise come up twice as often
                return -magnitude if negative else magnitude

    def gaussian(self, numerator: int, denominator: int, scale: int) -> int:
        """Draw z with P[z] ~ exp(-z**2 / (2 * numerator/denominator)) by way of `laplace(scale)`.

        Any positive integer `scale` is right; floor(sigma) + 1 is fast.
        """
        while True:
            z = self.laplace(scale, 1)
            offset = abs(z) * scale * denominator - numerator
            if self.exp_coin(offset * offset, 2 * numerator * denominator * scale * scale):
                return z
