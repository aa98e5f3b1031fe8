"""Guarantees: frozen, comparable values that are written to JSON and explained in words.

A guarantee is computed from public inputs before any data is read. Its numbers are exact
fractions, so the guarantee that is written is the one that was computed. Guarantees compose only
where a theorem allows it (see `compose`); everything else is refused.
"""

from __future__ import annotations

import html
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    StrictInt,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from hushtable.errors import CompositionError, ParameterError
from hushtable.files.html import html_list
from hushtable.privacy.composition import is_concentrated
from hushtable.privacy.gaussian_dp import is_gaussian
from hushtable.privacy.rational import exp_bounds
from hushtable.privacy.unit import Neighbors, Unit
from hushtable.privacy.values import (
    FrozenValue,
    Rational,
    check_delta,
    check_epsilon,
    check_loss,
    problems_of,
    shown,
)

# Differential privacy explained in words, with every bound rounded up.


def explain(epsilon: Fraction, delta: Fraction, unit: Unit, neighbors: Neighbors) -> str:
    """Return a sentence that explains (epsilon, delta)-differential privacy to a reader."""
    described = unit.describe()
    if neighbors == "add-remove":
        change, question = f"Adding or removing {described}", "whether it is in the data"
    else:
        change, question = f"Replacing {described} by another", "which of the two is in the data"
    parameters = f"epsilon = {shown(epsilon)}"
    further = ""
    if delta:
        parameters += f", delta = {shown(delta)}"
        further = f" plus an additional probability of {one_in(delta)}"
    right = _best_guess(epsilon, delta)
    if right > Fraction(999, 1000):
        outcome = "can become practically certain"
    elif delta:
        outcome = f"is right at most {_percent(right)} of the time"
    else:
        outcome = f"can become at most {_percent(right)} sure"
    return (
        f"{change} changes the probability of any outcome of this release by a factor of at most "
        f"{_factor(epsilon)}{further} (differential privacy, {parameters}), so an attacker who "
        f"starts from a 50/50 guess about {question} {outcome}."
    )


