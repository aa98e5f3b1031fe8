from .noise import Noise
from .sources import SecureNoise, SeededNoise

__all__ = [
    "Noise",
    "SecureNoise",
    "SeededNoise",
]
