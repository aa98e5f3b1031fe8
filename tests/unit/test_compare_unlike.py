"""Releases with different columns, and an empty one: compared on their common columns."""

import pytest

import hushtable as ht
from hushtable.errors import ParameterError
from hushtable.evaluation.compare import compare
from hushtable.evaluation.report.pages import headlines

SCHEMA = ht.sample_schema()
TABLE = ht.sample().slice(0, 3000)
NAMES = list(SCHEMA.attributes)


def release(folder, names, method, **more):
    schema = SCHEMA.of_rows(names)
    return ht.publish(TABLE.select(names), schema, method, out=folder, **more)


@pytest.fixture(scope="module")
def releases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("releases")
    pure = ht.NoisyCounts(epsilon=5, mechanism="pure", generalize={"age": 20})
    nothing = ht.NoisyCounts(epsilon="1/100", delta="1e-9", k=1000)
    return [
        release(folder / "two", NAMES[:2], pure),
        release(folder / "three", NAMES[:3], ht.Quilt(epsilon=2, delta="1e-6")),
        release(folder / "empty", NAMES[:3], nothing, anyway=True),
    ]


@pytest.fixture(scope="module")
def found(releases):
    return compare(TABLE, releases, n_repeats=1, questions=3)


def figure(found, name):
    return next(f for f in found.to_dict()["figures"] if name in f["name"])["values"]


def test_only_common_columns_are_compared_with_a_note(found):
    for one in found.evaluations:
        assert [column["name"] for column in one["utility"]["columns"]] == NAMES[:2]
    (note,) = [note for note in found.notes if "different columns" in note]
    assert f"three also has {NAMES[2]}" in note


def test_coverage_is_shown_with_interval_width(found):
    held, width = figure(found, "coverage of 95% intervals"), figure(found, "interval width")
    assert held[0] is not None
    assert 0 < width[0]["value"] < 0.5


def test_an_empty_release_gets_no_credit(releases, found):
    assert releases[2].n_rows == 0
    for name in ("coverage of 95% intervals", "interval width", "median relative error"):
        assert figure(found, name)[2] is None
    assert found.releases[2]["verdict"] == "not good for any use: it is empty"


def test_every_release_has_a_verdict(found):
    for one in found.releases[:2]:
        assert one["verdict"].startswith(("good for", "not good for"))
    assert "single columns" in found.releases[0]["verdict"].split("; not good")[0]
    assert found.releases[2]["verdict"] in found.to_html()


def test_attacks_without_a_control_are_inconclusive(found):
    assert figure(found, "attacks with significant")[1]["value"].startswith("inconclusive")
    (line,) = [one for one in headlines(found.evaluations[1]) if one["what"] == "Attacks"]
    assert line["value"] == "inconclusive"
    assert "without a control table" in line["note"]


def test_releases_without_a_common_column_are_refused(releases, tmp_path):
    other = release(tmp_path / "other", NAMES[2:4], ht.NoisyCounts(epsilon=1, mechanism="pure"))
    with pytest.raises(ParameterError, match="no published column in common"):
        compare(TABLE, [releases[0], other])
    with pytest.raises(ParameterError, match="not published by all"):
        compare(TABLE, releases[:2], target=NAMES[2])


def test_an_evaluation_of_some_columns(releases):
    one = ht.evaluate(releases[1], TABLE, columns=NAMES[:1], n_repeats=1, questions=2)
    assert [column["name"] for column in one.to_dict()["utility"]["columns"]] == NAMES[:1]
    with pytest.raises(ParameterError, match="not published; the published columns"):
        ht.evaluate(releases[0], TABLE, columns=["absent"])
