from .release import Release, SeededReleaseWarning
from .statement import Statement

__all__ = [
    "Release",
    "SeededReleaseWarning",
    "Statement",
]
