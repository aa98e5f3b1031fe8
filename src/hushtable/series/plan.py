"""The plan of a series: the budget of each wave, fixed before any data is read.

``series.md`` proves that all waves together keep the promise.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from hushtable.errors import ParameterError
from hushtable.files.texts import Texts
from hushtable.files.yaml_text import read_yaml, write_yaml
from hushtable.methods.parameters import Parameters, parameter, whole
from hushtable.methods.parameters import delta as read_delta
from hushtable.methods.parameters import epsilon as read_epsilon
from hushtable.methods.quilt.binning import values_of
from hushtable.methods.quilt.budget import BudgetShares, as_share
from hushtable.methods.quilt.quilt import Quilt
from hushtable.numeric import NORMAL
from hushtable.privacy.composition import concentrated_share
from hushtable.privacy.ledger.budget import RHO_GRID, Budget, LedgerCap
from hushtable.privacy.rational import as_rational, bisect_exact
from hushtable.schema import Schema
from hushtable.schema.linked_schema import PREVIOUS
from hushtable.series.drift import CountPath

MOST_FIRST, WAVES_FOR_ONE = 6, 4
"""Share of the first wave, in shares of another one: one per four waves, from one to six.

It is larger because all later waves depend on the first.
"""

MOST_WAVES = 10_000

PANEL_COLUMNS = ("wave", "person")
"""Names of the columns added to those of synthetic people."""

MOVES_SHARE = Fraction(1, 4)
"""Share of a panel wave's budget for transitions, if there is a previous wave."""

_FORMAT = 1
_EPSILON_GRID = 10**6
_SHARE = 0.1  # of the rows in a typical count
_SHOWN = 24  # waves in the forecast of an unlimited series


said = Texts("hushtable.series")
"""Notes and messages."""


def _delta(name: str, given: Any) -> Fraction:
    """Read a delta above 0."""
    if not as_rational(given, name=name):
        raise ParameterError(
            "delta is 0; a series composes in rho, which needs a delta, such as 1e-6."
        )
    return read_delta(name, given)


