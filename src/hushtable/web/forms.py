"""Forms for the parameters of methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from hushtable.errors import ParameterError
from hushtable.methods.base import Method
from hushtable.methods.parameters import read_rule, write_rule
from hushtable.methods.registry import METHODS, specs
from hushtable.schema import Categorical, Schema
from hushtable.schema.calendar import CalendarColumn
from hushtable.web.render import amount

# Main parameters; the form collapses all others that are not required.
FIRST = (
    "epsilon", "delta", "k", "retention", "rate", "max_columns", "gamma", "d", "n_public",
)  # fmt: skip
_CUTS = "bin width, or cuts such as 18,40,65"
_SLIDERS = {
    "epsilon": (-2, 1), "delta": (-9, -4), "k": (0.3, 2.5), "retention": (-2, -0.05),
    "rate": (-3, -0.05), "max_columns": (0, 1), "gamma": (-2, -0.05), "d": (-6, -0.5),
    "n_public": (2, 9),
}  # fmt: skip
_WHOLE = {"k", "max_columns", "n_public"}
_START = {
    "epsilon": "1", "delta": "0.000001", "k": "10", "max_columns": "2", "retention": "0.2",
    "rate": "0.1", "gamma": "0.2", "d": "0.001", "n_public": "30000",
}  # fmt: skip


@dataclass(frozen=True)
class FormField:
    """One field of a form."""

    name: str  # name of the parameter
    kind: Literal["text", "choice", "flag", "rules", "list"]
    help: str
    value: str = ""
    choices: tuple[str, ...] = ()
    slider: tuple[float, float] | None = None  # ends of a slider, as powers of ten
    whole: bool = False  # whether the slider gives integers
    required: bool = False
    first: bool = False  # whether it is always shown
    # Of a field of kind "rules": column, current value, and description of allowed values.
    rules: tuple[tuple[str, str, str], ...] = ()


_LISTS = {"integers", "names", "groups"}
"""Kinds of parameters with one entry per line."""

_FILES = {"view_history", "prior", "prior_public"}
"""Parameters that are file paths, possibly of secrets; they cannot be set in a browser."""


def methods() -> list[tuple[str, str, bool]]:
    """Return the methods for tables: name, summary, and whether it is a baseline."""
    known = specs()
    found = [(name, METHODS[name].summary, known[name].baseline) for name in METHODS]
    return sorted(found, key=lambda method: (method[2], method[0] != "quilt", method[0]))


def fields_of(
    name: str, given: Mapping[str, Any], schema: Schema, *, fresh: bool = True
) -> list[FormField]:
    """Return the form fields of a method, filled with the given parameters.

    If not `fresh`, an optional field without a parameter gets no initial value, only its default.
    """
    fields = []
    for declared in _kind(name).fields():
        value = given.get(declared.name)
        if value is None and (declared.required or fresh):
            value = _START.get(declared.name)
        if value is None:
            value = declared.default
        common: dict[str, Any] = {
            "name": declared.name,
            "help": declared.help,
            "required": declared.required,
            "first": declared.required or declared.name in FIRST,
        }
        if declared.kind == "choice":
            optional = declared.default is None and not declared.required
            shown = "" if value is None else str(value)
            choices = (("",) if optional else ()) + declared.choices
            fields.append(FormField(kind="choice", value=shown, choices=choices, **common))
        elif declared.kind == "flag":
            fields.append(FormField(kind="flag", value="true" if value else "", **common))
        elif declared.kind == "rules":
            fields.append(FormField(kind="rules", rules=_rules(value or {}, schema), **common))
        elif declared.kind in _LISTS:
            lines = [value] if isinstance(value, str) else map(_line, value or ())
            fields.append(FormField(kind="list", value="\n".join(lines), **common))
        elif declared.name not in _FILES:
            shown = "" if value is None else _text(value)
            fields.append(FormField(
                kind="text", value=shown, slider=_SLIDERS.get(declared.name),
                whole=declared.name in _WHOLE, **common,
            ))  # fmt: skip
    return fields


def read_parameters(name: str, form: Mapping[str, str], schema: Schema) -> dict[str, Any]:
    """Parse a submitted form into parameters of the method."""
    kinds = {declared.name: declared.kind for declared in _kind(name).fields()}
    found: dict[str, Any] = {}
    for field in fields_of(name, {}, schema):
        given = form.get(field.name, "").strip()
        if field.kind == "flag":
            found[field.name] = given == "true"
        elif field.kind == "rules":
            rules = {
                column: _rule(field.name, column, text)
                for column, _, _ in field.rules
                if (text := form.get(f"{field.name}:{column}", "").strip())
            }
            if rules:
                found[field.name] = rules
        elif not given:
            continue
        elif field.kind == "list":
            lines = [line.strip() for line in given.splitlines() if line.strip()]
            if kinds[field.name] == "groups":
                found[field.name] = [line.split() for line in lines]
            else:
                found[field.name] = [int(x) if x.isdecimal() else x for x in lines]
        else:
            found[field.name] = given
    return found


def make_method(name: str, parameters: Mapping[str, Any]) -> Method:
    """Create a method from plain parameters."""
    kind = _kind(name)
    try:
        return kind(**{key: value for key, value in parameters.items() if value is not None})
    except TypeError:
        lacking = [f.name for f in kind.fields() if f.required and f.name not in parameters]
        raise ParameterError([f"{name} is missing; enter a value." for name in lacking]) from None


def options(method: Method) -> list[str]:
    """Return the parameters of a method as command line options, without defaults."""
    words: list[str] = []
    for declared in method.fields():
        value = getattr(method, declared.name)
        if value is None or value == declared.default:
            continue
        flag = declared.flag
        if isinstance(value, bool):
            words.append(flag if value else f"--no-{flag[2:]}")
        elif isinstance(value, Mapping):
            for column, rule in value.items():
                words += [flag, f"{column}={write_rule(rule)}"]
        elif isinstance(value, tuple | list):
            for item in value:
                words += [flag, _line(item)]
        else:
            words += [flag, _text(value)]
    return words


def as_typed(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return parameters as form input: lists with one entry per line."""
    return {
        name: "\n".join(value) if isinstance(value, list) else str(value)
        for name, value in parameters.items()
    }


