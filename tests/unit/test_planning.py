"""Curves of error against epsilon, and the epsilon that an error needs."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from fractions import Fraction
from itertools import pairwise

import pytest

from contract.examples import EXAMPLES, label
from contract.examples import schema as schema_of
from hushtable.cli.error_curve import draw_curve, sparkline
from hushtable.datasets import sample_schema
from hushtable.errors import ParameterError, Refused
from hushtable.methods import (
    AlphaBeta,
    Columns,
    ContingencyTable,
    DiffGen,
    Frapp,
    GeneralizeSuppress,
    Method,
    NoisyCounts,
    Partition,
    Uncertain,
)
from hushtable.methods.base import CountError
from hushtable.methods.count_error import laplace_error, mechanism_error
from hushtable.privacy.guarantee import ApproxDP, PureDP
from hushtable.publishing.epsilon import (
    ErrorAtEpsilon,
    ErrorCurve,
    ErrorTarget,
    error_curve,
    needed_epsilon,
)

ROWS = 12_000
COARSE = {"age": 20, "region": 1, "diagnosis": 1}

WITH_FORMULA: list[Method] = [
    NoisyCounts(epsilon=1, delta="1e-6", k=10, generalize=COARSE),
    NoisyCounts(epsilon=1, delta="1e-6", k=10, generalize=COARSE, mechanism="paper"),
    NoisyCounts(epsilon=1, mechanism="pure", generalize=COARSE),
    ContingencyTable(epsilon=1),
    Partition(epsilon=1),
    DiffGen(epsilon=1, specializations=5),
    DiffGen(epsilon=1),
    AlphaBeta(alpha="9/20", beta="1/20"),
    Frapp(retention="1/5"),
    Columns(epsilon=1, delta="1e-6", k=10, max_columns=1, columns=[["age", "sex"]],
            generalize=COARSE),
]  # fmt: skip


def spent(method: Method) -> Fraction:
    promised = method.guarantee(sample_schema())
    return max(p.epsilon for p in promised if isinstance(p, PureDP | ApproxDP))


@pytest.mark.parametrize("method", WITH_FORMULA, ids=label)
def test_the_epsilon_found_suffices_and_less_does_not(method: Method) -> None:
    schema, want = sample_schema(), ErrorTarget.parse("count error 60 at 1%")
    epsilon, error = needed_epsilon(method, schema, want, rows=ROWS)
    assert error.half_width <= 60
    solved = method.at_epsilon(schema, epsilon)
    assert solved.count_error(schema, rows=ROWS, share=0.01) == error
    # Three digits: the next smaller one is too small.
    digit = Fraction(10) ** (len(str(int(epsilon))) - 3 if epsilon >= 1 else _place(epsilon))
    less = method.at_epsilon(schema, epsilon - digit)
    assert less.count_error(schema, rows=ROWS, share=0.01).half_width > 60


def _place(epsilon: Fraction) -> int:
    place = 0
    while epsilon * 10**place < 1:
        place += 1
    return -place - 2


@pytest.mark.parametrize("method", WITH_FORMULA, ids=label)
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(7, 2)])
def test_no_more_is_promised_than_the_epsilon_asked_for(method: Method, epsilon: Fraction) -> None:
    found = spent(method.at_epsilon(sample_schema(), epsilon))
    assert epsilon * Fraction(999, 1000) < found <= epsilon


@pytest.mark.parametrize("method", WITH_FORMULA, ids=label)
def test_more_epsilon_means_less_error(method: Method) -> None:
    curve = error_curve(method, sample_schema(), rows=ROWS)
    errors = [error for _, error in curve.known]
    assert len(errors) == 7
    # If a method makes finer groups for a larger epsilon, the error may rise slightly.
    assert all(later <= 1.5 * error for error, later in pairwise(errors))
    assert errors[-1] < errors[0] / 5


@pytest.mark.parametrize("method", EXAMPLES, ids=label)
def test_every_method_has_a_curve_or_a_reason(method: Method) -> None:
    schema = schema_of(method)
    try:
        curve = error_curve(method, schema, rows=ROWS)
    except Refused as refusal:
        reason = str(refusal)
    else:
        reason = curve.assumes
        assert all(error >= 0 for _, error in curve.known)
    assert len(reason) > 40
    assert reason.endswith(".")


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        (GeneralizeSuppress(k=5), "no epsilon"),
        (Uncertain(k=5), "no epsilon"),
        (
            Columns(epsilon=1, delta="1e-6", k=10, max_columns=5, clusters=[2]),
            "chosen from the private rows",
        ),
        (
            Columns(epsilon=1, delta="1e-6", k=10, max_columns=1, columns=[["age"], ["sex"]]),
            "lose some at random",
        ),
        (NoisyCounts(epsilon=1, delta="1e-6", k=10), "pass rows"),
        (Frapp(retention="1/5"), "pass rows"),
        (DiffGen(epsilon=1), "pass rows"),
        (DiffGen(epsilon=1, specializations=12, max_groups=10), "max_groups"),
    ],
    ids=lambda value: value.name if isinstance(value, Method) else None,
)
def test_errors_that_cannot_be_forecast_are_named(method: Method, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        error_curve(method, sample_schema())


def test_suppression_that_no_epsilon_removes_is_reported() -> None:
    fine = NoisyCounts(epsilon=1, delta="1e-6", k=10)
    with pytest.raises(Refused, match="never published; generalize more"):
        needed_epsilon(fine, sample_schema(), ErrorTarget.parse("count error 5 at 1%"), rows=ROWS)


def test_a_public_number_of_rows_need_not_be_given() -> None:
    schema = sample_schema().model_copy(update={"rows": ROWS})
    method = NoisyCounts(epsilon=1, delta="1e-6", k=10, generalize=COARSE)
    assert error_curve(method, schema) == error_curve(method, schema, rows=ROWS)


@pytest.mark.parametrize(
    ("text", "limit", "share"),
    [
        ("count error 50 at 1%", 50.0, 0.01),
        ("  Count  ERROR 1,000 at 12.5 % ", 1000.0, 0.125),
        ("count error 5% at 1%", 6.0, 0.01),
        ("count error 0.5 at 100%", 0.5, 1.0),
    ],
)
def test_the_grammar_of_wants(text: str, limit: float, share: float) -> None:
    want = ErrorTarget.parse(text)
    assert (want.limit(ROWS), float(want.share)) == (limit, share)
    assert ErrorTarget.parse(str(want)) == want


@pytest.mark.parametrize(
    "text",
    ["", "count error at 1%", "count error 5 at 1", "error 5 at 1%", "count error 0 at 1%",
     "count error 5 at 0%", "count error 5 at 101%", "count error -5 at 1%",
     "count error 5.5.5 at 1%"],
)  # fmt: skip
def test_a_want_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="want"):
        ErrorTarget.parse(text)


def test_a_relative_want_needs_rows() -> None:
    with pytest.raises(ParameterError, match="number of rows"):
        ErrorTarget.parse("count error 5% at 1%").limit(None)


def test_long_sums_are_approximated_as_well_as_short_ones_are_exact() -> None:
    # 31 counts of rate 1/100 are on one side of the limit, 40 on the other.
    for rate in (Fraction(1, 100), Fraction(1, 1000)):
        exact = laplace_error(rate, 15, "")
        approximate = laplace_error(rate, 60, "")
        assert approximate.std == pytest.approx(2 * exact.std)
        assert approximate.half_width == pytest.approx(1.9635 * approximate.std, rel=0.004)


def test_a_mechanism_without_suppression_has_its_own_error() -> None:
    schema = sample_schema()
    method = NoisyCounts(epsilon=1, delta="1e-6", k=10, generalize=COARSE)
    error = mechanism_error(
        method.plan(schema).mechanism, rows=270 * 500, n_cells=270, share=1 / 270, assumes=""
    )
    assert error.std == pytest.approx(method.plan(schema).mechanism.std, rel=1e-6)


def curve_of(*points: tuple[float, float, str]) -> ErrorCurve:
    return ErrorCurve(
        share=0.01,
        rows=ROWS,
        points=tuple(
            ErrorAtEpsilon(
                Fraction(epsilon), CountError(half_width=error, std=1.0, assumes=assumes)
            )
            for epsilon, error, assumes in points
        ),
    )


@pytest.mark.parametrize(
    ("errors", "bars"),
    [
        ((120.0, 120.0, 120.0), "▁▁▁"),
        ((120.0, 120.0, 120.000000000001), "▁▁▁"),
        ((121.0, 120.5, 120.0), "▁▁▁"),
        ((200.0, 150.0, 100.0), "█▅▁"),
        ((1000.0, 100.0, 10.0), "█▅▁"),
        ((0.0, 0.0, 0.0), "▁▁▁"),
    ],
)
def test_a_curve_looks_as_steep_as_it_is(errors: tuple[float, ...], bars: str) -> None:
    curve = curve_of(*((1 + place, error, "") for place, error in enumerate(errors)))
    assert sparkline(curve) == bars


@pytest.mark.parametrize("error", [0.0, 0.7, 3.2, 70.0, 120.0, 4_600.0])
def test_a_flat_curve_is_drawn_level_with_a_number_beside_it(error: float) -> None:
    curve = curve_of((1, error, ""), (2, error * (1 + 1e-15), ""), (5, error, ""))
    root = ET.fromstring(draw_curve(curve, "flat"))  # noqa: S314 - our own text
    line = root.find("{http://www.w3.org/2000/svg}polyline")
    assert line is not None
    assert len({point.split(",")[1] for point in line.attrib["points"].split()}) == 1
    texts = root.findall("{http://www.w3.org/2000/svg}text")
    assert any(text.get("text-anchor") == "end" for text in texts)


def test_what_is_assumed_at_some_epsilons_only_says_at_which() -> None:
    same = "All tuples count."
    assert curve_of((1, 9, same), (2, 8, same)).assumes == same
    assert curve_of((1, 9, ""), (2, 8, "")).assumes == ""
    some = curve_of((0.5, 9, f"{same} Nothing is published."), (1, 9, same), (2, 8, same))
    assert some.assumes == f"{same} At epsilon 0.5: Nothing is published."
    cuts = curve_of(
        (1, 9, "At 1.5 there are 900 groups, 95%."), (2, 8, "At 1.5 there are 1,200 groups, 95%.")
    )
    assert cuts.assumes == "At 1.5 there are 900 to 1,200 groups, 95%, depending on epsilon."


def test_the_drawing_is_well_formed_and_names_are_escaped() -> None:
    curve = error_curve(ContingencyTable(epsilon=1), sample_schema())
    drawing = draw_curve(curve, "a <b> & c", mark=(0.5, 80.0))
    root = ET.fromstring(drawing)  # noqa: S314 - our own text
    assert len(root.findall("{http://www.w3.org/2000/svg}circle")) == 8
    assert "http" not in drawing.replace("http://www.w3.org/2000/svg", "")
