"""What is promised: frozen, comparable, written to JSON, and said in words.

A guarantee is computed from public inputs before any data is read. Its numbers are exact
fractions, so the promise that is written down is the promise that was computed. Composition is
defined only where a theorem backs it (see `compose`); everywhere else it is refused.
"""

from __future__ import annotations

import html
from abc import abstractmethod
from collections.abc import Mapping, Sequence
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
from hushtable.files.notebook import html_list
from hushtable.privacy.composition import is_concentrated
from hushtable.privacy.dp_in_words import explain, left_out, one_in
from hushtable.privacy.gaussian_dp import is_gaussian
from hushtable.privacy.unit import Neighbors, Unit
from hushtable.privacy.values import (
    MAX_DELTA,
    MAX_EPSILON,
    MAX_LOSS,
    Rational,
    Value,
    as_written,
    check_delta,
    check_epsilon,
    check_loss,
    problems_of,
    shown,
)

__all__ = [
    "MAX_DELTA",
    "MAX_EPSILON",
    "MAX_LOSS",
    "AnyGuarantee",
    "ApproxDP",
    "BoundedAdversary",
    "Guarantee",
    "KAnonymity",
    "Neighbors",
    "NoGuarantee",
    "PureDP",
    "Rational",
    "Threshold",
    "UncertainAnonymity",
    "Unit",
    "as_written",
    "check_delta",
    "check_epsilon",
    "compose",
    "implied_rho",
    "parse_guarantee",
]


class Guarantee(Value):
    """Promise something about a release; the families below are the kinds there are."""

    family: str

    counted: ClassVar[bool] = False
    """Whether the ledger can add this promise up (differential privacy only)."""

    @abstractmethod
    def explain(self) -> str:
        """Say the promise in one plain sentence."""

    @property
    @abstractmethod
    def unprotected(self) -> tuple[str, ...]:
        """List what the promise leaves out."""

    def _repr_html_(self) -> str:
        left_out = html_list(self.unprotected)
        return f"<p>{html.escape(self.explain())}</p><p>Not protected:</p>{left_out}"

    def to_dict(self) -> dict[str, Any]:
        """Return what goes into ``statement.json``; `parse_guarantee` reads it back.

        Examples
        --------
        >>> BoundedAdversary(d=0.01, gamma="1/5", adversary="independent").to_dict()["gamma"]
        '1/5'
        """
        return self.model_dump(mode="json")


class PureDP(Guarantee):
    """Promise epsilon-differential privacy.

    For all data sets that differ in one unit and every set of outcomes, the probabilities differ
    by a factor of at most exp(epsilon).

    Parameters
    ----------
    epsilon : number
        Above 0 and at most `MAX_LOSS`; kept as an exact fraction.
    unit : Unit
        What two neighboring data sets differ in.
    neighbors : {"add-remove", "replace"}
        Whether the unit is absent from one of them, or exchanged for another.

    Examples
    --------
    >>> promise = PureDP(epsilon=0.5, unit=Unit(kind="row"), neighbors="add-remove")
    >>> print(promise.explain())  # doctest: +NORMALIZE_WHITESPACE
    Adding or removing one row changes the probability of anything this release could show by a
    factor of at most 1.649 (differential privacy, epsilon = 0.5), so someone who gave even odds on
    whether it is in the data can become at most 62.3 % sure.
    """

    family: Literal["pure-dp"] = "pure-dp"
    epsilon: Rational
    unit: Unit
    neighbors: Neighbors

    counted: ClassVar[bool] = True
    delta: ClassVar[Fraction] = Fraction(0)

    _epsilon = field_validator("epsilon")(check_loss)

    @property
    def concentrated(self) -> tuple[Fraction, Fraction]:
        """Give the rho of zero-concentrated differential privacy that it implies, and delta 0."""
        return implied_rho(self.epsilon), Fraction(0)

    def explain(self) -> str:
        """Say the promise in one plain sentence, with exp(epsilon) rounded up."""
        return explain(self.epsilon, self.delta, self.unit, self.neighbors)

    @property
    def unprotected(self) -> tuple[str, ...]:
        """List what differential privacy leaves out."""
        return (
            *left_out(self.unit, self.neighbors),
            "Several units together: for a group of g of them epsilon is g times as large.",
        )


