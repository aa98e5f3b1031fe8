"""What a run spends: how far one unit moves counts, what a look costs, and the run's account.

Three questions, answered apart. How far can one unit move what was counted? (`Sensitivity`, from
the engine, carried along by what is sealed.) What does a look through some noise cost? (`Price`,
from the mechanism and the sensitivity, never from a method.) What do all looks of a run cost
together, and is that what was promised? (`Account`.) Why the answer implies the promise is proved
in ``sealed.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from numbers import Rational
from typing import Any, Self

from hushtable.errors import SealedError
from hushtable.privacy.composition import delta_per_row, is_concentrated
from hushtable.privacy.guarantee import ApproxDP, Guarantee, PureDP

_ROUNDED = Fraction(1, 2**40)
"""By so much of itself a spending may stay below the promise: what rounding up of noise leaves."""

_NOTHING = Fraction(0)


@dataclass(frozen=True)
class Sensitivity:
    """Say how far one unit moves counts: in `rows` steps, each moving up to `cells` cells.

    Parameters
    ----------
    rows : int
        Steps that lead from a table without the unit to one with it: a person's rows.
    cells : int
        Counts that one step moves.
    step : int
        By how much a step moves each of them.
    exchanged : bool
        Whether a unit is exchanged for another one, so that the number of rows is public. Half of
        the steps then take rows away.
    divisible : bool
        Whether some of the steps move it by no more than that part of the bounds.

    Examples
    --------
    >>> three_rows = Sensitivity(rows=3)
    >>> three_rows.l1, three_rows.l2_squared
    (3, 9)
    >>> Sensitivity(rows=1, cells=4).l2_squared, Sensitivity(rows=1, cells=4).merged().l2_squared
    (4, 16)
    """

    rows: int
    cells: int = 1
    step: int = 1
    exchanged: bool = False
    divisible: bool = True

    @property
    def l1(self) -> int:
        """Bound the sum of all changes."""
        return self.rows * self.cells * self.step

    @property
    def l2_squared(self) -> int:
        """Bound the sum of the squares of all changes: each step is a vector of known length."""
        return (self.rows * self.step) ** 2 * self.cells

    @property
    def most(self) -> int:
        """Bound the change of a single count."""
        return self.rows * self.step

    def merged(self) -> Sensitivity:
        """Say it for sums of different counts: a step may be in one of them with all its cells."""
        return replace(self, cells=1, step=self.cells * self.step)

    def times(self, factor: int) -> Sensitivity:
        """Say it for multiples."""
        return replace(self, step=self.step * abs(factor))

    def plus(self, other: Sensitivity) -> Sensitivity:
        """Say it for sums, or differences, of two counted things."""
        return Sensitivity(
            rows=max(self.rows, other.rows),
            step=self.cells * self.step + other.cells * other.step,
            exchanged=self.exchanged,
            divisible=self.divisible and other.divisible,
        )

    def of_one_row(self) -> Sensitivity:
        """Say it for a single step."""
        return replace(self, rows=1)


@dataclass(frozen=True)
class Price:
    """Say what a look costs, in the currencies in which that is known.

    Parameters
    ----------
    epsilon : Fraction, optional
        With `delta`: the look is (epsilon, delta)-differentially private.
    delta : Fraction
        See `epsilon`.
    rho : Fraction, optional
        The look is rho-zero-concentrated differentially private.
    mu_squared : Fraction, optional
        The look is mu-Gaussian differentially private.
    """

    epsilon: Fraction | None = None
    delta: Fraction = _NOTHING
    rho: Fraction | None = None
    mu_squared: Fraction | None = None

    @classmethod
    def pure(cls, epsilon: Fraction) -> Self:
        """Give the price of a look that is purely private: epsilon**2/2-zCDP, too."""
        return cls(epsilon, rho=epsilon**2 / 2)


@dataclass(frozen=True)
class Spent:
    """Hold what looks cost together: (epsilon, delta), rho and mu**2, each by a composition."""

    epsilon: Fraction = _NOTHING
    delta: Fraction = _NOTHING
    rho: Fraction = _NOTHING
    mu_squared: Fraction = _NOTHING

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            self.epsilon + other.epsilon if other.epsilon else self.epsilon,
            self.delta + other.delta if other.delta else self.delta,
            self.rho + other.rho if other.rho else self.rho,
            self.mu_squared + other.mu_squared if other.mu_squared else self.mu_squared,
        )

    @classmethod
    def most_of(cls, several: Iterable[Spent]) -> Spent:
        """Bound each of several spendings at once."""
        several = list(several)
        return cls(
            max((one.epsilon for one in several), default=_NOTHING),
            max((one.delta for one in several), default=_NOTHING),
            max((one.rho for one in several), default=_NOTHING),
            max((one.mu_squared for one in several), default=_NOTHING),
        )


@dataclass(frozen=True)
class Promise:
    """Hold the differential privacy that a run may spend: that of one unit, or of one row of it.

    Parameters
    ----------
    epsilon, delta : Fraction
        What is promised; with delta 0 it is pure.
    rho : Fraction, optional
        What is promised as zero-concentrated differential privacy; then all is counted in it.
    mu : Fraction, optional
        What is promised as Gaussian differential privacy; then all is counted in its square.
    exchanged : bool
        Whether neighbors have a unit exchanged, not added or removed.
    of_row : bool
        Whether this is for one row of a unit that may have several.
    aside : pair of Fraction
        The epsilon and delta of these that are set aside for looks with a price in rho alone.
    """

    epsilon: Fraction
    delta: Fraction = _NOTHING
    rho: Fraction | None = None
    mu: Fraction | None = None
    exchanged: bool = False
    of_row: bool = False
    aside: tuple[Fraction, Fraction] = (_NOTHING, _NOTHING)

    @classmethod
    def among(cls, guarantees: Sequence[Guarantee]) -> Promise | None:
        """Give the differential privacy among some promises; None where there is none."""
        for guarantee in guarantees:
            exchanged = getattr(guarantee, "neighbors", "") == "replace"
            if isinstance(guarantee, PureDP):
                return cls(guarantee.epsilon, exchanged=exchanged)
            if isinstance(guarantee, ApproxDP):
                epsilon, delta = guarantee.epsilon, guarantee.delta
                return cls(epsilon, delta, guarantee.rho, guarantee.mu, exchanged=exchanged)
        return None

    def for_each_of(self, rows: int) -> Promise:
        """Say what one row may be promised so that all rows of a unit together keep this."""
        if rows == 1:
            return self
        return replace(
            self,
            epsilon=self.epsilon / rows,
            delta=delta_per_row(self.epsilon, self.delta, rows),
            rho=None if self.rho is None else self.rho / rows**2,
            mu=None if self.mu is None else self.mu / rows,
            of_row=True,
        )

    def covers(self, spent: Spent) -> bool:
        """Tell whether so much was promised at least."""
        if self.mu is not None:
            return spent == Spent(mu_squared=spent.mu_squared) and spent.mu_squared <= self.mu**2
        if self.rho is not None:
            return spent == Spent(rho=spent.rho) and spent.rho <= self.rho
        epsilon, delta = self.aside
        if spent.epsilon > self.epsilon - epsilon or spent.delta > self.delta - delta:
            return False
        return not spent.rho or (min(self.aside) > 0 and is_concentrated(spent.rho, *self.aside))

    def share_of(self, spent: Spent) -> float:
        """Say roughly what share of it was spent: to show, not to judge by."""
        if self.mu is not None:
            return float(spent.mu_squared) / float(self.mu) ** 2
        if self.rho is not None:
            return float(spent.rho) / float(self.rho)
        return float(spent.epsilon) / float(self.epsilon)

    def is_used_up(self, spent: Spent) -> bool:
        """Tell whether so much was promised at most, up to rounding."""
        if self.mu is not None:
            return spent.mu_squared >= self.mu**2 * (1 - _ROUNDED)
        if self.rho is not None:
            return spent.rho >= self.rho * (1 - _ROUNDED)
        return (
            spent.epsilon >= self.epsilon * (1 - _ROUNDED)
            and spent.delta >= self.delta * (1 - _ROUNDED)
        )  # fmt: skip


class Part:
    """A part of what was counted. Parts of one division are disjoint: no step is in two of them."""

    __slots__ = ("account", "divisions", "name", "own", "parent", "path", "shared")

    def __init__(self, account: Account, parent: Part | None, name: str) -> None:
        self.account, self.parent, self.name = account, parent, name
        self.own: Spent | None = None  # by looks that cost a unit by the steps that it has here
        self.shared: Spent | None = None  # by looks that cost it whole wherever it has any
        # With all parts that it is in.
        self.path: Spent = Spent() if parent is None else parent.path
        self.divisions: list[list[Part]] | None = None

    def divided(self, names: Iterable[str]) -> list[Part]:
        """Divide it, once more or for the first time, into disjoint parts."""
        parts = [Part(self.account, self, name) for name in names]
        if self.divisions is None:
            self.divisions = []
        self.divisions.append(parts)
        self.account.parts += parts
        return parts

    def common(self, other: Part) -> Part:
        """Give the smallest part that two parts are in."""
        if self is other:  # asked for every axis of every region
            return self
        above = {id(part) for part in self.line()}
        return next(part for part in other.line() if id(part) in above)

    def line(self) -> Iterable[Part]:
        """Give it and all that it is a part of, up to the whole."""
        part: Part | None = self
        while part is not None:
            yield part
            part = part.parent

    def __repr__(self) -> str:
        line = [part.name for part in self.line()]
        return " > ".join(reversed(line))


@dataclass(frozen=True)
class Opening:
    """One look at what was counted, as it was booked: plain data.

    Parameters
    ----------
    what : str
        What was looked at.
    parts : tuple of Part
        Where: disjoint parts, each of which pays the price. Written as a path of names.
    sensitivity : Sensitivity
        How far one unit moves it.
    mechanism : Mechanism or None
        The noise; None where it was opened bare.
    price : Price or None
        What it costs; None where it was opened bare.
    """

    what: str
    parts: tuple[Part, ...]
    sensitivity: Sensitivity
    mechanism: Any
    price: Price | None


@dataclass(eq=False)
class Account:
    """Book what a run looks at, before it looks, and compare it with what was promised.

    Parameters
    ----------
    promise : Promise or None
        What may be spent; None where nothing of that kind is promised.
    bare : str
        Why counts may be opened without noise, for methods that promise no differential privacy.
    spends_all : bool
        Whether the run must spend all that is promised, not only no more.
    heard : callable, optional
        Hears of each look once it is booked: how many there were, and what share of the promise
        is spent where this one looked.

    Examples
    --------
    >>> from hushtable.privacy.mechanism import Laplace
    >>> account = Account(Promise(Fraction(1)))
    >>> account.book("rows", [account.root], Sensitivity(rows=1), Laplace(Fraction(2)))
    >>> account.spent().epsilon
    Fraction(1, 2)
    >>> account.settle()
    Traceback (most recent call last):
    ...
    hushtable.errors.SealedError: the run spent epsilon 1/2 and promised epsilon 1: less than it \
