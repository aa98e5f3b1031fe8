"""Secure noise for releases, from the operating system."""

from __future__ import annotations

import os

import numpy as np

from hushtable.privacy.noise.bit_reader import Words
from hushtable.privacy.noise.noise import Noise


class SecureNoise(Noise):
    """Noise from the operating system's randomness, for releases.

    Every word is read from the operating system when it is needed. No key and no unused words are
    stored, so there is no state that threads could share, that a forked child or a restored
    snapshot could repeat, or that could be read later to recompute past noise.

    Examples
    --------
    >>> SecureNoise().is_private
    True
    """

    is_private = True

    def _words(self, n: int) -> Words:
        # A copy: some samplers write into their words.
        return np.frombuffer(os.urandom(8 * n), np.uint64).copy()
