"""Words of a ChaCha20 keystream."""

from __future__ import annotations

from typing import Any

import numpy as np

from hushtable.extras import needing
from hushtable.privacy.bit_reader import Words


def keystream(key: bytes) -> Any:
    """Start the keystream of a key of 32 bytes: it encrypts what it is given, in order."""
    with needing("publish", "randomness"):
        from cryptography.hazmat.primitives.ciphers import (  # noqa: PLC0415 - readers draw none
            Cipher,
            algorithms,
        )
    # A key is used for one stream only, so the nonce may be constant.
    return Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()


def as_words(raw: bytes) -> Words:
    """Read random bytes as words, the same ones on every machine."""
    return np.frombuffer(raw, "<u8").astype(np.uint64)
