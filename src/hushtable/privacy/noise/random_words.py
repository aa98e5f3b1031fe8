"""Random 64-bit words for the samplers.

Every sampler of `hushtable.privacy.noise.noise.Noise` gets its randomness here. Subclasses define
the source of the words (`hushtable.privacy.noise.sources`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from hushtable.errors import ParameterError
from hushtable.privacy.noise.bit_reader import BitReader, Words


class RandomWords(ABC):
    """Source of random words for samplers and compiled kernels."""

    # Words fetched at a time; one megabyte fits in the cache. Tests set it to 1.
    _chunk: ClassVar[int] = 1 << 17

    is_private: bool
    """True if results made with these words may be called private."""

    @abstractmethod
    def _words(self, n: int) -> Words:
        """Return n independent uniform 64-bit words that were never returned before."""

    def with_words(self, words: Callable[[int], Words]) -> Self:
        """Return a copy that reads its words from `words`; its results are not private.

        Examples
        --------
        >>> from hushtable import SecureNoise
        >>> noise = SecureNoise().with_words(lambda n: np.zeros(n, np.uint64))
        >>> noise.uniform_below(100, size=3), noise.is_private
        (array([0, 0, 0]), False)
        """
        other = copy(self)
        vars(other).update(_words=words, is_private=False)
        return other

    def _reader(self) -> BitReader:
        return BitReader(self._words)

    def _fill(
        self,
        kernel: Callable[..., int],
        parameters: tuple[Any, ...],
        out: NDArray[Any],
        *,
        bits_per_draw: int,
        undecided: Callable[[BitReader], int] | None = None,
    ) -> None:
        """Run a resumable kernel until `out` is full, appending words whenever it runs out of them.

        A draw that the kernel cannot decide is made by `undecided` from the same bits.
        """
        state = np.zeros(4, np.uint64)
        words: Words = np.empty(0, np.uint64)
        done = 0
        while done < len(out):
            n_words = min((len(out) - done) * bits_per_draw // 64 + 16, self._chunk)
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


# Checks of the arguments of samplers; each returns a problem in words, or None.


def refuse_if(*problems: str | None) -> None:
    """Raise `ParameterError` with all problems, if there are any."""
    found = [problem for problem in problems if problem]
    ParameterError.raise_if_any(found)


def not_whole(
    name: str, value: object, *, low: int | None = 0, high: int | None = None
) -> str | None:
    """Return what is wrong with an integer, or None."""
    if isinstance(value, bool) or not isinstance(value, int):
        return f"{name}: {value!r} is not a Python integer."
    if low is not None and value < low:
        return f"{name}: {value} is below {low}."
    if high is not None and value > high:
        return f"{name}: {value} is above {high}."
    return None


def not_fraction(
    name: str, value: object, *, positive: bool = False, high: int | None = None
) -> str | None:
    """Return what is wrong with a fraction, or None."""
    if isinstance(value, bool) or not isinstance(value, int | Fraction):
        return f"{name}: {value!r} is not a Fraction. Use rational.as_rational to make one."
    if value < 0 or (positive and value == 0):
        return f"{name}: {value} must be {'above' if positive else 'at least'} 0."
    if high is not None and value > high:
        return f"{name}: {value} is above {high}."
    return None


def as_integers(name: str, values: NDArray[Any] | Sequence[int]) -> NDArray[Any]:
    """Return an int64 array, or an array of Python integers if one does not fit."""
    array = np.asarray(values)
    if array.ndim == 1 and array.dtype.kind in "iu" and array.dtype != np.uint64:
        return array.astype(np.int64)
    exact = np.array(values, object)
    if exact.ndim != 1 or any(
        isinstance(v, bool) or not isinstance(v, int) for v in exact.tolist()
    ):
        raise ParameterError(f"{name}: must be a one-dimensional array or sequence of integers.")
    return exact


def as_weights(name: str, weights: Sequence[int]) -> list[int]:
    """Return Python integers of at least 0, not all 0; raise `ParameterError` otherwise."""
    values = [int(w) for w in as_integers(name, weights).tolist()]
    if not values or min(values) < 0 or not any(values):
        raise ParameterError(f"{name}: all must be at least 0, and at least one above 0.")
    return values
