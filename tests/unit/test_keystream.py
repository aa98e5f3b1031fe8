"""Random words: those of a seed are ChaCha20's, those of a release the operating system's."""

from __future__ import annotations

import hashlib
import os

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from hushtable.kernels.samplers import fill_words
from hushtable.privacy.noise import sources
from hushtable.privacy.noise.sources import SecureNoise, SeededNoise

BLOCK = 8  # words
VECTORS = [  # RFC 8439, A.1: key, counter and the block; those with a nonce of zeros
    ("00" * 32, 0,
     "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
     "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"),
    ("00" * 32, 1,
     "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
     "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"),
    ("00" * 31 + "01", 1,
     "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"
     "8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0"),
    ("00ff" + "00" * 30, 2,
     "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"
     "13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096"),
]  # fmt: skip


def ours(key: bytes, begin: int, n: int) -> bytes:
    words = np.empty(n, np.uint64)
    fill_words(np.frombuffer(key, "<u4").astype(np.uint32), begin, words)
    return words.astype("<u8").tobytes()


def theirs(key: bytes, n: int, *, block: int = 0) -> bytes:
    start = block.to_bytes(16, "little")  # counter and nonce
    return Cipher(algorithms.ChaCha20(key, start), mode=None).encryptor().update(bytes(8 * n))


@pytest.mark.parametrize(("key", "counter", "block"), VECTORS)
def test_blocks_are_those_of_the_standard(key: str, counter: int, block: str) -> None:
    assert ours(bytes.fromhex(key), BLOCK * counter, BLOCK).hex() == block


def test_words_from_anywhere_to_anywhere() -> None:
    key = hashlib.sha256(b"key").digest()
    whole = theirs(key, 5 * BLOCK)
    for begin in range(2 * BLOCK + 2):
        for n in range(3 * BLOCK - 1):
            assert ours(key, begin, n) == whole[8 * begin : 8 * (begin + n)]


@pytest.mark.parametrize("block", [2**32, 2**33 + 5])
def test_the_counter_exceeds_that_of_the_standard(block: int) -> None:
    key = hashlib.sha256(b"key").digest()
    both = theirs(key, BLOCK, block=block - 1) + theirs(key, BLOCK, block=block)
    assert ours(key, BLOCK * (block - 1), 2 * BLOCK) == both


@pytest.mark.parametrize("seed", [0, 7, -3, 2**80])
def test_words_of_a_seed_never_change(seed: int) -> None:
    """Seeded releases and golden files depend on this, however the words are read."""
    key = hashlib.blake2b(str(seed).encode(), digest_size=32, person=b"hushtable seed").digest()
    noise, sizes = SeededNoise(seed), (1, 7, 8, 9, 0, 33, 1, 100_003, 2)
    drawn = b"".join(noise._words(n).astype("<u8").tobytes() for n in sizes)
    assert drawn == theirs(key, sum(sizes))


@pytest.mark.parametrize("n", [0, 1, 32, 33, 1000, 1 << 17])
def test_words_for_releases_are_read_from_the_system_for_each_request(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte comes from the system and is used once."""
    given: list[bytes] = []
    real = os.urandom

    def listening(size: int) -> bytes:
        given.append(real(size))
        return given[-1]

    monkeypatch.setattr(sources, "os", os)
    monkeypatch.setattr(os, "urandom", listening)
    words = [SecureNoise()._words(n) for _ in range(2)]
    assert b"".join(part.tobytes() for part in words) == b"".join(given)
    assert all(len(part) == n and part.flags.writeable for part in words)
