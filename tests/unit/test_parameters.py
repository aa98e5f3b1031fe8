"""Declared parameters of methods: kinds, defaults, and rules as text."""

from __future__ import annotations

import pytest

from hushtable.errors import ParameterError
from hushtable.methods.parameters import read_rule, write_rule
from hushtable.methods.registry import METHODS


def kinds(method: str) -> dict[str, str]:
    return {field.name: field.kind for field in METHODS[method].fields()}


def test_every_kind_is_derived_from_the_annotation() -> None:
    assert kinds("columns") == {
        "epsilon": "number", "delta": "number", "k": "integer", "max_columns": "integer",
        "columns": "groups", "clusters": "integers", "schema_share": "number",
        "similarity": "choice", "item": "text", "value": "text", "max_values": "integer",
        "mechanism": "choice", "generalize": "rules", "count_share": "number",
        "size_share": "number",
    }  # fmt: skip
    assert kinds("quilt")["prior"] == "path"
    assert kinds("alpha-beta")["view_history"] == "path"
    assert kinds("uncertain")["carry"] == "names"
    assert kinds("uncertain")["local"] == "flag"


@pytest.mark.parametrize("method", METHODS)
def test_fields_state_defaults_and_help(method: str) -> None:
    fields = METHODS[method].fields()
    assert all(field.help for field in fields)
    assert all(field.default is None for field in fields if field.required)
    assert all(bool(field.choices) == (field.kind == "choice") for field in fields)


@pytest.mark.parametrize(
    "text", ["3", "0.5", "month", "log", "18,40.5,65", "2024-07-01,2025-01-01"]
)
def test_rules_are_written_as_they_are_read(text: str) -> None:
    assert write_rule(read_rule(text)) == text


@pytest.mark.parametrize("text", ["", "wide", "1,,2", "1;2"])
def test_other_texts_are_no_rules(text: str) -> None:
    with pytest.raises(ParameterError, match="is not a rule"):
        read_rule(text)
