"""Reproducible draws: the same in every run of a test, but not in processes that it starts."""

from __future__ import annotations

import os
import zlib

import pytest

from hushtable import SecureNoise, SeededNoise
from hushtable.privacy.noise.noise import Noise
from seeds import shifted

HERE: list[bytes] = []


def drawn(noise: Noise) -> bytes:
    return noise.uniform_below(2**62, size=4).tobytes()


@pytest.fixture(params=[1, 2])
def shared(request: pytest.FixtureRequest) -> bytes:
    return drawn(SecureNoise())


def test_sources_of_one_test_do_not_draw_alike(shared: bytes) -> None:
    all_of_them = {shared, drawn(SecureNoise()), drawn(SecureNoise()), *HERE}
    assert len(all_of_them) == 3 + len(HERE)
    HERE.extend(all_of_them)


def test_a_forked_child_does_not_repeat_its_parent() -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, drawn(SecureNoise()))
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as theirs:
        assert theirs.read() != drawn(SecureNoise())


def test_draws_hang_on_the_name_and_the_shift_alone(request: pytest.FixtureRequest) -> None:
    seed = shifted(zlib.crc32(request.node.nodeid.encode()))
    assert drawn(SecureNoise()) == drawn(SeededNoise(seed))
