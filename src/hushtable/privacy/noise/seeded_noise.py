"""Reproducible noise for tests; its results are not private."""

from __future__ import annotations

import hashlib
import threading

import numpy as np

from hushtable import kernels
from hushtable.privacy.noise.arguments import not_whole, refuse_if
from hushtable.privacy.noise.bit_reader import Words
from hushtable.privacy.noise.noise import Noise


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
        kernels.keystream.fill_words(self._key, begin, words)
        return words
