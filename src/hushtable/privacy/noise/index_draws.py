"""Random indexes: uniform, distinct, and weighted."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence

import numpy as np

from hushtable import kernels
from hushtable.arrays import Integers
from hushtable.privacy.noise.arguments import as_weights, not_whole, refuse_if
from hushtable.privacy.noise.bit_reader import KERNEL_LIMIT
from hushtable.privacy.noise.random_words import RandomWords


class IndexSampler(RandomWords):
    """Samplers of integers in [0, n), and of positions in a table of weights."""

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

    def distinct_below(self, n: int, *, k: int) -> Integers | list[int]:
        """Draw k distinct integers in [0, n); all ordered selections are equally likely.

        The result is an array if n is at most 2**62, otherwise a list of Python integers.

        Examples
        --------
        >>> from hushtable import SecureNoise
        >>> sorted(map(int, SecureNoise().distinct_below(4, k=4)))
        [0, 1, 2, 3]
        """
        refuse_if(not_whole("n", n), not_whole("k", k, high=n))
        if n > KERNEL_LIMIT:
            reader, seen = self._reader(), dict[int, None]()
            while len(seen) < k:
                seen.setdefault(reader.below(n))
            return list(seen)
        if n < 4 * k:
            items = np.arange(n, dtype=np.int64)
            bits = 2 * n.bit_length()
            self._fill(kernels.samplers.fill_shuffle, (k,), items, bits_per_draw=bits, n_draws=k)
            return items[:k].copy()
        # The first k distinct values of a sequence of draws; k <= n/4 keeps repeats rare.
        drawn = np.empty(0, np.int64)
        while len(drawn) < k:
            fresh = self.uniform_below(n, size=(k - len(drawn)) * 9 // 8 + 8)
            drawn = _first_occurrences(np.concatenate((drawn, fresh)))
        return drawn[:k]

    def from_table(self, weights: Sequence[int], *, size: int) -> Integers:
        """Draw `size` indexes, i with probability weights[i] / sum(weights).

        The weights are Python integers of any size.

        Examples
        --------
        >>> from hushtable import SecureNoise
        >>> SecureNoise().from_table([0, 2**200, 0], size=3)
        array([1, 1, 1])
        """
        refuse_if(not_whole("size", size))
        ends = list(itertools.accumulate(as_weights("weights", weights)))
        total = ends[-1]
        del ends[bisect.bisect_left(ends, total) :]  # the last positive weight gets the rest
        # With U uniform in [0, 1), the index is the number of ends[i]/total that are <= U.
        thresholds = np.array([(end << 64) // total for end in ends], np.uint64)
        out = np.empty(size, np.int64)
        for begin in range(0, size, self._chunk):
            part = out[begin : begin + self._chunk]
            words = self._words(len(part))
            part[:] = np.searchsorted(thresholds, words, side="left")
            upper = np.searchsorted(thresholds, words, side="right")
            for i in np.flatnonzero(part != upper):
                # The first 64 bits of U and of some ends agree: compare the bits that follow.
                rests = [(end << 64) % total for end in ends[part[i] : upper[i]]]
                part[i] += self._count_passed(rests, total)
        return out

    def _count_passed(self, rests: list[int], total: int) -> int:
        """Return how many of the ascending fractions rests[i]/total a uniform number reaches."""
        reader, passed = self._reader(), 0
        while rests and rests[-1] > 0:
            word = reader.take(64)
            digits = [(rest << 64) // total for rest in rests]
            low, high = bisect.bisect_left(digits, word), bisect.bisect_right(digits, word)
            passed += low
            rests = [(rest << 64) % total for rest in rests[low:high]]
        return passed + len(rests)


def _first_occurrences(values: Integers) -> Integers:
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    first = np.r_[True, ordered[1:] != ordered[:-1]]
    return values[np.sort(order[first])]
