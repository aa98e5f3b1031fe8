"""Keep each combination of a product domain with the same small probability, however large it is.

A domain of 10**30 combinations cannot be gone through, and the number of combinations kept is
itself random. Both are drawn exactly by walking down a binary tree over the domain and following
only the nodes with something kept below them. With e the chance that half of a node is empty, a
node that is not empty has

    both halves occupied with probability (1 - e) / (1 + e), or else one of them, by a fair coin

(the three cases are proportional to (1-e)**2, (1-e) e and e (1-e)). So a level costs one rare coin
per node that is followed, and the path of a node between two splits is a run of fair bits, drawn
at once. e is (1 - p) to the power 2**level: it is bounded from both sides, and the bounds are made
narrower in the rare case that a coin falls between them.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hushtable.domain import Domain
from hushtable.errors import ParameterError
from hushtable.privacy.bounded_coins import heads
from hushtable.privacy.noise import Noise

Keys = NDArray[np.int64]


def sparse_subset(domain: Domain, *, p: Fraction, noise: Noise) -> Keys:
    """Keep each combination of a domain independently with probability p.

    The time grows with the number kept and with the logarithm of the domain's size.

    Parameters
    ----------
    domain : Domain
        The combinations; any number of them.
    p : Fraction
        The exact probability, 0 < p < 1.
    noise : Noise
        Where randomness comes from.

    Returns
    -------
    int64 array
        The keys (as of `Domain.pack`) of those kept, in order.

    Examples
    --------
    >>> from hushtable.privacy.noise import SecureNoise
    >>> huge = Domain({f"x{i}": 40 for i in range(20)})
    >>> kept = sparse_subset(huge, p=Fraction(1000, 40**20), noise=SecureNoise())
    >>> 500 < len(kept) < 1500 and kept.shape[1] == len(huge.limbs)
    True
    """
    if not 0 < p < 1:
        raise ParameterError(f"p is {p}; it must lie between 0 and 1.")
    sizes = [math.prod(domain.shape[run]) for run in domain.limbs]
    tree = _Tree(sizes, noise)
    chances = _Chances(p, tree.n_levels)
    if not len(heads(noise, 1, chances.occupied)):
        return np.empty((0, len(sizes)), np.int64)
    for level in reversed(range(tree.n_levels)):
        tree.split(heads(noise, tree.n_nodes, functools.partial(chances.split, level)), level)
    return tree.leaves()


class _Tree:
    """The occupied nodes: known leading bits of their keys, the rest still to be drawn.

    Each limb is padded to a power of two. What falls into the padding is dropped, which leaves all
    other combinations as they are, since they are independent.
    """

    def __init__(self, sizes: list[int], noise: Noise) -> None:
        self._noise = noise
        self._sizes = np.array(sizes, np.int64)
        self._widths = [(size - 1).bit_length() for size in sizes]
        self.n_levels = sum(self._widths)
        self.n_nodes = 1
        # Arrays with room to grow. Bits not drawn yet are 0; `_open` counts them, over all limbs.
        self._keys: Keys = np.zeros((1, len(sizes)), np.int64)
        self._open = np.array([self.n_levels])

    def split(self, nodes: NDArray[np.int64], level: int) -> None:
        """Give these nodes two occupied halves, of 2**level leaves each."""
        if not len(nodes):
            return
        left = self._filled(nodes, level + 1)
        right, below = left.copy(), 0
        for limb in reversed(range(len(self._widths))):
            if below <= level < below + self._widths[limb]:
                right[:, limb] |= np.int64(1 << (level - below))
            below += self._widths[limb]
        end = self.n_nodes + len(nodes)
        if end > len(self._keys):
            room = max(end - len(self._keys), len(self._keys) // 2)
            self._keys = np.pad(self._keys, ((0, room), (0, 0)))
            self._open = np.pad(self._open, (0, room))
        self._keys[nodes], self._keys[self.n_nodes : end] = left, right
        self._open[nodes] = self._open[self.n_nodes : end] = level
        self.n_nodes = end
        if 4 * len(nodes) > end:
            # High up nearly every node splits; nodes beyond the domain are not followed further.
            inside = (self._keys[:end] < self._sizes).all(axis=1)
            self._keys, self._open = self._keys[:end][inside], self._open[:end][inside]
            self.n_nodes = len(self._keys)

    def leaves(self) -> Keys:
        """Draw all bits that are left and return the keys inside the domain, in order."""
        keys = self._filled(np.arange(self.n_nodes), 0)
        keys = keys[(keys < self._sizes).all(axis=1)]
        return keys[np.lexsort(keys.T[::-1])] if keys.shape[1] > 1 else np.sort(keys, axis=0)

    def _filled(self, nodes: NDArray[np.int64], down_to: int) -> Keys:
        """Draw the open bits of some nodes, from the highest down to one level."""
        keys, top = self._keys[nodes], self._open[nodes]
        below = 0
        for limb in reversed(range(len(self._widths))):
            width = self._widths[limb]
            low, high = min(max(down_to - below, 0), width), np.clip(top - below, 0, width)
            if width and low < high.max(initial=0):
                # np.int64(1) << 63 wraps to the lowest integer, less one to the highest: all bits.
                mask = ((np.int64(1) << high) - 1) & ~np.int64((1 << low) - 1)
                keys[:, limb] |= self._bits(width, len(nodes)) & mask
            below += width
        return keys

    def _bits(self, width: int, size: int) -> NDArray[np.int64]:
        half = width // 2
        low = self._noise.uniform_below(1 << (width - half), size=size)
        return self._noise.uniform_below(1 << half, size=size) << (width - half) | low


class _Chances:
    """Bounds of the chances that the tree needs, as narrow as is asked for."""

    def __init__(self, p: Fraction, n_levels: int) -> None:
        self._p, self._n_levels = p, n_levels
        self._empty = functools.cache(self._compute_empty)

    def occupied(self, bits: int) -> tuple[Fraction, Fraction]:
        """Bound the chance that anything is kept."""
        low, high = self._empty(bits)[self._n_levels]
        return 1 - high, 1 - low

    def split(self, level: int, bits: int) -> tuple[Fraction, Fraction]:
        """Bound the chance that both halves of 2**level leaves are occupied, given that one is."""
        low, high = self._empty(bits)[level]
        return (1 - high) / (1 + high), (1 - low) / (1 + low)

    def _compute_empty(self, bits: int) -> list[tuple[Fraction, Fraction]]:
        """Bound the chance that 2**level leaves are empty, for every level.

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
