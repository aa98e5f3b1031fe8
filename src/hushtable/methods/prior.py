"""What a prior is to a method: public rows, fixed before the private table is read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from hushtable.methods.listing import Listing
from hushtable.schema import Schema

Kind = Literal["release", "table"]

READER = "hushtable.prior:StoredPrior"
"""What finds priors; by its name, since reading a release takes more than a method may know."""


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
    """

    kind: Kind
    name: str
    sha256: str
    UNKNOWN: ClassVar[int] = -1
    """The code of a value that the schema does not have."""

    @property
    def described(self) -> dict[str, str]:
        """What a statement says about it."""
        return {"kind": self.kind, "name": self.name, "sha256": self.sha256}

    @abstractmethod
    def is_file_of(self, data: Any) -> bool:
        """Say whether a path is of the same file; reads nothing."""

    @abstractmethod
    def codes(self, schema: Schema) -> dict[str, NDArray[np.int64]]:
        """Give the rows as codes of a schema, in the columns that both have."""


def read_prior(name: str, given: Any) -> Prior:
    """Read a parameter: a prior, a release, or the path of either or of a table."""
    if isinstance(given, Prior):
        return given
    found: Prior = Listing.load(READER).read(name, given)
    return found