def _best_guess(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Bound the probability that the best guess between two neighbors is right, from a 50/50 start.

    The errors a and b of any test satisfy a + exp(epsilon) b >= 1 - delta and the reverse (Kairouz,
    Oh and Viswanath 2015), so (a + b) / 2 >= (1 - delta) / (1 + exp(epsilon)). Under pure
    differential privacy the same number bounds the posterior probability itself.
    """
    _, factor = exp_bounds(epsilon)
    return 1 - (1 - delta) / (1 + factor)


def _factor(epsilon: Fraction) -> str:
    """Format exp(epsilon), rounded up; below 2, with three digits of the excess over 1."""
    _, factor = exp_bounds(epsilon)
    if factor < 2:
        return f"{1 + _three_digits_up(factor - 1):f}"
    rounded = _three_digits_up(factor)
    if rounded < 10**9:
        return f"{rounded:,f}" if rounded < 1000 else f"{int(rounded):,}"
    mantissa, exponent = f"{rounded:.2e}".split("e+")
    return f"{mantissa} times 10^{int(exponent)}"


def _three_digits_up(number: Fraction) -> Decimal:
    up = Context(prec=3, rounding=ROUND_CEILING)
    return up.divide(Decimal(number.numerator), Decimal(number.denominator))


def _percent(probability: Fraction) -> str:
    return f"{Decimal(math.ceil(probability * 1000)) / 10}%"


def one_in(probability: Fraction) -> str:
    """Format a probability as "1 in n", rounded up."""
    # Rounding the denominator down rounds the probability up.
    return f"1 in {probability.denominator // probability.numerator:,}"


def left_out(unit: Unit, neighbors: Neighbors) -> tuple[str, ...]:
    """List what differential privacy does not protect, whatever its parameters."""
    parts = [
        "Conclusions about groups. They may reveal something about a person whether or not that "
        "person is in the data.",
        "The schema (columns, values, bounds): it is public.",
        "Other releases of the same data, unless they are recorded in the same ledger.",
        "Side channels of the computation, such as how long it took.",
    ]
    if unit.kind == "row":
        parts.append("A person with several rows: each row is protected, not all of them together.")
    elif unit.kind == "person":
        parts.append(
            f"A person who appears under several values of column '{unit.column}': each value "
            "counts as a separate person."
        )
    else:
        parts.append("A person who is several nodes: each node counts as a separate person.")
    if neighbors == "replace":
        number = {"row": "rows", "person": "persons", "node": "nodes"}[unit.kind]
        parts.append(f"The number of {number}: it is treated as public.")
    return tuple(parts)


class Guarantee(FrozenValue):
    """Base class of all guarantees about a release."""

    family: str

    counted: ClassVar[bool] = False
    """True if a ledger can count this guarantee (differential privacy only)."""

    @abstractmethod
    def explain(self) -> str:
        """Return the guarantee as one plain sentence."""

    @property
    @abstractmethod
    def unprotected(self) -> tuple[str, ...]:
        """Facts and attacks that the guarantee does not cover."""

    def _repr_html_(self) -> str:
        left_out = html_list(self.unprotected)
        return f"<p>{html.escape(self.explain())}</p><p>Not protected:</p>{left_out}"

    def to_dict(self) -> dict[str, Any]:
        """Return the guarantee as written to ``statement.json``; `parse_guarantee` reads it back.

        Examples
        --------
        >>> BoundedAdversary(d=0.01, gamma="1/5", adversary="independent").to_dict()["gamma"]
        '1/5'
        """
        return self.model_dump(mode="json")


class PureDP(Guarantee):
    """Epsilon-differential privacy.

    For all data sets that differ in one unit and every set of outcomes, the probabilities differ
    by a factor of at most exp(epsilon).

    Parameters
    ----------
    epsilon : number
        Above 0 and at most `MAX_LOSS`; stored as an exact fraction.
    unit : Unit
        Unit of privacy: what two neighboring data sets differ in.
    neighbors : {"add-remove", "replace"}
        Whether one of them lacks the unit, or has another in its place.

    Examples
    --------
    >>> promise = PureDP(epsilon=0.5, unit=Unit(kind="row"), neighbors="add-remove")
    >>> print(promise.explain())  # doctest: +NORMALIZE_WHITESPACE
    Adding or removing one row changes the probability of any outcome of this release by a factor
    of at most 1.649 (differential privacy, epsilon = 0.5), so an attacker who starts from a 50/50
    guess about whether it is in the data can become at most 62.3% sure.
    """

    family: Literal["pure-dp"] = "pure-dp"
    epsilon: Rational
    unit: Unit
    neighbors: Neighbors

    counted: ClassVar[bool] = True
    delta: ClassVar[Fraction] = Fraction(0)

    _epsilon = field_validator("epsilon")(check_loss)

    def explain(self) -> str:
        """Return the guarantee as one plain sentence, with exp(epsilon) rounded up."""
        return explain(self.epsilon, self.delta, self.unit, self.neighbors)

    @property
    def unprotected(self) -> tuple[str, ...]:
        """Facts and attacks that differential privacy does not cover."""
        return (
            *left_out(self.unit, self.neighbors),
            "Several units together: for a group of g units, epsilon is g times as large.",
        )


class ApproxDP(Guarantee):
    """(epsilon, delta)-differential privacy, in the standard definition.

    For all data sets that differ in one unit and every set S of outcomes,
    P[S] <= exp(epsilon) P'[S] + delta. (This is not "probabilistic" differential privacy, which is
    not closed under post-processing.)

    Parameters
    ----------
    epsilon : number
        Above 0 and at most `MAX_LOSS`; stored as an exact fraction.
    delta : number
        Above 0 and at most `MAX_DELTA`; stored as an exact fraction.
    unit : Unit
        Unit of privacy: what two neighboring data sets differ in.
    neighbors : {"add-remove", "replace"}
        Whether one of them lacks the unit, or has another in its place.
    rho : number, optional
        If the guarantee follows from rho-zero-concentrated differential privacy (zCDP), its rho; it
        must imply epsilon and delta. A ledger adds up rho, which admits more releases.
    mu : number, optional
        If the guarantee follows from mu-Gaussian differential privacy instead, its mu. A ledger
        adds up mu**2/2, the rho that it implies.

    Examples
    --------
    >>> promise = ApproxDP(
    ...     epsilon=1, delta="1e-5", unit=Unit(kind="row"), neighbors="add-remove"
    ... )
    >>> print(promise.explain())  # doctest: +NORMALIZE_WHITESPACE
    Adding or removing one row changes the probability of any outcome of this release by a factor
    of at most 2.72 plus an additional probability of 1 in 100,000 (differential privacy, epsilon =
    1, delta = 0.00001), so an attacker who starts from a 50/50 guess about whether it is in the
    data is right at most 73.2% of the time.
    """

    family: Literal["approx-dp"] = "approx-dp"
    epsilon: Rational
    delta: Rational
    unit: Unit
    neighbors: Neighbors
    rho: Rational | None = None
    mu: Rational | None = None

    counted: ClassVar[bool] = True

    _epsilon = field_validator("epsilon")(check_loss)
    _delta = field_validator("delta")(check_delta)

    @model_validator(mode="after")
    def _check_origin(self) -> Self:
        if self.rho is not None and self.mu is not None:
            raise ParameterError("rho and mu are both given; a promise follows from one of them.")
        for name, number, implies, definition in (
            ("rho", self.rho, is_concentrated, "zCDP"),
            ("mu", self.mu, is_gaussian, "Gaussian differential privacy"),
        ):
            if number is not None and not implies(number, self.epsilon, self.delta):
                raise ParameterError(
                    f"{name} is {shown(number)}, which does not imply epsilon "
                    f"{shown(self.epsilon)} and delta {shown(self.delta)}; it must be above 0 and "
                    f"small enough to imply them. Leave {name} out if the promise does not follow "
                    f"from {definition}."
                )
        return self

    # No return type: pydantic would use it for the JSON Schema in place of the fields.
    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler):  # type: ignore[no-untyped-def]
        # Omit absent rho and mu: older files do not have these keys.
        document = write(self)
        for name in ("rho", "mu"):
            if getattr(self, name) is None:
                del document[name]
        return document

    def explain(self) -> str:
        """Return the guarantee as one plain sentence, with exp(epsilon) rounded up."""
        return explain(self.epsilon, self.delta, self.unit, self.neighbors)

    @property
    def unprotected(self) -> tuple[str, ...]:
        """Facts and attacks that differential privacy with a delta does not cover."""
        return (
            *left_out(self.unit, self.neighbors),
            "Several units together: for a group of g units, epsilon is g times as large and "
            "delta more than g times.",
            f"Delta. A method that reveals one unit completely with probability "
            f"{one_in(self.delta)} would still keep the promise.",
        )


def implied_rho(epsilon: Fraction) -> Fraction:
    """Return a rho such that epsilon-differential privacy implies rho-zCDP (see ``ledger.md``)."""
    n, d = epsilon.numerator, epsilon.denominator
    return Fraction(n * n, 2 * d * d) if n < 2 * d else epsilon


class Threshold(Guarantee):
    """Suppression of rare combinations of values, and nothing more.

    "Semantic k-anonymity" guarantees no more than this: replacing a row by an identical copy
    satisfies its condition.

    Parameters
    ----------
    k : int
        Combinations that occur in fewer than ``k`` rows are suppressed; at least 1.

    Examples
    --------
    >>> Threshold(k=10).explain()
    'Combinations of values that occur in fewer than 10 rows are not published.'
    """

    family: Literal["threshold"] = "threshold"
    k: Annotated[StrictInt, Field(ge=1)]

    def explain(self) -> str:
        """Return the guarantee as one plain sentence."""
        rows = "1 row" if self.k == 1 else f"{self.k} rows"
        return f"Combinations of values that occur in fewer than {rows} are not published."

    @property
    def unprotected(self) -> tuple[str, ...]:
        """Facts and attacks that a threshold does not cover."""
        return (
            "Combinations that occur in enough rows: the threshold would allow publishing their "
            "exact counts.",
            "Sensitive values: all rows that share a combination may share them too.",
            f"Planted rows: someone who adds {self.k - 1} copies of a row lifts it over the "
            "threshold.",
            "People with several rows: the threshold counts rows, not people, unless the table "
            "lists items of people; then it counts each person once.",
            "Several releases, or several parts of one: thresholds do not compose.",
        )


class BoundedAdversary(Guarantee):
    """Bound on the posterior of an observer with limited prior knowledge.

    For every tuple to which the observer assigns a prior probability of at most ``d``, the
    posterior is at most ``gamma``; for an ``independent`` observer it is also at least d/gamma
    times the prior. An ``independent`` observer assumes that tuples are in the data independently
    of each other. An ``exclusive`` observer knows groups of tuples such that exactly one tuple of
    each group is in the data (for example, because a person takes part). Neither covers tuples that
    the observer knew for certain beforehand.

    Parameters
    ----------
    d : number
        Largest prior probability of a tuple; 0 < d < gamma.
    gamma : number
        Largest posterior probability; gamma < 1.
    adversary : {"independent", "exclusive"}
        What the observer may know about dependencies between tuples.

    Examples
    --------
    >>> promise = BoundedAdversary(d="1/100", gamma="1/5", adversary="exclusive")
    >>> print(promise.explain())  # doctest: +NORMALIZE_WHITESPACE
    An observer who knows groups of records such that exactly one of each group is in the data, and
    who before this release gave a record a probability of at most 0.01 of being in the data, gives
    it a probability of at most 0.2 afterwards.
    """

    family: Literal["bounded-adversary"] = "bounded-adversary"
    d: Rational
    gamma: Rational
    adversary: Literal["independent", "exclusive"]

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not 0 < self.d < self.gamma < 1:
            raise ParameterError(
                f"d is {shown(self.d)} and gamma is {shown(self.gamma)}; the promise needs "
                "0 < d < gamma < 1 (d before, gamma after seeing the release)."
            )
        return self

    def explain(self) -> str:
        """Return the guarantee as one plain sentence."""
        before = (
            "before this release gave a record a probability of at most "
            f"{shown(self.d)} of being in the data"
        )
        after = f"gives it a probability of at most {shown(self.gamma)} afterwards"
        if self.adversary == "independent":
            return (
                f"An observer who assumes that records are in the data independently of each "
                f"other, and who {before}, {after}, and at least {shown(self.d / self.gamma)} "
                "times the earlier probability."
            )
        return (
            "An observer who knows groups of records such that exactly one of each group is in "
            f"the data, and who {before}, {after}."
        )

    @property
    def unprotected(self) -> tuple[str, ...]:
        """Facts and attacks that a bound on the observer's knowledge does not cover."""
        links = (
            (
                "Observers who know that records depend on each other, for example that a certain "
                "person takes part, so that one of a few records must be in the data.",
            )
            if self.adversary == "independent"
            else (
                "Absence: such an observer may rule out that a record is in the data.",
                "Observers who know of other dependencies between records.",
            )
        )
        return (
            f"Observers who already gave the record a probability above {shown(self.d)}.",
            *links,
            "Several releases of the same data: the bound does not compose.",
            "Copies of a record: the data is treated as a set; each record is in it or not.",
            "The schema (columns and their values): it is public.",
        )


