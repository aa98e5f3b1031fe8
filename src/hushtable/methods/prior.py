"""Interface of priors: public rows that are fixed before the private table is read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, ClassVar, Literal

from hushtable.arrays import Floats, Integers
from hushtable.privacy.ledger.budget import Budget
from hushtable.privacy.values import rounded
from hushtable.schema import Schema

Kind = Literal["release", "table"]

READERS = "hushtable.priors"
"""Group of entry points that read priors; methods must not import code that reads releases."""


@dataclass(frozen=True, eq=False)
class EarlierTable:
    """Public estimate of a table of counts, projected to the present."""

    columns: tuple[str, ...]  # the columns that it counts by, in the order of the schema
    # For each column, the position along its axis of the cell that contains each bucket; None if
    # each bucket is its own cell. A one-way table has one cell per counted value.
    cells: tuple[Integers | None, ...]
    shape: tuple[int, ...]  # number of cells along each axis
    counts: Floats  # estimates, flat in C order
    variances: Floats  # variances of their errors, in the same order
    noise_share: float = 1.0  # part of these variances that is noise; the rest is movement


@dataclass(frozen=True, eq=False)
class EarlierEstimates:
    """Estimates from earlier releases of the same columns, projected to the present."""

    buckets: Mapping[str, Integers]  # bucket of each counted value, as before
    shares: Mapping[str, Floats]  # shares of values; resolutions follow
    tables: Sequence[EarlierTable]  # the estimates; every column has a one-way table
    # For each column the variance of a count's change since then, divided by m (1 - m/n) + 1.
    movement: Mapping[str, float]
    size: float  # relative variance of the number of rows


@dataclass(frozen=True)
class PriorRelease:
    """A release that a prior consists of: what it cost, and how a ledger recognizes it."""

    name: str
    cost: Budget  # cost of its own promise and of the priors that it used
    receipt: str | None  # receipt of the ledger that paid for it, if one did
    digest: str  # digest of its tables, as a ledger records it

    @property
    def cost_in_words(self) -> str:
        """Epsilon and delta, rounded up."""
        return cost_in_words(self.cost)


def cost_in_words(cost: Budget) -> str:
    """Write epsilon and delta, rounded up.

    Examples
    --------
    >>> from fractions import Fraction
    >>> cost_in_words(Budget(epsilon=Fraction(1, 10), delta=Fraction(0)))
    'epsilon 0.1, delta 0'
    """
    return f"epsilon {rounded(cost.epsilon)}, delta {rounded(cost.delta)}"


class Prior(ABC):
    """Public rows that a method may use as a prior.

    Attributes
    ----------
    kind : {"release", "table"}
        "release" if it is a release with differential privacy, otherwise "table".
    name : str
        Name of its folder or file.
    sha256 : str
        Digest of everything that is read.
    releases : tuple of PriorRelease
        The releases that it consists of; none if it is a table.
    """

    kind: Kind
    name: str
    sha256: str
    releases: tuple[PriorRelease, ...]
    UNKNOWN: ClassVar[int] = -1
    """Code of a value that is not in the schema."""

    @property
    def described(self) -> dict[str, str]:
        """Description of the prior for the statement."""
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
        """Return whether a path names the same file. Reads nothing."""

    @abstractmethod
    def codes(self, schema: Schema) -> dict[str, Integers]:
        """Return the rows as codes of a schema, for the columns that both have."""

    @property
    def added(self) -> str:
        """Note on the composition of its promise with that of the new release."""
        said = f"It is a release with its own promise ({cost_in_words(self.cost)})"
        return f"{said}, which adds to this one."

    def earlier(self, schema: Schema) -> EarlierEstimates | None:
        """Return earlier noisy tables if the prior consists of these instead of rows, else None."""
        return None


def read_prior(name: str, given: Any) -> Prior:
    """Read the value of a parameter: a prior, a release, or a path of one or of a table."""
    if isinstance(given, Prior):
        return given
    (reader,) = entry_points(group=READERS, name="stored")
    found: Prior = reader.load().read(name, given)
    return found
