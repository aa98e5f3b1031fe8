"""Value labels of Stata and SPSS files: proposals of a draft, and counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyreadstat
import pytest

import hushtable as ht
from hushtable.drafting import drafted
from hushtable.engine import connect
from hushtable.errors import DataError
from tables.end_to_end import confirmed, taken

N_ROWS = 120
LABELS = {
    "sex": {1: "male", 2: "female", 3: "other"},
    "income": {-9: "refused", -8: "does not know"},
    "pain": {0: "none", 10: "worst"},
    "same": {1: "yes", 2: "yes"},
}


def survey() -> pd.DataFrame:
    place = np.arange(N_ROWS)
    return pd.DataFrame({
        "sex": 1.0 + place % 2,
        "income": np.where(place % 6 == 0, -9.0, 10.0 * (place % 40)),
        "pain": (place % 11).astype(float),
        "same": 1.0 + place % 2,
    })  # fmt: skip


@pytest.fixture(params=["dta", "sav"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    file = tmp_path / f"survey.{request.param}"
    write = getattr(pyreadstat, f"write_{request.param}")
    write(survey(), file, variable_value_labels=LABELS)
    return file


def test_labels_are_categories_and_names_of_codes(file: Path) -> None:
    made, schema = taken(file)
    assert made.schema.reading.labels == ("sex",)
    assert "reading" in made.schema.confirm
    sex, income, pain, same = (schema.columns[name] for name in LABELS)
    assert sex.values == ("male", "female", "other")  # whether or not any row has it
    assert (income.type, income.low, income.special) == (
        "integer", 0, {-9: "refused", -8: "does not know"},
    )  # fmt: skip
    assert (pain.type, pain.low, pain.high, pain.special) == ("integer", 0, 10, {})
    assert same.type == "integer"  # one label for two values merges them
    assert made.remarks["pain"] == ("labels in the file: 0 = none, 10 = worst.",)


def test_what_is_read_by_labels_is_counted_by_them(file: Path) -> None:
    _, schema = taken(file)
    counted = connect(file, schema).histograms(["sex", "income"])
    assert counted["sex"].tolist() == [60, 60, 0]
    assert counted["income"][-2:].tolist() == [20, 0]


def test_a_value_without_a_label_is_not_a_category(tmp_path: Path) -> None:
    file = tmp_path / "survey.sav"
    pyreadstat.write_sav(
        pd.DataFrame({"sex": [1.0, 2.0, 7.0, None]}), file, variable_value_labels=LABELS
    )
    schema = ht.Schema.parse(
        "name: t\nreading: {labels: [sex]}\ncolumns:\n"
        "  sex: {type: categorical, values: [male, female], missing: category, outside: missing}\n"
    )
    assert connect(file, schema).histograms(["sex"])["sex"].tolist() == [1, 1, 2]


def test_declared_missing_values_are_missing_and_no_categories(tmp_path: Path) -> None:
    file = tmp_path / "survey.sav"
    answers = pd.DataFrame({"answer": ["y", "n", "x"] * 40, "vote": [1.0, 2.0, 9.0] * 40})
    labels = {"vote": {1: "yes", 2: "no", 9: "not asked"}, "answer": {"y": "Yes", "n": "No"}}
    ranges = {"vote": [{"lo": 9, "hi": 9}]}
    pyreadstat.write_sav(answers, file, variable_value_labels=labels, missing_ranges=ranges)
    vote = confirmed(drafted(file)).columns["vote"]
    assert (vote.values, vote.missing) == (("yes", "no"), "category")
    answer = confirmed(drafted(file)).columns["answer"]
    assert answer.values == ("n", "x", "y")  # one has no label


def test_labels_that_a_file_does_not_have_are_refused(file: Path) -> None:
    schema = ht.Schema.parse(
        "name: t\nreading: {labels: [sex, ward]}\ncolumns:\n"
        "  sex: {type: categorical, values: [male, female]}\n"
    )
    with pytest.raises(DataError, match="labels lists 'ward', but the file has no labels"):
        connect(file, schema)
