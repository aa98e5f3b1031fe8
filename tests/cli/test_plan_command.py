"""``hushtable plan``: curves, drawings, and solving for epsilon."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hushtable.schema import Schema

from .conftest import Run

NOISY = ("plan", "noisy-counts", "--mechanism", "pure", "--generalize", "age=20")


def test_a_plan_shows_error_against_epsilon(run: Run, files: Path) -> None:
    result = run(*NOISY, files / "schema.yaml", "--epsilon", 1, "--rows", 12_000)
    assert result.code == 0
    assert "Error against epsilon" in result.out
    assert "error at most" in result.out


def test_want_solves_for_epsilon_and_needs_none_given(run: Run, files: Path) -> None:
    want = ("--rows", 12_000, "--want", "count error 50 at 1%")
    result = run(*NOISY, files / "schema.yaml", *want, "--json")
    assert result.code == 0
    found = json.loads(result.out)
    assert found["want"]["half_width"] <= 50
    assert found["parameters"]["epsilon"] == "22/125"
    assert found["guarantees"][0]["epsilon"] == "22/125"
    assert found["curve"]["points"][0]["epsilon"] == 0.1
    told = run(*NOISY, files / "schema.yaml", *want)
    assert "--epsilon 0.176" in told.out


def test_want_gives_the_parameters_of_methods_without_an_epsilon(run: Run, files: Path) -> None:
    result = run(
        "plan", "frapp", files / "schema.yaml", "--rows", 12_000, "--want",
        "count error 30% at 10%", "--json",
    )  # fmt: skip
    assert result.code == 0
    found = json.loads(result.out)
    assert set(found["want"]["parameters"]) == {"retention"}


def test_without_epsilon_and_want_the_plan_says_what_is_missing(run: Run, files: Path) -> None:
    result = run(*NOISY, files / "schema.yaml")
    assert result.code == 2
    assert "--epsilon" in result.err
    assert "--want" in result.err


def test_a_method_without_a_formula_says_why(run: Run, files: Path) -> None:
    result = run("plan", "generalize-suppress", files / "schema.yaml", "--k", 5)
    assert result.code == 0
    assert "unknown before the data is read" in result.out


def test_a_want_that_cannot_be_met_is_refused(run: Run, files: Path) -> None:
    result = run(
        "plan", "alpha-beta", files / "schema.yaml", "--alpha", "9/20", "--beta", "1/20",
        "--rows", 12_000, "--want", "count error 1 at 50%",
    )  # fmt: skip
    assert result.code == 1
    assert "no epsilon up to 20" in result.err


def test_the_drawing_is_a_new_svg_file(run: Run, files: Path) -> None:
    drawing = files / "error.svg"
    plan = (*NOISY, files / "schema.yaml", "--epsilon", 1, "--plot")
    assert run(*plan, drawing).code == 0
    assert drawing.read_text().startswith("<svg")
    again = run(*plan, drawing)
    assert again.code == 2
    assert "exists" in again.err
    assert run(*plan, files / "error.png").code == 2


def test_numbers_of_a_plan_agree_or_say_what_they_depend_on(run: Run, files: Path) -> None:
    """The forecast uses the given epsilon; the curve covers several."""
    plan = ("plan", "diffgen", files / "schema.yaml", "--epsilon", 1, "--rows", 12_000)
    said = " ".join(run(*plan).out.split())
    assert "specializations: 9" in said
    assert "as many groups as 5 to 12 specializations can make, depending on epsilon." in said
    assert "as many groups as 9 specializations can make." in " ".join(
        run(*plan, "--specializations", 9).out.split()
    )


def test_a_quilt_is_quoted_for_a_typical_column_and_for_the_worst(run: Run, files: Path) -> None:
    quilt = ("plan", "quilt", files / "schema.yaml", "--epsilon", 1, "--rows", 12_000)
    told = run(*quilt)
    assert "typical column" in told.out
    assert "worst column: 'sex'" in told.out
    point = json.loads(run(*quilt, "--json").out)["curve"]["points"][3]
    assert point["worst"] == "sex"
    assert 0 < point["typical"] < point["half_width"]


def test_a_dry_run_says_how_far_columns_and_pairs_are_off(run: Run, files: Path) -> None:
    quilt = ("plan", "quilt", files / "schema.yaml", "--epsilon", 1, "--rows", 2000)
    told = run(*quilt, "--particles", 2000, "--dry-run")
    assert told.code == 0
    assert "a surrogate table of made-up rows, 2,000 rows" in told.out
    assert "pairs of columns" in told.out
    like = run(*quilt, "--particles", 2000, "--like", files / "data.csv", "--json")
    found = json.loads(like.out)["dry_run"]
    assert found["on"] == "data.csv"
    assert set(found["columns"]) == {"age", "sex", "region", "smoker", "diagnosis"}


def test_other_methods_are_simulated_and_ordered_by_error(
    run: Run, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(files / "cache"))
    small = Schema.parse("{name: t, columns: {age: {type: integer, low: 0, high: 9}}}")
    (files / "small.yaml").write_text(small.to_yaml())
    plan = ("plan", "contingency-table", files / "small.yaml", "--epsilon", 1, "--rows", 500)
    found = json.loads(run(*plan, "--simulate", "--beside", "--json").out)["simulated"]
    assert {one["method"] for one in found} >= {"contingency-table", "quilt", "partition"}
    typical = [one["errors"]["one column"]["typical"] for one in found if not one["problems"]]
    assert typical == sorted(typical)
    told = run(*plan, "--simulate")
    assert "Simulated error of answers" in told.out
    (own,) = (one for one in found if one["method"] == "contingency-table")
    assert f"{own['errors']['one column']['typical']:.2g} rows" in " ".join(told.out.split())
    assert "Simulated" not in run(*plan).out


def test_a_prior_is_an_option_and_a_table_needs_a_reason(run: Run, files: Path) -> None:
    quilt = ("plan", "quilt", files / "schema.yaml", "--epsilon", 1, "--prior", files / "data.csv")
    refused = run(*quilt)
    assert refused.code != 0
    assert "--prior-public" in refused.err
    told = run(*quilt, "--prior-public", "made up for this test", "--json")
    assert told.code == 0
    said = json.loads(told.out)["parameters"]
    assert said["prior"]["name"] == "data.csv"
    assert said["prior_public"] == "made up for this test"
