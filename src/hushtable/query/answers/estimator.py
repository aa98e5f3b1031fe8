"""Base classes of answers: an estimate with its interval, and the estimator of a release."""

from __future__ import annotations

import html
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.errors import Refused, ReleaseError
from hushtable.numeric import NORMAL
from hushtable.query.answers.published import (
    About,
    ComparableRelease,
    Generator,
    encoded,
    published_rows,
)
from hushtable.schema import Date, Schema, Time, Timestamp
from hushtable.schema.calendar import DAY
from hushtable.schema.recoding import Recoding

if TYPE_CHECKING:
    from hushtable.query.answers.plot import Plot
    from hushtable.query.answers.row_sums import RowFunction, SumEstimates


Scope = Literal["people", "population"]
"""Target of an interval: the people in the table, or the population that they were sampled from."""

Support = Literal["measured", "tested", "untested"]
"""How a release supports an answer: *measured* (published tables determine it, up to noise),
*tested* (a model whose fit the release tested on tables of these columns), or *untested* (nothing
determines it; the interval ends at the limits that follow from what was published)."""

SUPPORTED = {
    "measured": "measured directly",
    "tested": "model with tested fit",
    "untested": "untested; any value in the interval is possible",
}
"""Descriptions of how an answer is supported."""

ROWS = "rows"
"""Unit of most counts."""

_SKEWED = 0.05  # an interval whose sides differ by more than this share of it is asymmetric


@dataclass(frozen=True, kw_only=True, repr=False)
class Estimate:
    """An estimate with its 95% interval and the sources of its error.

    Parameters
    ----------
    value : float
        The estimate.
    low, high : float
        Ends of the 95% interval.
    privacy_std : float
        Standard deviation of the noise that was added for privacy.
    model_std : float
        Standard deviation that allows for wrong assumptions, such as rows spread evenly inside a
        generalized cell, or suppressed rows that resemble published ones. If `std` is None, the
        error has no such distribution; use the interval.
    sampling_std : float
        Standard deviation from sampling people from a population; the exact answer for the table
        has it too. The interval includes it if `scope` is "population".
    scope : {"people", "population"}
        Target of the interval: the people in the table, or the population that they are an
        independent sample of.
    what : str
        What is counted or computed.
    notes : tuple of str
        What the analyst must know about this estimate.
    support : {"measured", "tested", "untested"}, optional
        How the release supports the estimate. By default it is measured if there is no model error,
        else untested.
    moment : {"", "date", "timestamp", "time"}
        How to format the value if it is a date or time. The numbers are then seconds since 1970 (of
        a time of day, since midnight), and standard deviations are in seconds.

    Examples
    --------
    >>> print(Estimate(value=120.0, low=112.0, high=128.0, privacy_std=4.0, model_std=0.0))
    120 rows (95% interval 112 to 128)
    >>> print(Estimate(value=1.5, low=1.31, high=1.69, privacy_std=0.1, model_std=0.0,
    ...                what="mean of wait"))
    mean of wait: 1.50 (95% interval 1.31 to 1.69)
    >>> day = 86_400.0
    >>> print(Estimate(value=400.2 * day, low=398.7 * day, high=401.7 * day, privacy_std=day,
    ...                model_std=0.0, what="mean of born", moment="date"))
    mean of born: 1971-02-05 (95% interval 1971-02-03 to 1971-02-07)
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
    support: Support | None = None

    def __post_init__(self) -> None:
        if self.support is None:
            object.__setattr__(self, "support", "untested" if self.model_std else "measured")

    @property
    def reach(self) -> float:
        """Distance from the value to the farther end of the interval."""
        return max(self.high - self.value, self.value - self.low)

    @property
    def std(self) -> float | None:
        """Standard deviation of a normal error with this interval, from all sources.

        None if the answer is untested (its ends are limits), or if the interval is unbounded or not
        symmetric, except for a count whose interval ends at 0: then the normal error is cut off.
        """
        if not math.isfinite(self.reach) or self.support == "untested":
            return None
        cut_off = self.what.startswith(COUNTED) and self.low == 0
        skew = abs((self.high - self.value) - (self.value - self.low))
        if skew > _SKEWED * (self.high - self.low) and not cut_off:
            return None
        return self.reach / NORMAL

    @classmethod
    def exact(cls, value: float) -> Estimate:
        """Return a number without error."""
        return cls(value=value, low=value, high=value, privacy_std=0.0, model_std=0.0)

    def complement(self, part: Estimate) -> Estimate:
        """Return this total minus a part of it, at least 0.

        Independent noise adds in squares; a model error may be at its limit, so half-widths add.
        """
        add = math.hypot if part.model_std == 0 else operator.add
        value = self.value - part.value
        return replace(
            part,
            value=max(0.0, value),
            low=max(0.0, value - add(self.value - self.low, part.high - part.value)),
            high=max(0.0, value) + add(self.high - self.value, part.value - part.low),
            privacy_std=math.hypot(self.privacy_std, part.privacy_std),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as plain data; unknown or unbounded numbers are None."""
        plain = {**asdict(self), "std": self.std, "notes": list(self.notes)}
        if self.std is None:
            plain["model_std"] = None
        if self.moment:
            plain["written"] = dict(zip(("value", "low", "high"), self.figures(), strict=True))
        else:
            del plain["moment"]
        return {
            name: None if isinstance(part, float) and not math.isfinite(part) else part
            for name, part in plain.items()
        }

    def figures(self) -> tuple[str, str, str]:
        """Format value and interval, rounded according to the width of the interval."""
        if self.moment:
            ends = (self.value, round), (self.low, math.floor), (self.high, math.ceil)
            return tuple(_moment(number, to, self.moment) for number, to in ends)  # type: ignore[return-value]
        numbers = (self.value, self.low, self.high)
        whole = all(math.isfinite(number) and number == round(number) for number in numbers)
        width = 0.0 if whole else self.high - self.low  # quantiles of integers have no decimals
        return tuple(written(number, width, self.what) for number in numbers)  # type: ignore[return-value]

    def __str__(self) -> str:
        value, low, high = self.figures()
        text = f"{value} {self.what}" if self.what.startswith(COUNTED) else f"{self.what}: {value}"
        said = "" if self.support == "measured" else f"; {SUPPORTED[str(self.support)]}"
        return f"{text} (95% interval {low} to {high}{said})"

    def __repr__(self) -> str:
        return "\n  ".join([str(self), *self.notes])

    def plot(self) -> Plot:
        """Plot the estimate with its interval.

        Returns
        -------
        Plot
            The plot, which notebooks show; ``save("plot.svg")`` writes it to a file.
        """
        from hushtable.query.answers.plot import plot  # noqa: PLC0415 - rarely needed

        return plot((), {(): self}, self.what, written, bars=False)

    def _repr_html_(self) -> str:
        value, low, high = self.figures()
        notes = "".join(f"<br><small>{html.escape(note)}</small>" for note in self.notes)
        return (
            f"<div>{html.escape(self.what)}: <b>{value}</b> "
            f"(95% interval {low} to {high}, about the {self.scope}; "
            f"{SUPPORTED[str(self.support)]}){notes}</div>"
        )


