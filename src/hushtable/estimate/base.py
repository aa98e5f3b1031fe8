"""What an analyst gets for a question: a number with an honest interval."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.codes import to_codes
from hushtable.errors import ReleaseError
from hushtable.estimate.drawing import Generator
from hushtable.estimate.published import About, Published, published_rows
from hushtable.recoding import Recoding
from hushtable.schema import Schema

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Answer a count with a 95 % interval and say where its error comes from.

    Parameters
    ----------
    value : float
        The estimate.
    low, high : float
        The 95 % interval.
    privacy_std : float
        Standard deviation of the noise that was added for privacy.
    model_std : float
        How far the assumptions (even spread inside a generalized cell, suppressed rows like
        published ones) may be off, as a standard deviation.
    notes : tuple of str
        What the analyst must know about this number.
    counted : str
        What is counted: rows, distinct tuples, people or nodes.

    Examples
    --------
    >>> print(Estimate(value=120.0, low=112.0, high=128.0, privacy_std=4.0, model_std=0.0))
    120 rows (95 % interval 112 to 128)
    """

    value: float
    low: float
    high: float
    privacy_std: float
    model_std: float
    notes: tuple[str, ...] = ()
    counted: About = "rows"

    @property
    def std(self) -> float:
        """Standard deviation from both sources together."""
        return float((self.privacy_std**2 + self.model_std**2) ** 0.5)

    def to_dict(self) -> dict[str, Any]:
        """Write as plain data."""
        return {**asdict(self), "std": self.std, "notes": list(self.notes)}

    def __str__(self) -> str:
        interval = f"95 % interval {self.low:,.0f} to {self.high:,.0f}"
        return f"{self.value:,.0f} {self.counted} ({interval})"


class Estimator(ABC):
    """Read one kind of release: its statement and its tables, nothing else.

    Parameters
    ----------
    schema : Schema
        What conditions may be about.
    parameters, settings : mapping
        What the statement says about the method, and what the method left for its estimator.
    tables : mapping of str to table
        The published tables; most releases have one, ``data``.
    """

    counted: About = "rows"
    """What answers count."""

    recode: Mapping[str, Recoding] = MappingProxyType({})
    """How columns were made coarser before they were published, for those that were."""

    def __init__(
        self,
        schema: Schema,
        parameters: Mapping[str, Any],
        settings: Mapping[str, Any],
        tables: Mapping[str, pa.Table],
    ) -> None:
        self.schema = schema
        self.parameters = parameters
        self.settings = settings
        self.tables = tables
        self._open()

    def _open(self) -> None:  # noqa: B027 - some need nothing
        """Take from the statement and the tables what answers need."""

    @property
    def table(self) -> pa.Table:
        """The published rows or cells."""
        return self.tables["data"]

    @cached_property
    def codes(self) -> dict[str, NDArray[np.int64]]:
        """The published rows or cells as codes, of the recoded columns where they were."""
        return {
            name: to_codes(column, self.table.column(name), self.recode.get(name))
            for name, column in self.schema.attributes.items()
        }

    @abstractmethod
    def count(self, where: str) -> Estimate:
        """Estimate how many rows of the private table satisfy a WHERE clause."""

    @abstractmethod
    def frame(self) -> pa.Table:
        """Give microdata: one row per published person."""

    @property
    def n_rows(self) -> int:
        """How many rows `frame` gives."""
        return int(self.frame().num_rows)

    def published(self, rng: Generator) -> Published:
        """Say what is published, to be laid beside the original.

        Parameters
        ----------
        rng : Generator
            Where values come from that the release leaves open.
        """
        return published_rows(self.schema, self.frame(), self.recode)

    def drawn_frame(self) -> pa.Table:
        """Give microdata with values drawn from inside generalized cells, where there are any."""
        raise ReleaseError(
            "this kind of release has no generalized cells to draw values from; leave out drawn."
        )

    def generalize(self, codes: Mapping[str, NDArray[np.int64]]) -> pa.Table:
        """Write rows, given as codes of the schema's columns, in the released values."""
        raise ReleaseError("this kind of release has no cuts that other rows could be mapped to.")
