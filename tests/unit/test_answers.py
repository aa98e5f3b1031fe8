"""Answers beyond counts: values, refusals and formatting."""

from __future__ import annotations

import datetime
import json
import math
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyreadstat
import pytest

from hushtable import Release, publish
from hushtable.datasets import sample, sample_schema
from hushtable.errors import HushtableError, ParameterError, Refused, ReleaseError
from hushtable.files.rows import export_rows
from hushtable.methods import METHODS, GeneralizeSuppress, Quilt
from hushtable.query.answers.combine import _student, combine
from hushtable.query.answers.estimator import Estimate, count_of
from hushtable.query.answers.moments import fieller
from hushtable.query.answers.regression import read_formula
from hushtable.query.answers.row_sums import SumEstimates
from hushtable.query.answers.table import EstimateTable
from hushtable.schema import Categorical, Integer, Schema


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    out = tmp_path_factory.mktemp("answers") / "release"
    return publish(
        sample(), sample_schema(), Quilt(epsilon=5, delta="1e-9", particles=5000), out=out
    )


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """A release without noise: it has all combinations, and the number of rows is public."""
    schema = sample_schema().to_dict()
    kept = {name: schema["columns"][name] for name in ("visit", "age", "sex")}
    public = Schema.from_dict({"name": "exact", "rows": 12_000, "columns": kept})
    out = tmp_path_factory.mktemp("exact") / "release"
    table = sample().select(["visit", "age", "sex"])
    return publish(table, public, GeneralizeSuppress(k=2), out=out)


def ages(where: str = "") -> np.ndarray:
    table = sample()
    age = table["age"].to_numpy()
    return age[table["sex"].to_numpy(zero_copy_only=False) == where] if where else age


# --- exact releases ------------------------------------------------------------------------------


def test_an_exact_release_gives_exact_answers(exact: Release) -> None:
    age = ages()
    for answer, truth in [
        (exact.mean("age"), age.mean()),
        (exact.total("age"), age.sum()),
        (exact.variance("age"), age.var()),
        (exact.mean("age", "sex = 'F'"), ages("F").mean()),
        (exact.share("sex = 'F'"), len(ages("F")) / len(age)),
        (exact.count("sex = 'F'"), len(ages("F"))),
    ]:
        assert isinstance(answer, Estimate)
        assert answer.value == pytest.approx(truth, rel=2e-3)
        assert answer.low <= truth + 1e-6 <= answer.high + 2e-3 * truth


