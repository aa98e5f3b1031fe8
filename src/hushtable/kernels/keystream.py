"""Words of a ChaCha20 keystream, for reproducible noise.

ChaCha20 as in RFC 8439, with a nonce of zeros and the original 64-bit counter: identical up to
block 2**32, where the RFC's counter ends. No secret depends on it: noise for releases is read from
the operating system.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hushtable.extras import needing

with needing("publish", "randomness"):
    from numba import njit

# numba computes with 64 bits; storing into a 32-bit array truncates.

_SIGMA = np.frombuffer(b"expand 32-byte k", "<u4").astype(np.uint32)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_HALF_WORD = np.uint64(32)
_WORDS_PER_BLOCK = 8


@njit
def _mix(x, a, b, c, bits):  # type: ignore[no-untyped-def]
    """Add b to a, and rotate c xor a to the left by some bits."""
    x[a] += x[b]
    mixed = np.uint64(x[c] ^ x[a])
    x[c] = mixed << np.uint64(bits) | mixed >> np.uint64(32 - bits)


@njit
def _quarter_round(x, a, b, c, d):  # type: ignore[no-untyped-def]
    _mix(x, a, b, d, 16)
    _mix(x, c, d, b, 12)
    _mix(x, a, b, d, 8)
    _mix(x, c, d, b, 7)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def fill_words(key: NDArray[np.uint32], begin: int, out: NDArray[np.uint64]) -> None:
    """Fill `out` with the words of a key's stream, starting at word `begin`.

    The key is 8 words of 32 bits. Each output word is eight bytes of the stream, lowest first.
    """
    start, x = np.zeros(16, np.uint32), np.empty(16, np.uint32)
    for i in range(4):
        start[i] = _SIGMA[i]
    for i in range(8):
        start[4 + i] = key[i]
    done = 0
    while done < len(out):
        block, skipped = divmod(begin + done, _WORDS_PER_BLOCK)
        start[12] = np.uint64(block) & _LOW_HALF
        start[13] = np.uint64(block) >> _HALF_WORD
        for i in range(16):
            x[i] = start[i]
        for _ in range(10):
            for i in range(4):
                _quarter_round(x, i, 4 + i, 8 + i, 12 + i)
            for i in range(4):
                _quarter_round(x, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
        for i in range(16):
            x[i] += start[i]
        for i in range(skipped, min(_WORDS_PER_BLOCK, skipped + len(out) - done)):
            out[done] = np.uint64(x[2 * i]) | np.uint64(x[2 * i + 1]) << _HALF_WORD
            done += 1
