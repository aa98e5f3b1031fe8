"""Guarantees: validation, wording, JSON, composition."""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError

from hushtable.errors import CompositionError, ParameterError
from hushtable.privacy.guarantee import (
    AnyGuarantee,
    ApproxDP,
    BoundedAdversary,
    Guarantee,
    KAnonymity,
    NoGuarantee,
    PureDP,
    Threshold,
    UncertainAnonymity,
    compose,
    parse_guarantee,
)
from hushtable.privacy.unit import Unit
from hushtable.privacy.values import MAX_DELTA, MAX_EPSILON, MAX_LOSS, check_epsilon

ROW = {"unit": Unit(kind="row"), "neighbors": "add-remove"}
PERSON = Unit(kind="person", column="patient", max_rows=3)

EXAMPLES: list[Guarantee] = [
    PureDP(epsilon="1/3", **ROW),
    PureDP(epsilon=100, unit=Unit(kind="node"), neighbors="replace"),
    ApproxDP(epsilon=1, delta="1e-5", unit=PERSON, neighbors="replace"),
    Threshold(k=1),
    Threshold(k=10),
    BoundedAdversary(d="1/100", gamma=0.2, adversary="independent"),
    BoundedAdversary(d="1/100", gamma=0.2, adversary="exclusive"),
    UncertainAnonymity(k=10, eta=0),
    UncertainAnonymity(k=10, eta="1/20"),
    KAnonymity(k=2),
    NoGuarantee(reason="seeded"),
]


@pytest.mark.parametrize("promise", EXAMPLES, ids=lambda p: p.family)
class TestEveryFamily:
    def test_json_round_trip_is_exact(self, promise: Guarantee) -> None:
        text = json.dumps(promise.to_dict())
        back = parse_guarantee(json.loads(text))
        assert back == promise
        assert type(back) is type(promise)
        assert hash(back) == hash(promise)

    def test_json_fits_the_published_schema(self, promise: Guarantee) -> None:
        for mode in ("validation", "serialization"):
            schema = TypeAdapter(AnyGuarantee).json_schema(mode=mode)  # type: ignore[arg-type]
            jsonschema.validate(promise.to_dict(), schema)
            assert ">>>" not in json.dumps(schema)

    def test_is_frozen(self, promise: Guarantee) -> None:
        with pytest.raises(ValidationError):
            promise.family = "other"

    def test_words(self, promise: Guarantee) -> None:
        sentence = promise.explain()
        assert sentence.endswith(".")
        assert sentence[0].isupper()
        assert "\n" not in sentence
        # One sentence: no full stop inside except in numbers.
        assert not re.search(r"\.\s", sentence)
        assert promise.unprotected
        for item in promise.unprotected:
            assert item.endswith(".")

    def test_counted_only_under_differential_privacy(self, promise: Guarantee) -> None:
        assert promise.counted == isinstance(promise, PureDP | ApproxDP)

    def test_unknown_parameter_is_refused(self, promise: Guarantee) -> None:
        with pytest.raises(ParameterError, match="sigma"):
            type(promise)(**{**promise.to_dict(), "sigma": 1})

    def test_a_single_guarantee_is_its_own_composition(self, promise: Guarantee) -> None:
        assert compose([promise]) is promise


def test_numbers_are_kept_exactly() -> None:
    for given_value in (0.1, "0.1", "1/10", Fraction(1, 10), Decimal("0.1"), "1e-1"):
        promise = PureDP(epsilon=given_value, **ROW)
        assert promise.epsilon == Fraction(1, 10)
        assert promise.to_dict()["epsilon"] == "1/10"
    assert PureDP(epsilon=1, **ROW) != PureDP(epsilon=1, unit=ROW["unit"], neighbors="replace")
    assert PureDP(epsilon=1, **ROW) != PureDP(epsilon=1, unit=PERSON, neighbors="add-remove")


