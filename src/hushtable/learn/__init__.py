"""Learn from a release, the scikit-learn way."""

from hushtable.learn.rating_model import RatingModel
from hushtable.learn.uncertain_neighbors import UncertainNeighbors

__all__ = ["RatingModel", "UncertainNeighbors"]
