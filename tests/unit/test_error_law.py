"""Intervals of sums of noise: as wide as exact ones, and never narrower."""

from __future__ import annotations

import numpy as np
import pytest

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
