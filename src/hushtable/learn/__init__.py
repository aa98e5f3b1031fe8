"""Models trained on releases, with the interface of scikit-learn."""

from hushtable.learn.rating_model import RatingModel
from hushtable.learn.uncertain_neighbors import UncertainNeighbors

__all__ = ["RatingModel", "UncertainNeighbors"]
