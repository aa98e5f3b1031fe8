"""quilt with a prior: accepted priors, their weight, and the effect of a wrong prior."""

from __future__ import annotations

import json
import shutil
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from hushtable.datasets import sample, sample_schema
from hushtable.engine import connect
from hushtable.errors import ParameterError, Refused, ReleaseError
from hushtable.methods.base import Released
from hushtable.methods.counts.generalize_suppress import GeneralizeSuppress
from hushtable.methods.prior import Prior
from hushtable.methods.quilt.binning import MarginalQuery, values_of
from hushtable.methods.quilt.model import LogLinearModel
from hushtable.methods.quilt.prior_weight import (
    PairPriorWeight,
    PriorRows,
    PriorWeight,
    column_prior_weights,
    prior_variance,
)
from hushtable.methods.quilt.quilt import Quilt
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.publishing.publish import publish
from hushtable.release.release import Release
from hushtable.release.stored_prior import StoredPrior
from hushtable.schema import Schema
from hushtable.web.forms import fields_of, read_parameters
from seeds import shifted

FAST = {"particles": 2000}
WHY = "it is made up for this test"


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Publish the sample once with secure noise, because seeded releases are refused as priors."""
    folder = tmp_path_factory.mktemp("prior") / "earlier"
    publish(sample(), sample_schema(), Quilt(epsilon=1, delta="1e-9", **FAST), out=folder)
    return folder


def written(folder: Path, table: pa.Table, name: str = "public.parquet") -> Path:
    pq.write_table(table, folder / name)
    return folder / name


# --- accepted priors ------------------------------------------------------------------------------


def test_a_release_is_known_by_its_statement(earlier: Path) -> None:
    method = Quilt(epsilon=1, prior=earlier)
    assert method.prior is not None
    assert method.prior.kind == "release"
    assert method.prior == Quilt(epsilon=1, prior=str(earlier)).prior
    assert method.prior == Quilt(epsilon=1, prior=Release.load(earlier)).prior
    said = method.parameters()["prior"]
    assert said == {
        "kind": "release", "name": "earlier", "sha256": method.prior.sha256,
        "epsilon": "1", "delta": "1/1000000000",
    }  # fmt: skip
    assert len(method.prior.sha256) == 64


def test_a_table_needs_a_reason(tmp_path: Path) -> None:
    file = written(tmp_path, sample())
    with pytest.raises(ParameterError, match=r"not a release with.*state why"):
        Quilt(epsilon=1, prior=file)
    for empty in ("", "  ", True):
        with pytest.raises(ParameterError, match="state in words why"):
            Quilt(epsilon=1, prior=file, prior_public=empty)
    with pytest.raises(ParameterError, match="without a prior"):
        Quilt(epsilon=1, prior_public=WHY)
    method = Quilt(epsilon=1, prior=file, prior_public=WHY)
    assert method.parameters()["prior_public"] == WHY
    assert method.parameters()["prior"]["kind"] == "table"


def test_a_release_without_differential_privacy_is_a_table(tmp_path: Path) -> None:
    folder = tmp_path / "suppressed"
    publish(sample(), sample_schema(), GeneralizeSuppress(k=5), out=folder)
    with pytest.raises(ParameterError, match="not a release with"):
        Quilt(epsilon=1, prior=folder)
    assert Quilt(epsilon=1, prior=folder, prior_public=WHY).prior is not None


@pytest.mark.filterwarnings("ignore::hushtable.release.release.SeededReleaseWarning")
def test_a_seeded_release_protects_nobody(tmp_path: Path) -> None:
    folder = tmp_path / "seeded"
    publish(sample(), sample_schema(), Quilt(epsilon=1, delta="1e-9", **FAST), out=folder,
            noise=SeededNoise(shifted(1)))  # fmt: skip
    (seeded,) = [path for path in tmp_path.iterdir() if path.is_dir()]
    with pytest.raises(ParameterError, match="not a release with"):
        Quilt(epsilon=1, prior=seeded)


def test_a_changed_release_is_refused(earlier: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in earlier.iterdir():
        if file.is_file():
            (copy / file.name).write_bytes(file.read_bytes())
    pq.write_table(sample(), copy / "data.parquet")  # the private table instead
    with pytest.raises(ParameterError, match=r"prior: .*changed after it was published|incomplete"):
        Quilt(epsilon=1, prior=copy)
    with pytest.raises(ReleaseError):
        Release.load(copy)


@pytest.mark.parametrize("given", ["nowhere", 3, sample()], ids=["gone", "number", "frame"])
def test_what_is_no_prior_is_refused(given: object) -> None:
    with pytest.raises(ParameterError, match="prior"):
        Quilt(epsilon=1, prior=given, prior_public=WHY)


def test_the_private_table_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    file = tmp_path / "private.csv"
    pa_csv.write_csv(sample(), file)
    link = tmp_path / "another-name.csv"
    link.symlink_to(file)
    ledger = Ledger.create(tmp_path / "ledger", epsilon=1)
    for name in (file, link):
        method = Quilt(epsilon="1/2", prior=name, prior_public=WHY, **FAST)
        with pytest.raises(ParameterError, match="private table itself"):
            publish(file, sample_schema(), method, out=tmp_path / "out", ledger=ledger)
    assert not list(ledger.entries())
    assert not (tmp_path / "out").exists()


def test_a_prior_of_other_columns_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path, pa.table({"height": [1, 2]}))
    with pytest.raises(ParameterError, match=r"none of the columns.*age"):
        Quilt(epsilon=1, prior=file, prior_public=WHY).guarantee(sample_schema())


def test_values_that_the_schema_does_not_have_are_unknown(tmp_path: Path) -> None:
    schema = Schema.from_dict({"name": "t", "columns": {
        "a": {"type": "integer", "low": 0, "high": 9, "missing": "forbid", "outside": "refuse"},
        "b": {"type": "categorical", "values": ["x", "y"], "missing": "category"},
        "c": {"type": "integer", "low": 0, "high": 9, "missing": "forbid", "outside": "clip"},
    }})  # fmt: skip
    rows = pa.table({"a": [3, 77, None], "b": ["y", "z", None], "c": [1, 99, 2], "d": [0, 0, 0]})
    file = tmp_path / "rows.csv"
    pa_csv.write_csv(rows, file)
    for made in (file, written(tmp_path, rows)):
        codes = StoredPrior.read("prior", made).codes(schema)
        assert {name: found.tolist() for name, found in codes.items()} == {
            "a": [3, Prior.UNKNOWN, Prior.UNKNOWN],
            "b": [1, 2, 2],
            "c": [1, 9, 2],
        }


def test_a_browser_names_no_files() -> None:
    # The workbench reads tables from its own folders alone.
    shown = {field.name for field in fields_of("quilt", {"prior": "/etc/passwd"}, sample_schema())}
    assert "epsilon" in shown
    assert not shown & {"prior", "prior_public"}
    sent = {"epsilon": "1", "prior": "/etc/passwd", "prior_public": WHY}
    assert "prior" not in read_parameters("quilt", sent, sample_schema())


def test_the_promise_does_not_know_the_prior(earlier: Path, tmp_path: Path) -> None:
    schema, file = sample_schema(), written(tmp_path, sample())
    plain = Quilt(epsilon="1/10", delta="1e-9")
    for other in (
        Quilt(epsilon="1/10", delta="1e-9", prior=earlier),
        Quilt(epsilon="1/10", delta="1e-9", prior=file, prior_public=WHY),
    ):
        assert other.guarantee(schema) == plain.guarantee(schema)
        assert other.forecast(schema, 9000) == plain.forecast(schema, 9000)


# --- weight of a prior ----------------------------------------------------------------------------


def test_what_a_prior_tells_is_not_covered_and_the_plan_says_so(
    earlier: Path, tmp_path: Path
) -> None:
    file = written(tmp_path, sample())
    told = Quilt(epsilon=1, prior=file, prior_public=WHY).plan(sample_schema()).conditions
    assert WHY in told[-1]
    told = Quilt(epsilon=1, prior=earlier).plan(sample_schema()).conditions
    assert "a release with its own promise (epsilon 1, delta 1e-9)" in told[-1]
    assert Quilt(epsilon=1).plan(sample_schema()).conditions == sample_schema().conditions


def test_doubt_is_what_makes_gaps_as_large_as_they_are() -> None:
    # 4,000 gaps: the estimate is within 6 of its standard errors but with probability 2e-9.
    draw = np.random.default_rng(shifted(1))
    noise, units = np.full(4000, 400.0), draw.uniform(1, 100, 4000)
    for c in (0.5, 5.0, 50.0):
        found, error = prior_variance(draw.normal(0, np.sqrt(noise + c * units)), noise, units)
        assert abs(found - c) < 6 * error
        assert error < 0.2 * c + 1
    found, error = prior_variance(np.zeros(100), noise[:100], units[:100])
    assert found == pytest.approx(0, abs=1e-6)
    assert error > 0


def test_averages_are_by_precision() -> None:
    both = PriorWeight(np.array([100.0, 100.0]), np.array([25.0, 1e12])).averaged(
        np.array([110.0, 200.0]), 5.0
    )
    assert both[0].tolist() == pytest.approx([105, 200])
    assert both[1].tolist() == pytest.approx([12.5, 25])


def four(name: str = "abcd") -> Schema:
    columns = {c: {"type": "categorical", "values": list("0123")} for c in name}
    return Schema.from_dict({"name": "t", "columns": columns})


def test_columns_are_believed_as_far_as_noisy_counts_agree() -> None:
    draw = np.random.default_rng(shifted(2))
    codes = {c: draw.choice(4, 20_000, p=[0.4, 0.3, 0.2, 0.1]) for c in "abc"}
    wrong = np.array([0.1, 0.1, 0.1, 0.7])
    truth = [np.array([0.4, 0.3, 0.2, 0.1])] * 2 + [wrong, wrong]
    noisy = [20_000 * share + draw.normal(0, 50, 4) for share in truth]
    beliefs, together = column_prior_weights(
        PriorRows(codes), values_of(four()), noisy, [50.0] * 4, 20_000.0
    )
    assert beliefs[3] is None  # it is not in the prior
    right, off = beliefs[0], beliefs[2]
    assert right is not None
    assert off is not None
    # The wrong column has its own prior variance: averages follow its noisy counts.
    assert np.abs(off.averaged(noisy[2], 50.0)[0] - noisy[2]).max() < 10
    assert off.variances.min() > 100 * 50**2
    alone = column_prior_weights(
        PriorRows({c: codes[c] for c in "ab"}), values_of(four()), noisy, [50.0] * 4, 20_000.0
    )
    good = alone[0][0]
    assert good is not None
    assert together == pytest.approx(alone[1])  # the wrong column does not affect the others
    assert right.c == together < off.c / 100
    # Eight counts determine the variance to within a half: averages gain, and never claim more.
    assert (good.averaged(noisy[0], 50.0)[1] < 50**2).all()


def test_a_contradicted_value_is_not_believed() -> None:
    draw = np.random.default_rng(shifted(3))
    columns = {c: {"type": "integer", "low": 0, "high": 39} for c in "ab"}
    schema = Schema.from_dict({"name": "t", "columns": columns})
    codes = {c: draw.integers(0, 40, 40_000) for c in "ab"}
    noisy = [np.bincount(codes[c], minlength=40) + draw.normal(0, 20, 40) for c in "ab"]
    noisy[0][7] += 5000.0  # a new value this year
    beliefs, _ = column_prior_weights(
        PriorRows(codes), values_of(schema), noisy, [20.0] * 2, 40_000.0
    )
    belief = beliefs[0]
    assert belief is not None
    assert abs(belief.averaged(noisy[0], 20.0)[0][7] - noisy[0][7]) < 5


def pair_belief(codes: np.ndarray, shares: np.ndarray, c: float = 1.0) -> PairPriorWeight:
    return PairPriorWeight([codes[:, 0], codes[:, 1]], [shares, shares], 10_000.0, c, [(0, 1)])


def test_pairs_are_weighed_to_what_columns_are_now() -> None:
    draw = np.random.default_rng(shifted(4))
    first = draw.integers(0, 2, 5000)
    codes = np.stack([first, np.where(draw.random(5000) < 0.8, first, 1 - first)], axis=1)
    codes[:100, 0] = Prior.UNKNOWN
    now = np.array([0.7, 0.3])
    table = pair_belief(codes, now).tables[0, 1].reshape(2, 2)
    assert table.sum(axis=1).tolist() == pytest.approx([7000, 3000], rel=0.02)
    odds = table[0, 0] * table[1, 1] / (table[0, 1] * table[1, 0])
    before = np.bincount(2 * codes[100:, 0] + codes[100:, 1], minlength=4).reshape(2, 2)
    assert odds == pytest.approx(
        before[0, 0] * before[1, 1] / (before[0, 1] * before[1, 0]), rel=0.1
    )


def test_a_prior_that_explains_nothing_is_dropped() -> None:
    draw = np.random.default_rng(shifted(5))
    first = draw.integers(0, 4, 5000)
    tied = np.stack([first, np.where(draw.random(5000) < 0.5, first, 3 - first)], axis=1)
    apart = draw.integers(0, 4, (5000, 2))
    even = np.full(4, 0.25)
    patch = MarginalQuery.of((0, 1), (0, 0), [(np.arange(4),)] * 2)
    truth = pair_belief(tied, even).tables[0, 1]
    noisy = truth + draw.normal(0, 60, 16)
    beliefs = {"right": pair_belief(tied, even), "wrong": pair_belief(apart, even)}
    for belief in beliefs.values():
        belief.update([(patch, noisy, 60.0)])
    assert not beliefs["right"].is_useless
    assert beliefs["wrong"].is_useless
    assert beliefs["wrong"].c > 20 * beliefs["right"].c


def test_a_field_holds_what_it_believes_beside_what_was_measured() -> None:
    even = [np.full(2, 0.5)] * 2
    field = LogLinearModel(even, total=1000.0, n_particles=4000, seed=shifted(1))
    field.add_prior((0, 1), np.array([400.0, 100.0, 100.0, 400.0]), np.full(4, 1.0))
    field.fit()
    assert np.abs(field.answers([(0, 1)])[0].ravel() - [400, 100, 100, 400]).max() < 20
    # A precise measurement outweighs an imprecise prior; the prior's table stays last.
    field.add((0, 1), np.array([100, 400, 400, 100]), std=1.0)
    field.add_prior((0, 1), np.array([400.0, 100.0, 100.0, 400.0]), np.full(4, 1000.0))
    field.refresh()
    field.fit(30)
    assert [table.from_prior for table in field.tables] == [False, True]
    assert np.abs(field.answers([(0, 1)])[0].ravel() - [100, 400, 400, 100]).max() < 20
    field.drop_prior()
    assert [table.from_prior for table in field.tables] == [False]


# --- releases -------------------------------------------------------------------------------------


def population(n: int, seed: int) -> pa.Table:
    """Draw people whose four columns are dependent."""
    draw = np.random.default_rng(shifted(seed))
    codes = [draw.integers(0, 4, n)]
    for _ in range(3):
        codes.append(np.where(draw.random(n) < 0.7, codes[-1], draw.integers(0, 4, n)))
    return pa.table({name: code.astype(str) for name, code in zip("abcd", codes, strict=True)})


def pairs_off(made: Released, table: pa.Table) -> float:
    """Return the mean total variation between published and private pairs."""
    found = []
    for one, two in combinations("abcd", 2):
        shares = []
        for rows in (made.tables["data"], table):
            first, second = (rows.column(name).to_numpy().astype(int) for name in (one, two))
            shares.append(np.bincount(4 * first + second, minlength=16) / rows.num_rows)
        found.append(np.abs(shares[0] - shares[1]).sum() / 2)
    return float(np.mean(found))


def run(prior: Path | None, table: pa.Table, seed: int) -> Released:
    noise = SeededNoise(shifted(seed))
    method = Quilt(epsilon="0.1", delta="1e-9", prior=prior,
                   prior_public=WHY if prior else None, **FAST)  # fmt: skip
    return method.run(connect(table, four(), noise=noise), noise)


def test_a_good_prior_helps_and_a_wrong_one_does_not_hurt(tmp_path: Path) -> None:
    # Of 40 runs like these, none was off by .225 with a standard deviation of .029, good by .071
    # and .014, wrong by .223 and .040. So means of 4 are 5 standard deviations from both bounds.
    table = population(3000, 1)
    columns = {name: np.roll(table.column(name), 500 * at) for at, name in enumerate("abcd")}
    good = written(tmp_path, population(3000, 2), "good.parquet")
    wrong = written(tmp_path, pa.table(columns), "wrong.parquet")
    off = {
        name: np.mean([pairs_off(run(prior, table, seed), table) for seed in range(4)])
        for name, prior in (("none", None), ("good", good), ("wrong", wrong))
    }
    assert off["good"] < 0.6 * off["none"]
    assert off["wrong"] < 1.6 * off["none"]


def test_the_release_says_what_became_of_the_prior(tmp_path: Path) -> None:
    table = population(20_000, 3)
    some = written(tmp_path, population(5000, 4).select(["a", "b", "c"]))
    made = run(some, table, 1).settings
    assert made["prior"]["columns"] == ["a", "b", "c"]
    assert made["prior"]["fitted_pairs"] == [[0, 1], [0, 2], [1, 2]]
    assert made["prior"]["prior_variance"] > 0
    assert any("as far as the noisy tables agree" in note for note in made["notes"])
    assert "prior" not in run(None, table, 1).settings
    nobody = written(tmp_path, population(0, 4), "nobody.parquet")
    assert run(nobody, table, 1).settings["prior"] == {
        "columns": list("abcd"),
        "prior_variance": None,
        "fitted_pairs": [],
    }


def test_the_statement_names_the_prior_and_its_digest(earlier: Path, tmp_path: Path) -> None:
    method = Quilt(epsilon="1/10", delta="1e-9", prior=earlier, **FAST)
    release = publish(sample(), sample_schema(), method, out=tmp_path / "now")
    text = (tmp_path / "now" / "STATEMENT.md").read_text()
    assert method.prior is not None
    assert method.prior.sha256 in text
    assert "earlier" in text
    assert release.count("age >= 40").value > 0
    assert str(earlier) not in text  # its path is not published


# --- priors that a ledger must have charged -------------------------------------------------------


def start_from(prior: Path, out: Path, ledger: Path | None = None, **more: str) -> Release:
    method = Quilt(epsilon="1/10", prior=prior, **FAST, **more)
    return publish(sample(), sample_schema(), method, out=out, ledger=ledger, anyway=True)


def new_ledger(folder: Path, name: str = "book") -> Path:
    Ledger.create(folder / name, epsilon=100, delta="1e-3", schema=sample_schema())
    return folder / name


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Publish with a large epsilon and without a ledger."""
    folder = tmp_path_factory.mktemp("trial") / "trial"
    publish(sample(), sample_schema(), Quilt(epsilon=100, **FAST), out=folder)
    return folder