class ApproxDP(Guarantee):
    """Promise (epsilon, delta)-differential privacy, in the standard definition.

    For all data sets that differ in one unit and every set S of outcomes,
    P[S] <= exp(epsilon) P'[S] + delta. (Not the "probabilistic" definition, which is not closed
    under post-processing.)

    Parameters
    ----------
    epsilon : number
        Above 0 and at most `MAX_LOSS`; kept as an exact fraction.
    delta : number
        Above 0 and at most `MAX_DELTA`; kept as an exact fraction.
    unit : Unit
        What two neighboring data sets differ in.
    neighbors : {"add-remove", "replace"}
        Whether the unit is absent from one of them, or exchanged for another.
    rho : number, optional
        Where the promise was proved by way of rho-zero-concentrated differential privacy, its rho:
        it must imply epsilon and delta. The ledger adds it up, and fits more releases.
    mu : number, optional
        Where it was proved by way of mu-Gaussian differential privacy instead, its mu. The ledger
        adds up mu**2/2, a rho that it implies.

    Examples
    --------
    >>> promise = ApproxDP(
    ...     epsilon=1, delta="1e-5", unit=Unit(kind="row"), neighbors="add-remove"
    ... )
    >>> print(promise.explain())  # doctest: +NORMALIZE_WHITESPACE
    Adding or removing one row changes the probability of anything this release could show by a
    factor of at most 2.72 and a further 1 in 100,000 (differential privacy, epsilon = 1, delta =
    0.00001), so someone who gave even odds on whether it is in the data guesses right at most
    73.2 % of the time.
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
    def _rho_implies_the_rest(self) -> Self:
        if self.rho is not None and not is_concentrated(self.rho, self.epsilon, self.delta):
            raise ParameterError(
                f"rho is {shown(self.rho)}, from which epsilon {shown(self.epsilon)} and delta "
                f"{shown(self.delta)} could not be concluded; it must be above 0 and small enough "
                "to imply them. Leave rho out if the promise was not proved by way of it."
            )
        return self

    @model_validator(mode="after")
    def _mu_implies_the_rest(self) -> Self:
        if self.mu is None:
            return self
        if self.rho is not None:
            raise ParameterError("rho and mu are both given; a promise is proved by way of one.")
        if not is_gaussian(self.mu, self.epsilon, self.delta):
            raise ParameterError(
                f"mu is {shown(self.mu)}, from which epsilon {shown(self.epsilon)} and delta "
                f"{shown(self.delta)} could not be concluded; it must be above 0 and small enough "
                "to imply them. Leave mu out if the promise was not proved by way of it."
            )
        return self

    # Without a return type: pydantic would publish that in place of the fields.
    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler):  # type: ignore[no-untyped-def]
        # What has no rho, or no mu, is written as it was before there was one.
        document = write(self)
        for name in ("rho", "mu"):
            if getattr(self, name) is None:
                del document[name]
        return document

    @property
    def concentrated(self) -> tuple[Fraction, Fraction]:
        """Give a rho and a delta such that it is delta-approximately rho-concentrated.

        That is its own rho and no delta, or that of its mu; or, by the lemma in ``ledger.md``, what
        epsilon implies and its delta.
        """
        if self.rho is not None:
            return self.rho, Fraction(0)
        if self.mu is not None:
            return self.mu**2 / 2, Fraction(0)
        return implied_rho(self.epsilon), self.delta

    def explain(self) -> str:
        """Say the promise in one plain sentence, with exp(epsilon) rounded up."""
        return explain(self.epsilon, self.delta, self.unit, self.neighbors)

    @property
    def unprotected(self) -> tuple[str, ...]:
        """List what differential privacy with a delta leaves out."""
        return (
            *left_out(self.unit, self.neighbors),
            "Several units together: for a group of g of them epsilon is g times as large, and "
            "delta more than g times.",
            f"The further {one_in(self.delta)} (delta): showing one unit in full with that "
            "probability would still keep the promise.",
        )


def implied_rho(epsilon: Fraction) -> Fraction:
    """Give a rho such that epsilon-differential privacy implies rho-zCDP (see ``ledger.md``)."""
    n, d = epsilon.numerator, epsilon.denominator
    return Fraction(n * n, 2 * d * d) if n < 2 * d else epsilon


class Threshold(Guarantee):
    """Promise that rare combinations of values are left out, and nothing more.

    This is all that "semantic k-anonymity" gives: its condition is met by exchanging a row for an
    identical copy of itself.

    Parameters
    ----------
    k : int
        Combinations held by fewer than ``k`` rows are suppressed; at least 1.

    Examples
    --------
    >>> Threshold(k=10).explain()
    'Combinations of values held by fewer than 10 rows are not published.'
    """

    family: Literal["threshold"] = "threshold"
    k: Annotated[StrictInt, Field(ge=1)]

    def explain(self) -> str:
        """Say the promise in one plain sentence."""
        rows = "1 row" if self.k == 1 else f"{self.k} rows"
        return f"Combinations of values held by fewer than {rows} are not published."

    @property
    def unprotected(self) -> tuple[str, ...]:
        """List what a threshold leaves out."""
        return (
            "Combinations held by enough rows: the threshold alone would allow publishing them "
            "exactly as they are.",
            "Sensitive values: all rows that share a combination may share them too.",
            f"Planted rows: someone who adds {self.k - 1} copies of a row lifts it over the "
            "threshold.",
            "People with several rows: rows are counted, not people, unless the table lists items "
            "of people, each of whom then counts once.",
            "Several releases, or several parts of one: thresholds do not add up.",
        )


class BoundedAdversary(Guarantee):
    """Promise a bound on what an observer with limited prior knowledge can conclude.

    For every tuple t that the observer gives a prior probability of at most ``d``, the posterior is
    at most ``gamma``; against an ``independent`` observer it is also at least d/gamma times the
    prior. An observer is ``independent`` if, to them, tuples are in the data independently of each
    other, and ``exclusive`` if they know groups of tuples of which exactly one is in the data (as
    when they know a person takes part). Tuples known for certain beforehand are outside both.

    Parameters
    ----------
    d : number
        Largest prior probability of a tuple; 0 < d < gamma.
    gamma : number
        Largest posterior probability; gamma < 1.
    adversary : {"independent", "exclusive"}
        What the observer may know about how tuples depend on each other.

    Examples
    --------
    >>> promise = BoundedAdversary(d="1/100", gamma="1/5", adversary="exclusive")
    >>> print(promise.explain())  # doctest: +NORMALIZE_WHITESPACE
    Someone who knows groups of records of which exactly one is in the data, and who before seeing
    this release gave a record a chance of at most 0.01 of being in it, gives it a chance of at most
    0.2 afterwards.
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
        """Say the promise in one plain sentence."""
        before = f"before seeing this release gave a record a chance of at most {shown(self.d)}"
        after = f"gives it a chance of at most {shown(self.gamma)} afterwards"
        if self.adversary == "independent":
            return (
                f"Someone to whom records are in the data independently of each other, and who "
                f"{before} of being in it, {after}, and at least {shown(self.d / self.gamma)} "
                "times the chance they gave it before."
            )
        return (
            "Someone who knows groups of records of which exactly one is in the data, and who "
            f"{before} of being in it, {after}."
        )

    @property
    def unprotected(self) -> tuple[str, ...]:
        """List what a bound on the observer's knowledge leaves out."""
        links = (
            (
                "Observers who know that records depend on each other, such as that a certain "
                "person takes part and so one of a few records must be there.",
            )
            if self.adversary == "independent"
            else (
                "Records ruled out: such an observer may learn that a record is not in the data.",
                "Observers who know of other ways in which records depend on each other.",
            )
        )
        return (
            f"Observers who already gave the record a chance above {shown(self.d)}.",
            *links,
            "Several releases of the same data: the bound does not add up.",
            "Copies of a record: the data is treated as a set, each record is in it or not.",
            "What the schema declares: the columns and their values are public.",
        )


