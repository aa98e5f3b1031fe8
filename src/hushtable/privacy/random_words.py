"""Random 64-bit words, and how compiled samplers are fed with them.

Every sampler of `hushtable.privacy.noise.Noise` reads its randomness here; where the words come
from is for subclasses to say (`secure_noise`, `seeded_noise`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hushtable.privacy.bit_reader import BitReader, Words

Integers = NDArray[np.int64]


class RandomWords(ABC):
    """Hand out random words, one by one or to a kernel until it is done."""

    # Words fetched at a time: one megabyte stays in the cache. Tests set it to 1.
    _chunk: ClassVar[int] = 1 << 17

    @abstractmethod
    def _words(self, n: int) -> Words:
        """Return n independent uniform 64-bit words that were never returned before."""

    def _reader(self) -> BitReader:
        return BitReader(self._words)

    def _fill(
        self,
        kernel: Callable[..., int],
        parameters: tuple[Any, ...],
        out: NDArray[Any],
        *,
        bits_per_draw: int,
        n_draws: int | None = None,
    ) -> None:
        """Run a resumable kernel until `out` is full, appending words whenever it runs dry."""
        state = np.zeros(4, np.uint64)
        words: Words = np.empty(0, np.uint64)
        done, end = 0, len(out) if n_draws is None else n_draws
        while done < end:
            n_words = min((end - done) * bits_per_draw // 64 + 16, self._chunk)
            words = np.concatenate((words[int(state[0]) :], self._words(n_words)))
            state[0] = 0
            done = kernel(*parameters, out, done, words, state)
