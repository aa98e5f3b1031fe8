"""Noise sources by name."""

from __future__ import annotations

from typing import Literal

from hushtable.errors import ParameterError
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.secure_noise import SecureNoise
from hushtable.privacy.noise.sources import OpenDPNoise


def make_noise(noise: Literal["secure", "opendp"] | Noise = "secure") -> Noise:
    """Return the noise of that name, or the noise itself.

    Examples
    --------
    >>> make_noise("secure").is_private
    True
    """
    if isinstance(noise, Noise):
        return noise
    if noise == "secure":
        return SecureNoise()
    if noise == "opendp":
        return OpenDPNoise()
    raise ParameterError(f"noise: {noise!r} is unknown. Use 'secure', 'opendp' or a Noise.")
