"""Noise scales are those of the proofs, not half of them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hushtable.arrays import Integers
from hushtable.datasets import sample, sample_schema
from hushtable.engine import connect
from hushtable.methods import DiffGen
from hushtable.methods.counts.column_choice import PairMechanism
from hushtable.privacy.composition import concentrated_share
from hushtable.privacy.mechanisms.scored_splits import ScoreChoice, SplitChoice
from hushtable.privacy.noise.sources import SecureNoise


class Listening(SecureNoise):
    """Secure noise that records its parameters."""

    def __init__(self) -> None:
        self.laplace: list[tuple[Fraction, int]] = []
        self.gaussian: list[Fraction] = []

    def discrete_laplace(self, scale: Fraction, *, size: int) -> Integers:
        self.laplace.append((scale, size))
        return super().discrete_laplace(scale, size=size)

    def discrete_gaussian(self, variance: Fraction, *, size: int) -> Integers:
        self.gaussian.append(variance)
        return super().discrete_gaussian(variance, size=size)


@pytest.mark.parametrize("max_rows", [1, 3])
def test_diffgen_class_sizes(max_rows: int) -> None:
    content = sample_schema().to_dict()
    if max_rows > 1:
        content["unit"] = {"kind": "person", "column": "visit", "max_rows": max_rows}
    schema, noise = type(sample_schema()).from_dict(content), Listening()
    method = DiffGen(epsilon=Fraction(1))
    spent = method.forecast(schema).split["class sizes"]
    method.run(connect(sample(), schema), noise)
    n_classes = schema.attributes["diagnosis"].size
    # One row changes one class by one; a person with R rows, the classes by R in all.
    assert noise.laplace[0] == (max_rows / spent, n_classes)


def test_pairs_that_columns_are_chosen_by() -> None:
    counts = np.zeros(5, np.int64)
    few = PairMechanism(n_touched=1, epsilon=Fraction(1), delta=Fraction(1, 10**6))
    many = PairMechanism(n_touched=210, epsilon=Fraction(1, 2), delta=Fraction(1, 10**6))
    noise = Listening()
    few.law.draw(counts, noise)
    many.law.draw(counts, noise)
    assert noise.laplace == [(Fraction(1), 5)]  # L1 sensitivity over epsilon
    rho = concentrated_share(Fraction(1, 2), Fraction(1, 10**6))
    (variance,) = noise.gaussian
    assert 210 / (2 * rho) <= variance < 210 / (2 * rho) + 1  # squared L2 sensitivity over 2 rho


def test_diffgen_as_in_the_paper() -> None:
    """Splits are drawn with exp(epsilon' u / 2), epsilon' = epsilon / (2 (numeric + 2 h))."""
    method = DiffGen(epsilon=Fraction(1), specializations=2, score="max", calibration="paper")
    run = method.plan(sample_schema()).accounted(connect(sample(), sample_schema()), SecureNoise())
    exponents = {
        opening.mechanism.eta
        for opening in run.account.records
        if isinstance(opening.mechanism, SplitChoice | ScoreChoice)
    }
    assert exponents == {Fraction(1, 2 * (1 + 2 * 2)) / 2}
