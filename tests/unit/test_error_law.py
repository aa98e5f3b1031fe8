"""Intervals of sums of noise: as wide as exact ones, and never narrower."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hushtable.methods.count_error import gaussian_error
from hushtable.privacy.noise.distributions import laplace_mass
from hushtable.query.answers import cell_sums
from hushtable.query.answers.cell_sums import ErrorLaw

FAR = np.arange(-400, 401)
LAWS = {
    "wide": ErrorLaw(FAR, laplace_mass(0.1, FAR)),
    "narrow": ErrorLaw(FAR[390:411], laplace_mass(3.0, FAR[390:411])),
    "skewed": ErrorLaw(np.arange(5), np.array([0.8, 0.1, 0.05, 0.03, 0.02])),
}


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("n", [512, 2000])
def test_sums_of_many_terms_use_their_moments(
    name: str, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = LAWS[name].quantiles(n, 0.95)
    monkeypatch.setattr(cell_sums, "_MANY", 10**9)
    exact = LAWS[name].quantiles(n, 0.95)
    assert exact[0] - 1 <= told[0] <= exact[0]
    assert exact[1] <= told[1] <= exact[1] + 1


@pytest.mark.parametrize(("variance", "n_counts"), [(2, 1), (25, 1), (25, 4), (900, 2)])
def test_the_forecast_of_gaussian_noise_covers_95_percent_and_hardly_more(
    variance: int, n_counts: int
) -> None:
    """Compared with the exact distribution of the sum."""
    masses = np.exp(-(FAR.astype(float) ** 2) / (2 * variance))
    law = masses / masses.sum()
    total = law
    for _ in range(n_counts - 1):
        total = np.convolve(total, law)
    distance = np.abs(np.arange(len(total)) - len(total) // 2)
    half = gaussian_error(Fraction(variance), n_counts, "").half_width
    assert total[distance <= half].sum() >= 0.95
    assert total[distance <= half - 1.5].sum() < 0.95
