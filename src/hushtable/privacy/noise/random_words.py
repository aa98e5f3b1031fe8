"""Random 64-bit words for the samplers.

Every sampler of `hushtable.privacy.noise.noise.Noise` gets its randomness here. Subclasses define
the source of the words (`secure_noise`, `seeded_noise`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hushtable.privacy.noise.bit_reader import BitReader, Words


class RandomWords(ABC):
    """Source of random words for samplers and compiled kernels."""

    # Words fetched at a time; one megabyte fits in the cache. Tests set it to 1.
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
        undecided: Callable[[BitReader], int] | None = None,
    ) -> None:
        """Run a resumable kernel until `out` is full, appending words whenever it runs out of them.

        A draw that the kernel cannot decide is made by `undecided` from the same bits.
        """
        state = np.zeros(4, np.uint64)
        words: Words = np.empty(0, np.uint64)
        done, end = 0, len(out) if n_draws is None else n_draws
        while done < end:
            n_words = min((end - done) * bits_per_draw // 64 + 16, self._chunk)
            words = np.concatenate((words[int(state[0]) :], self._words(n_words)))
            state[0] = 0
            done = kernel(*parameters, out, done, words, state)
            while undecided is not None and state[3]:
                reader = BitReader(self._words, _bits(words, state))
                out[done] = undecided(reader)
                words = _unread(reader, state)
                done = kernel(*parameters, out, done + 1, words, state)


def _bits(words: Words, state: Words) -> tuple[int, int]:
    """Return the bits that a kernel left, as an integer, and their number."""
    rest, n_held = words[int(state[0]) :], int(state[2])
    following = int.from_bytes(rest.astype("<u8").tobytes(), "little")
    return int(state[1]) | following << n_held, n_held + 64 * len(rest)


def _unread(reader: BitReader, state: Words) -> Words:
    """Return the bits that a reader left, as words, and point the kernel's state to their start."""
    held, n_bits = reader.held
    n_words, n_held = divmod(n_bits, 64)
    state[:] = 0, held & (1 << n_held) - 1, n_held, 0
    return np.frombuffer((held >> n_held).to_bytes(8 * n_words, "little"), "<u8").astype(np.uint64)