def _moment(second: float, to: Callable[[float], int], kind: str) -> str:
    """Format seconds as a date or time, rounded to whole days or seconds."""
    if not math.isfinite(second):
        return written(second, 0.0)
    if kind == "date":
        return Date.written(DAY * to(second / DAY))
    return (Timestamp if kind == "timestamp" else Time).written(to(second))


def written(number: float, width: float, what: str = ROWS) -> str:
    """Format a number with two significant digits of its interval's width; counts have no decimals.

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
    if what.startswith(COUNTED):
        return f"{number:,.0f}"
    if width > 0 and math.isfinite(width):
        digits = min(max(0, 1 - math.floor(math.log10(width))), 12)
    elif number == round(number):  # exact, or a value of an integer column
        digits = 0
    else:
        digits = 4 if abs(number) < 1000 else 0
    return f"{number:z,.{digits}f}"


NOTHING = 1e-9
"""Counts up to this one are rounding errors of 0."""

COUNTED = (ROWS, "distinct tuples", "people", "nodes")
"""Beginnings of units of counts."""


def count_of(
    sums: SumEstimates, place: int, n_rows: float, *, scope: Scope, stretch: float = 1.0
) -> Estimate:
    """Return one of several sums as a count, with its interval widened by the factor `stretch`."""
    raw = float(sums.values[place])
    value = raw if raw > NOTHING else 0.0
    sampling = value * max(0.0, 1.0 - value / n_rows)
    added = sampling + 1.0 if scope == "population" else 0.0
    noise = math.sqrt(sums.privacy_z**2 * float(sums.privacy[place, place]) + NORMAL**2 * added)
    model = sums.model_z * math.sqrt(float(sums.model[place, place]))
    half = stretch * (noise + model if sums.supported == "untested" else math.hypot(noise, model))
    low, high = max(0.0, raw - half), value + half  # a negative estimate does not rule out counts
    if sums.limits is not None and not math.isnan(sums.limits[0, place]):
        low, high = np.maximum(sums.limits[:, place], 0.0).tolist()
        value = min(max(value, low), high)
    return Estimate(
        value=value,
        low=low,
        high=high,
        privacy_std=math.sqrt(float(sums.privacy[place, place])),
        model_std=math.sqrt(float(sums.model[place, place])),
        sampling_std=math.sqrt(sampling),
        scope=scope,
        what=sums.counted,
        notes=sums.notes,
        support=sums.supported,
    )


class Estimator(ABC):
    """Base class of estimators: answers questions from the statement and tables of one release.

    Parameters
    ----------
    schema : Schema
        Columns that conditions may refer to.
    parameters, settings : mapping
        The method's parameters from the statement, and settings that it stored for its estimator.
    tables : mapping of str to table
        The published tables; most releases have one, ``data``.
    """

    counted: About = "rows"
    """Unit of counts."""

    @property
    def unit_text(self) -> str:
        """Unit of counts for display."""
        return self.counted

    recode: Mapping[str, Recoding] = MappingProxyType({})
    """Recodings of columns that were generalized before publication, by column."""

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
        """Extract what answers need from the statement and the tables."""

    @property
    def table(self) -> pa.Table:
        """The published rows or cells."""
        return self.tables["data"]

    @cached_property
    def codes(self) -> dict[str, NDArray[np.int64]]:
        """The published rows or cells as codes, generalized columns as codes of their recoding."""
        return encoded(self.schema, self.table, self.recode)

    @abstractmethod
    def count(self, where: str) -> Estimate:
        """Estimate how many rows of the private table satisfy a WHERE clause."""

    @property
    def bounded(self) -> str:
        """Note that counts are limited to some rows per person; "" if all rows count."""
        unit = self.schema.unit
        if unit.kind != "person":
            return ""
        return (
            f"At most {unit.max_rows} rows per person are used, chosen at random; the answer "
            "refers to these rows."
        )

    counts_are_sums: bool = False
    """True if `sums` estimates counts as well as `count`; it answers many at once."""

    quantiles_by_counts: bool = False
    """True if quantiles must be computed from counts: `sums` does not support ranges, or assumes
    rows spread inside split cells, while counts allow for all of them at one value."""

    def of(self, name: str) -> Estimator:
        """Return the estimator for the rows of one linked table."""
        raise Refused(f"this release has no linked tables, so it has no table {name!r}.")

    @property
    def asked(self) -> Schema:
        """Schema of the columns that questions may use."""
        return self.schema

    def sums(self, functions: Sequence[RowFunction], *, together: bool = True) -> SumEstimates:
        """Estimate sums of functions over the rows of the private table.

        All answers except counts are computed from such sums; see
        `hushtable.query.answers.moments`.

        Parameters
        ----------
        functions : sequence of RowFunction
            Functions to sum.
        together : bool
            Whether the covariance of the sums is needed; otherwise only variances are computed.
        """
        raise Refused(
            "this kind of release answers only counts; ask for a count, or compute results from "
            "the rows of frame(), without intervals."
        )

    def by_bin(self, name: str) -> tuple[Estimator, NDArray[np.int64]]:
        """Return the bin of each code of a column, and an estimator whose codes are the bins.

        The release says nothing about the values inside of a bin. By default, each code is a bin.
        """
        return self, np.arange(self.asked.attributes[name].size)

    @abstractmethod
    def frame(self) -> pa.Table:
        """Return microdata: one row for each published row."""

    @property
    def n_rows(self) -> int:
        """Number of rows of `frame`."""
        return int(self.frame().num_rows)

    def redrawn(self, rng: Generator) -> tuple[dict[str, NDArray[np.int64]], NDArray[np.float64]]:
        """Sample rows that reflect the uncertainty of the release: codes and weights.

        As far as noise is the cause, samples differ from each other as much as each differs from
        the private table.
        """
        raise Refused(
            "this kind of release cannot sample rows that reflect its uncertainty; use "
            "mean(), regression() and other answers, which have intervals."
        )

    def is_measured(self, columns: Sequence[str]) -> bool:
        """Return whether a published table contains these columns together."""
        return True

    def published(self, rng: Generator) -> ComparableRelease:
        """Return the release in a form that can be compared with the original.

        `rng` samples values that the release leaves open.
        """
        return published_rows(self.schema, self.frame(), self.recode)

    def drawn_frame(self) -> pa.Table:
        """Return microdata with values sampled from inside generalized cells."""
        raise ReleaseError(
            "this kind of release has no generalized cells to sample values from; omit drawn."
        )

    def generalize(self, codes: Mapping[str, NDArray[np.int64]]) -> pa.Table:
        """Generalize rows, given as codes of the schema's columns, to the released values."""
        raise ReleaseError("this kind of release has no cuts to map other rows to.")