@pytest.mark.parametrize("epsilon", [0, -1, "0", 1e-400, math.nan, math.inf, -math.inf, None, True])
def test_bad_epsilon_is_refused(epsilon: Any) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        PureDP(epsilon=epsilon, **ROW)
    with pytest.raises(ParameterError, match="epsilon"):
        ApproxDP(epsilon=epsilon, delta="1e-6", **ROW)


def test_bounds_of_epsilon_and_delta_are_inclusive() -> None:
    assert check_epsilon(MAX_EPSILON) == 100
    assert PureDP(epsilon=MAX_LOSS, **ROW).epsilon == 10_000
    assert ApproxDP(epsilon=1, delta=MAX_DELTA, **ROW).delta == Fraction(1, 100)
    step = Fraction(1, 10**30)
    with pytest.raises(ParameterError, match="protects nothing"):
        check_epsilon(MAX_EPSILON + step)
    with pytest.raises(ParameterError, match="protects nothing"):
        PureDP(epsilon=MAX_LOSS + step, **ROW)
    with pytest.raises(ParameterError, match="1% of all people"):
        ApproxDP(epsilon=1, delta=MAX_DELTA + step, **ROW)
    for delta in (0, -step, 1, 2, math.nan):
        with pytest.raises(ParameterError, match="delta"):
            ApproxDP(epsilon=1, delta=delta, **ROW)


def test_fractions_that_could_not_be_read_back_are_refused() -> None:
    longest = Fraction(1, 10**400 - 1)
    assert parse_guarantee(PureDP(epsilon=longest, **ROW).to_dict()).to_dict()
    with pytest.raises(ParameterError, match="digits"):
        PureDP(epsilon=Fraction(1, 10**400), **ROW)


def test_neither_unit_nor_relation_has_a_default() -> None:
    with pytest.raises(ParameterError) as caught:
        PureDP(epsilon=-1)
    assert len(caught.value.problems) == 3, "all problems at once"
    assert any("unit is missing" in problem for problem in caught.value.problems)
    assert any("neighbors is missing" in problem for problem in caught.value.problems)


@pytest.mark.parametrize(
    "build",
    [
        lambda: Threshold(k=0),
        lambda: Threshold(k=2.5),
        lambda: Threshold(k=True),
        lambda: KAnonymity(k=1),
        lambda: UncertainAnonymity(k=1, eta=0.1),
        lambda: UncertainAnonymity(k=10, eta=1),
        lambda: UncertainAnonymity(k=10, eta=-0.1),
        lambda: BoundedAdversary(d=0.2, gamma=0.2, adversary="independent"),
        lambda: BoundedAdversary(d=0, gamma=0.2, adversary="independent"),
        lambda: BoundedAdversary(d=0.1, gamma=1, adversary="independent"),
        lambda: BoundedAdversary(d=0.1, gamma=0.2, adversary="clever"),
        lambda: NoGuarantee(reason="  "),
        lambda: PureDP(epsilon=1, unit="row", neighbors="swap"),
        lambda: parse_guarantee({}),
        lambda: parse_guarantee({"family": "magic"}),
        lambda: parse_guarantee({"family": "threshold", "k": 0}),
        lambda: parse_guarantee([]),  # type: ignore[arg-type]
    ],
)
def test_bad_parameters_are_parameter_errors(build: Any) -> None:
    with pytest.raises(ParameterError):
        build()


