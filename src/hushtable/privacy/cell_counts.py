"""Publish occupied cells with noisy counts: which cells are seen follows from the noise alone."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from hushtable.errors import SealedError
from hushtable.privacy.count_mechanisms import CountMechanism
from hushtable.privacy.domain_mechanism import NoisyCells
from hushtable.privacy.mechanism import Mechanism
from hushtable.privacy.noise import Noise
from hushtable.privacy.sparse_subset import Keys
from hushtable.privacy.spending import Price, Sensitivity


class CellMechanism(Mechanism):
    """Let out occupied cells; executors may draw from it, each for the cells that it holds.

    So what it draws for a cell must depend on nothing but that cell.
    """

    @abstractmethod
    def draw_some(self, exact: Any, noise: Noise) -> Any:
        """Draw what may be seen of some of the cells that are to be gone through."""

    def draw(self, exact: Any, noise: Noise) -> Any:
        """Draw what may be seen of occupied cells, where these are all there are to go through."""
        if self.whole_domain or type(self).inserted is not CellMechanism.inserted:
            raise SealedError(
                "this noise goes through other cells than the occupied ones, empty ones too: use "
                "publish_cells."
            )
        return self.draw_some(exact, noise)

    @property
    def whole_domain(self) -> bool:
        """Whether empty cells must be gone through, too."""
        return False

    def inserted(self, noise: Noise) -> Keys | None:
        """Draw cells that are gone through beside the occupied ones, whatever those are."""
        return None


@dataclass(frozen=True)
class CellCounts(CellMechanism):
    """Publish the cells that a mechanism for single counts gives a count.

    Where it may publish a cell that nobody is in, it goes through all cells of the domain, and all
    are published; otherwise the occupied ones are all that it could publish.

    Parameters
    ----------
    count : CountMechanism
        What each count goes through.
    """

    count: CountMechanism

    @property
    def whole_domain(self) -> bool:
        """Whether empty cells must be gone through, too."""
        return self.count.shows_absent

    def price(self, sensitivity: Sensitivity) -> Price:
        """Give the price of the counts; which cells are seen is read off them."""
        return self.count.price(sensitivity)

    def draw_some(self, exact: Any, noise: Noise) -> NoisyCells:
        """Draw the published counts of some cells and leave out what is suppressed."""
        noisy = self.count.noisy(exact.counts, noise)
        shown = np.ones(len(noisy), np.bool_) if self.whole_domain else noisy > 0
        # The order is that of the codes, so it says nothing beyond which cells are there.
        return NoisyCells(exact.codes[shown], noisy[shown])
