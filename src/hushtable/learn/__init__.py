"""Learn from a release, the scikit-learn way."""

from hushtable.learn.uncertain_neighbors import UncertainNeighbors

__all__ = ["UncertainNeighbors"]
