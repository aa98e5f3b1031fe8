"""Forms for the parameters of methods."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from hushtable.errors import ParameterError
from hushtable.methods.base import Method
from hushtable.methods.registry import METHODS, specs
from hushtable.schema import Categorical, Schema
from hushtable.schema.calendar import CalendarColumn
from hushtable.web.render import amount

# Main parameters; all others are collapsed.
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
    # for rules: column, current value, and allowed values
    rules: tuple[tuple[str, str, str], ...] = ()


_FILES = {"coins", "prior", "prior_public"}
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

    If not `fresh`, a field that was left empty on purpose stays empty.
    """
    kind = _kind(name)
    hints, said = get_type_hints(kind), kind.help()
    fields = []
    for declared in dataclasses.fields(kind):
        hint, optional = _without_none(hints[declared.name])
        required = (
            declared.default is dataclasses.MISSING
            and declared.default_factory is dataclasses.MISSING
        )
        value = given.get(declared.name)
        if value is None and (required or fresh):
            value = _START.get(declared.name)
        if value is None and not required and declared.default is not dataclasses.MISSING:
            value = declared.default
        common: dict[str, Any] = {
            "name": declared.name,
            "help": said.get(declared.name, ""),
            "required": required,
            "first": required or declared.name in FIRST,
        }
        if get_origin(hint) is Literal:
            choices = (("",) if optional else ()) + tuple(map(str, get_args(hint)))
            shown = "" if value is None else str(value)
            fields.append(FormField(kind="choice", value=shown, choices=choices, **common))
        elif hint is bool:
            fields.append(FormField(kind="flag", value="true" if value else "", **common))
        elif _is(hint, Mapping):
            fields.append(FormField(kind="rules", rules=_rules(value or {}, schema), **common))
        elif _is(hint, tuple) or (get_origin(hint) is not None and "Sequence" in str(hint)):
            if isinstance(value, str):
                shown = value
            elif "tuple[tuple" in str(hint):
                shown = "\n".join(" ".join(group) for group in value or ())
            else:
                shown = "\n".join(map(str, value or ()))
            fields.append(FormField(kind="list", value=shown, **common))
        elif declared.name not in _FILES:
            shown = "" if value is None else _text(value)
            fields.append(FormField(
                kind="text", value=shown, slider=_SLIDERS.get(declared.name),
                whole=declared.name in _WHOLE, **common,
            ))  # fmt: skip
    return fields


def read_parameters(name: str, form: Mapping[str, str], schema: Schema) -> dict[str, Any]:
    """Parse a submitted form into parameters of the method."""
    hints = get_type_hints(_kind(name))
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
            hint = str(hints[field.name])
            if "tuple[tuple" in hint:
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
        lacking = [
            f.name for f in dataclasses.fields(kind)
            if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
            and f.name not in parameters
        ]  # fmt: skip
        raise ParameterError([f"{field} is missing; enter a value." for field in lacking]) from None


def options(method: Method) -> list[str]:
    """Return the parameters of a method as command line options, without defaults."""
    words: list[str] = []
    for declared in dataclasses.fields(method):
        value = getattr(method, declared.name)
        default = declared.default
        if declared.default_factory is not dataclasses.MISSING:
            default = declared.default_factory()
        if value is None or value == default:
            continue
        flag = f"--{declared.name.replace('_', '-')}"
        if isinstance(value, bool):
            words.append(flag if value else f"--no-{flag[2:]}")
        elif isinstance(value, Mapping):
            for column, rule in value.items():
                text = ",".join(map(_text, rule)) if isinstance(rule, list) else _text(rule)
                words += [flag, f"{column}={text}"]
        elif isinstance(value, tuple | list):
            for item in value:
                words += [flag, " ".join(item) if isinstance(item, tuple | list) else str(item)]
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


def _without_none(hint: Any) -> tuple[Any, bool]:
    kinds = [kind for kind in get_args(hint) if kind is not NoneType]
    if NoneType in get_args(hint) and len(kinds) == 1:
        return kinds[0], True
    return hint, NoneType in get_args(hint)


def _is(hint: Any, kind: type) -> bool:
    origin = get_origin(hint)
    return isinstance(origin, type) and issubclass(origin, kind)


def _rules(given: Mapping[str, Any], schema: Schema) -> tuple[tuple[str, str, str], ...]:
    """Return the columns that a rule can apply to, with current and allowed values."""
    found = []
    for name, column in schema.attributes.items():
        rule = given.get(name, "")
        shown = ",".join(map(_text, rule)) if isinstance(rule, list | tuple) else _text(rule)
        if isinstance(column, Categorical):
            depth = column.taxonomy.depth if column.taxonomy else 0
            if depth:
                found.append((name, shown, f"level 0 to {depth}"))
        else:
            said = "a step such as month" if isinstance(column, CalendarColumn) else _CUTS
            found.append((name, shown, said))
    return tuple(found)


def _rule(field: str, column: str, text: str) -> str | int | float | list[int | float]:
    if text.isalpha():
        return text  # a calendar unit
    try:
        numbers: list[int | float] = [
            float(part) if "." in part else int(part) for part in text.split(",")
        ]
    except ValueError:
        raise ParameterError(
            f"{field} of column {column!r} is {text!r}; enter a number, or numbers separated by "
            "commas."
        ) from None
    return numbers[0] if len(numbers) == 1 else numbers


def _text(value: Any) -> str:
    """Return a number as a decimal if it has a short one."""
    if isinstance(value, Fraction) or (isinstance(value, str) and "/" in value):
        try:
            exact = Fraction(value)
        except ValueError:
            return str(value)
        return amount(exact) if _is_short(exact) else str(exact)
    return str(value)


def _is_short(exact: Fraction) -> bool:
    return not amount(exact).startswith("about")