class UncertainAnonymity(Guarantee):
    """Promise that a noisy record is likely to fit several people as well as its owner.

    Parameters
    ----------
    k : int
        How many records fit at least as well as the true one, itself included; at least 2.
    eta : number
        Largest probability, for each record, that fewer than ``k`` do; 0 <= eta < 1.

    Examples
    --------
    >>> print(UncertainAnonymity(k=10, eta=0.05).explain())  # doctest: +NORMALIZE_WHITESPACE
    For each record, with a probability of at least 0.95 over the noise added to it, at least 10
    records of the private table (itself included) fit what is published at least as well as the
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
        """Say the promise in one plain sentence."""
        mostly = (
            f", with a probability of at least {shown(1 - self.eta)} over the noise added to it"
            if self.eta
            else ""
        )
        return (
            f"For each record{mostly}, at least {self.k} records of the private table (itself "
            "included) fit what is published at least as well as the true one does."
        )

    @property
    def unprotected(self) -> tuple[str, ...]:
        """List what uncertain anonymity leaves out."""
        failing = (
            (
                f"Up to a share of {shown(self.eta)} of the records (on average) fit fewer than "
                f"{self.k}; some of these may be identified with certainty.",
            )
            if self.eta
            else ()
        )
        return (
            *failing,
            "Observers who know the other records: this is not differential privacy.",
            "Who is an outlier: the published noise level shows how crowded a record's "
            "neighborhood is.",
            "Matching all published records to people at once.",
            "Several releases of the same data: the noise averages out.",
            f"Sensitive values: the {self.k} records that fit may all share them.",
        )


class KAnonymity(Guarantee):
    """Promise that every published row has look-alikes in the identifying columns.

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
        """Say the promise in one plain sentence."""
        others = "1 other" if self.k == 2 else f"{self.k - 1} others"
        return (
            f"In the published table every row agrees with at least {others} in all columns treated"
            " as identifying."
        )

    @property
    def unprotected(self) -> tuple[str, ...]:
        """List what k-anonymity leaves out."""
        return (
            "Sensitive values: all rows of a group may share them.",
            "Columns not treated as identifying, by which a row may still be recognized.",
            "Observers who know other rows, or how the groups were chosen.",
            "People with several rows: a group may be one person.",
            "Several releases of the same data: groups that overlap may single out a row.",
        )