def _change(name: str, given: Any) -> float:
    """Read the expected share of people who change."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= 1:
        raise ParameterError(f"{name} is {given!r}; it must be above 0 and at most 1.")
    return given


@dataclass(frozen=True, kw_only=True)
class SeriesPlan(Parameters):
    """Division of the budget of a series over its waves.

    Parameters
    ----------
    epsilon, delta : number or str
        The promise for everything that is ever published of the series, for each person with all
        rows in all waves.
    waves : int, optional
        Number of waves. The first gets a multiple of the share of each other wave: a quarter of
        this number, at least 1 and at most 6. All others depend on it.
    spares : int
        Number of additional releases: corrections, and waves whose run was lost.
    horizon : int, optional
        For an unlimited series, instead of `waves`: half of the budget is spent by this wave, two
        thirds by twice as many, and so on without end. Additional releases use the same budget.
    change : float
        Assumed share of people that changes from one wave to the next, from public knowledge. The
        forecast and the second wave use it; afterward it is estimated from noisy tables.
    panel : bool
        Whether people are followed from wave to wave. Rows then have synthetic persons, and a
        quarter of the budget of a wave is spent on transitions.
    extensions : tuple of pairs of int
        Later decisions on the number of waves: the number of releases charged before, and the
        number of waves afterward (see `extended`).

    Examples
    --------
    >>> plan = SeriesPlan(epsilon=2, delta="1e-6", waves=24)
    >>> plan.share(1), plan.share(2)
    (Fraction(1, 5), Fraction(1, 30))
    >>> SeriesPlan(epsilon=1, delta=0, waves=0)
    Traceback (most recent call last):
    ...
    hushtable.errors.ParameterError: delta is 0; ...
    waves is 0; it must be a whole number from 1 to 10,000.
    """

    epsilon: Fraction = parameter(read=read_epsilon)
    delta: Fraction = parameter(read=_delta)
    waves: int | None = parameter(read=whole(1, MOST_WAVES), default=None)
    spares: int = parameter(read=whole(0, MOST_WAVES), default=1)
    horizon: int | None = parameter(read=whole(1, MOST_WAVES), default=None)
    change: float = parameter(read=_change, default=0.05)
    panel: bool = parameter(default=False)
    extensions: tuple[tuple[int, int], ...] = parameter(
        read=lambda _, given: tuple(map(tuple, given)), default=()
    )

    def _problems(self, *, fields_are_right: bool) -> list[str]:
        if (self.waves is None) != (self.horizon is None):
            return []
        return ["give exactly one of waves (their number) and horizon (for an unlimited series)."]

    # --- the budget -------------------------------------------------------------------------------

    @property
    def rho(self) -> Fraction:
        """Budget of all releases together, as the ledger counts it."""
        account = LedgerCap.shared(Budget(epsilon=self.epsilon, delta=self.delta))
        if account is None:
            raise ParameterError(said("no rho", epsilon=self.epsilon, delta=self.delta))
        return account.concentrated.rho

    @property
    def wave_delta(self) -> Fraction:
        """Delta of the stated promise of a single wave.

        Waves compose in rho, so their deltas need not sum to the delta of the series.
        """
        return self.delta / 4

    def share(self, place: int) -> Fraction:
        """Return the share of the budget for the release at a place, starting at 1.

        Places are in the order of publication, not of the waves' numbers.
        """
        if self.waves is None:
            k = self.horizon or 1
            return Fraction(k, (k + place - 1) * (k + place))
        first = min(max(self.waves // WAVES_FOR_ONE, 1), MOST_FIRST)
        shared, end = Fraction(1, first + self.waves - 1 + self.spares), self.waves + self.spares
        for charged, waves in self.extensions:
            if place <= charged:
                break
            shared, end = (
                shared * Fraction(end - charged, waves + self.spares - charged),
                (waves + self.spares),
            )
        if place > end:
            return Fraction(0)
        return first * shared if place == 1 else shared

    @property
    def planned(self) -> int | None:
        """Number of planned waves, with extensions."""
        return self.extensions[-1][1] if self.extensions else self.waves

    def extended(self, waves: int, *, charged: int) -> SeriesPlan:
        """Return a plan with more waves: they share what `charged` releases left of the budget.

        Examples
        --------
        >>> plan = SeriesPlan(epsilon=2, delta="1e-6", waves=3, spares=1).extended(7, charged=2)
        >>> [str(plan.share(place)) for place in range(1, 10)]
        ['1/4', '1/4', '1/12', '1/12', '1/12', '1/12', '1/12', '1/12', '0']
        """
        if self.planned is None:
            raise ParameterError("this series has no fixed end, so it needs no extension.")
        if waves <= self.planned or waves > MOST_WAVES:
            raise ParameterError(
                said("too few waves", waves=waves, planned=self.planned, most_waves=MOST_WAVES)
            )
        if not 1 <= charged < self.planned + self.spares:
            raise ParameterError(
                said("nothing to share", charged=charged, releases=self.planned + self.spares)
            )
        return replace(self, extensions=(*self.extensions, (charged, waves)))

    def method(self, place: int) -> Quilt:
        """Return the method of the release at a place, with its budget."""
        share = self.share(place)
        if not share:
            raise ParameterError(said("no budget left", planned=self.planned, spares=self.spares))
        return Quilt(epsilon=largest_epsilon(share * self.rho, self.wave_delta, self.epsilon),
                     delta=self.wave_delta, accounting="concentrated")  # fmt: skip

    # --- forecast ---------------------------------------------------------------------------------

    def forecast(self, schema: Schema, rows: int, *, share: float = _SHARE) -> Expected:
        """Forecast the errors of a level, a change and a trend, before any data is read.

        Parameters
        ----------
        schema : Schema
            Schema of the waves.
        rows : int
            Approximate number of rows of a wave, from public knowledge.
        share : float
            Share of rows in the count, by a typical column.

        Returns
        -------
        Expected
            Half-widths of 95% intervals, in rows.
        """
        n = min(self.waves or _SHOWN, 10 * _SHOWN)
        variances = np.array([self._variance(place, schema, rows, share) for place in _places(n)])
        variances = np.interp(np.arange(1, n + 1), _places(n), variances)
        step = 2 * self.change * rows * share * (1 - share) + 1.0
        walk = CountPath.of(range(1, n + 1), np.zeros(n), variances, step)
        last = np.eye(n)[-1]
        change = last - np.eye(n)[-2] if n > 1 else None
        slope = slope_weights(walk.waves) if n > 2 else None
        moved = NORMAL * self._move_std(n, schema) if self.panel and n > 1 else None
        return Expected(
            waves=n,
            alone=NORMAL * math.sqrt(float(variances[-1])),
            level=NORMAL * math.sqrt(walk.weighed(last)[1]),
            change=None if change is None else NORMAL * math.sqrt(walk.weighed(change)[1]),
            trend=None if slope is None else NORMAL * math.sqrt(walk.weighed(slope)[1]),
            moved=moved,
        )

    def _variance(self, place: int, schema: Schema, rows: int, share: float) -> float:
        whole = self.method(place).plan(schema)
        follows = self.panel and place > 1
        plan = replace(whole, total=(1 - MOVES_SHARE) * whole.total) if follows else whole
        error = plan.count_error(rows=rows, share=share)
        typical = error.half_width if error.typical is None else error.typical
        return (typical / NORMAL) ** 2

    def _move_std(self, place: int, schema: Schema) -> float:
        """Return the standard deviation of a count of people who moved between two values."""
        plan = self.method(place).plan(schema)
        return moves_budget(plan.total).count_noise(share_of_moves(len(plan.values))).std

    # --- on disk ----------------------------------------------------------------------------------

    def to_yaml(self) -> str:
        """Return the plan as YAML text."""
        plain = {name: str(v) if isinstance(v, Fraction) else v for name, v in asdict(self).items()}
        plain["extensions"] = [list(one) for one in self.extensions]
        for name in ("panel", "extensions"):  # as in versions without them
            if not plain[name]:
                del plain[name]
        return write_yaml({"format": _FORMAT, **{k: v for k, v in plain.items() if v is not None}})

    @classmethod
    def load(cls, path: Path) -> SeriesPlan:
        """Read a plan that `to_yaml` wrote."""
        try:
            content: Any = read_yaml(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ParameterError(f"{path.name} of the series cannot be read: {error}") from None
        if not isinstance(content, dict) or content.pop("format", None) != _FORMAT:
            raise ParameterError(f"{path.name} is not a series plan of this version.")
        try:
            return cls(**content)
        except TypeError:
            raise ParameterError(f"{path.name} has fields that a series plan does not.") from None


@dataclass(frozen=True, kw_only=True)
class Expected:
    """Expected errors: half-widths of 95% intervals, in rows.

    Parameters
    ----------
    waves : int
        Number of waves after which these hold.
    alone : float
        The level of the last wave, from that wave alone.
    level : float
        The same with all earlier waves.
    change : float or None
        From the last wave but one to the last.
    trend : float or None
        The slope of a line through all waves, in rows per wave.
    moved : float or None
        In a panel, people who moved between two values of a column since the previous wave.
    """

    waves: int
    alone: float
    level: float
    change: float | None
    trend: float | None
    moved: float | None = None


def slope_weights(waves: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the weight of each value in the slope of the least-squares line.

    Examples
    --------
    >>> slope_weights((1, 2, 3)).tolist()
    [-0.5, 0.0, 0.5]
    """
    apart = np.asarray(waves, np.float64) - np.mean(waves)
    weights: np.ndarray[Any, np.dtype[np.float64]] = apart / float(apart @ apart)
    return weights


