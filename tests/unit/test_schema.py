"""Schemas, taxonomies, domains and recodings: valid and invalid input, and messages."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import numpy as np
import pyarrow as pa
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hushtable.datasets import sample_schema
from hushtable.domain import Domain
from hushtable.drafting.schema_check import out_of_domain
from hushtable.engine.encode import RuleCodes
from hushtable.errors import ParameterError, SchemaError, TaxonomyError, Unconfirmed
from hushtable.schema import Categorical, Integer, Number, Schema
from hushtable.schema.column import with_label
from hushtable.schema.recoding import recode, recodings
from hushtable.schema.taxonomy import Taxonomy
from seeds import shifted

AGE = {"type": "integer", "low": 0, "high": 99}


def one_column(**column: object) -> Schema:
    return Schema.from_dict({"name": "t", "columns": {"c": column}})


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ({"type": "integer", "low": 9, "high": 3}, "low 9 is above high 3"),
        ({"type": "integer", "low": 0}, "high is missing"),
        ({"type": "integer", "low": 0, "high": 2**40}, "too many"),
        ({"type": "integer", "low": 0.5, "high": 3}, "low"),
        ({"type": "number", "low": 0, "high": 1, "step": 0.3}, "does not divide"),
        ({"type": "number", "low": 0, "high": 1, "step": 0}, "step"),
        ({"type": "number", "low": 0, "high": float("inf"), "step": 1}, "high"),
        ({"type": "number", "low": float("nan"), "high": 1, "step": 1}, "low"),
        ({"type": "categorical", "values": []}, "values"),
        ({"type": "categorical", "values": ["a", "a"]}, "values are listed twice: a"),
        ({"type": "categorical", "values": [True, False]}, "put it in quotes"),
        ({"type": "categorical", "values": ["a"], "outside": "clip"}, "clip is for numbers"),
        ({"type": "categorical", "values": ["a"], "outside": "missing"}, "missing: category"),
        ({"type": "categorical", "values": ["a"], "other": "b"}, "other 'b' is not one of"),
        ({"type": "integer", "low": 0, "high": 3, "other": 4}, "other 4 is not one of"),
        ({"type": "number", "low": 0, "high": 1, "step": 0.5, "other": 0.3}, "other 0.3 is not"),
        ({**AGE, "missing": "category", "other": 4}, "other 4 is never used"),
        ({"type": "categorical", "values": ["a", "b"], "taxonomy": {"*": ["a"]}}, "not cover: b"),
        (
            {"type": "categorical", "values": ["a"], "taxonomy": {"*": ["a", "b"]}},
            "not in the list",
        ),
        ({"type": "text"}, "type must be categorical, boolean, integer, number"),
        ({"type": "integer", "low": 0, "high": 1, "colour": 3}, "'colour' is not a known key"),
    ],
)
def test_a_wrong_column_is_named_and_explained(column: dict[str, object], said: str) -> None:
    with pytest.raises(SchemaError) as caught:
        one_column(**column)
    assert "column 'c'" in str(caught.value)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("{tpye: integer, low: 0, high: 9}", "'tpye' is not a known key; did you mean 'type'?"),
        ("{type: integer, low: 0, hgih: 9}", "did you mean 'high'?"),
        ("{type: boolean, xyz: 1}", "remove it or correct the spelling."),
        ("{type: categorical, values: [a], labels: {b: x}}", "labels has b"),
        ("{type: integer, low: 0, high: 9, labels: {12: x}}", "labels has 12"),
        ('{type: boolean, label: "two\\nlines"}', "cannot be printed"),
    ],
)
def test_a_misspelled_key_or_label_is_named(column: str, said: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Schema.parse(f"name: t\ncolumns:\n  c: {column}")
    assert said in str(caught.value)


def test_labels_are_shown_and_do_not_identify_a_table() -> None:
    text = """
name: t
columns:
  note: {role: left out, label: remarks of the interviewer}
  sex: {type: categorical, values: ["1", "2"], label: Sex, labels: {1: male, 2: female}}
  income: {type: integer, low: 0, high: 9, special: {-1: N}, labels: {N: child, 0: none}}