class UncertainAnonymity(Guarantee):
    """Anonymity of noisy records: several people are likely to fit each as well as its owner.

    Parameters
    ----------
    k : int
        Number of records that fit at least as well as the true one, itself included; at least 2.
    eta : number
        Largest probability, for each record, that fewer than ``k`` do; 0 <= eta < 1.

    Examples
    --------
    >>> print(UncertainAnonymity(k=10, eta=0.05).explain())  # doctest: +NORMALIZE_WHITESPACE
    For each record, with a probability of at least 0.95 over the noise added to it, at least 10
    records of the private table (itself included) fit the published record at least as well as the
    true one does.
    """

    family: Literal["uncertain-anonymity"] = "uncertain-anonymity"
    k: Annotated[StrictInt, Field(ge=2)]
    eta: Rational

    @field_validator("eta")
    @classmethod
    def _probability(cls, eta: Fraction) -> Fraction:
        if not 0 <= eta < 1:
            raise ParameterError(
                f"eta is {shown(eta)}; it is the probability that the promise fails for a record "
                "and must be at least 0 and below 1."
            )
        return eta

    def explain(self) -> str:
        """Return the guarantee as one plain sentence."""
        mostly = (
            f", with a probability of at least {shown(1 - self.eta)} over the noise added to it"
            if self.eta
            else ""
        )
        return (
            f"For each record{mostly}, at least {self.k} records of the private table (itself "
            "included) fit the published record at least as well as the true one does."
        )

    @property
    def unprotected(self) -> tuple[str, ...]:
        """Facts and attacks that uncertain anonymity does not cover."""
        failing = (
            (
                f"On average, up to a share of {shown(self.eta)} of the records fit fewer than "
                f"{self.k}; some of these may be identified with certainty.",
            )
            if self.eta
            else ()
        )
        return (
            *failing,
            "Observers who know the other records: this is not differential privacy.",
            "Outliers: the published noise level shows how many records are near a record.",
            "Matching all published records to people at once.",
            "Several releases of the same data: the noise averages out.",
            f"Sensitive values: the {self.k} records that fit may all share them.",
        )