def test_a_prior_that_the_ledger_did_not_pay_for_is_refused(trial: Path, tmp_path: Path) -> None:
    book = new_ledger(tmp_path)
    with pytest.raises(Refused, match=r"'trial' is a release that this ledger did not pay") as told:
        start_from(trial, tmp_path / "out", book)
    assert "epsilon 100, delta 0" in str(told.value)
    assert "--prior-public" in str(told.value)
    assert Ledger.open(book).entries() == ()
    assert not (tmp_path / "out").exists()


def test_a_prior_of_another_ledger_or_with_a_borrowed_receipt_is_refused(
    trial: Path, tmp_path: Path
) -> None:
    book, other = new_ledger(tmp_path), new_ledger(tmp_path, "other")
    method = Quilt(epsilon=1, **FAST)
    paid = publish(sample(), sample_schema(), method, out=tmp_path / "paid", ledger=book)
    with pytest.raises(Refused, match="did not pay"):
        start_from(paid.folder, tmp_path / "out", other)
    forged = tmp_path / "forged"
    shutil.copytree(trial, forged)
    statement = json.loads((forged / "statement.json").read_text())
    statement["ledger"] = json.loads((paid.folder / "statement.json").read_text())["ledger"]
    (forged / "statement.json").write_text(json.dumps(statement))
    with pytest.raises(Refused, match="did not pay"):
        start_from(forged, tmp_path / "out", book)
    assert len(Ledger.open(book).entries()) == 1