def test_quantiles_of_an_exact_release(exact: Release) -> None:
    age = np.sort(ages())
    for probability in (0.1, 0.5, 0.9):
        answer = exact.quantile("age", probability)
        assert isinstance(answer, Estimate)
        assert answer.value == age[math.ceil(probability * len(age)) - 1]
    assert exact.median("age").value == age[len(age) // 2 - 1]  # type: ignore[union-attr]


def test_a_regression_of_an_exact_release(exact: Release) -> None:
    fitted = exact.regression("age ~ C(sex)")
    truth = ages("M").mean() - ages("F").mean()
    assert fitted["C(sex)[M]"].value == pytest.approx(truth, abs=0.02)
    assert fitted["(intercept)"].value == pytest.approx(ages("F").mean(), rel=2e-3)


def test_the_two_scopes(exact: Release) -> None:
    people = exact.mean("age")
    population = exact.mean("age", scope="population")
    assert isinstance(people, Estimate)
    assert isinstance(population, Estimate)
    age = ages()
    assert population.sampling_std == pytest.approx(age.std() / len(age) ** 0.5, rel=0.01)
    assert people.sampling_std == pytest.approx(population.sampling_std)
    assert population.reach / 1.96 == pytest.approx(population.sampling_std, rel=0.1)
    assert population.high - population.low > 10 * (people.high - people.low)
    assert (population.high - population.low) / 2 == pytest.approx(
        1.96 * population.sampling_std, rel=0.1
    )


# --- tables of answers ---------------------------------------------------------------------------


def test_groups_are_answered_one_by_one(release: Release) -> None:
    by_sex = release.mean("age", by="sex")
    assert isinstance(by_sex, EstimateTable)
    assert by_sex.keys == (("F",), ("M",))
    for sex in "FM":
        alone = release.mean("age", f"sex = '{sex}'")
        assert isinstance(alone, Estimate)
        assert by_sex[sex].value == pytest.approx(alone.value)


def test_margins_of_a_cross_table_are_answers_of_their_own(release: Release) -> None:
    table = release.crosstab("sex", "smoker", margins=True)
    cells = release.crosstab("sex", "smoker")
    for (sex, smoker), estimate in table:
        assert 0 <= estimate.low <= estimate.value <= estimate.high
        if "all" not in (sex, smoker):
            assert estimate == cells[sex, smoker]
            continue
        asked = {"sex": sex, "smoker": smoker}
        where = " AND ".join(
            f"{name} = '{value}'" if value else f"{name} IS NULL"
            for name, value in asked.items() if value != "all"
        )  # fmt: skip
        own = release.count(where or None)
        assert estimate.figures() == own.figures()


def test_intervals_that_hold_together_are_wider(release: Release) -> None:
    each, together = (release.crosstab("region", family=family) for family in ("each", "all"))
    for (_, one), (_, other) in zip(each, together, strict=True):
        assert other.high - other.low > one.high - one.low


def test_tables_of_answers_go_everywhere(release: Release) -> None:
    table = release.mean("age", by="sex")
    assert isinstance(table, EstimateTable)
    arrow = pa.table(table)  # through the stream
    assert arrow.column_names[:4] == ["sex", "value", "low", "high"]
    assert arrow["sex"].to_pylist() == ["F", "M"]
    assert table.to_pandas().shape == (2, 10)
    assert table.to_polars().shape == (2, 10)
    assert table.to_csv().splitlines()[0].startswith("sex,value,low,high")
    assert str(table).splitlines()[0].startswith("| sex | mean of age |")
    assert "<table>" in table._repr_html_()
    assert json.loads(json.dumps(table.to_dict()))[0]["sex"] == "F"


def test_texts_of_a_schema_cannot_run_in_a_spreadsheet_or_a_page() -> None:
    one = Estimate(value=1.0, low=0.0, high=2.0, privacy_std=1.0, model_std=0.0)
    table = EstimateTable(("g",), (("=cmd()<b>|x",),), (one,))
    assert "\n'=cmd()" in table.to_csv()
    assert "<b>|x" not in table._repr_html_()
    assert "\\|x" in str(table)
    assert "<b>" not in table.plot().svg


def test_a_drawing_has_a_line_for_each_answer(release: Release) -> None:
    table = release.mean("age", by="region")
    assert isinstance(table, EstimateTable)
    assert table.plot().svg.count("<circle") == len(table)


def test_many_ordered_groups_become_lines_and_wide_intervals_are_cut(release: Release) -> None:
    lines = release.crosstab("age", "sex").plot().svg
    assert lines.count("<polyline") == 2
    table = EstimateTable(
        ("g",),
        (("a",), ("b",), ("c",)),
        tuple(
            Estimate(value=v, low=v - 1, high=v + more, privacy_std=1.0, model_std=0.0, what="mean")
            for v, more in ((3.0, 1.0), (5.0, 1.0), (4.0, 1e6))
        ),
    )
    drawn = table.plot().svg
    assert "An arrow marks" in drawn
    assert "1,000,000" not in drawn
    with pytest.raises(ParameterError, match="at most 200"):
        EstimateTable(
            ("g",), tuple((str(i),) for i in range(201)), table.estimates[:1] * 201
        ).plot()


def test_plots_are_written_once_and_only_as_svg(release: Release, tmp_path: Path) -> None:
    drawn = release.count("age >= 40").plot()
    assert drawn._repr_svg_().startswith("<svg")
    drawn.save(tmp_path / "one.svg")
    assert (tmp_path / "one.svg").read_text() == drawn.svg
    for name in ("one.svg", "one.png"):
        with pytest.raises(ParameterError):
            drawn.save(tmp_path / name)


def test_a_release_says_what_it_is_and_how_to_ask(release: Release) -> None:
    for text in (repr(release), release._repr_html_()):
        for part in ("clinic visits", "quilt", "epsilon = 5", "diagnosis", "describe()"):
            assert part in " ".join(text.split())
    assert release.columns == ("age", "sex", "region", "smoker", "diagnosis")
    assert repr(release.count("sex = 'F'")).startswith(str(release.count("sex = 'F'")))
    assert "more rows" in repr(release.crosstab("age"))


def test_a_description_has_the_answers_of_single_questions(release: Release) -> None:
    described = release.describe()
    assert tuple(described.columns) == release.columns
    assert described["age"]["median"].value == release.median("age").value
    assert described["sex"]["F"].value == release.count(by="sex")["F"].value
    assert described["smoker"]["(missing)"].value == release.count(by="smoker")[None].value
    assert "0 to 99" in str(described)
    assert "<table>" in described._repr_html_()
    assert set(described.to_pandas()["column"]) == set(release.columns)
    with pytest.raises(ParameterError, match="'agee' is not a published column"):
        release.describe("agee", "sex")


LONG = " ".join(["male"] * 20)


@pytest.fixture(scope="module")
def labeled(tmp_path_factory: pytest.TempPathFactory) -> Release:
    content = sample_schema().to_dict()
    kept = {name: content["columns"][name] for name in ("visit", "age", "sex")}
    kept["age"]["label"] = "Age | in years"
    kept["sex"]["labels"] = {"F": "female", "M": LONG}
    public = Schema.from_dict({"name": "labeled", "rows": 12_000, "columns": kept})
    out = tmp_path_factory.mktemp("labeled") / "release"
    return publish(
        sample().select(["visit", "age", "sex"]), public, GeneralizeSuppress(k=2), out=out
    )


def test_labels_are_shown_with_values(labeled: Release) -> None:
    counts = labeled.count("age > 60", by="sex")
    assert [row[0] for row in counts.rows()[1]] == ["F: female", f"M: {'male ' * 11}..."]
    assert counts["F"].value == counts.estimates[0].value
    assert counts.to_arrow()["sex_label"].to_pylist() == ["female", LONG]
    assert counts.to_csv().splitlines()[0].startswith("sex,sex_label,value,low")
    assert counts.to_dict()[0]["sex_label"] == "female"
    assert "F: female" in counts.plot().svg
    assert f"M: {'male ' * 5}m\u2026" in counts.plot().svg  # cut to 30 letters
    assert "F: female" in repr(labeled.crosstab("sex"))
    queried = labeled.sql("SELECT sex, avg(age), count(*) FROM release GROUP BY sex")
    assert queried.labels == counts.labels
    described = str(labeled.describe())
    assert "age: Age \\| in years" in described
    assert "F: female" in described
    assert set(labeled.frame(labels=True)["sex"].to_pylist()) == {"female", LONG}
    assert set(labeled.frame()["sex"].to_pylist()) == {"F", "M"}
    with pytest.raises(HushtableError, match="its values are 'F': female, 'M': male"):
        labeled.count("sex = 'female'")
    text = (labeled.folder / "STATEMENT.md").read_text()
    assert "| age: Age \\| in years | integer | 0 to 99" in text
    assert "| sex | categorical | F: female; M: male" in text
    assert 'release.mean("age", "sex = \'F\'"' in text


@pytest.mark.parametrize("suffix", ["dta", "sav"])
def test_stata_and_spss_files_have_labels(labeled: Release, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"rows.{suffix}"
    labeled.export(path)
    rows, about = getattr(pyreadstat, f"read_{suffix}")(path)
    frame = labeled.frame()
    codes = {"F": 1, "M": 2}
    assert rows["sex"].tolist() == [codes[value] for value in frame["sex"].to_pylist()]
    assert rows["age"].tolist() == frame["age"].to_pylist()
    assert about.variable_value_labels["sex"] == {1: "female", 2: LONG}
    assert about.column_names_to_labels["age"] == "Age | in years"


def test_stata_files_have_dates_decimals_and_special_values(tmp_path: Path) -> None:
    columns = {
        "born-on": {
            "type": "date",
            "low": "1900-01-01",
            "high": "2020-12-31",
            "missing": "category",
        },
        "at": {"type": "timestamp", "low": "2024-01-01", "high": "2024-12-31", "step": "hour"},
        "pay": {"type": "decimal", "low": 0, "high": 10, "step": 0.5, "special": {99: "unknown"}},
        "a-b": {"type": "categorical", "values": ["10", "2"], "labels": {"2": "low"}},
        "a.b": {"type": "boolean"},
    }
    schema = Schema.from_dict({"name": "all", "columns": columns})
    day, hour = datetime.date(1950, 1, 2), datetime.datetime(2024, 3, 4, 5)
    rows = pa.table(
        {
            "born-on": [day, None],
            "at": pa.array([hour, hour], pa.timestamp("s")),
            "pay": pa.array([Decimal("2.5"), Decimal("99.0")]),
            "a-b": ["10", "2"],
            "a.b": [True, None],
        }
    )
    export_rows(lambda: rows, tmp_path / "rows.dta", schema)
    found, about = pyreadstat.read_dta(tmp_path / "rows.dta")
    assert list(found) == ["born_on", "at", "pay", "a_b", "a_b_2"]
    assert found["born_on"][0] == day
    assert found["at"][0] == hour
    assert found["pay"].tolist() == [2.5, 99]
    assert found["a_b"].tolist() == [10, 2]
    assert about.variable_value_labels["pay"] == {99: "unknown"}
    assert about.variable_value_labels["a_b"] == {2: "low", 10: "10"}
    assert about.variable_value_labels["a_b_2"] == {1: "false", 2: "true"}


def test_a_release_of_counts_only_is_described(exact: Release) -> None:
    assert exact.describe("sex")["sex"]["F"].value == len(ages("F"))


def test_all_counts_agree(release: Release) -> None:
    cells = release.crosstab("sex", "smoker")
    assert release.count(by=("sex", "smoker")).keys == cells.keys
    assert release.count(by="sex", where="age >= 40")["F"].value == pytest.approx(
        release.count("age >= 40 AND sex = 'F'").value
    )
    population = release.count("age >= 40", scope="population")
    assert population.high - population.low > release.count("age >= 40").high - population.value


def test_empty_cells_are_zero() -> None:
    tiny = np.array([3e-36, 5.0, 5.0])
    sums = SumEstimates(tiny, np.zeros((3, 3)), np.zeros((3, 3)))
    assert count_of(sums, 0, 5.0, scope="people").value == 0


def test_rows_go_to_other_tools(release: Release, tmp_path: Path) -> None:
    rows = release.frame()
    assert pa.table(release).equals(rows)
    assert release.to_arrow(n=3, seed=1).num_rows == 3
    assert release.to_pandas(where="sex = 'F'")["sex"].eq("F").all()
    assert release.to_polars().shape == (rows.num_rows, rows.num_columns)


def test_workbooks_have_numbers_and_no_formulas(exact: Release, tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    one = Estimate(value=1.5, low=-math.inf, high=2.0, privacy_std=1.0, model_std=0.0, notes=("n",))
    EstimateTable(("g",), (("=1+1\x07",),), (one,)).to_excel(tmp_path / "answer.xlsx")
    book = openpyxl.load_workbook(tmp_path / "answer.xlsx")
    assert [cell.value for cell in book["answer"][2]][:4] == ["=1+1", 1.5, None, 2]
    assert book["answer"]["A2"].data_type == "s"
    assert book["notes"]["A3"].value == "n"
    exact.to_excel(tmp_path / "rows.xlsx")
    book = openpyxl.load_workbook(tmp_path / "rows.xlsx", read_only=True)
    assert book.sheetnames == ["rows", "columns", "promise"]
    assert len(list(book["rows"].rows)) == exact.n_rows + 1
    for name in ("rows.xlsx", "rows.xls"):
        with pytest.raises(ReleaseError):
            exact.to_excel(tmp_path / name)


# --- SQL ------------------------------------------------------------------------------------------


def test_sql_asks_the_same_questions(release: Release) -> None:
    table = release.sql("SELECT sex, avg(age) FROM release WHERE age >= 18 GROUP BY sex")
    other = release.mean("age", "age >= 18", by="sex")
    assert table.keys == other.keys
    assert [e.value for e in table.estimates] == [e.value for e in other.estimates]
    both = release.sql("select count(*) as n, sum(age), median(age) from release group by sex")
    assert both.by == ("sex", "statistic")
    assert both["F", "n"].value == release.count(by="sex")["F"].value
    assert both["M", "sum(age)"].value == release.total("age", by="sex")["M"].value
    assert both["M", "median(age)"].value == release.median("age", by="sex")["M"].value
    assert release.sql("select quantile_disc(age, 0.9) from release").value == (
        release.quantile("age", 0.9).value
    )
    assert release.sql("select var_pop(age) from release").value == release.variance("age").value
    assert release.sql("select count(smoker) from release where sex = 'F'").value == (
        release.count("smoker IS NOT NULL AND sex = 'F'").value
    )


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("select * from release", "to_pandas"),
        ("select sex from release group by sex", "nothing is computed"),
        ("select sex, avg(age) from release", "must be in GROUP BY"),
        ("select distinct avg(age) from release", "DISTINCT"),
        ("select avg(distinct age) from release", "cannot be answered"),
        ("select count(distinct sex) from release", "cannot be answered"),
        ("select avg(age) filter (where sex = 'F') from release", "cannot be answered"),
        ("select avg(age) over () from release", "cannot be answered"),
        ("select avg(age + 1) from release", "cannot be answered"),
        ("select stddev(age), max(age) from release", "'STDDEV.age.' and 'MAX.age.'"),
        ("select quantile_cont(age, 0.5) from release", "cannot be answered"),
        ("select avg(age) from release group by sex having count(*) > 3", "HAVING"),
        ("select avg(age) from release group by sex order by 1", "sort the answer"),
        ("select avg(age) from release group by sex limit 3", "LIMIT"),
        ("select avg(age) from release group by all", "GROUP BY"),
        ("select avg(age) from release group by rollup(sex)", "GROUP BY"),
        ("select avg(age) from release group by 1", "GROUP BY"),
        ("select avg(age) from release, other", "joins"),
        ("select avg(age) from other", "FROM release"),
        ("select avg(age) from release r", "FROM release"),
        ("select avg(age) from release using sample 3", "not supported|FROM release"),
        ("select avg(age) from (select * from release)", "FROM release"),
        ("with x as (select 1) select avg(age) from release", "WITH"),
        ("select avg(age) from release qualify 1 = 1", "QUALIFY"),
        ("select avg(age) from release union select 1", "UNION"),
        ("drop table release", "DROP"),
        ("select avg(age) from release; drop table release", "not allowed"),
        ("select avg(age) from release -- where", "comments"),
        ("select avg(age) from release where age = (select 1)", "not allowed"),
        ("select avg(", "cannot be parsed"),
        ("", "cannot be parsed"),
    ],
)
def test_other_sql_is_refused_with_the_reason(exact: Release, query: str, reason: str) -> None:
    with pytest.raises(HushtableError, match=reason):
        exact.sql(query)


def test_what_is_not_known_is_none_in_json() -> None:
    nothing = Estimate(
        value=math.nan, low=-math.inf, high=math.inf, privacy_std=math.inf, model_std=0.0
    )
    assert nothing.to_dict()["low"] is None
    assert json.loads(json.dumps(nothing.to_dict(), allow_nan=False))["value"] is None


# --- bad questions -------------------------------------------------------------------------------


def test_all_problems_of_a_question_are_reported_at_once(release: Release) -> None:
    with pytest.raises(ParameterError) as caught:
        release.mean("sex", "age < 0", by=["nosuch", "region"], scope="world")  # type: ignore[arg-type]
    told = caught.value.problems
    assert len(told) == 4
    assert "'sex' is categorical" in told[0]
    assert "'nosuch' is not a published column" in told[1]
    assert "scope" in told[2]
    assert "no row can satisfy" in told[3]


def test_all_problems_of_quantiles_and_formulas_are_reported_at_once(release: Release) -> None:
    with pytest.raises(ParameterError) as caught:
        release.quantile("sex", 2, "age < 0", by=["nosuch"])
    told = "\n".join(caught.value.problems)
    assert len(caught.value.problems) == 4
    assert "column 'sex' is categorical" in told
    assert "cross table" in told  # what to ask instead
    assert "column 'nosuch' is not a published column; published columns are age, " in told
    assert "no row can satisfy" in told
    assert "the quantile is 2; it must be from 0 to 1." in told
    with pytest.raises(ParameterError) as caught:
        release.regression("exp(age) ~ nosuch + sex", "age < 0")
    told = "\n".join(caught.value.problems)
    assert len(caught.value.problems) == 4
    assert "'exp(age)' is not a valid term" in told
    assert "create such a column before publishing" in told
    assert "column 'nosuch' is not a published column" in told
    assert "write C(sex) to enter its values" in told
    assert "no row can satisfy" in told


@pytest.mark.parametrize("probability", [-0.1, 1.5, math.nan, "half"])
def test_a_quantile_is_between_0_and_1(release: Release, probability: object) -> None:
    with pytest.raises(ParameterError, match="from 0 to 1"):
        release.quantile("age", probability)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("exp(age) ~ C(sex)", "is not a valid term"),
        ("age ~ sex", "write C\\(sex\\)"),
        ("sex ~ age", "outcome of a linear regression must be a number"),
        ("age ~ age", "twice"),
        ("age", "has no regressors"),
        ("age ~ nosuch + C(sex)*2", "is not a published column"),
    ],
)
def test_formulas_that_cannot_be(release: Release, formula: str, said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        release.regression(formula)


def test_the_number_of_coefficients_is_limited() -> None:
    columns = {
        "y": Integer(type="integer", low=0, high=9),
        "g": Categorical(type="categorical", values=[str(n) for n in range(101)]),
    }
    with pytest.raises(ParameterError, match="has 101 coefficients; at most 100"):
        read_formula("y ~ C(g)", columns)


def test_a_formula_takes_any_name() -> None:
    schema = Schema.from_dict(
        {
            "name": "t",
            "columns": {
                'hours "per" week': {"type": "integer", "low": 0, "high": 9},
                "y-1": {"type": "integer", "low": 0, "high": 9},
            },
        }
    )
    read = read_formula('y-1 ~ 1 + "hours ""per"" week"', schema.attributes)
    assert read.regressors == ('hours "per" week',)


def test_a_group_that_noise_drowns_is_refused_or_left_open(tmp_path: Path) -> None:
    schema = Schema.from_dict(
        {
            "name": "t",
            "columns": {
                "x": {"type": "integer", "low": 0, "high": 9},
                "g": {"type": "categorical", "values": ["many", "none"]},
            },
        }
    )
    table = pa.table({"x": [3, 4, 5] * 100, "g": ["many"] * 300})
    made = publish(table, schema, Quilt(epsilon="1/10", delta="1e-9"), out=tmp_path / "r",
                   anyway=True)  # fmt: skip
    by_group = made.mean("x", by="g")
    assert isinstance(by_group, EstimateTable)
    for _, estimate in by_group:
        assert math.isnan(estimate.value) or estimate.low <= estimate.value <= estimate.high
        assert estimate.low <= 0.5 or estimate.high - estimate.low < 9
    if math.isnan(by_group["none"].value):
        with pytest.raises(Refused, match="larger group"):
            made.mean("x", "g = 'none'")


def test_a_note_on_every_group_appears_once_and_empty_groups_have_no_value(
    tmp_path: Path,
) -> None:
    described = {
        "x": {"type": "integer", "low": 0, "high": 9},
        "same": {"type": "integer", "low": 0, "high": 9},
        "g": {"type": "categorical", "values": ["a", "b", "none"]},
    }
    schema = Schema.from_dict({"name": "t", "columns": described})
    table = pa.table({"x": [3, 4, 5, 6] * 100, "same": [4] * 400, "g": ["a", "b"] * 200})
    exact = publish(table, schema, METHODS["mondrian"](k=5), out=tmp_path / "exact")
    spread = exact.variance("same")
    assert isinstance(spread, Estimate)
    assert (spread.value, spread.low, spread.high) == pytest.approx((0.0, 0.0, 0.0), abs=1e-9)
    with pytest.raises(Refused, match="'same' may not vary"):
        exact.correlation("same", "x")
    medians = exact.median("x", by="g")
    assert isinstance(medians, EstimateTable)
    none = medians["none"]
    assert math.isnan(none.value)
    assert (none.low, none.high) == (0.0, 9.0)
    assert [note[:5] for note in medians.notes if "at all" in note] == ["none:"]
    with pytest.raises(Refused, match="larger group"):
        exact.median("x", "g = 'none'")
    method = METHODS["noisy-counts"](epsilon=1, delta="1e-6", k=5)
    hidden = publish(table, schema, method, out=tmp_path / "hidden", anyway=True)
    for ask in (hidden.mean, hidden.variance, hidden.median):
        with pytest.raises(Refused, match="row_count_share"):
            ask("x", by="g")


# --- rows and frames -----------------------------------------------------------------------------


def test_any_number_of_rows(release: Release) -> None:
    n = release.frame().num_rows
    assert release.frame(n=7, seed=1).num_rows == 7
    assert release.frame(n=n + 5, seed=1).num_rows == n + 5
    assert release.frame(n=9, seed=1).equals(release.frame(n=9, seed=1))
    women = release.frame(n=50, where="sex = 'F' AND age < 40", seed=2)
    assert set(women["sex"].to_pylist()) == {"F"}
    assert max(women["age"].to_pylist()) < 40


def test_frames_differ_and_follow_the_tables(release: Release) -> None:
    frames = release.frames(3, seed=5)
    assert len({str(frame["age"].to_pylist()[:50]) for frame in frames}) == 3
    assert frames[0].column_names == release.frame().column_names
    shares = [np.mean([s == "F" for s in frame["sex"].to_pylist()]) for frame in frames]
    assert np.mean(shares) == pytest.approx(len(ages("F")) / len(ages()), abs=0.02)


def test_combining_rules() -> None:
    """By hand: values 1, 2, 3 have the variance 1, within 0.25, so 4/3 and 4/3 - 1/4."""
    frames = [pa.table({"v": [v]}) for v in (1.0, 2.0, 3.0)]

    def compute(frame: pa.Table) -> tuple[float, float]:
        return frame["v"][0].as_py(), 0.25

    population = combine(frames, compute, scope="population")
    people = combine(frames, compute, scope="people")
    assert isinstance(population, Estimate)
    assert isinstance(people, Estimate)
    assert population.value == 2.0
    assert population.high - 2.0 == pytest.approx(4.302653 * (4 / 3) ** 0.5, rel=1e-4)
    assert people.high - 2.0 == pytest.approx(4.302653 * (4 / 3 - 0.25) ** 0.5, rel=1e-4)
    with pytest.raises(ParameterError, match="a number and its variance"):
        combine(frames, lambda _: 3.0, scope="people")


def test_student_quantiles() -> None:
    from scipy.stats import t

    for freedom in (1, 2, 3, 4, 5, 9, 19, 99):
        assert _student(freedom) == pytest.approx(t.ppf(0.975, freedom), rel=2e-3)


# --- intervals of ratios -------------------------------------------------------------------------


def test_fieller_is_the_set_of_ratios_that_are_not_rejected() -> None:
    values = np.array([30.0, 100.0])
    squares = np.array([[25.0, 10.0], [10.0, 64.0]])
    low, high = fieller(values, squares)
    for ratio in (low, high):
        at = np.array([1.0, -ratio])
        assert (at @ values) ** 2 == pytest.approx(at @ squares @ at)
    assert fieller(np.array([30.0, 5.0]), squares) == (-math.inf, math.inf)
