from .noise import Noise
from .secure_noise import SecureNoise
from .seeded_noise import SeededNoise

__all__ = [
    "Noise",
    "SecureNoise",
    "SeededNoise",
]