def _kind(name: str) -> type[Method]:
    if name not in METHODS:
        raise ParameterError(f"{name!r} is not a method; choose one of {', '.join(METHODS)}.")
    return METHODS[name]


def _line(item: Any) -> str:
    """Return an item of a list, or the names of a group, as one line."""
    return " ".join(item) if isinstance(item, tuple | list) else str(item)


def _rules(given: Mapping[str, Any], schema: Schema) -> tuple[tuple[str, str, str], ...]:
    """Return the columns that can have a rule, with its current value and the allowed ones."""
    found = []
    for name, column in schema.attributes.items():
        shown = write_rule(given.get(name, ""))
        if isinstance(column, Categorical):
            depth = column.taxonomy.depth if column.taxonomy else 0
            if depth:
                found.append((name, shown, f"level 0 to {depth}"))
        else:
            said = "a step such as month" if isinstance(column, CalendarColumn) else _CUTS
            found.append((name, shown, said))
    return tuple(found)


def _rule(field: str, column: str, text: str) -> Any:
    try:
        return read_rule(text)
    except ParameterError as error:
        raise ParameterError(f"{field} of column {column!r}: {error.problems[0]}") from None


def _text(value: Any) -> str:
    """Return a fraction as a decimal if that is short, and anything else as text."""
    if isinstance(value, Fraction) or (isinstance(value, str) and "/" in value):
        try:
            exact = Fraction(value)
        except ValueError:
            return str(value)
        return amount(exact) if _is_short(exact) else str(exact)
    return str(value)


def _is_short(exact: Fraction) -> bool:
    return not amount(exact).startswith("about")
