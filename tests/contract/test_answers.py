"""Every kind of release answers means, quantiles and regressions, or says why it cannot.

A 95% interval misses once in twenty; these checks allow three times its width around the
truth, so that any draw of the noise passes and an error of the scale of the data does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
import pytest

from contract.examples import EXAMPLES, is_numeric, label, schema, table
from hushtable import AlphaBeta, Release, publish
from hushtable.engine import connect
from hushtable.errors import Refused
from hushtable.methods import Method
from hushtable.privacy.noise.sources import SecureNoise
from hushtable.query.answers.estimator import Estimate

FIRST = {method.name: method for method in reversed(EXAMPLES)}
ASKED = [*FIRST.values(), *(m for m in EXAMPLES if m.name in ("uncertain", "noisy-counts"))]

Question = tuple[Callable[[Release], Estimate], float]


@pytest.fixture(scope="module", params=ASKED, ids=label)
def published(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Method, Release]:
    method: Method = request.param
    out = tmp_path_factory.mktemp(method.name) / "release"
    return method, publish(table(method), schema(method), method, out=out)


def questions(method: Method) -> Iterator[Question]:
    rows = table(method).select(list(schema(method).attributes)).to_pandas()
    if isinstance(method, AlphaBeta):
        rows = rows.drop_duplicates()
    age, women = rows["age"], rows["sex"] == "F"
    yield lambda r: r.mean("age"), age.mean()  # type: ignore[misc]
    yield lambda r: r.mean("age", "sex = 'F'"), age[women].mean()  # type: ignore[misc]
    yield lambda r: r.total("age"), age.sum()  # type: ignore[misc]
    yield lambda r: r.variance("age"), age.var(ddof=0)  # type: ignore[misc]
    yield lambda r: r.median("age"), float(np.sort(age)[(len(age) - 1) // 2])  # type: ignore[misc]
    yield lambda r: r.share("sex = 'F'"), women.mean()  # type: ignore[misc]
    yield lambda r: r.count("sex = 'F'"), women.sum()
    yield lambda r: r.mean("log1p(age)"), np.log1p(age).mean()  # type: ignore[misc]
    yield lambda r: r.mean("age", clip=(30, 50)), age.clip(30, 50).mean()  # type: ignore[misc]
    difference = age[~women].mean() - age[women].mean()
    yield lambda r: r.regression("age ~ C(sex)")["C(sex)[M]"], difference
    if is_numeric(method):
        wait = pd.Series(rows["wait"])
        slope = float(np.cov(wait, age)[0, 1] / wait.var())
        yield lambda r: r.regression("age ~ wait")["wait"], slope
        yield lambda r: r.correlation("age", "wait"), np.corrcoef(wait, age)[0, 1]  # type: ignore[misc]


def test_answers_hold_the_truth_or_are_refused(published: tuple[Method, Release]) -> None:
    method, release = published
    answered, refusals = 0, list[str]()
    for ask, truth in questions(method):
        try:
            answer = ask(release)
        except Refused as refusal:
            refusals.append(str(refusal))
            continue
        answered += 1
        assert answer.low <= answer.value <= answer.high
        reach = max(answer.high - answer.value, answer.value - answer.low, 1e-3 * abs(truth))
        assert abs(answer.value - truth) <= 3 * reach, (answer, truth)
        assert min(answer.privacy_std, answer.model_std, answer.sampling_std) >= 0
    assert answered  # counts, at least
    assert all(len(said) > 40 for said in refusals)  # states the reason


def test_standard_deviations_agree_with_the_interval(published: tuple[Method, Release]) -> None:
    """A user of value and std gets the interval, or there is no std."""
    method, release = published
    asked = [ask for ask, _ in questions(method)]
    asked += [lambda r, w=w: r.count(w) for w in ("age < 33", "age >= 41 AND sex = 'F'", "age = 7")]  # type: ignore[misc]
    for ask in asked:
        try:
            answer = ask(release)
        except Refused:
            continue
        plain = answer.to_dict()
        assert plain["support"] in ("measured", "tested", "untested")
        sides = answer.high - answer.value, answer.value - answer.low
        if answer.std is None:
            assert plain["std"] is None
            assert plain["model_std"] is None
            skewed = abs(sides[0] - sides[1]) > 0.05 * sum(sides)
            assert skewed or answer.support == "untested" or not np.isfinite(answer.reach)
        else:
            assert 1.96 * answer.std == pytest.approx(max(sides), rel=1e-4, abs=1e-12)
            parts = np.hypot(answer.privacy_std, answer.model_std)
            assert parts <= 1.05 * answer.std + 1e-9, answer


def test_the_order_of_columns_in_a_question_does_not_matter(
    published: tuple[Method, Release],
) -> None:
    _, release = published
    parts = ["age < 40", "sex = 'F'", "region IN ('harbor', 'valley')", "smoker = 'yes'"]
    parts = [p for p in parts if p.split()[0] in release.columns]
    asked: list[Callable[[str], Estimate]] = [release.count]
    asked.append(lambda where: release.mean("age", where))  # type: ignore[arg-type, return-value]
    for ask in asked:
        found = []
        for order in (parts, parts[::-1], parts[1:] + parts[:1]):
            try:
                answer = ask(" AND ".join(order))
            except Refused:
                continue
            found.append((answer.value, answer.low, answer.high, answer.support))
        for one in found[1:]:
            assert one[:3] == pytest.approx(found[0][:3], rel=1e-6, abs=1e-6)
            assert one[3] == found[0][3]


def test_groups_have_a_table(published: tuple[Method, Release]) -> None:
    _, release = published
    cells = release.crosstab("sex")
    assert [key for key, _ in cells] == [("F",), ("M",)]
    for _, estimate in cells:
        assert 0 <= estimate.low <= estimate.value <= estimate.high


def test_any_number_of_rows(published: tuple[Method, Release]) -> None:
    _, release = published
    assert release.frame(n=5, seed=1).num_rows == 5


def test_association_kept_is_stated_as_shares_of_pairs(published: tuple[Method, Release]) -> None:
    _, release = published
    for one in release.statement.estimator.get("association_kept", []):
        assert 0 <= one["kept"] <= 1
        assert set(one["columns"]) <= set(release.schema.attributes)


REPORT_ASSOCIATION = {
    "diffgen", "frapp", "generalize-suppress", "noisy-counts", "quilt", "random-sampling",
    "top-down-specialization", "uncertain",
}  # fmt: skip


def test_every_plan_computes_the_association_that_rows_keep() -> None:
    reported = set()
    for method in EXAMPLES:
        public = schema(method)
        plan, noise = method.plan(public), SecureNoise()
        released = plan.run(connect(table(method), public, noise=noise), noise)
        kept = plan.association_kept(released)
        assert all(0 <= share <= 1 for share in kept.values()), label(method)
        assert {name for pair in kept for name in pair} <= set(public.attributes)
        reported |= {method.name} if kept else set()
    assert reported >= REPORT_ASSOCIATION, REPORT_ASSOCIATION - reported
