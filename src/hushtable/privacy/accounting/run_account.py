"""Account of one run: the costs of its queries, composed and compared with the promise.

A `hushtable.privacy.accounting.sensitivity.Sensitivity` bounds how much one unit changes sealed
counts; the engine provides it, and each sealed value stores it. From it, the query's
`hushtable.privacy.mechanisms.mechanism.Mechanism` computes the cost of the query, a `PrivacyCost`.
`RunAccount` composes the costs of all queries of a run and compares the total with the promise.
``sealed.md`` proves that the promise then holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from numbers import Rational
from typing import Any, Protocol

from hushtable.errors import SealedError
from hushtable.privacy.accounting.sensitivity import PrivacyCost, Sensitivity
from hushtable.privacy.composition import delta_per_row, is_concentrated
from hushtable.privacy.guarantee import ApproxDP, Guarantee, PureDP

_ROUNDED = Fraction(1, 2**40)
"""Relative amount by which a run may spend less than promised, because noise is rounded up."""

_NOTHING = Fraction(0)


@dataclass(frozen=True)
class TotalCost:
    """Total cost of several queries: (epsilon, delta), rho and mu**2, each composed separately."""

    epsilon: Fraction = _NOTHING
    delta: Fraction = _NOTHING
    rho: Fraction = _NOTHING
    mu_squared: Fraction = _NOTHING

    def __add__(self, other: TotalCost) -> TotalCost:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return TotalCost(*(mine + more if more else mine for mine, more in pairs))

    @classmethod
    def most_of(cls, several: Iterable[TotalCost]) -> TotalCost:
        """Return the componentwise maximum of several totals."""
        return cls(*map(max, zip(*(vars(one).values() for one in several), strict=True)))


_FREE = TotalCost()


@dataclass(frozen=True)
class SpendingLimit:
    """Privacy loss that a run may spend, for one unit or for one row of a unit."""

    epsilon: Fraction
    delta: Fraction = _NOTHING
    rho: Fraction | None = None  # if given, the promise is rho-zCDP, and costs are counted in rho
    mu: Fraction | None = None  # if given, the promise is mu-GDP, and costs are counted in mu**2
    exchanged: bool = False  # whether neighbors have one unit replaced, not added or removed
    of_row: bool = False  # whether the promise is for one row of a unit that may have several
    # Parts of epsilon and delta reserved for queries whose cost is known in rho only.
    aside: tuple[Fraction, Fraction] = (_NOTHING, _NOTHING)

    @classmethod
    def among(cls, guarantees: Sequence[Guarantee]) -> SpendingLimit | None:
        """Return the limit that the first differential privacy guarantee states, or None."""
        for guarantee in guarantees:
            exchanged = getattr(guarantee, "neighbors", "") == "replace"
            if isinstance(guarantee, PureDP):
                return cls(guarantee.epsilon, exchanged=exchanged)
            if isinstance(guarantee, ApproxDP):
                epsilon, delta = guarantee.epsilon, guarantee.delta
                return cls(epsilon, delta, guarantee.rho, guarantee.mu, exchanged=exchanged)
        return None

    def for_each_of(self, rows: int) -> SpendingLimit:
        """Return a limit per row with which a unit of up to `rows` rows is within this limit."""
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

    @property
    def limits(self) -> dict[str, Fraction]:
        """Largest total of each number in which costs are counted, by its name in `TotalCost`."""
        if self.mu is not None:
            return {"mu_squared": self.mu**2}
        if self.rho is not None:
            return {"rho": self.rho}
        return {"epsilon": self.epsilon, "delta": self.delta}

    def covers(self, spent: TotalCost) -> bool:
        """Return whether the total cost is at most what is promised."""
        limits = self.limits
        if "epsilon" not in limits:
            ((name, limit),) = limits.items()
            amount = getattr(spent, name)
            return amount <= limit and spent == TotalCost(**{name: amount})
        epsilon, delta = self.aside
        if spent.epsilon > self.epsilon - epsilon or spent.delta > self.delta - delta:
            return False
        return not spent.rho or (min(self.aside) > 0 and is_concentrated(spent.rho, *self.aside))

    def share_of(self, spent: TotalCost) -> float:
        """Return the approximate share of the promise that was spent, for display only."""
        name, limit = next(iter(self.limits.items()))
        return float(getattr(spent, name)) / float(limit)

    def is_used_up(self, spent: TotalCost) -> bool:
        """Return whether the total cost is at least what is promised, up to rounding."""
        return all(
            getattr(spent, name) >= limit * (1 - _ROUNDED) for name, limit in self.limits.items()
        )


class DataPart:
    """Part of the counted data; one step of a `Sensitivity` affects only one of disjoint parts."""

    __slots__ = ("account", "divisions", "name", "own", "parent", "path", "shared")

    def __init__(self, account: RunAccount, parent: DataPart | None, name: str) -> None:
        self.account, self.parent, self.name = account, parent, name
        self.own = _FREE  # cost of queries that is proportional to a unit's steps in the part
        self.shared = _FREE  # cost of queries that any step in the part causes in full
        # Total cost of the queries of this part and of all parts that contain it.
        self.path: TotalCost = _FREE if parent is None else parent.path
        self.divisions: list[list[DataPart]] = []

    def divided(self, names: Iterable[str]) -> list[DataPart]:
        """Divide the part (possibly again) into disjoint parts."""
        parts = [DataPart(self.account, self, name) for name in names]
        self.divisions.append(parts)
        self.account.parts += parts
        return parts

    def common(self, other: DataPart) -> DataPart:
        """Return the smallest part that contains both parts."""
        if self is other:  # a shortcut: called for every axis of every region
            return self
        above = {id(part) for part in self.line()}
        return next(part for part in other.line() if id(part) in above)

    def line(self) -> Iterable[DataPart]:
        """Yield this part and all parts that contain it, up to the whole."""
        part: DataPart | None = self
        while part is not None:
            yield part
            part = part.parent

    def __repr__(self) -> str:
        line = [part.name for part in self.line()]
        return " > ".join(reversed(line))


@dataclass(frozen=True)
class QueryRecord:
    """Record of one query."""

    what: str  # description of the query
    parts: tuple[DataPart, ...]  # disjoint parts that were queried; each pays the cost
    sensitivity: Sensitivity
    mechanism: Any  # None if exact counts were opened
    cost: PrivacyCost | None  # None if exact counts were opened


Draw = Callable[[Any, Any], Any]
"""Draw of a mechanism: a function of exact counts and noise that returns the outcome."""


class DrawObserver(Protocol):
    """Observer of the draws of a run, for audits only: it sees exact counts.

    Only `hushtable.methods.base.Plan.accounted` takes an observer, and publishing never passes one.
    """

    def observe(self, record: QueryRecord, draw: Draw, exact: Any, noise: Any) -> Any:
        """Return the outcome of a recorded query: `draw(exact, noise)` or a replayed outcome."""


@dataclass(eq=False)
class RunAccount:
    """Account of one run: records queries before they are answered and enforces the promise.

    Parameters
    ----------
    promise : SpendingLimit or None
        What may be spent; None if the method promises no differential privacy.
    sees_exact_counts : str
        Why counts may be opened without noise, for methods that promise no differential privacy.
    spends_all : bool
        Whether the run must also spend at least what is promised.
    on_query : callable, optional
        Called after each recorded query, with the number of queries so far and the share of the
        promise that was spent on the first queried part and the parts that contain it.
    observer : DrawObserver, optional
        Receives each draw of a recorded query, with the exact counts. Only for audits.

    Examples
    --------
    >>> from hushtable.privacy.mechanisms.mechanism import Laplace
    >>> account = RunAccount(SpendingLimit(Fraction(1)))
    >>> laplace = Laplace(Fraction(2))
    >>> account.record("rows", [account.root], Sensitivity(rows=1), laplace).cost.epsilon
    Fraction(1, 2)
    >>> account.spent().epsilon
    Fraction(1, 2)
    >>> account.settle()
    Traceback (most recent call last):
    ...
    hushtable.errors.SealedError: the run spent epsilon 1/2 but promised epsilon 1. A run that \