class TestUnit:
    def test_shorthand_validates_inside_a_model(self) -> None:
        class Document(BaseModel):
            unit: Unit

        assert Document.model_validate({"unit": "row"}).unit == Unit(kind="row")
        assert Document.model_validate({"unit": "node"}).unit == Unit(kind="node")
        assert Document.model_validate({"unit": PERSON.model_dump()}).unit == PERSON
        schema = Document.model_json_schema()
        for good in ("row", "node", {"kind": "row"}, PERSON.model_dump()):
            jsonschema.validate({"unit": good}, schema)
        for bad in ("person", "house", {}, {"kind": "row", "colour": 1}):
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate({"unit": bad}, schema)
        with pytest.raises(ValidationError, match="identifies the person"):
            Document.model_validate({"unit": "person"})

    @pytest.mark.parametrize(
        "wrong",
        [
            {"kind": "person"},
            {"kind": "person", "column": "patient"},
            {"kind": "person", "max_rows": 3},
            {"kind": "person", "column": "", "max_rows": 3},
            {"kind": "person", "column": "patient", "max_rows": 0},
            {"kind": "person", "column": "patient", "max_rows": 1.5},
            {"kind": "row", "max_rows": 3},
            {"kind": "node", "column": "patient"},
            {"kind": "household"},
            {},
        ],
    )
    def test_incomplete_or_contradictory(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(ParameterError):
            Unit(**wrong)

    def test_named_in_the_promise(self) -> None:
        for neighbors, verb in (("add-remove", "Adding or removing"), ("replace", "Replacing")):
            text = PureDP(epsilon=1, unit=PERSON, neighbors=neighbors).explain()
            assert text.startswith(f"{verb} one person (column 'patient', at most 3 rows used)")
            text = PureDP(epsilon=1, unit=Unit(kind="row"), neighbors=neighbors).explain()
            assert text.startswith(f"{verb} one row ")


class TestNumbersInWords:
    @given(st.fractions(min_value=Fraction(1, 1000), max_value=MAX_EPSILON, max_denominator=1000))
    def test_factor_is_rounded_up_and_not_by_much(self, epsilon: Fraction) -> None:
        text = PureDP(epsilon=epsilon, **ROW).explain()
        found = re.search(r"a factor of at most ([\d.,]+)(?: times 10\^(\d+))? \(", text)
        assert found
        said = Fraction(found[1].replace(",", "")) * 10 ** int(found[2] or 0)
        true = float(epsilon)
        assert math.log(said) >= true * (1 - 1e-12)
        # Three digits of exp(epsilon), or of its excess over 1 where that is below 1.
        assert math.expm1(math.log(said)) <= math.expm1(true) * 1.0101 + (0.0101 if true > 1 else 0)

    @given(
        st.fractions(min_value=Fraction(1, 1000), max_value=6, max_denominator=1000),
        st.fractions(min_value=Fraction(1, 10**9), max_value=MAX_DELTA, max_denominator=10**9),
    )
    def test_guess_is_the_hypothesis_testing_bound(
        self, epsilon: Fraction, delta: Fraction
    ) -> None:
        text = ApproxDP(epsilon=epsilon, delta=delta, **ROW).explain()
        found = re.search(r"at most ([\d.]+)% of the time", text)
        assert found
        factor = math.exp(epsilon)
        # Smallest sum of the two errors on the line a + exp(epsilon) b = 1 - delta and its mirror.
        error = (1 - float(delta)) / (1 + factor)
        assert 0 <= float(found[1]) / 100 - (1 - error) <= 0.001 + 1e-12

    def test_pure_and_approx_differ_in_what_they_bound(self) -> None:
        assert "can become at most 73.2% sure" in PureDP(epsilon=1, **ROW).explain()
        # With a delta, a single outcome may reveal everything; only the average is bounded.
        text = ApproxDP(epsilon=1, delta="3e-6", **ROW).explain()
        assert "sure" not in text
        assert "1 in 333,333 " in text

    def test_an_epsilon_that_protects_nothing_is_explained_as_such(self) -> None:
        assert "practically certain" in PureDP(epsilon=20, **ROW).explain()
        assert "practically certain" in ApproxDP(epsilon=20, delta="1e-6", **ROW).explain()


class TestWhatIsLeftOut:
    """Warnings from the errata that must stay in the statements of releases."""

    def test_threshold_is_advertised_as_a_threshold_only(self) -> None:  # li-2009-6
        promise = Threshold(k=10)
        assert "anonym" not in promise.explain().lower()
        text = " ".join(promise.unprotected)
        for gap in ("Sensitive values", "adds 9 copies", "do not compose", "not people"):
            assert gap in text

    def test_uncertain_anonymity(self) -> None:  # aggarwal-2008-2
        text = " ".join(UncertainAnonymity(k=10, eta="1/20").unprotected)
        for gap in (
            "0.05",
            "not differential privacy",
            "Outliers",
            "Matching",
            "averages out",
            "Sensitive values",
        ):
            assert gap in text

    def test_bounded_adversary(self) -> None:  # rastogi-2007-2, rastogi-2007-3, rastogi-2007-6
        independent = BoundedAdversary(d="1/100", gamma="1/5", adversary="independent")
        assert "0.05 times" in independent.explain()
        assert "takes part" in " ".join(independent.unprotected)
        # No bound on negative leakage is promised against an exclusive adversary.
        exclusive = BoundedAdversary(d="1/100", gamma="1/5", adversary="exclusive")
        assert "times" not in exclusive.explain()
        assert "rule out" in " ".join(exclusive.unprotected)
        for promise in (independent, exclusive):
            assert "does not compose" in " ".join(promise.unprotected)

    def test_differential_privacy(self) -> None:
        rows = " ".join(PureDP(epsilon=1, **ROW).unprotected)
        assert "several rows" in rows
        assert "number of rows" not in rows
        replaced = PureDP(epsilon=1, unit=Unit(kind="row"), neighbors="replace")
        assert "The number of rows" in " ".join(replaced.unprotected)
        with_delta = " ".join(ApproxDP(epsilon=1, delta="1e-6", **ROW).unprotected)
        assert "1 in 1,000,000" in with_delta


class TestComposition:
    @given(
        st.lists(st.fractions(min_value=Fraction(1, 10**6), max_value=5), min_size=2, max_size=9)
    )
    def test_pure_epsilons_add_up_exactly(self, epsilons: list[Fraction]) -> None:
        total = compose([PureDP(epsilon=epsilon, **ROW) for epsilon in epsilons])
        assert total == PureDP(epsilon=sum(epsilons), **ROW)

    def test_approx_adds_both_and_pure_enters_with_delta_zero(self) -> None:
        first = ApproxDP(epsilon="1/3", delta="1e-6", **ROW)
        second = ApproxDP(epsilon="1/6", delta="2e-6", **ROW)
        pure = PureDP(epsilon="1/2", **ROW)
        assert compose([pure, first, second]) == ApproxDP(epsilon=1, delta="3e-6", **ROW)
        assert compose([pure, first]).family == "approx-dp"

    @pytest.mark.parametrize(
        ("promises", "reason"),
        [
            ([], "nothing to compose"),
            ([PureDP(epsilon=1, **ROW), Threshold(k=5)], "family threshold"),
            ([Threshold(k=5), Threshold(k=5)], "family threshold"),
            ([NoGuarantee(reason="x"), NoGuarantee(reason="x")], "family none"),
            ([KAnonymity(k=5), UncertainAnonymity(k=5, eta=0)], "k-anonymity, uncertain-anonymity"),
            (
                [
                    PureDP(epsilon=1, **ROW),
                    PureDP(epsilon=1, unit=Unit(kind="row"), neighbors="replace"),
                ],
                "relation",
            ),
            (
                [PureDP(epsilon=1, **ROW), PureDP(epsilon=1, unit=PERSON, neighbors="add-remove")],
                "different units",
            ),
            (
                [
                    PureDP(
                        epsilon=1,
                        unit=Unit(kind="person", column="patient", max_rows=rows),
                        neighbors="add-remove",
                    )
                    for rows in (1, 3)
                ],
                "at most 1 row .*at most 3 rows",
            ),
        ],
    )
    def test_everything_else_is_refused(self, promises: list[Guarantee], reason: str) -> None:
        with pytest.raises(CompositionError, match=reason):
            compose(promises)

    def test_a_sum_that_promises_nothing_is_refused(self) -> None:
        with pytest.raises(ParameterError, match="protects nothing"):
            compose([PureDP(epsilon=60, **ROW)] * 2)
        with pytest.raises(ParameterError, match="delta"):
            compose([ApproxDP(epsilon=1, delta="1/150", **ROW)] * 2)