def share_of_moves(n_columns: int) -> Fraction:
    """Return the share of the transitions budget for one column; it is equal for all."""
    return as_share(1 / n_columns)


def moves_budget(total: Fraction) -> BudgetShares:
    """Return the budget of transitions, given a wave's rho; each person has one joined row."""
    return BudgetShares(total=MOVES_SHARE * total, accounting="concentrated", rows_per_unit=1)


def require_fit(schema: Schema, *, panel: bool = False) -> None:
    """Raise `ParameterError` for a schema that a series cannot protect or count consistently."""
    problems = []
    if schema.unit.kind != "person":
        problems.append(said("no unit of persons", unit=schema.unit.describe()))
    problems += [
        said("too many values", name=values.name) for values in values_of(schema) if values.is_wide
    ]
    if panel and schema.unit.kind == "person" and schema.unit.max_rows != 1:
        problems.append(said("several rows in a panel", max_rows=schema.unit.max_rows))
    problems += [
        said("reserved names", name=name, previous=PREVIOUS)
        for name in schema.attributes
        if panel and (name in PANEL_COLUMNS or name.startswith(f"{PREVIOUS}."))
    ]
    ParameterError.raise_if_any(problems)


def _places(n: int) -> list[int]:
    """Return some of the first n places, to evaluate a plan without computing all of them."""
    return sorted({1, *(min(n, 2 * 2**power) for power in range(n.bit_length())), n})


@lru_cache(maxsize=256)
def largest_epsilon(rho: Fraction, delta: Fraction, most: Fraction) -> Fraction:
    """Return the largest epsilon up to `most`, with six decimals, that spends at most this rho.

    The ledger rounds its cost up, so one step of the ledger's grid is left free.
    """
    room = rho - Fraction(1, RHO_GRID)
    steps = bisect_exact(
        lambda steps: concentrated_share(Fraction(steps, _EPSILON_GRID), delta) <= room,
        0,
        math.floor(most * _EPSILON_GRID) + 1,
    )
    if not steps:
        raise ParameterError(said["budget too small"])
    return Fraction(steps, _EPSILON_GRID)