spends less than promised did not follow its plan. Nothing is published; please report this.
    """

    promise: SpendingLimit | None
    sees_exact_counts: str = ""
    spends_all: bool = True
    on_query: Callable[[int, float], None] | None = field(default=None, repr=False)
    observer: DrawObserver | None = field(default=None, repr=False)
    records: list[QueryRecord] = field(default_factory=list, repr=False)
    parts: list[DataPart] = field(init=False, repr=False)
    settled: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        if self.promise is not None and self.sees_exact_counts:
            raise SealedError(
                "a method that promises differential privacy must not see exact counts, but this "
                "one declares sees_exact_counts. Remove sees_exact_counts, or promise something "
                "else."
            )
        self.parts = [DataPart(self, None, "table")]

    @property
    def root(self) -> DataPart:
        """Part that contains all counted data."""
        return self.parts[0]

    def record(
        self, what: str, parts: Sequence[DataPart], sensitivity: Sensitivity, mechanism: Any
    ) -> QueryRecord:
        """Record a query of disjoint parts through a mechanism, or raise `SealedError`."""
        if self.settled:
            raise SealedError(
                f"{what}: these counts belong to a run that has ended; count again in a new run."
            )
        if self.promise is None:
            raise SealedError(
                f"{what}: this method promises no differential privacy, so it has no budget for "
                "queries. Promise some, or declare sees_exact_counts and use exact counts."
            )
        if self.promise.of_row:
            sensitivity = sensitivity.of_one_row()
        cost = mechanism.cost(sensitivity)
        _require_cost(what, cost)
        charged = self._charged(what, cost, self.promise)
        for part in parts:
            part.path += charged
            if sensitivity.divisible:
                part.own += charged
            else:
                part.shared += charged
            # Costs along one path from the whole to a part add up. This is the whole cost unless a
            # part was divided twice or a query is not divisible; `settle` checks these cases.
            self._require_covered(what, part.path)
        record = QueryRecord(what, tuple(parts), sensitivity, mechanism, cost)
        self.records.append(record)
        if self.on_query is not None and parts:
            self.on_query(len(self.records), self.promise.share_of(parts[0].path))
        return record

    def observed(self, record: QueryRecord, draw: Draw) -> Draw:
        """Return the draw of a recorded query, passed through the observer if there is one."""
        return draw if self.observer is None else partial(self.observer.observe, record, draw)

    def record_unprotected(self, what: str) -> None:
        """Record that counts are opened without noise, or raise `SealedError`."""
        if not self.sees_exact_counts:
            raise SealedError(
                f"{what}: exact counts are only for methods that declare sees_exact_counts and "
                "promise no differential privacy. Open counts with noise: noise.open(...)."
            )
        self.records.append(QueryRecord(what, (self.root,), Sensitivity(rows=1), None, None))

    @staticmethod
    def _charged(what: str, cost: PrivacyCost, promise: SpendingLimit) -> TotalCost:
        """Return the cost in the numbers in which the promise is counted."""
        if promise.mu is None and promise.rho is None:
            if cost.epsilon is None:
                return TotalCost(rho=cost.rho or _NOTHING)
            return TotalCost(cost.epsilon, cost.delta)
        (name,) = promise.limits
        amount = getattr(cost, name)
        if amount is None:
            raise SealedError(
                f"{what}: the promise is counted in {_SYMBOLS[name]}, but the cost of this noise "
                f"in {_SYMBOLS[name]} is unknown."
            )
        return TotalCost(**{name: amount})

    def _require_covered(self, what: str, spent: TotalCost) -> None:
        promise = self.promise
        if promise is not None and not promise.covers(spent):
            raise SealedError(
                f"{what}: this query would raise the cost of the run to "
                f"{_format_cost(vars(spent))}, but its limit is {_format_cost(promise.limits)}. "
                "The counts stay sealed."
            )

    def spent(self) -> TotalCost:
        """Return the total cost of all queries of the run to one unit."""
        total: dict[int, tuple[TotalCost, TotalCost]] = {}
        for part in reversed(self.parts):  # a part comes after the part that contains it
            own, shared = part.own, part.shared
            for division in part.divisions:
                inside = [total.pop(id(one)) for one in division]
                own += TotalCost.most_of(one for one, _ in inside)
                for _, whole in inside:  # a unit may have steps in several of them
                    shared += whole
            total[id(part)] = own, shared
        own, shared = total[id(self.root)]
        return own + shared

    def require_within(self) -> None:
        """Raise `SealedError` if more was spent than promised, without saying how much."""
        if self.promise is not None and not self.promise.covers(self.spent()):
            raise SealedError(
                f"the run promised {_format_cost(self.promise.limits)} but spent more. Nothing is "
                "published; please report this."
            ) from None

    def settle(self) -> None:
        """End the run; raise `SealedError` if it spent too much or, if it `spends_all`, less."""
        self.settled = True
        self.require_within()
        spent, promise = self.spent(), self.promise
        if promise is None:
            return
        if self.spends_all and not promise.is_used_up(spent):
            raise SealedError(
                f"the run spent {_format_cost(vars(spent))} but promised "
                f"{_format_cost(promise.limits)}. A run that spends less than promised did not "
                "follow its plan. Nothing is published; please report this."
            )


def _require_cost(what: str, cost: PrivacyCost) -> None:
    """Raise `SealedError` for costs that are negative or not exact fractions."""
    known = cost.epsilon, cost.delta, cost.rho, cost.mu_squared
    parts = [part for part in known if part is not None]
    if not all(isinstance(part, Rational) and part >= 0 for part in parts):
        raise SealedError(f"{what}: the cost of this noise is not a fraction of at least 0.")


_SYMBOLS = {"epsilon": "epsilon", "delta": "delta", "rho": "rho", "mu_squared": "mu**2"}


def _format_cost(amounts: Mapping[str, Fraction]) -> str:
    parts = [f"{_SYMBOLS[name]} {_short(part)}" for name, part in amounts.items() if part]
    return " and ".join(parts) or "nothing"


def _short(part: Fraction) -> str:
    return str(part) if part.denominator < 10**12 else f"about {float(part):.9g}"
