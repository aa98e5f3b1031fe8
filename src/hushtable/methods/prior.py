"""What a prior is to a method: public rows, fixed before the private table is read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from hushtable.methods.listing import Listing
from hushtable.privacy.account import Budget
from hushtable.privacy.values import rounded
from hushtable.schema import Schema

Kind = Literal["release", "table"]

READER = "hushtable.prior:StoredPrior"
"""What finds priors; by its name, since reading a release takes more than a method may know."""


@dataclass(frozen=True, eq=False)
class EarlierTable:
    """A public estimate of a table of counts, such as it would be now.

    Parameters
    ----------
    columns : tuple of str
        What it counts by, in the order of the schema.
    cells : tuple of int arrays or None
        For each column the cell of each bucket along its axis; None where each has its own. A
        table of one column has one cell for each counted value.
    shape : tuple of int
        Cells along each axis.
    counts, variances : float array
        The estimates and the variances of their errors, flat in C order.
    """

    columns: tuple[str, ...]
    cells: tuple[NDArray[np.int64] | None, ...]
    shape: tuple[int, ...]
    counts: NDArray[np.float64]
    variances: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Earlier:
    """What earlier releases of the same columns measured, brought to the present.

    Parameters
    ----------
    buckets : mapping of str to int array
        The bucket of each counted value of each column: kept as they were.
    shares : mapping of str to float array
        The shares of the values that resolutions were made by.
    tables : sequence of EarlierTable
        The estimates; each column has one of its own.
    """

    buckets: Mapping[str, NDArray[np.int64]]
    shares: Mapping[str, NDArray[np.float64]]
    tables: Sequence[EarlierTable]


@dataclass(frozen=True)
class PriorRelease:
    """A release that a prior consists of: what it cost, and how a ledger recognizes it."""

    name: str
    cost: Budget  # of its own promise and of the priors that it follows itself
    receipt: str | None  # of the ledger that paid for it, if one did
    digest: str  # of its tables, as a ledger records it

    @property
    def cost_in_words(self) -> str:
        """Epsilon and delta, rounded up."""
        return cost_in_words(self.cost)


def cost_in_words(cost: Budget) -> str:
    """Write epsilon and delta, rounded up.

    Examples
    --------
    >>> cost_in_words(Budget(epsilon=Fraction(1, 10), delta=Fraction(0)))
    'epsilon 0.1, delta 0'
    """
    return f"epsilon {rounded(cost.epsilon)}, delta {rounded(cost.delta)}"


class Prior(ABC):
    """Public rows that a method may start from.

    Attributes
    ----------
    kind : {"release", "table"}
        A release that promises differential privacy, or anything else.
    name : str
        Of its folder or file.
    sha256 : str
        Digest of all that is read.
    releases : tuple of PriorRelease
        The releases that it consists of; none if it is a table.
    """

    kind: Kind
    name: str
    sha256: str
    releases: tuple[PriorRelease, ...]
    UNKNOWN: ClassVar[int] = -1
    """The code of a value that the schema does not have."""

    @property
    def described(self) -> dict[str, str]:
        """What a statement says about it."""
        said = {"kind": self.kind, "name": self.name, "sha256": self.sha256}
        if self.releases:
            said |= {"epsilon": str(self.cost.epsilon), "delta": str(self.cost.delta)}
        return said

    @property
    def cost(self) -> Budget:
        """Cost of all its releases together, by basic composition."""
        return sum((one.cost for one in self.releases), start=Budget())

    @abstractmethod
    def is_file_of(self, data: Any) -> bool:
        """Say whether a path is of the same file; reads nothing."""

    @abstractmethod
    def codes(self, schema: Schema) -> dict[str, NDArray[np.int64]]:
        """Give the rows as codes of a schema, in the columns that both have."""

    def earlier(self, schema: Schema) -> Earlier | None:
        """Give noisy tables that were measured before, where it is these and not the rows."""
        return None


def read_prior(name: str, given: Any) -> Prior:
    """Read a parameter: a prior, a release, or the path of either or of a table."""
    if isinstance(given, Prior):
        return given
    found: Prior = Listing.load(READER).read(name, given)
    return found
