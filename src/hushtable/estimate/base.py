"""What an analyst gets for a question: a number with an honest interval."""

from __future__ import annotations

import html
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.codes import to_codes
from hushtable.errors import Refused, ReleaseError
from hushtable.estimate.drawing import Generator
from hushtable.estimate.published import About, Published, published_rows
from hushtable.recoding import Recoding
from hushtable.schema import Date, Schema, Time, Timestamp
from hushtable.schema.moments import DAY

if TYPE_CHECKING:
    from hushtable.estimate.row_functions import RowFunction
    from hushtable.estimate.sums import Sums

CONFIDENCE = 0.95


Scope = Literal["people", "population"]
"""What an answer is about: the people in the table, or the population they were sampled from."""

ROWS = "rows"
"""What most counts count."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Answer a question with a 95 % interval and say where its error comes from.

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
    sampling_std : float
        Standard deviation that comes from the people in the table being a sample: what the exact
        answer for the table would have, too. It is part of the interval where the answer is about
        the population.
    scope : {"people", "population"}
        What the interval is about: the people in the table, or the population that they are an
        independent sample of.
    what : str
        What is counted or computed.
    notes : tuple of str
        What the analyst must know about this number.
    moment : {"", "date", "timestamp", "time"}
        What the value is written as where it is a moment. The numbers are then seconds since 1970,
        of a time since midnight, and standard deviations are lengths of time in seconds.

    Examples
    --------
    >>> print(Estimate(value=120.0, low=112.0, high=128.0, privacy_std=4.0, model_std=0.0))
    120 rows (95 % interval 112 to 128)
    >>> print(Estimate(value=1.5, low=1.31, high=1.69, privacy_std=0.1, model_std=0.0,
    ...                what="mean of wait"))
    mean of wait: 1.50 (95 % interval 1.31 to 1.69)
    >>> day = 86_400.0
    >>> print(Estimate(value=400.2 * day, low=398.7 * day, high=401.7 * day, privacy_std=day,
    ...                model_std=0.0, what="mean of born", moment="date"))
    mean of born: 1971-02-05 (95 % interval 1971-02-03 to 1971-02-07)
    """

    value: float
    low: float
    high: float
    privacy_std: float
    model_std: float
    sampling_std: float = 0.0
    scope: Scope = "people"
    what: str = ROWS
    notes: tuple[str, ...] = ()
    moment: Literal["", "date", "timestamp", "time"] = ""

    @property
    def std(self) -> float:
        """Standard deviation from all sources together that the scope has."""
        sampling = self.sampling_std if self.scope == "population" else 0.0
        return float((self.privacy_std**2 + self.model_std**2 + sampling**2) ** 0.5)

    def to_dict(self) -> dict[str, Any]:
        """Write as plain data; a number that is not known is None."""
        plain = {**asdict(self), "std": self.std, "notes": list(self.notes)}
        if self.moment:
            plain["written"] = dict(zip(("value", "low", "high"), self.figures(), strict=True))
        else:
            del plain["moment"]
        return {
            name: None if isinstance(part, float) and not math.isfinite(part) else part
            for name, part in plain.items()
        }

    def figures(self) -> tuple[str, str, str]:
        """Write value and interval with the digits that the interval is worth."""
        if self.moment:
            ends = (self.value, round), (self.low, math.floor), (self.high, math.ceil)
            return tuple(_moment(number, to, self.moment) for number, to in ends)  # type: ignore[return-value]
        return tuple(written(number, self.high - self.low, self.what) for number in
                     (self.value, self.low, self.high))  # type: ignore[return-value]  # fmt: skip

    def __str__(self) -> str:
        value, low, high = self.figures()
        said = f"{value} {self.what}" if self.what in COUNTED else f"{self.what}: {value}"
        return f"{said} (95 % interval {low} to {high})"

    def _repr_html_(self) -> str:
        value, low, high = self.figures()
        notes = "".join(f"<br><small>{html.escape(note)}</small>" for note in self.notes)
        return (
            f"<div>{html.escape(self.what)}: <b>{value}</b> "
            f"(95 % interval {low} to {high}, about the {self.scope}){notes}</div>"
        )


def _moment(second: float, to: Callable[[float], int], kind: str) -> str:
    """Write seconds as a moment, rounded to whole days or seconds."""
    if not math.isfinite(second):
        return written(second, 0.0)
    if kind == "date":
        return Date.written(DAY * to(second / DAY))
    return (Timestamp if kind == "timestamp" else Time).written(to(second))


def written(number: float, width: float, what: str = ROWS) -> str:
    """Write a number with two digits of the width of its interval; counts are whole.

    Examples
    --------
    >>> written(38.61234, 0.22, "mean of age"), written(1234.5, 80.0, "mean of pay")
    ('38.61', '1,234')
    >>> written(-0.001, 0.5, "slope"), written(21.0, 0.0, "median of age")
    ('0.00', '21')
    """
    if math.isnan(number):
        return "-"
    if math.isinf(number):
        return "unbounded" if number > 0 else "-unbounded"
    if what in COUNTED:
        return f"{number:,.0f}"
    if width > 0 and math.isfinite(width):
        digits = min(max(0, 1 - math.floor(math.log10(width))), 12)
    elif number == round(number):  # exact, or a value of a column of whole numbers
        digits = 0
    else:
        digits = 4 if abs(number) < 1000 else 0
    return f"{number:z,.{digits}f}"


COUNTED = (ROWS, "distinct tuples", "people", "nodes")
"""What counts are of."""


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

    @property
    def bounded(self) -> str:
        """Say which rows counts are about, where a person has several; "" where all are."""
        unit = self.schema.unit
        if unit.kind != "person":
            return ""
        return (
            f"Of each person at most {unit.max_rows} rows are used, chosen at random; the answer "
            "is about these."
        )

    counts_are_sums: bool = False
    """Whether `sums` tells counts as well as `count` does; it answers many at once."""

    quantiles_by_counts: bool = False
    """Whether quantiles must be told from counts: where `sums` takes no ranges, or takes rows as
    spread inside cells that a quantile cuts, while counts allow for all of them at one value."""

    @property
    def asked(self) -> Schema:
        """The schema of the columns that questions may be about."""
        return self.schema

    def sums(self, functions: Sequence[RowFunction], *, together: bool = True) -> Sums:
        """Estimate sums of functions over the rows of the private table.

        All answers beyond counts are made of these, see `hushtable.estimate.moments`.

        Parameters
        ----------
        functions : sequence of RowFunction
            What to add up.
        together : bool
            Whether the covariance of the sums matters; otherwise only their variances are told.
        """
        raise Refused(
            "this kind of release answers counts alone: ask for a count or a share, or compute "
            "from the rows of frame(), whose errors it cannot tell."
        )

    @abstractmethod
    def frame(self) -> pa.Table:
        """Give microdata: one row per published person."""

    @property
    def n_rows(self) -> int:
        """How many rows `frame` gives."""
        return int(self.frame().num_rows)

    def kept(self) -> dict[tuple[str, str], float]:
        """Say for pairs of columns how much of their dependence the rows kept, where it is known.

        Told from noise, shrinkage and what is published; the private table is not needed.
        """
        return {}

    def redrawn(self, rng: Generator) -> tuple[dict[str, NDArray[np.int64]], NDArray[np.float64]]:
        """Draw rows from the uncertainty of the release: codes of the schema, and weights.

        Draws differ from each other as each differs from the truth, as far as noise makes it.
        """
        raise Refused(
            "this kind of release cannot draw rows from its uncertainty; its answers have "
            "intervals by themselves: mean(), regression() and others."
        )

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