class KAnonymity(Guarantee):
    """Every published row agrees with k - 1 others in the identifying columns.

    Parameters
    ----------
    k : int
        Number of rows that agree, the row itself included; at least 2.

    Examples
    --------
    >>> print(KAnonymity(k=5).explain())  # doctest: +NORMALIZE_WHITESPACE
    In the published table every row agrees with at least 4 others in all columns treated as
    identifying.
    """

    family: Literal["k-anonymity"] = "k-anonymity"
    k: Annotated[StrictInt, Field(ge=2)]

    def explain(self) -> str:
        """Return the guarantee as one plain sentence."""
        others = "1 other" if self.k == 2 else f"{self.k - 1} others"
        return (
            f"In the published table every row agrees with at least {others} in all columns treated"
            " as identifying."
        )

    @property
    def unprotected(self) -> tuple[str, ...]:
        """Facts and attacks that k-anonymity does not cover."""
        return (
            "Sensitive values: all rows of a group may share them.",
            "Columns not treated as identifying, by which a row may still be recognized.",
            "Observers who know other rows, or how the groups were chosen.",
            "People with several rows: a group may be one person.",
            "Several releases of the same data: groups that overlap may single out a row.",
        )


class NoGuarantee(Guarantee):
    """No guarantee, with the reason.

    Parameters
    ----------
    reason : str
        Why there is none, as a phrase.

    Examples
    --------
    >>> NoGuarantee(reason="the noise was seeded and can be subtracted").explain()
    'There is no privacy guarantee: the noise was seeded and can be subtracted.'
    """

    family: Literal["none"] = "none"
    reason: str

    @field_validator("reason")
    @classmethod
    def _said(cls, reason: str) -> str:
        if not reason.strip():
            raise ParameterError("reason is empty; state why there is no guarantee.")
        return reason

    def explain(self) -> str:
        """Return a sentence that states that there is no guarantee, and why."""
        return f"There is no privacy guarantee: {self.reason.strip().rstrip('.')}."

    @property
    def unprotected(self) -> tuple[str, ...]:
        """Everything: nothing is covered."""
        return ("Everything: treat this release like the private data itself.",)


