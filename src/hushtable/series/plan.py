"""The plan of a series: what each wave may spend, fixed before any data is read.

The proof that all waves together keep the promise is in ``series.md``.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from hushtable.errors import HushtableError, ParameterError
from hushtable.estimate.quantiles import NORMAL
from hushtable.files.yaml_text import read_yaml, write_yaml
from hushtable.methods.quilt.cuts import is_wide
from hushtable.methods.quilt.domains import values_of
from hushtable.methods.quilt.meter import Purse, as_share
from hushtable.methods.quilt.quilt import Quilt
from hushtable.privacy.account import RHO_GRID, Account, Budget
from hushtable.privacy.composition import concentrated_share
from hushtable.privacy.guarantee import check_delta, check_epsilon
from hushtable.privacy.rational import as_rational
from hushtable.schema import Schema
from hushtable.schema.linked import PREVIOUS
from hushtable.series.drift import Path as Walk

MOST_FIRST, WAVES_FOR_ONE = 6, 4
"""The first wave gets one part for each four waves, at most six: all later ones rest on it."""

MOST_WAVES = 10_000

PANEL_COLUMNS = ("wave", "person")
"""What is written beside the columns of synthetic people."""

MOVES_SHARE = Fraction(1, 4)
"""What a panel spends on how people moved, of the budget of a wave that has one before it."""

_FORMAT = 1
_EPSILON_GRID = 10**6
_SHARE = 0.1  # of the rows, that a typical question is about
_SHOWN = 24  # waves that a forecast of an open series is about


@dataclass(frozen=True, kw_only=True)
class SeriesPlan:
    """Say how the budget of a series is divided over its waves.

    Parameters
    ----------
    epsilon, delta : number or str
        The promise for everything that is ever published of the series, to each person with all
        rows in all waves.
    waves : int, optional
        How many there will be. The first gets a quarter of that number times what each other one
        does, at least as much and at most six times: all others rest on it.
    spares : int
        How many more releases there may be beside them: corrections, and waves whose run was lost.
    horizon : int, optional
        For a series without an end, in place of `waves`: half of the budget is spent by this wave,
        two thirds by twice as many, and so on for ever. Spares are drawn from the same.
    change : float
        The share of people that is supposed to change from one wave to the next, from public
        knowledge: a guess for the forecast and for the second wave, after which it is learned from
        noisy tables.
    panel : bool
        Whether people are followed from wave to wave: rows then carry synthetic persons, and it is
        measured how people move, for a quarter of what a wave may spend.

    Examples
    --------
    >>> plan = SeriesPlan(epsilon=2, delta="1e-6", waves=24)
    >>> plan.share(1), plan.share(2)
    (Fraction(1, 5), Fraction(1, 30))
    >>> SeriesPlan(epsilon=1, delta=0, waves=0)
    Traceback (most recent call last):
    ...
    hushtable.errors.ParameterError: delta is 0; ...
    waves is 0; it must be a whole number from 1 to 10000.
    """

    epsilon: Fraction
    delta: Fraction
    waves: int | None = None
    spares: int = 1
    horizon: int | None = None
    change: float = 0.05
    panel: bool = False

    def __post_init__(self) -> None:
        problems: list[str] = []
        for name, check in (("epsilon", check_epsilon), ("delta", check_delta)):
            try:
                amount = as_rational(getattr(self, name), name=name)
                object.__setattr__(self, name, amount)
                if name == "delta" and not amount:
                    problems.append(
                        "delta is 0; a series adds up in rho, which needs one, as 1e-6."
                    )
                else:
                    check(amount)
            except HushtableError as error:
                problems += error.problems
        if (self.waves is None) == (self.horizon is None):
            problems.append(
                "say how many waves there are, or a horizon for a series without an end: one of "
                "the two."
            )
        for name, least in (("waves", 1), ("horizon", 1), ("spares", 0)):
            given = getattr(self, name)
            if given is None and name != "spares":
                continue
            if (
                isinstance(given, bool)
                or not isinstance(given, int)
                or not least <= given <= MOST_WAVES
            ):
                problems.append(
                    f"{name} is {given!r}; it must be a whole number from {least} to {MOST_WAVES}."
                )
        if (
            isinstance(self.change, bool)
            or not isinstance(self.change, int | float)
            or not 0 < self.change <= 1
        ):
            problems.append(f"change is {self.change!r}; it must be above 0 and at most 1.")
        if not isinstance(self.panel, bool):
            problems.append(f"panel is {self.panel!r}; it must be true or false.")
        if problems:
            raise ParameterError(problems)

    # --- the budget -------------------------------------------------------------------------------

    @property
    def rho(self) -> Fraction:
        """What all releases may spend together, as the ledger will count it."""
        account = Account.shared(Budget(epsilon=self.epsilon, delta=self.delta))
        if account is None:
            raise ParameterError(
                f"epsilon {self.epsilon} and delta {self.delta} cannot be counted in rho; give "
                "rounder numbers, such as 2 and 1e-6."
            )
        return account.concentrated.rho

    @property
    def wave_delta(self) -> Fraction:
        """The delta that a single wave's promise is stated with; it is not added up."""
        return self.delta / 4

    def share(self, place: int) -> Fraction:
        """Give the share of the budget that the release of a place gets, the first is 1.

        Whatever wave it is: places are counted in the order of publication.
        """
        if self.waves is None:
            k = self.horizon or 1
            return Fraction(k, (k + place - 1) * (k + place))
        if place > self.waves + self.spares:
            return Fraction(0)
        first = min(max(self.waves // WAVES_FOR_ONE, 1), MOST_FIRST)
        return Fraction(first if place == 1 else 1, first + self.waves - 1 + self.spares)

    def method(self, place: int) -> Quilt:
        """Give the method of the release of a place, with all that it may spend."""
        share = self.share(place)
        if not share:
            raise ParameterError(
                f"the series was planned for {self.waves} waves and {self.spares} spare releases, "
                "and all of them are spent: nothing is left for another."
            )
        return Quilt(epsilon=largest_epsilon(share * self.rho, self.wave_delta, self.epsilon),
                     delta=self.wave_delta, accounting="concentrated")  # fmt: skip

    # --- what to expect ---------------------------------------------------------------------------

    def forecast(self, schema: Schema, rows: int, *, share: float = _SHARE) -> Expected:
        """Say how far a level, a change and a trend will be off, before any data is read.

        Parameters
        ----------
        schema : Schema
            Of the waves.
        rows : int
            About how many rows a wave has, from public knowledge.
        share : float
            The share of rows that is asked about, of a typical column.
        """
        n = min(self.waves or _SHOWN, 10 * _SHOWN)
        variances = np.array([self._variance(place, schema, rows, share) for place in _places(n)])
        variances = np.interp(np.arange(1, n + 1), _places(n), variances)
        step = 2 * self.change * rows * share * (1 - share) + 1.0
        walk = Walk.of(range(1, n + 1), np.zeros(n), variances, step)
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
        """Give the standard deviation of a count of people who went from one value to another."""
        plan = self.method(place).plan(schema)
        return moves_purse(plan.total).count_noise(share_of_moves(len(plan.values))).std

    # --- on disk ----------------------------------------------------------------------------------

    def to_yaml(self) -> str:
        """Write it down."""
        plain = {name: str(v) if isinstance(v, Fraction) else v for name, v in asdict(self).items()}
        if not self.panel:
            del plain["panel"]  # a plan without one is what it was
        return write_yaml({"format": _FORMAT, **{k: v for k, v in plain.items() if v is not None}})

    @classmethod
    def load(cls, path: Path) -> SeriesPlan:
        """Read what `to_yaml` wrote."""
        try:
            content: Any = read_yaml(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ParameterError(f"{path.name} of the series cannot be read: {error}") from None
        if not isinstance(content, dict) or content.pop("format", None) != _FORMAT:
            raise ParameterError(f"{path.name} is no plan of a series of this version.")
        try:
            return cls(**content)
        except TypeError:
            raise ParameterError(f"{path.name} has fields that no plan of a series has.") from None


@dataclass(frozen=True, kw_only=True)
class Expected:
    """How far answers will be off: half widths of 95 % intervals, in rows.

    Parameters
    ----------
    waves : int
        After so many waves.
    alone : float
        The level of the last wave, from that wave alone.
    level : float
        The same with all waves before it.
    change : float or None
        From the wave before to the last.
    trend : float or None
        The slope of a line through all waves, in rows per wave.
    moved : float or None
        In a panel, people who went from one value of a column to another since the wave before.
    """

    waves: int
    alone: float
    level: float
    change: float | None
    trend: float | None
    moved: float | None = None


def slope_weights(waves: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Give what each value weighs in the slope of the least-squares line through them.

    Examples
    --------
    >>> slope_weights((1, 2, 3)).tolist()
    [-0.5, 0.0, 0.5]
    """
    apart = np.asarray(waves, np.float64) - np.mean(waves)
    weights: np.ndarray[Any, np.dtype[np.float64]] = apart / float(apart @ apart)
    return weights


def share_of_moves(n_columns: int) -> Fraction:
    """Give what the table of one column gets, of what is spent on moves: all get the same."""
    return as_share(1 / n_columns)


def moves_purse(total: Fraction) -> Purse:
    """Give what may be spent on how people moved, of a wave's rho: each has one joined row."""
    return Purse(total=MOVES_SHARE * total, accounting="concentrated", reach=1)


def require_fit(schema: Schema, *, panel: bool = False) -> None:
    """Refuse a schema that a series cannot be promised for, or cannot count alike in all waves."""
    problems = []
    if schema.unit.kind != "person":
        problems.append(
            f"the schema protects {schema.unit.describe()}; a series protects a person with all "
            "rows in all waves. Say who that is (unit: {kind: person, column: ..., max_rows: ...})."
        )
    problems += [
        f"column {values.name!r} has too many values to count the same ones in every wave; give "
        "it public bins."
        for values in values_of(schema)
        if is_wide(values)
    ]
    if panel and schema.unit.kind == "person" and schema.unit.max_rows != 1:
        problems.append(
            f"the schema lets {schema.unit.max_rows} rows of a person count in a wave; in a panel "
            "a person has one row in each (max_rows: 1)."
        )
    problems += [
        f"column {name!r}: in a panel, person, wave and {PREVIOUS}.x have a meaning of their own; "
        "rename the column."
        for name in schema.attributes
        if panel and (name in PANEL_COLUMNS or name.startswith(f"{PREVIOUS}."))
    ]
    if problems:
        raise ParameterError(problems)


def _places(n: int) -> list[int]:
    """Choose some of the first n places, to look at a plan without working all of it out."""
    return sorted({1, *(min(n, 2 * 2**power) for power in range(n.bit_length())), n})


@lru_cache(maxsize=256)
def largest_epsilon(rho: Fraction, delta: Fraction, most: Fraction) -> Fraction:
    """Find the largest epsilon, of six digits, whose method spends no more than this rho.

    What it spends is rounded up by the ledger, so one step of its grid is left free.
    """
    room = rho - Fraction(1, RHO_GRID)
    low, high = 0, math.floor(most * _EPSILON_GRID)
    while low < high:
        middle = (low + high + 1) // 2
        if concentrated_share(Fraction(middle, _EPSILON_GRID), delta) <= room:
            low = middle
        else:
            high = middle - 1
    if not low:
        raise ParameterError(
            "the budget is too small for so many waves: the share of one would be below epsilon "
            "1e-6. Plan fewer waves, or spend more."
        )
    return Fraction(low, _EPSILON_GRID)