"""
    schema = Schema.parse(text)
    assert Schema.parse(schema.to_yaml()) == schema
    sex, income = schema.attributes.values()
    shown = [with_label(sex.name(code), sex.labels) for code in range(3)]
    assert shown == ["1: male", "2: female", "missing"]
    shown = [with_label(income.name(code), income.labels) for code in (0, 1, 10, 11)]
    assert shown == ["0: none", "1", "N: child", "missing"]
    plain = text.replace(", labels: {1: male, 2: female}", "").replace(", label: Sex", "")
    assert Schema.parse(plain).digest == schema.digest
    assert hash(Schema.parse(plain).attributes["sex"]) == hash(sex)
    with pytest.raises(SchemaError, match="role: identifier"):
        Schema.parse(f"unit: {{kind: person, column: note, max_rows: 2}}{text}")


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(SchemaError) as caught:
        Schema.from_dict(
            {"name": "t", "columns": {"a": {"type": "integer", "low": 2, "high": 1}, "b": {}}}
        )
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must be a mapping"),
        ("- a\n- b", "must be a mapping"),
        ("name: [", "not valid YAML"),
        ("name: t\nname: u\ncolumns: {}", "'name' is given more than once"),
        ("name: t\ncolumns:\n  a: {type: integer, low: 0, high: 1}\n  a: {}", "'a' is given more"),
        ("name: !!python/object/apply:os.system ['true']\ncolumns: {}", "not valid YAML"),
        ("name: t", "columns is missing"),
        ("name: t\ncolumns: {}", "columns"),
        ("name: t\ncolumns: {id: {role: identifier}}", "nothing is left to publish"),
        ("name: t\nrows: -1\ncolumns: {a: {type: integer, low: 0, high: 1}}", "rows"),
        ("name: t\nunit: person\ncolumns: {a: {type: integer, low: 0, high: 1}}", "column"),
        (
            "name: t\nunit: {kind: person, column: a, max_rows: 2}\n"
            "columns: {a: {type: integer, low: 0, high: 1}}",
            "must have role: identifier",
        ),
        (
            "name: t\ncolumns:\n  a: {type: integer, low: 0, high: 1, role: target}\n"
            "  b: {type: integer, low: 0, high: 1, role: target}",
            "more than one column has role: target",
        ),
        (
            "name: t\ncolumns: {a: {type: integer, low: 0, high: 1}, "
            "A: {type: integer, low: 0, high: 1}}",
            "differ only in case",
        ),
        (
            "name: t\ncolumns: {a: {type: categorical, values: [x], taxonomy: ../../etc/passwd}}",
            "must be a file in the folder",
        ),
    ],
)
def test_a_wrong_schema_file_is_one_clear_message(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "schema.yaml"
    path.write_text(text)
    with pytest.raises(SchemaError) as caught:
        Schema.load(path)
    assert said in str(caught.value)


def test_missing_and_binary_files_are_reported(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9\n")
    for name in ("latin.yaml", "absent.yaml", "."):
        with pytest.raises(SchemaError):
            Schema.load(tmp_path / name)


def test_yaml_round_trip_and_editor_schema() -> None:
    schema = sample_schema()
    assert Schema.parse(schema.to_yaml()) == schema
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    jsonschema.validate(yaml.safe_load(schema.to_yaml()), Schema.model_json_schema())


def test_taxonomy_file_gives_the_values(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a;x;*\nb;x;*\nc;y;*\n")
    (tmp_path / "s.yaml").write_text("name: t\ncolumns: {c: {type: categorical, taxonomy: t.csv}}")
    column = Schema.load(tmp_path / "s.yaml").columns["c"]
    assert isinstance(column, Categorical)
    assert column.values == ("a", "b", "c")


def test_publish_refuses_an_unconfirmed_schema() -> None:
    schema = one_column(type="integer", low=0, high=3, confirm=["low", "high"])
    with pytest.raises(Unconfirmed, match=r"column 'c': low, high came from the data"):
        schema.require_confirmed()


@pytest.mark.parametrize(
    ("column", "missing", "outside", "other"),
    [
        (AGE, "other", "clip", 0),
        ({**AGE, "other": 7}, "other", "clip", 7),
        ({"type": "number", "low": -1, "high": 1, "step": 0.5, "other": 0.5}, "other", "clip", 3),
        ({**AGE, "missing": "category"}, "category", "clip", 0),
        ({"type": "categorical", "values": ["a", "b"]}, "other", "other", 0),
        ({"type": "categorical", "values": ["a", "b"], "other": "b"}, "other", "other", 1),
        ({"type": "categorical", "values": ["a"], "missing": "category"}, "category", "missing", 0),
        (
            {"type": "categorical", "values": ["a", "b"], "missing": "category", "other": "b"},
            "category", "other", 1,
        ),
    ],
)  # fmt: skip
def test_by_default_every_cell_has_a_code(
    column: dict[str, object], missing: str, outside: str, other: int
) -> None:
    schema = one_column(**column)
    rules = schema.attributes["c"]
    assert (rules.missing, rules.outside, rules.other_code) == (missing, outside, other)
    assert not rules.refuses
    assert schema.conditions == ()
    codes = RuleCodes.of(rules)
    for code in (codes.no_value, codes.unreadable, codes.below, codes.above):
        assert 0 <= code < rules.size
    written = schema.to_dict()["columns"]["c"]
    assert (written["missing"], written["outside"]) == (missing, outside)
    assert Schema.from_dict(schema.to_dict()) == schema
    for strict in ({"missing": "forbid", "outside": "refuse"}, {"outside": "refuse"}):
        without = {key: value for key, value in column.items() if key != "other"}
        refusing = one_column(**without | strict)
        assert "rows all match" in refusing.conditions[0]


def test_missing_is_its_own_code() -> None:
    column = Integer(type="integer", low=3, high=5, missing="category")
    assert [column.value(code) for code in range(column.size)] == [3, 4, 5, None]
    grid = Number(type="number", low=0.1, high=0.5, step=0.1)
    assert [grid.value(code) for code in range(grid.size)] == [0.1, 0.2, 0.3, 0.4, 0.5]


# --- taxonomies ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "empty"),
        ([("a", ""), ("b", "*")], "empty cell"),
        ([("a", "x", "*"), ("a", "y", "*")], "more than one parent"),
        ([("a", "x", "p"), ("b", "x", "q")], "more than one parent"),
        ([("a", "x", "*"), ("a", "x", "*")], "is listed twice"),
    ],
)
def test_an_inconsistent_hierarchy_is_refused(rows: list[tuple[str, ...]], said: str) -> None:
    with pytest.raises(TaxonomyError, match=said):
        Taxonomy.from_rows(rows)


@pytest.mark.parametrize("nested", [{"*": []}, [], 3, {"*": {"a": None}}, {"*": [1.5]}, ["a", "a"]])
def test_a_wrong_nested_hierarchy_is_refused(nested: object) -> None:
    with pytest.raises(TaxonomyError):
        Taxonomy.from_nested(nested)  # type: ignore[arg-type]


def test_ragged_branches_make_partitions_at_every_level() -> None:
    tree = Taxonomy.from_nested(
        {"any": [{"work": [{"public": ["city", "state"]}, "self"]}, "none"]}
    )
    assert tree.depth == 3
    assert set(tree.level(1).values()) == {"public", "self", "none"}
    assert set(tree.level(2).values()) == {"work", "none"}
    assert set(tree.level(3).values()) == {"any"}
    with pytest.raises(TaxonomyError, match="levels 0"):
        tree.level(4)


@given(
    st.recursive(st.just([]), lambda inner: st.lists(inner, min_size=1, max_size=3), max_leaves=12)
)
def test_any_tree_survives_export_and_import(shape: list[object]) -> None:
    number = iter(range(10**6))

    def grow(part: list[object]) -> object:
        if not part:
            return f"v{next(number)}"
        return {f"g{next(number)}": [grow(p) for p in part]}  # type: ignore[arg-type]

    tree = Taxonomy.from_nested([grow(shape)])
    assert Taxonomy.from_nested(json.loads(json.dumps(tree.to_nested()))) == tree
    assert Taxonomy.from_rows(tree.to_rows()).values == tree.values
    for level in range(tree.depth + 1):
        assert list(tree.level(level)) == list(tree.values)


def test_real_hierarchies_load_and_export(shared_data: Path, tmp_path: Path) -> None:
    files = sorted((shared_data / "adult" / "hierarchies_arx").glob("*.csv"))
    assert files
    for path in files:
        tree = Taxonomy.from_csv(path)
        tree.to_csv(tmp_path / path.name)
        assert Taxonomy.from_csv(tmp_path / path.name) == tree
    for path in (shared_data / "adult" / "hierarchies_gong").glob("*.txt"):
        assert Taxonomy.load(path).values


# --- domains and recodings -------------------------------------------------------------------


@given(st.lists(st.integers(1, 2**31), min_size=1, max_size=12), st.data())
def test_pack_and_rank_are_reversible_at_any_size(sizes: list[int], data: st.DataObject) -> None:
    domain = Domain({f"c{i}": size for i, size in enumerate(sizes)})
    rows = [
        [data.draw(st.integers(0, size - 1)) for size in sizes]
        for _ in range(data.draw(st.integers(0, 4)))
    ]
    codes = np.array(rows, np.int64).reshape(len(rows), len(sizes))
    assert np.array_equal(domain.unpack(domain.pack(codes)), codes)
    for place in range(len(domain.shape)):
        assert np.array_equal(domain.column(domain.pack(codes), place), codes[:, place])
    for row in rows:
        assert 0 <= domain.rank(row) < domain.size
        assert domain.unrank(domain.rank(row)) == tuple(row)


def test_packed_keys_sort_like_the_rows() -> None:
    domain = Domain({f"c{i}": 2**31 for i in range(5)})
    rng = np.random.default_rng(shifted(0))
    codes = rng.integers(0, 2**31, (200, 5))
    keys = domain.pack(codes)
    by_key = sorted(range(200), key=lambda i: tuple(keys[i]))
    assert by_key == sorted(range(200), key=lambda i: tuple(codes[i]))


def test_recodings_cover_every_code_and_never_merge_missing() -> None:
    schema = sample_schema()
    for rules in (
        {"age": 20},
        {"age": [18, 65]},
        {"region": 1},
        {"smoker": {"yes": "x", "no": "x"}},
    ):
        for name, recoding in recodings(schema, rules).items():
            column = schema.attributes[name]
            old = np.arange(column.size)
            new = recoding.apply(old)
            assert np.array_equal(np.bincount(new, minlength=recoding.size), recoding.widths)
            if column.missing_code is not None:
                assert recoding.label(int(new[column.missing_code])) is None
                assert (new[:-1] < recoding.size - 1).all()


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"age": 0}, "bin width 0"),
        ({"age": 2.5}, "is not on the grid"),
        ({"age": [65, 18]}, "must be in increasing order"),
        ({"age": [200]}, "outside the range 0 to 99"),
        ({"age": {"a": "b"}}, "neither a bin width"),
        ({"age": float("nan")}, "not a finite number"),
        ({"sex": 1}, "needs a taxonomy"),
        ({"region": 9}, "level 9 does not exist"),
        ({"region": [1, 2]}, "does not generalize a categorical"),
        ({"region": {"bay": "west"}}, "does not contain"),
        ({"salary": 3}, "not a published column"),
        ({"visit": 3}, "not a published column"),
    ],
)
def test_a_wrong_rule_names_the_column(rules: dict[str, object], said: str) -> None:
    with pytest.raises(ParameterError) as caught:
        recodings(sample_schema(), rules)  # type: ignore[arg-type]
    assert said in str(caught.value)
    assert repr(next(iter(rules))) in str(caught.value)


def test_number_bins_use_exact_decimals() -> None:
    column = Number(type="number", low=0, high=1, step=0.1)
    assert recode("x", column, 0.3).labels == (
        "0.0 to 0.2",
        "0.3 to 0.5",
        "0.6 to 0.8",
        "0.9 to 1.0",
    )


def test_validation_errors_use_the_terms_of_a_schema() -> None:
    """Messages do not use the terms of the validation library."""
    content = {
        "name": "",
        "columns": {
            "a": {"type": "categorical", "values": [True, "x"]},
            "b": {"type": "categorical", "values": []},
        },
    }
    with pytest.raises(SchemaError) as error:
        Schema.from_dict(content)
    assert list(error.value.problems) == [
        "schema: name is empty; fill it in.",
        "column 'a': value True is a truth value (YAML reads yes, no, true and false as such); "
        "put it in quotes.",
        "column 'b': values is empty; fill it in.",
    ]


def test_a_copy_with_other_columns_has_their_domain() -> None:
    schema = one_column(type="integer", low=0, high=9, missing="category")
    assert (schema.domain.sizes, schema.attributes["c"].size) == ({"c": 11}, 11)
    shorter = schema.attributes["c"].model_copy(update={"high": 4, "missing": "forbid"})
    assert shorter.size == 5
    assert schema.model_copy(update={"columns": {"d": shorter}}).domain.sizes == {"d": 5}


def test_values_outside_the_domain_are_not_reported_as_broken_rules() -> None:
    columns = {name: {"type": "integer", "low": 0, "high": 9} for name in "ab"}
    schema = Schema.from_dict({"name": "t", "rules": ["a <= b"], "columns": columns})
    table = pa.table({"a": [1, 50, 3], "b": [2, 3, 1]})
    found = {part.kind: part.n_rows for part in out_of_domain(table, schema)}
    assert found == {"outside": 1, "rule": 1}