def test_a_prior_that_the_same_ledger_paid_for_is_taken(tmp_path: Path) -> None:
    book = new_ledger(tmp_path)
    method = Quilt(epsilon=1, **FAST)
    paid = publish(sample(), sample_schema(), method, out=tmp_path / "paid", ledger=book)
    release = start_from(paid.folder, tmp_path / "out", book)
    assert "(epsilon 1, delta 0), which adds to this one" in release.statement.for_people()
    entry = Ledger.open(book).entries()[-1]
    assert entry.prior is not None
    assert entry.prior["name"] == "paid"
    assert "public" not in entry.prior


def test_a_prior_that_is_confirmed_as_public_is_on_record(trial: Path, tmp_path: Path) -> None:
    book = new_ledger(tmp_path)
    release = start_from(trial, tmp_path / "out", book, prior_public=WHY)
    told = release.statement.for_people()
    assert "(epsilon 100, delta 0), which adds to this one" in told
    assert f"It was confirmed as public: {WHY}" in told
    (entry,) = Ledger.open(book).entries()
    assert entry.prior is not None
    assert entry.prior["public"] == WHY
    assert entry.prior["epsilon"] == "100"
    assert json.loads(json.dumps(entry.to_dict()))["prior"]["public"] == WHY


def test_without_a_ledger_the_statement_names_what_all_priors_cost(
    trial: Path, tmp_path: Path
) -> None:
    first = start_from(trial, tmp_path / "first")
    assert "(epsilon 100, delta 0)" in first.statement.for_people()
    second = start_from(first.folder, tmp_path / "second")
    assert second.statement.parameters["prior"]["epsilon"] == "1001/10"
    assert "(epsilon 100.1, delta 0)" in second.statement.for_people()


def test_a_public_table_is_taken_with_a_ledger_and_called_one(tmp_path: Path) -> None:
    book = new_ledger(tmp_path)
    release = start_from(written(tmp_path, sample()), tmp_path / "out", book, prior_public=WHY)
    assert f"It was given as a public table: {WHY}" in release.statement.for_people()
    assert "epsilon" not in release.statement.parameters["prior"]
    (entry,) = Ledger.open(book).entries()
    assert entry.prior is not None
    assert entry.prior["kind"] == "table"
    assert entry.prior["public"] == WHY
