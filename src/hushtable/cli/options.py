"""The fields of a method as options of a command: used by every command that takes a method."""

from __future__ import annotations

import dataclasses
import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from types import NoneType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import typer

from hushtable.errors import ParameterError

if TYPE_CHECKING:
    from hushtable.methods.parameters import Parameters

Kind = TypeVar("Kind", bound="Parameters")


def _option(
    field: dataclasses.Field[Any], hint: Any, help_text: str, *, may_be_absent: bool = False
) -> inspect.Parameter:
    """Turn a field of a method into a command-line option."""
    flag = f"--{field.name.replace('_', '-')}"
    alternatives = [kind for kind in get_args(hint) if kind is not NoneType]
    if NoneType in get_args(hint) and len(alternatives) == 1:
        hint = alternatives[0]
    if hint is bool:  # what is on by default can be turned off, too
        flag = f"{flag}/--no-{flag[2:]}"
    kind: Any = str
    if hint is int or hint is bool or get_origin(hint) is Literal:
        kind = hint
    elif get_origin(hint) is not None and issubclass(_class_of(hint), Mapping | tuple):
        kind = list[str]
    default: Any = inspect.Parameter.empty
    if field.default_factory is not dataclasses.MISSING or field.default == () or may_be_absent:
        default = None
    elif field.default is not dataclasses.MISSING:
        default = str(field.default) if isinstance(field.default, Fraction) else field.default
    if default is None:
        kind |= None
    metavar = "NUMBER" if Fraction in (hint, *get_args(hint)) else None
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, typer.Option(flag, help=help_text, metavar=metavar)],
    )


def _class_of(hint: Any) -> type:
    origin = get_origin(hint)
    return origin if isinstance(origin, type) else object


def _rules(items: list[str]) -> dict[str, int | float | list[float]]:
    """Read ``column=level``, ``column=width`` and ``column=cut,cut,...``."""
    rules: dict[str, int | float | list[float]] = {}
    problems = []
    given = Counter(item.rpartition("=")[0] for item in items)
    for item in items:
        column, _, text = item.rpartition("=")
        try:
            numbers = [float(part) if "." in part else int(part) for part in text.split(",")]
            if not column:
                raise ValueError
            rules[column] = numbers[0] if len(numbers) == 1 else numbers
        except ValueError:
            problems.append(f"{item!r} is not COLUMN=LEVEL, COLUMN=WIDTH or COLUMN=CUT,CUT,...")
    problems += [
        f"column {column!r} is given {times} times; give each column once."
        for column, times in given.items()
        if column and times > 1
    ]
    if problems:
        raise ParameterError(problems)
    return rules


def _fill_in(options: dict[str, Any], solved_by: str, *, is_given: bool) -> None:
    """Start what will be solved for from any value, or say that it is missing."""
    for name in [name for name in SOLVABLE if name in options and options[name] is None]:
        if not is_given:
            raise ParameterError(
                f"{name} is missing; give --{name}, or --{solved_by} to solve for it."
            )
        options[name] = SOLVABLE[name]


def _make_method(kind: type[Kind], options: Mapping[str, Any]) -> Kind:
    values = {}
    for field in dataclasses.fields(kind):
        value = options[field.name]
        if value is not None:
            # Repeated options are rules of a mapping, or the entries of a tuple.
            is_rules = isinstance(value, list) and field.default != ()
            values[field.name] = _rules(value) if is_rules else value
    return kind(**values)


SOLVABLE = {"epsilon": "1", "retention": "1/100"}
"""Fields that a command may work out itself, with a value to start from."""


def with_method_options(
    kind: type[Parameters], *, solved_by: str | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a method's fields to a command, which gets them back as ``method``.

    Parameters
    ----------
    kind : type
        The method.
    solved_by : str, optional
        An option of the command; where it is given, the fields in `SOLVABLE` need not be.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        def run(**arguments: Any) -> None:
            fields = {field.name for field in dataclasses.fields(kind)}
            own = {name: value for name, value in arguments.items() if name not in fields}
            options = {name: value for name, value in arguments.items() if name in fields}
            if solved_by is not None:
                _fill_in(options, solved_by, is_given=own[solved_by] is not None)
            command(method=_make_method(kind, options), **own)

        hints, help_of = get_type_hints(kind), kind.help()
        own = inspect.signature(command, eval_str=True).parameters
        parameters = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for name, parameter in own.items()
            if name != "method"
        ]
        parameters += [
            _option(
                field,
                hints[field.name],
                help_of.get(field.name, ""),
                may_be_absent=solved_by is not None and field.name in SOLVABLE,
            )
            for field in dataclasses.fields(kind)
        ]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__doc__ = f"{kind.summary}\n\n{kind.paper}"
        return run

    return decorate
