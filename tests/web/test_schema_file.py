"""Edits of a schema keep its comments and order, always leave it valid, and can be undone."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushtable.drafting.schema_editor import SchemaFile, TaxonomyEditor
from hushtable.errors import HushtableError, ParameterError, SchemaError
from hushtable.schema import Schema

TEXT = """\
# The yearly survey; ask the methods group before changing it.
name: survey  # as it is published
missing_values: ['', 'n/a']

columns:
  # question 1
  age:  # in years
    type: integer
    low: 3
    high: 97  # nobody older is asked
    missing: other
    outside: clip
    confirm: [low, high]

  # question 2
  answer:
    type: categorical
    values: ["yes", "no", 'it depends']  # as printed
    missing: category
    confirm: [values]
# the end
"""


@pytest.fixture
def file(tmp_path: Path) -> SchemaFile:
    (tmp_path / "schema.yaml").write_text(TEXT)
    return SchemaFile(tmp_path / "schema.yaml", tmp_path / "history")


def comments(text: str) -> list[str]:
    return [line.partition("#")[2].strip() for line in text.splitlines() if "#" in line]


def test_an_edit_changes_only_its_line(file: SchemaFile) -> None:
    file.set("age", {"low": "0", "high": "99"})
    before, after = TEXT.splitlines(), file.text().splitlines()
    changed = {
        old.strip(): new.strip() for old, new in zip(before, after, strict=True) if old != new
    }
    assert changed == {
        "low: 3": "low: 0",
        "high: 97  # nobody older is asked": "high: 99  # nobody older is asked",
    }


def test_comments_stay_whatever_is_removed(file: SchemaFile) -> None:
    file.confirm("age", ["low", "high"], "asked from 3 to 97")
    file.confirm("answer", ["values"], "printed")
    file.set("age", {"missing": "", "outside": ""})
    kept = comments(file.text())
    for comment in comments(TEXT):
        assert comment in kept, comment
    assert any("asked from 3 to 97" in comment for comment in kept)
    schema = Schema.load(file.path)
    assert not schema.unconfirmed
    assert list(schema.columns) == ["age", "answer"]


def test_ambiguous_yaml_texts_are_quoted(file: SchemaFile) -> None:
    file.set("answer", {"values": "yes\nno\n12\n1.5\nnull\n~\n a: b \n#x\n- y\nplain"})
    column = Schema.load(file.path).attributes["answer"]
    assert column.values == ("yes", "no", "12", "1.5", "null", "~", "a: b", "#x", "- y", "plain")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"low": "100"}, "low 100 is above high 97"),
        ({"low": "old"}, "valid integer"),
        ({"missing": "perhaps"}, "missing"),
        ({"password": "x"}, "not a field"),
    ],
)
def test_an_invalid_schema_is_not_written(
    file: SchemaFile, fields: dict[str, str], told: str
) -> None:
    with pytest.raises(HushtableError, match=told):
        file.set("age", fields)
    assert file.text() == TEXT
    assert not file.can_undo


def test_remarks_are_assigned_to_their_column(file: SchemaFile) -> None:
    assert file.remarks() == {"age": ["question 1"], "answer": ["question 2"]}
    file.confirm("age", ["low"], "page 2: the questionnaire")
    file.confirm("answer", ["values"], "as printed")
    file.confirm("age", ["high"], "as printed")
    age, answer = file.remarks()["age"], file.remarks()["answer"]
    assert age[0] == "question 1"
    assert age[1].endswith(": low. page 2: the questionnaire")
    assert age[2].endswith(": high. as printed")
    assert answer[-1].endswith(": values. as printed")
    assert file.reasons() == ["as printed", "page 2: the questionnaire"]


def test_an_invalid_schema_has_no_remarks(file: SchemaFile) -> None:
    for text in ("columns: [", "columns: 3", "name: x", "- 1"):
        file.path.write_text(text)
        assert file.remarks() == {}


def test_special_values_are_named(file: SchemaFile) -> None:
    file.set("age", {"special": "-9 = refused\n -8=not asked \n\n"})
    column = Schema.load(file.path).attributes["age"]
    assert column.special_names == ("refused", "not asked")
    before = file.text()
    file.set("age", {"special": "-9 = refused\n-8 = not asked"})
    assert file.text() == before
    with pytest.raises(ParameterError, match="not of the form VALUE = NAME"):
        file.set("age", {"special": "-9"})
    assert file.text() == before
    file.set("age", {"special": ""})
    assert not Schema.load(file.path).attributes["age"].special_names


def test_undo_goes_back_step_by_step(file: SchemaFile) -> None:
    file.set("age", {"low": "1"})
    first = file.text()
    file.set("age", {"low": "2"})
    file.undo()
    assert file.text() == first
    file.undo()
    assert file.text() == TEXT
    with pytest.raises(ParameterError, match="no earlier version"):
        file.undo()


def test_a_change_of_type_adds_the_required_fields(file: SchemaFile) -> None:
    file.set("age", {"type": "number"})
    assert Schema.load(file.path).attributes["age"].type == "number"
    file.set("age", {"type": "categorical"})
    assert Schema.load(file.path).attributes["age"].confirm == ()  # nothing of it is left
    file.set("age", {"type": "integer"})
    file.set("age", {"role": "identifier"})
    assert list(Schema.load(file.path).attributes) == ["answer"]


@pytest.mark.parametrize("reason", ["", "  ", "ok", "x" * 301, "a\x07b c"])
def test_a_mark_is_removed_only_with_a_public_reason(file: SchemaFile, reason: str) -> None:
    with pytest.raises(ParameterError, match="public source"):
        file.confirm("age", ["low"], reason)
    with pytest.raises(ParameterError, match="tick"):
        file.confirm("age", [], "a public reason")
    with pytest.raises(ParameterError, match="cannot confirm step"):
        file.confirm("age", ["step"], "a public reason")
    assert file.text() == TEXT


def test_a_reason_cannot_become_part_of_the_schema(file: SchemaFile) -> None:
    file.confirm("age", ["low"], "known\ncolumns: {}\r\n# more")
    assert Schema.load(file.path).attributes["age"].confirm == ("high",)
    assert list(Schema.load(file.path).columns) == ["age", "answer"]


def test_text_that_is_not_a_schema_is_refused(file: SchemaFile) -> None:
    for text in ("", "a: [", "name: x", "just words"):
        with pytest.raises(SchemaError):
            file.replace(text)
    assert file.text() == TEXT


def test_a_tree_is_written_and_removed(file: SchemaFile) -> None:
    tree = TaxonomyEditor.of_values(["yes", "no", "it depends"])
    tree.group(["0", "1"], "clear")
    file.set_tree("answer", tree.nested())
    column = Schema.load(file.path).attributes["answer"]
    assert column.taxonomy.level(1) == {"yes": "clear", "no": "clear", "it depends": "it depends"}  # type: ignore[union-attr]
    assert TaxonomyEditor.of(column.taxonomy).nested() == tree.nested()  # type: ignore[union-attr,arg-type]
    file.set_tree("answer", None)
    assert Schema.load(file.path).attributes["answer"].taxonomy is None  # type: ignore[union-attr]
    assert comments(TEXT)[-2] in comments(file.text())


def test_moves_in_a_tree() -> None:
    tree = TaxonomyEditor.of_values(list("abcd"))
    tree.group(["0", "1"], "first")
    tree.group(["1", "2"], "second")
    assert tree.nested() == {"any": [{"first": ["a", "b"]}, {"second": ["c", "d"]}]}
    tree.move("0.0", "1")
    tree.move("0.0", "1")  # leaves the first group empty, so it is removed
    assert tree.nested() == {"any": [{"second": ["c", "d", "a", "b"]}]}
    tree.rename("0", "all")
    tree.remove_group("0")
    assert tree.nested() == {"any": ["c", "d", "a", "b"]}


@pytest.mark.parametrize(
    ("node", "to"), [("", "0"), ("0", "0"), ("0", "0.0"), ("0", "9"), ("1", "0.0")]
)
def test_an_impossible_move_is_refused(node: str, to: str) -> None:
    tree = TaxonomyEditor.of_values(list("abc"))
    tree.group(["0", "1"], "first")
    before = tree.nested()
    with pytest.raises(ParameterError):
        tree.move(node, to)
    assert tree.nested() == before


def test_the_unit_of_privacy_can_be_chosen(file: SchemaFile) -> None:
    file.set("age", {"role": "identifier"})
    file.set_table({"name": "survey", "rows": "500", "unit": "age", "max_rows": "3"})
    schema = Schema.load(file.path)
    assert (schema.unit.kind, schema.unit.column, schema.unit.max_rows) == ("person", "age", 3)
    assert (schema.name, schema.rows) == ("survey", 500)
    with pytest.raises(SchemaError, match="must have role: identifier"):
        file.set_table({"unit": "answer", "max_rows": "3"})
    file.set_table({"unit": ""})
    assert Schema.load(file.path).unit.kind == "row"
    assert Schema.load(file.path).rows is None
    for comment in comments(TEXT):
        assert comment in comments(file.text()), comment


@pytest.mark.parametrize(
    "values",
    [
        "values: [a, b]",
        "values: [a, b]  # both",
        "values:\n    - a\n    - b",
        "values:\n    - a\n    - b  # and b",
    ],
)
def test_a_comment_below_a_removed_entry_stays(tmp_path: Path, values: str) -> None:
    text = (
        f"name: t\ncolumns:\n  x:\n    type: categorical\n    {values}\n    confirm: [values]\n"
        "  # about y\n  y: {type: integer, low: 0, high: 9}\n  # the end\n"
    )
    (tmp_path / "schema.yaml").write_text(text)
    file = SchemaFile(tmp_path / "schema.yaml", tmp_path / "history")
    file.confirm("x", ["values"], "printed on the form")
    assert "confirm:" not in file.text()
    for comment in comments(text):
        assert comment in comments(file.text()), file.text()


KINDS = ("categorical", "boolean", "integer", "number", "decimal", "duration", "date",
         "timestamp", "time")  # fmt: skip


@pytest.mark.parametrize("first", KINDS)
def test_every_type_can_become_every_other(file: SchemaFile, first: str) -> None:
    for kind in KINDS:
        file.set("age", {"type": first})
        file.set("age", {"type": kind})
        assert Schema.load(file.path).attributes["age"].type == kind


def test_bounds_of_dates_and_times_are_edited(file: SchemaFile) -> None:
    file.set("age", {"type": "date"})
    file.set("age", {"low": "2020-01-01", "high": "2020-12-31", "step": "month"})
    column = Schema.load(file.path).attributes["age"]
    assert (column.n_values, column.value(0)) == (12, "2020-01-01")


def test_a_mark_of_a_default_stays_through_other_edits(file: SchemaFile) -> None:
    file.replace(TEXT.replace("confirm: [low, high]", "confirm: [low, bins]"))
    file.set("age", {"high": "98"})
    assert Schema.load(file.path).attributes["age"].confirm == ("low", "bins")
