"""Publication of occupied cells with noisy counts."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from hushtable.errors import SealedError
from hushtable.privacy.accounting.sensitivity import PrivacyCost, Sensitivity
from hushtable.privacy.mechanisms.cells import NoisyCells
from hushtable.privacy.mechanisms.mechanism import Mechanism
from hushtable.privacy.mechanisms.single_counts import CountMechanism
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.sparse_subset import Keys


class CellMechanism(Mechanism):
    """Mechanism that publishes occupied cells; executors may apply it to the cells that they hold.

    What it draws for a cell must therefore depend on that cell alone.
    """

    @abstractmethod
    def draw_some(self, exact: Any, noise: Noise) -> Any:
        """Draw the published part of some of the enumerated cells."""

    def draw(self, exact: Any, noise: Noise) -> Any:
        """Draw the published part of occupied cells, if no others are enumerated."""
        if self.whole_domain or type(self).inserted is not CellMechanism.inserted:
            raise SealedError(
                "this mechanism also enumerates empty cells; use publish_cells instead of "
                "noise.open."
            )
        return self.draw_some(exact, noise)

    @property
    def whole_domain(self) -> bool:
        """True if empty cells must be enumerated too."""
        return False

    def inserted(self, noise: Noise) -> Keys | None:
        """Draw cells to enumerate besides the occupied ones, independently of these; or None."""
        return None


@dataclass(frozen=True)
class CellCounts(CellMechanism):
    """Publication of cells through a mechanism for single counts.

    If the mechanism may publish an empty cell, it enumerates the whole domain and publishes all
    cells; otherwise only occupied cells can be published.
    """

    count: CountMechanism  # applied to each count

    @property
    def whole_domain(self) -> bool:
        """True if empty cells must be enumerated too."""
        return self.count.shows_absent

    def cost(self, sensitivity: Sensitivity) -> PrivacyCost:
        """Return the cost of the counts; which cells are published is a function of them."""
        return self.count.cost(sensitivity)

    def draw_some(self, exact: Any, noise: Noise) -> NoisyCells:
        """Draw the published counts of some cells and omit suppressed ones."""
        noisy = self.count.noisy(exact.counts, noise)
        shown = np.ones(len(noisy), np.bool_) if self.whole_domain else noisy > 0
        # Cells stay in the order of their codes, which reveals nothing beyond their presence.
        return NoisyCells(exact.codes[shown], noisy[shown])