promised, so what it publishes is not what was planned. Nothing is published; report this.
    """

    promise: Promise | None
    bare: str = ""
    spends_all: bool = True
    heard: Callable[[int, float], None] | None = field(default=None, repr=False)
    openings: list[Opening] = field(default_factory=list, repr=False)
    parts: list[Part] = field(init=False, repr=False)
    settled: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        if self.promise is not None and self.bare:
            raise SealedError(
                "a method that promises differential privacy opens nothing bare; it declares that "
                "it does. Leave out opens_bare, or promise something else."
            )
        self.parts = [Part(self, None, "table")]

    @property
    def root(self) -> Part:
        """All that was counted."""
        return self.parts[0]

    def book(
        self, what: str, parts: Sequence[Part], sensitivity: Sensitivity, mechanism: Any
    ) -> None:
        """Book a look at disjoint parts through the noise of a mechanism, or refuse it."""
        if self.settled:
            raise SealedError(
                f"{what}: the run that this was counted for is over, and its account settled."
            )
        if self.promise is None:
            raise SealedError(
                f"{what}: this method promises no differential privacy, so there is nothing to pay "
                "with. Promise some, or declare opens_bare and open it bare."
            )
        if self.promise.of_row:
            sensitivity = sensitivity.of_one_row()
        price = mechanism.price(sensitivity)
        _require_price(what, price)
        charged = self._in_currency(what, price)
        for part in parts:
            part.path += charged
            if sensitivity.divisible:
                part.own = charged if part.own is None else part.own + charged
            else:
                part.shared = charged if part.shared is None else part.shared + charged
            # What lies on one way down from the whole adds up; this is all there is, unless a part
            # was divided twice. The whole is added up by `settle`.
            self._require_covered(what, part.path)
        self.openings.append(Opening(what, tuple(parts), sensitivity, mechanism, price))
        if self.heard is not None and parts:
            self.heard(len(self.openings), self.promise.share_of(parts[0].path))

    def book_bare(self, what: str) -> None:
        """Book that counts are opened without noise, or refuse it."""
        if not self.bare:
            raise SealedError(
                f"{what}: counts are opened bare only by methods that declare it (opens_bare) and "
                "promise no differential privacy. Open them through noise: noise.open(...)."
            )
        self.openings.append(Opening(what, (self.root,), Sensitivity(rows=1), None, None))

    def _in_currency(self, what: str, price: Price) -> Spent:
        if self.promise is not None and self.promise.mu is not None:
            return Spent(mu_squared=_priced(what, "mu", price.mu_squared))
        if self.promise is not None and self.promise.rho is not None:
            return Spent(rho=_priced(what, "rho", price.rho))
        if price.epsilon is None:
            return Spent(rho=price.rho or _NOTHING)
        return Spent(price.epsilon, price.delta)

    def _require_covered(self, what: str, spent: Spent) -> None:
        promise = self.promise
        if promise is not None and not promise.covers(spent):
            raise SealedError(
                f"{what}: with it the run would spend {_told(spent)} and promised "
                f"{_told(promise)}; nothing is opened."
            )

    def spent(self) -> Spent:
        """Add up what all looks of the run cost one unit."""
        total: dict[int, tuple[Spent, Spent]] = {}
        for part in reversed(self.parts):  # parts come after those that they are in
            own, shared = part.own or Spent(), part.shared or Spent()
            for division in part.divisions or []:
                inside = [total.pop(id(one)) for one in division]
                own += Spent.most_of(one for one, _ in inside)
                for _, whole in inside:  # a unit may have steps in each of them
                    shared += whole
            total[id(part)] = own, shared
        own, shared = total[id(self.root)]
        return own + shared

    def require_within(self) -> None:
        """Refuse if more was spent than promised; how much was is not covered by the promise."""
        if self.promise is not None and not self.promise.covers(self.spent()):
            raise SealedError(
                f"the run promised {_told(self.promise)} and spent more than it promised. Nothing "
                "is published; report this."
            ) from None

    def settle(self) -> None:
        """End the run: refuse unless it spent what was promised."""
        self.settled = True
        self.require_within()
        spent, promise = self.spent(), self.promise
        if promise is None:
            return
        if self.spends_all and not promise.is_used_up(spent):
            raise SealedError(
                f"the run spent {_told(spent)} and promised {_told(promise)}: less than it "
                "promised, so what it publishes is not what was planned. Nothing is published; "
                "report this."
            )


def _priced(what: str, currency: str, price: Fraction | None) -> Fraction:
    if price is None:
        raise SealedError(
            f"{what}: the promise is counted in {currency}, and this noise has no price in it."
        )
    return price


def _require_price(what: str, price: Price) -> None:
    """Refuse what would lower an account, or round it: noise of a negative scale, floats."""
    known = price.epsilon, price.delta, price.rho, price.mu_squared
    parts = [part for part in known if part is not None]
    if not all(isinstance(part, Rational) and part >= 0 for part in parts):
        raise SealedError(
            f"{what}: a price is a fraction that is not below 0, and that of this noise is not."
        )


def _told(spent: Spent | Promise) -> str:
    parts = {"epsilon": spent.epsilon, "delta": spent.delta, "rho": spent.rho}
    if isinstance(spent, Spent):
        parts["mu**2"] = spent.mu_squared
    elif spent.mu is not None:
        parts = {"mu**2": spent.mu**2}
    elif spent.rho is not None:
        parts = {"rho": spent.rho}
    told = [f"{name} {_short(part)}" for name, part in parts.items() if part]
    return " and ".join(told) or "nothing"


def _short(part: Fraction) -> str:
    return str(part) if part.denominator < 10**12 else f"about {float(part):.9g}"
