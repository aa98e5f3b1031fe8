"""What is promised: frozen, comparable, written to JSON, and said in words.

A guarantee is computed from public inputs before any data is read. Its numbers are exact
fractions, so the promise that is written down is the promise that was computed. Composition is
defined only where a theorem backs it (see `compose`); everywhere else it is refused.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    PlainSerializer,
    PlainValidator,
    StrictInt,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema, ErrorDetails

from hushtable.errors import CompositionError, ParameterError
from hushtable.privacy.rational import as_rational, exp_bounds

__all__ = [
    "MAX_DELTA",
    "MAX_EPSILON",
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
    "parse_guarantee",
]

MAX_EPSILON = Fraction(100)
"""Largest epsilon that may be promised: far beyond any use, so above it is a typing error."""

MAX_DELTA = Fraction(1, 100)
"""Largest delta that may be promised.

Publishing one person in a hundred in full satisfies delta = 1/100; a promise weaker than that
should not be called one.
"""

Neighbors = Literal["add-remove", "replace"]
"""What counts as "one unit different": present or absent, or exchanged for another."""


def check_epsilon(epsilon: Fraction) -> Fraction:
    """Return an epsilon that may be promised, or refuse it.

    Examples
    --------
    >>> check_epsilon(Fraction(1, 2))
    Fraction(1, 2)
    """
    if epsilon <= 0:
        raise ParameterError(
            f"epsilon is {_shown(epsilon)}; it must be above 0. Typical values are 0.1 to 5."
        )
    if epsilon > MAX_EPSILON:
        raise ParameterError(
            f"epsilon is {_shown(epsilon)}; above {MAX_EPSILON} the promise means nothing. Typical "
            "values are 0.1 to 5; to publish without a promise, say so with NoGuarantee."
        )
    return epsilon


def check_delta(delta: Fraction) -> Fraction:
    """Return a delta that may be promised together with some epsilon, or refuse it.

    Examples
    --------
    >>> check_delta(Fraction(1, 10**6))
    Fraction(1, 1000000)
    """
    if delta <= 0:
        raise ParameterError(
            f"delta is {_shown(delta)}; it must be above 0. For delta = 0 the promise is PureDP."
        )
    if delta > MAX_DELTA:
        raise ParameterError(
            f"delta is {_shown(delta)}; at most {_shown(MAX_DELTA)} is allowed, since delta = 0.01 "
            "already permits publishing one person in a hundred in full. Choose a delta well below "
            "one over the number of people, such as 1e-6."
        )
    return delta


MAX_DIGITS = 400
"""Most digits of a numerator or denominator: what `as_rational` reads back from text."""


def as_written(value: Any, *, name: str) -> Fraction:
    """Turn a parameter into a fraction that can be written down and read back.

    Examples
    --------
    >>> as_written(0.1, name="epsilon")
    Fraction(1, 10)
    """
    number = as_rational(value, name=name)
    if max(abs(number.numerator), number.denominator) >= 10**MAX_DIGITS:
        raise ParameterError(
            f"{name}: the fraction has more than {MAX_DIGITS} digits and could not be written "
            "down. Round the numbers it was computed from, such as to 6 decimals."
        )
    return number


def _rational(value: Any, info: ValidationInfo) -> Fraction:
    return as_written(value, name=info.field_name or "value")


# ``return_type`` is spelled out so that the JSON Schema says string in both directions.
Rational = Annotated[
    Fraction,
    PlainValidator(_rational),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^-?[0-9]+(/[1-9][0-9]*)?$"}),
]
"""An exact number: whatever `as_rational` takes goes in, text such as ``"1/10"`` comes out."""


def _keep_summary(schema: dict[str, Any]) -> None:
    # Parameters and doctests are for readers of the code, not for a published JSON Schema.
    schema["description"] = schema["description"].partition("\n")[0]


class _Value(BaseModel):
    """A frozen pydantic model whose constructor raises `ParameterError`, all problems at once."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra=_keep_summary)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ParameterError(_problems(type(self).__name__, error)) from None


def _problems(what: str, error: ValidationError) -> list[str]:
    return [_problem(what, detail) for detail in error.errors(include_url=False)]


def _problem(what: str, detail: ErrorDetails) -> str:
    cause = detail.get("ctx", {}).get("error")
    if isinstance(cause, ParameterError):  # ours already say what was given and what to do
        return str(cause)
    place = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "missing":
        return f"{what}: {place} is missing."
    if detail["type"] == "extra_forbidden":
        return f"{what}: {place} is not a parameter of it; check the spelling."
    where = f" {place}:" if place else ""
    return f"{what}:{where} {detail['msg']} (given: {detail['input']!r})."


