"""Random subsets of a product domain of any size: each cell is kept with the same probability.

A domain of 10**30 cells cannot be enumerated, and the number of cells kept is itself random. Both
are sampled exactly by descending a binary tree over the domain, following only the nodes with
something kept below them. With e the probability that half of a node is empty, a node that is not
empty has

    both halves occupied with probability (1 - e) / (1 + e), otherwise one of them, with equal odds

(the three cases are proportional to (1-e)**2, (1-e) e and e (1-e)). So a level costs one rare
Bernoulli event per followed node, and the path of a node between two splits is a run of random
bits, drawn at once. e is (1 - p) to the power 2**level; it is bounded from both sides, and the
bounds are refined in the rare case that a uniform number is between them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from hushtable.arrays import Bools, Integers
from hushtable.domain import Domain
from hushtable.errors import ParameterError
from hushtable.privacy.noise.noise import Noise

# Exact Bernoulli draws whose probability is known only by bounds of any precision.

BoundsFunction = Callable[[int], tuple[Fraction, Fraction]]
"""Function from a number of bits to a lower and an upper bound of a probability."""

_BITS = 96  # initial precision of a probability


def bernoulli_indices(noise: Noise, n: int, bounds: BoundsFunction) -> Integers:
    """Draw n Bernoulli variables and return the indexes of successes, in order.

    A uniform number is compared with the upper bound, then with the lower one. The bounds are
    refined only if it is between them, about once in 2**90 draws.

    Examples
    --------
    >>> from hushtable.privacy.noise.sources import SecureNoise
    >>> third = lambda bits: (Fraction(2**bits // 3, 2**bits), Fraction(2**bits // 3 + 1, 2**bits))
    >>> 200 < len(bernoulli_indices(SecureNoise(), 900, third)) < 400
    True
    """
    low, high = bounds(_BITS)
    found = noise.subset(n, p=high)
    sure = noise.bernoulli(low / high, size=len(found))
    for i in np.flatnonzero(~sure):
        sure[i] = is_below(noise, bounds, low, high, _BITS)
    return found[sure]


def is_below(
    noise: Noise, bounds: BoundsFunction, low: Fraction, high: Fraction, bits: int
) -> bool:
    """Return whether a uniform number between bounds of a probability is below the probability.

    `bits` is the precision of the bounds. They are refined until the number is outside of them.
    """
    while True:
        bits *= 2
        below, above = bounds(bits)
        below, above = max(low, below), min(high, above)
        if noise.bernoulli((below - low) / (high - low), size=1)[0]:
            return True
        if not noise.bernoulli((above - below) / (high - below), size=1)[0]:
            return False
        low, high = below, above


def power_bounds(base: Fraction, exponent: int, bits: int) -> tuple[Fraction, Fraction]:
    """Bound base**exponent for 0 <= base <= 1; the bounds differ by at most 2**-bits.

    Examples
    --------
    >>> low, high = power_bounds(Fraction(9, 10), 100, 64)
    >>> low <= Fraction(9, 10)**100 <= high < low + Fraction(1, 2**64)
    True
    """
    # Every squaring or multiplication at most doubles the gap and adds a unit.
    precision = bits + 2 * exponent.bit_length() + 4
    unit = 1 << precision
    base_low = base.numerator * unit // base.denominator
    base_high = -(-base.numerator * unit // base.denominator)
    low = high = unit
    for digit in f"{exponent:b}":
        low, high = low * low >> precision, -(-high * high >> precision)
        if digit == "1":
            low, high = low * base_low >> precision, -(-high * base_high >> precision)
    return Fraction(low, unit), Fraction(high, unit)


Keys = Integers

_DIGIT = 31  # bits of one digit of a large number; products of two digits fit an int64


def sparse_subset(domain: Domain, *, p: Fraction, noise: Noise) -> Keys:
    """Keep each cell of a domain independently with probability p.

    The time grows with the number of cells kept and with the logarithm of the domain's size. The
    result is the keys (of `Domain.pack`) of the cells kept, in order.

    Examples
    --------
    >>> from hushtable.privacy.noise.sources import SecureNoise
    >>> huge = Domain({f"x{i}": 40 for i in range(20)})
    >>> kept = sparse_subset(huge, p=Fraction(1000, 40**20), noise=SecureNoise())
    >>> 500 < len(kept) < 1500 and kept.shape[1] == len(huge.limbs)
    True
    """
    if not 0 < p < 1:
        raise ParameterError(f"p is {p}; it must be between 0 and 1.")
    tree = _Tree(domain.size, noise)
    chances = _Chances(p, tree.n_levels)
    if not len(bernoulli_indices(noise, 1, chances.occupied)):
        return np.empty((0, len(domain.limbs)), np.int64)
    for level in reversed(range(tree.n_levels)):
        tree.split(
            bernoulli_indices(noise, tree.n_nodes, functools.partial(chances.split, level)), level
        )
    return _keys(tree.leaves(), domain)


class _Tree:
    """Occupied nodes of the tree, each with those leading bits of its number that were drawn.

    The domain is numbered and padded to a power of two. Cells in the padding are dropped, which
    does not affect the others, since all are independent. A number is stored as one integer of up
    to 62 bits, or as several digits of 31 bits, highest first.
    """

    def __init__(self, size: int, noise: Noise) -> None:
        self._noise = noise
        self.n_levels = (size - 1).bit_length()
        n_more = 0 if self.n_levels <= 2 * _DIGIT else (self.n_levels - 1) // _DIGIT
        self._widths = [self.n_levels - _DIGIT * n_more] + [_DIGIT] * n_more
        self._top = (size - 1) >> (_DIGIT * n_more)
        self.n_nodes = 1
        # Arrays with spare capacity. Bits not yet drawn are 0; `_open` counts them over all digits.
        self._numbers: Keys = np.zeros((1, len(self._widths)), np.int64)
        self._open = np.array([self.n_levels])

    def split(self, nodes: Integers, level: int) -> None:
        """Split these nodes into two occupied halves of 2**level leaves each."""
        if not len(nodes):
            return
        left = self._filled(nodes, level + 1)
        right, below = left.copy(), 0
        for digit in reversed(range(len(self._widths))):
            if below <= level < below + self._widths[digit]:
                right[:, digit] |= np.int64(1 << (level - below))
            below += self._widths[digit]
        end = self.n_nodes + len(nodes)
        if end > len(self._numbers):
            room = max(end - len(self._numbers), len(self._numbers) // 2)
            self._numbers = np.pad(self._numbers, ((0, room), (0, 0)))
            self._open = np.pad(self._open, (0, room))
        self._numbers[nodes], self._numbers[self.n_nodes : end] = left, right
        self._open[nodes] = self._open[self.n_nodes : end] = level
        self.n_nodes = end
        if 4 * len(nodes) > end:
            # Near the root almost every node splits; drop nodes beyond the domain.
            inside = self._numbers[:end, 0] <= self._top
            self._numbers, self._open = self._numbers[:end][inside], self._open[:end][inside]
            self.n_nodes = len(self._numbers)

    def leaves(self) -> Keys:
        """Draw all remaining bits and return the numbers."""
        return self._filled(np.arange(self.n_nodes), 0)

    def _filled(self, nodes: Integers, down_to: int) -> Keys:
        """Draw the open bits of some nodes, from the highest down to one level."""
        numbers, top = self._numbers[nodes], self._open[nodes]
        below = 0
        for digit in reversed(range(len(self._widths))):
            width = self._widths[digit]
            low, high = min(max(down_to - below, 0), width), np.clip(top - below, 0, width)
            if low < high.max(initial=0):
                mask = ((np.int64(1) << high) - 1) & ~np.int64((1 << low) - 1)
                bits = self._noise.uniform_below(1 << width, size=len(nodes))
                numbers[:, digit] |= bits & mask
            below += width
        return numbers


def _keys(numbers: Keys, domain: Domain) -> Keys:
    """Convert numbers of cells to sorted keys, without those beyond the domain."""
    if numbers.shape[1] == 1:
        return np.sort(numbers[numbers[:, 0] < domain.size], axis=0)
    if max(domain.shape) > 1 << _DIGIT:
        whole = (
            sum(d << (_DIGIT * i) for i, d in enumerate(row[::-1])) for row in numbers.tolist()
        )
        rows = [domain.unrank(number) for number in whole if number < domain.size]
        keys = domain.pack(np.array(rows, np.int64).reshape(-1, len(domain.shape)))
    else:
        keys = domain.pack(_codes(numbers, domain.shape))
    return keys[np.lexsort(keys.T[::-1])]


def _codes(numbers: Keys, shape: tuple[int, ...]) -> Keys:
    """Convert numbers to mixed radix by long division, without those that are too large."""
    codes = np.empty((len(numbers), len(shape)), np.int64)
    digits, end = numbers.copy(), len(shape)
    while end:
        # As many columns at once as one digit allows as divisor.
        start, divisor = end - 1, shape[end - 1]
        while start and divisor * shape[start - 1] <= 1 << _DIGIT:
            start -= 1
            divisor *= shape[start]
        rest = np.zeros(len(digits), np.int64)
        for digit in range(digits.shape[1]):
            digits[:, digit], rest = np.divmod(rest << _DIGIT | digits[:, digit], divisor)
        for position in reversed(range(start, end)):
            rest, codes[:, position] = np.divmod(rest, shape[position])
        end = start
    inside: Bools = (digits == 0).all(axis=1)
    return codes[inside]


class _Chances:
    """Bounds of the probabilities in the tree, as close as requested."""

    def __init__(self, p: Fraction, n_levels: int) -> None:
        self._p, self._n_levels = p, n_levels
        self._empty = functools.cache(self._compute_empty)

    def occupied(self, bits: int) -> tuple[Fraction, Fraction]:
        """Bound the probability that anything is kept."""
        low, high = self._empty(bits)[self._n_levels]
        return 1 - high, 1 - low

    def split(self, level: int, bits: int) -> tuple[Fraction, Fraction]:
        """Bound P[both halves of 2**level leaves are occupied], given that one is."""
        low, high = self._empty(bits)[level]
        return (1 - high) / (1 + high), (1 - low) / (1 + low)

    def _compute_empty(self, bits: int) -> list[tuple[Fraction, Fraction]]:
        """Bound the probability that 2**level leaves are empty, for every level.

        A squaring at most doubles the gap and adds a unit, and 1 - e is at least p.
        """
        precision = bits + self._n_levels + (1 / self._p).__ceil__().bit_length() + 8
        unit = 1 << precision
        numerator, denominator = (1 - self._p).as_integer_ratio()
        low, high = numerator * unit // denominator, -(-numerator * unit // denominator)
        table = []
        for _ in range(self._n_levels + 1):
            table.append((Fraction(low, unit), Fraction(high, unit)))
            low, high = low * low >> precision, -(-high * high >> precision)
        return table
