"""The noise for releases: words from the operating system."""

from __future__ import annotations

import os

from hushtable.privacy.bit_reader import Words
from hushtable.privacy.keystream import as_words, keystream
from hushtable.privacy.noise import Noise


class SecureNoise(Noise):
    """Draw from the operating system's randomness: the noise for releases.

    Short requests are read from the operating system, long ones are ChaCha20 keystream under a
    key that is read from it for that request alone. Nothing is kept between requests, neither key
    nor unused words, so there is no state that threads could share, that a forked child or a
    restored snapshot could repeat, or that could be read later to recompute past noise.

    Examples
    --------
    >>> SecureNoise().is_private
    True
    """

    is_private = True

    def _words(self, n: int) -> Words:
        raw = os.urandom(8 * n) if n <= 32 else keystream(os.urandom(32)).update(bytes(8 * n))
        return as_words(raw)