class Unit(_Value):
    """Say who is protected: one row, one person with a bounded number of rows, or one node.

    Parameters
    ----------
    kind : {"row", "person", "node"}
        A whole row, all rows of a person, or a node of a graph with all its edges.
    column : str, optional
        For ``person``: the column that identifies the person.
    max_rows : int, optional
        For ``person``: how many rows of one person are used at most.

    Examples
    --------
    >>> Unit(kind="person", column="patient", max_rows=3).describe()
    "one person with at most 3 rows (column 'patient')"
    >>> Unit.model_validate("row") == Unit(kind="row")
    True
    """

    kind: Literal["row", "person", "node"]
    column: str | None = None
    max_rows: StrictInt | None = None

    @model_validator(mode="wrap")
    @classmethod
    def _shorthand(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        # ``unit: row`` in a schema file is short for ``unit: {kind: row}``.
        if isinstance(value, str):
            value = {"kind": value}
        elif isinstance(value, dict):
            value = {str(name): given for name, given in value.items()}  # YAML allows ``{0: ...}``
        unit = handler(value)
        unit._check()
        return unit

    def _check(self) -> None:
        problems = []
        if self.kind == "person":
            if not self.column:
                problems.append("unit person: name the column that identifies the person.")
            if self.max_rows is None:
                problems.append("unit person: say how many rows of one person count (max_rows).")
            elif self.max_rows < 1:
                problems.append(f"unit person: max_rows is {self.max_rows}; it must be at least 1.")
        elif self.column is not None or self.max_rows is not None:
            problems.append(
                f"unit {self.kind}: column and max_rows belong to unit person only; leave them out."
            )
        if problems:
            raise ParameterError(problems)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Tell editors that the short form is valid too."""
        schema = handler.resolve_ref_schema(handler(core_schema))
        full = dict(schema)
        schema.clear()
        schema["title"] = full.pop("title")
        schema["description"] = full.pop("description")
        schema["anyOf"] = [{"type": "string", "enum": ["row", "node"]}, full]
        return schema

    def describe(self) -> str:
        """Name the unit in words.

        Examples
        --------
        >>> Unit(kind="node").describe()
        'one node with all its edges'
        """
        if self.kind == "row":
            return "one row"
        if self.kind == "node":
            return "one node with all its edges"
        rows = "1 row" if self.max_rows == 1 else f"{self.max_rows} rows"
        return f"one person with at most {rows} (column '{self.column}')"


class Guarantee(_Value):
    """Promise something about a release; the families below are the kinds there are."""

    family: str

    @property
    def counted(self) -> bool:
        """Tell whether the ledger can add this promise up (differential privacy only)."""
        return False

    @abstractmethod
    def explain(self) -> str:
        """Say the promise in one plain sentence."""

    @property
    @abstractmethod
    def unprotected(self) -> tuple[str, ...]:
        """List what the promise leaves out."""

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
        Above 0 and at most `MAX_EPSILON`; kept as an exact fraction.
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

    delta: ClassVar[Fraction] = Fraction(0)

    _epsilon = field_validator("epsilon")(check_epsilon)

    @property
    def counted(self) -> bool:
        """Tell that the ledger adds this promise up."""
        return True

    def explain(self) -> str:
        """Say the promise in one plain sentence, with exp(epsilon) rounded up."""
        return _explain(self)

    @property
    def unprotected(self) -> tuple[str, ...]:
        """List what differential privacy leaves out."""
        return (
            *_outside_differential_privacy(self.unit, self.neighbors),
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
        Above 0 and at most `MAX_EPSILON`; kept as an exact fraction.
    delta : number
        Above 0 and at most `MAX_DELTA`; kept as an exact fraction.
    unit : Unit
        What two neighboring data sets differ in.
    neighbors : {"add-remove", "replace"}
        Whether the unit is absent from one of them, or exchanged for another.

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

    _epsilon = field_validator("epsilon")(check_epsilon)
    _delta = field_validator("delta")(check_delta)

    @property
    def counted(self) -> bool:
        """Tell that the ledger adds this promise up."""
        return True

    def explain(self) -> str:
        """Say the promise in one plain sentence, with exp(epsilon) rounded up."""
        return _explain(self)

    @property
    def unprotected(self) -> tuple[str, ...]:
        """List what differential privacy with a delta leaves out."""
        return (
            *_outside_differential_privacy(self.unit, self.neighbors),
            "Several units together: for a group of g of them epsilon is g times as large, and "
            "delta more than g times.",
            f"The further {_one_in(self.delta)} (delta): showing one unit in full with that "
            "probability would still keep the promise.",
        )


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
            "People with several rows: rows are counted, not people.",
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
                f"d is {_shown(self.d)} and gamma is {_shown(self.gamma)}; the promise needs "
                "0 < d < gamma < 1 (d before, gamma after seeing the release)."
            )
        return self

    def explain(self) -> str:
        """Say the promise in one plain sentence."""
        before = f"before seeing this release gave a record a chance of at most {_shown(self.d)}"
        after = f"gives it a chance of at most {_shown(self.gamma)} afterwards"
        if self.adversary == "independent":
            return (
                f"Someone to whom records are in the data independently of each other, and who "
                f"{before} of being in it, {after}, and at least {_shown(self.d / self.gamma)} "
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
            f"Observers who already gave the record a chance above {_shown(self.d)}.",
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
                f"eta is {_shown(eta)}; it is the probability that the promise fails for a record "
                "and must be at least 0 and below 1."
            )
        return eta

    def explain(self) -> str:
        """Say the promise in one plain sentence."""
        return (
            f"For each record, with a probability of at least {_shown(1 - self.eta)} over the noise"
            f" added to it, at least {self.k} records of the private table (itself included) fit "
            "what is published at least as well as the true one does."
        )

    @property
    def unprotected(self) -> tuple[str, ...]:
        """List what uncertain anonymity leaves out."""
        failing = (
            (
                f"Up to a share of {_shown(self.eta)} of the records (on average) fit fewer than "
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
        raise ParameterError(_problems("guarantee", error)) from None


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
    epsilon = sum((term.epsilon for term in terms), Fraction(0))
    delta = sum((term.delta for term in terms), Fraction(0))
    unit, neighbors = terms[0].unit, terms[0].neighbors
    if delta == 0:
        return PureDP(epsilon=epsilon, unit=unit, neighbors=neighbors)
    return ApproxDP(epsilon=epsilon, delta=delta, unit=unit, neighbors=neighbors)


def _explain(promise: PureDP | ApproxDP) -> str:
    unit = promise.unit.describe()
    if promise.neighbors == "add-remove":
        change, question = f"Adding or removing {unit}", "whether it is in the data"
    else:
        change, question = f"Exchanging {unit} for another", "which of the two is in the data"
    parameters = f"epsilon = {_shown(promise.epsilon)}"
    further = ""
    if promise.delta:
        parameters += f", delta = {_shown(promise.delta)}"
        further = f" and a further {_one_in(promise.delta)}"
    right = _best_guess(promise.epsilon, promise.delta)
    if right > Fraction(999, 1000):
        outcome = "can become practically certain"
    elif promise.delta:
        outcome = f"guesses right at most {_percent(right)} of the time"
    else:
        outcome = f"can become at most {_percent(right)} sure"
    return (
        f"{change} changes the probability of anything this release could show by a factor of at "
        f"most {_factor(promise.epsilon)}{further} (differential privacy, {parameters}), so someone"
        f" who gave even odds on {question} {outcome}."
    )


def _best_guess(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Bound how often the best guess between two neighbors is right, from even odds.

    The errors a and b of any test satisfy a + exp(epsilon) b >= 1 - delta and the reverse (Kairouz,
    Oh and Viswanath 2015), so (a + b) / 2 >= (1 - delta) / (1 + exp(epsilon)). Under pure
    differential privacy the same number bounds the posterior probability itself.
    """
    _, factor = exp_bounds(epsilon)
    return 1 - (1 - delta) / (1 + factor)


def _factor(epsilon: Fraction) -> str:
    """Write exp(epsilon) rounded up; near 1, three digits of what it exceeds 1 by."""
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
    return f"{Decimal(math.ceil(probability * 1000)) / 10} %"


def _one_in(probability: Fraction) -> str:
    # Rounding the denominator down rounds the probability up.
    return f"1 in {probability.denominator // probability.numerator:,}"


def _shown(number: Fraction) -> str:
    """Write a number exactly: as a decimal if it is a short one, else as a fraction."""
    decimals = next((n for n in range(16) if (number * 10**n).denominator == 1), None)
    if decimals is None and number.denominator < 1000:
        return str(number)
    if decimals is None:
        return f"{number} (about {float(number):.4g})"
    return f"{Decimal(int(number * 10**decimals)).scaleb(-decimals):f}"


def _outside_differential_privacy(unit: Unit, neighbors: Neighbors) -> tuple[str, ...]:
    parts = [
        "Facts about groups, and what they say about a person whether or not that person takes "
        "part.",
        "What the schema declares (columns, values, bounds): it is public.",
        "Other releases of the same data, unless they are recorded in the same ledger.",
        "What can be seen by watching the computer at work, such as how long it took.",
    ]
    if unit.kind == "row":
        parts.append("A person with several rows: each row is protected, not all of them together.")
    elif unit.kind == "person":
        parts.append(
            f"A person who appears under several values of column '{unit.column}': each value "
            "counts as a person."
        )
    else:
        parts.append("A person who is several nodes: each node counts as a person.")
    if neighbors == "replace":
        number = {"row": "rows", "person": "persons", "node": "nodes"}[unit.kind]
        parts.append(f"The number of {number}: it is treated as public.")
    return tuple(parts)
