"""Tests of the noise source, on correct sources and on broken ones."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hushtable.audit import noise_check, side_effects
from hushtable.audit.cases import copies, made_schema, whole
from hushtable.audit.subject import Prepared, Subject
from hushtable.methods.base import Released
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.sources import SecureNoise, SeededNoise

SCHEMA = made_schema({"x": whole(3)})


@pytest.mark.parametrize("noise", [SecureNoise(), SeededNoise(1)], ids=lambda n: type(n).__name__)
def test_sound_sources_pass(noise: Noise) -> None:
    """Accused with probability at most 1e-9."""
    finding = noise_check.checked(noise, error=1e-9)
    assert finding.verdict == "NO VIOLATION FOUND", finding.notes


class Rounded(SecureNoise):
    """Another sampler: correct, except for rounding and its last few draws."""

    def discrete_laplace(self, scale: Fraction, *, size: int) -> Any:
        u = (self.uniform_below(1 << 53, size=2 * size) + 0.5) / (1 << 53)
        drawn = np.floor(-float(scale) * np.log(u)).astype(np.int64)
        return drawn[:size] - drawn[size:]


class Clipped(Rounded):
    """The same, truncated at six scales."""

    def discrete_laplace(self, scale: Fraction, *, size: int) -> Any:
        return np.clip(super().discrete_laplace(scale, size=size), -6 * scale, 6 * scale).astype(
            int
        )


def test_other_samplers_need_long_tails_and_the_right_distribution() -> None:
    rounded = noise_check.checked(Rounded(), error=1e-9)
    assert rounded.verdict == "VIOLATION"
    assert "an exact sampler exceeds 40" in rounded.notes[0]
    clipped = noise_check.checked(Clipped(), error=1e-9)
    assert clipped.verdict == "VIOLATION"
    assert any("; expected " in note for note in clipped.notes)


def test_repeated_words_are_counted() -> None:
    words = np.array([[1, 2], [1, 3], [1, 2], [1, 2]], np.uint64)
    assert noise_check.n_repeated(words) == 2


def listened(run: Any) -> Any:
    subject = Subject(None, SCHEMA, Prepared((), run), SecureNoise())  # type: ignore[arg-type]
    return side_effects.checked(subject, [next(iter(copies(SCHEMA, [3]))).one])


@pytest.mark.parametrize(
    "draw",
    [
        lambda noise: np.random.default_rng(int(noise.integer_below(9))).integers(9),
        lambda noise: random.Random(int(noise.integer_below(9))).random(),  # noqa: S311
        lambda noise: random.gauss(0, 1),
        lambda noise: np.random.RandomState(3).randint(9),
    ],
)
def test_calls_of_another_generator_are_detected(draw: Any) -> None:
    finding = listened(lambda engine, noise: Released({}, {"n": float(draw(noise))}))
    assert finding.verdict == "VIOLATION"
    assert "Randomness was requested from" in finding.notes[0]


def test_randomness_without_the_seed_is_detected() -> None:
    own = np.random.default_rng()
    finding = listened(lambda engine, noise: Released({}, {"n": int(own.integers(1 << 40))}))
    assert finding.verdict == "VIOLATION"
    assert "In two runs with the same noise, n differs" in finding.notes[0]


def test_the_given_noise_is_not_another_generator() -> None:
    finding = listened(lambda engine, noise: Released({}, {"n": int(noise.integer_below(9))}))
    assert finding.verdict == "NO VIOLATION FOUND"