class NoGuarantee(Guarantee):
    """State that nothing is promised, and why.

    Parameters
    ----------
    reason : str
        Why, as a phrase.

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
            raise ParameterError("reason is empty; say why nothing is promised.")
        return reason

    def explain(self) -> str:
        """Say in one plain sentence that there is no promise."""
        return f"There is no privacy guarantee: {self.reason.strip().rstrip('.')}."

    @property
    def unprotected(self) -> tuple[str, ...]:
        """List what is left out: everything."""
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
"""Any family, told apart by ``family``: the type to use for a field of a pydantic model."""

_ANY: TypeAdapter[Guarantee] = TypeAdapter(AnyGuarantee)


def parse_guarantee(document: Mapping[str, Any]) -> Guarantee:
    """Read back what `Guarantee.to_dict` wrote.

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
    """Return the one promise that several releases of the same data keep together.

    Basic composition: under the same unit and neighbor relation, releases that promise
    (epsilon_i, delta_i) each, later ones possibly chosen after seeing earlier ones, keep
    (sum epsilon_i, sum delta_i) together (Dwork, Kenthapadi, McSherry, Mironov and Naor 2006,
    "Our data, ourselves"; Dwork and Roth 2014, theorem 3.16 and appendix B). `PureDP` enters as an
    `ApproxDP` with delta 0; this is the only conversion between families. A single promise is its
    own composition. Everything else raises `CompositionError`.

    Examples
    --------
    >>> row = dict(unit=Unit(kind="row"), neighbors="add-remove")
    >>> total = compose([PureDP(epsilon="1/3", **row), PureDP(epsilon="1/6", **row)])
    >>> total == PureDP(epsilon=0.5, **row)
    True
    """
    if not guarantees:
        raise CompositionError("there is nothing to compose: give at least one guarantee.")
    first, *others = guarantees
    if not others:
        return first
    terms = [term for term in guarantees if isinstance(term, PureDP | ApproxDP)]
    problems = []
    if len(terms) < len(guarantees):
        outside = sorted({term.family for term in guarantees if not term.counted})
        problems.append(
            f"no theorem adds up promises of the family {', '.join(outside)}; only differential "
            "privacy composes. State these promises for each release on its own."
        )
    units = {term.unit for term in terms}
    if len(units) > 1:
        named = "; ".join(sorted(unit.describe() for unit in units))
        problems.append(
            f"the promises protect different units ({named}); promise all of them for the same one."
        )
    relations = {term.neighbors for term in terms}
    if len(relations) > 1:
        problems.append(
            "some promises are for neighbors add-remove and some for replace; promise all of them "
            "for the same relation."
        )
    if problems:
        raise CompositionError(problems)
    epsilon = check_epsilon(sum((term.epsilon for term in terms), Fraction(0)))
    delta = sum((term.delta for term in terms), Fraction(0))
    unit, neighbors = terms[0].unit, terms[0].neighbors
    if delta == 0:
        return PureDP(epsilon=epsilon, unit=unit, neighbors=neighbors)
    return ApproxDP(epsilon=epsilon, delta=delta, unit=unit, neighbors=neighbors)