AnyGuarantee = Annotated[
    PureDP
    | ApproxDP
    | Threshold
    | BoundedAdversary
    | UncertainAnonymity
    | KAnonymity
    | NoGuarantee,
    Field(discriminator="family"),
]
"""Any guarantee, selected by ``family``; for fields of pydantic models."""

_ANY: TypeAdapter[Guarantee] = TypeAdapter(AnyGuarantee)


def parse_guarantee(document: Mapping[str, Any]) -> Guarantee:
    """Read a guarantee that `Guarantee.to_dict` wrote.

    Examples
    --------
    >>> parse_guarantee({"family": "threshold", "k": 10})
    Threshold(family='threshold', k=10)
    """
    try:
        return _ANY.validate_python(document)
    except ValidationError as error:
        raise ParameterError(problems_of("guarantee", error)) from None


def compose(guarantees: Sequence[Guarantee]) -> Guarantee:
    """Return the one guarantee that several releases of the same data keep together.

    Basic composition: if releases are (epsilon_i, delta_i)-differentially private under the same
    unit and neighbor relation, they are (sum epsilon_i, sum delta_i)-differentially private
    together, even if later ones are chosen after seeing earlier ones (Dwork, Kenthapadi, McSherry,
    Mironov and Naor 2006, "Our data, ourselves"; Dwork and Roth 2014, theorem 3.16 and appendix B).
    `PureDP` counts as `ApproxDP` with delta 0, the only conversion between families. A
    single guarantee is its own composition; other results have no rho and no mu. Guarantees that
    do not compose raise `CompositionError`. A sum above `MAX_EPSILON` or `MAX_DELTA` raises
    `ParameterError`.

    Examples
    --------
    >>> row = dict(unit=Unit(kind="row"), neighbors="add-remove")
    >>> total = compose([PureDP(epsilon="1/3", **row), PureDP(epsilon="1/6", **row)])
    >>> total == PureDP(epsilon=0.5, **row)
    True
    """
    if not guarantees:
        raise CompositionError("there is nothing to compose; pass at least one guarantee.")
    first, *others = guarantees
    if not others:
        return first
    terms = [term for term in guarantees if isinstance(term, PureDP | ApproxDP)]
    problems = []
    if len(terms) < len(guarantees):
        outside = sorted({term.family for term in guarantees if not term.counted})
        problems.append(
            f"promises of the family {', '.join(outside)} do not compose; only differential "
            "privacy does. State these promises for each release separately."
        )
    units = {term.unit for term in terms}
    if len(units) > 1:
        named = "; ".join(sorted(unit.describe() for unit in units))
        problems.append(
            f"the promises protect different units ({named}); use the same unit for all of them."
        )
    relations = {term.neighbors for term in terms}
    if len(relations) > 1:
        problems.append(
            "some promises are for neighbors add-remove and some for replace; use the same "
            "relation for all of them."
        )
    CompositionError.raise_if_any(problems)
    epsilon = check_epsilon(sum((term.epsilon for term in terms), Fraction(0)))
    delta = sum((term.delta for term in terms), Fraction(0))
    unit, neighbors = terms[0].unit, terms[0].neighbors
    if delta == 0:
        return PureDP(epsilon=epsilon, unit=unit, neighbors=neighbors)
    return ApproxDP(epsilon=epsilon, delta=delta, unit=unit, neighbors=neighbors)
