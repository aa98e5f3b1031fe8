"""Declared parameters of methods: reading, checking, and help texts.

A method is a frozen dataclass whose fields are made by `parameter`. Each field declares how its
value is read: as an exact number in a range, one of the names in its annotation, or true or false.
`Parameters` reads all fields when the method is made and collects every problem; a method checks
only conditions on several fields. The docstring of the class describes each field; the first
sentence of an entry is its help text on the command line.
"""

from __future__ import annotations

import dataclasses
import re
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import NoneType
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from hushtable.docstrings import entries
from hushtable.errors import ParameterError
from hushtable.files.texts import Texts
from hushtable.methods.spec import listed
from hushtable.privacy.rational import as_rational
from hushtable.privacy.values import check_delta, check_epsilon

said = Texts("hushtable.methods")
"""Messages of methods."""

Reader = Callable[[str, Any], Any]
"""Function of a parameter's name and given value; returns the value to use, or raises
`ParameterError`."""

ParameterKind = Literal[
    "number", "integer", "integers", "choice", "flag", "rules", "names", "groups", "path", "text"
]
"""Kind of a parameter: one or several values, rules by column, or groups of column names."""

_READ_BY = "read by"
_KIND = "kind"
_FLAG = "flag"


@dataclass(frozen=True)
class ParameterField:
    """Declaration of one parameter of a method, for command lines and forms."""

    name: str
    kind: ParameterKind
    choices: tuple[str, ...]  # the allowed values, if `kind` is "choice"
    default: Any  # None if the parameter is required
    required: bool
    help: str  # one sentence
    flag: str  # on the command line


def parameter(
    *,
    read: Reader | None = None,
    kind: ParameterKind | None = None,
    flag: str | None = None,
    **more: Any,
) -> Any:
    """Declare a parameter of a method.

    Parameters
    ----------
    read : callable, optional
        Reader that converts the given value. By default the annotation decides: a ``Literal``
        accepts its names, a ``bool`` true or false; any other value is used as given.
    kind : str, optional
        Kind of the parameter on the command line and in forms. By default the annotation decides.
    flag : str, optional
        Name of its command-line option, by default that of the field.
    **more
        Arguments of `dataclasses.field`, such as ``default``.
    """
    return field(metadata={_READ_BY: read, _KIND: kind, _FLAG: flag}, **more)


# --- readers: each takes the name of a parameter and the given value ------------------------------


def epsilon(name: str, given: Any) -> Fraction:
    """Read an epsilon.

    Examples
    --------
    >>> epsilon("epsilon", "0.1")
    Fraction(1, 10)
    """
    return check_epsilon(as_rational(given, name=name))


def delta(name: str, given: Any) -> Fraction:
    """Read a delta."""
    return check_delta(as_rational(given, name=name))


def rational(name: str, given: Any) -> Fraction:
    """Read an exact number of any size."""
    return as_rational(given, name=name)


def rational_with(holds: Callable[[Fraction], bool], must: str) -> Reader:
    """Return a reader of exact numbers for which `holds` is true; `must` says so in words."""

    def read(name: str, given: Any) -> Fraction:
        value = as_rational(given, name=name)
        if not holds(value):
            raise ParameterError(f"{name} is {given}; it must be {must}.")
        return value

    return read


share = rational_with(lambda value: 0 <= value < 1, "0 or more, below 1")
part = rational_with(lambda value: 0 < value < 1, "above 0 and below 1")


def whole(at_least: int | None = 1, at_most: int | None = None) -> Reader:
    """Return a reader of integers in a range.

    Examples
    --------
    >>> whole()("k", 10.0)
    10
    >>> whole(at_least=2)("k", 1)
    Traceback (most recent call last):
    ...
    hushtable.errors.ParameterError: k is 1; it must be a whole number of at least 2.
    """
    allowed = "a whole number"
    if at_least is not None:
        allowed += (
            f" of at least {at_least}" if at_most is None else f" from {at_least:,} to {at_most:,}"
        )

    def read(name: str, given: Any) -> int:
        value = as_rational(given, name=name)
        too_small = at_least is not None and value < at_least
        too_large = at_most is not None and value > at_most
        if value.denominator != 1 or too_small or too_large:
            raise ParameterError(f"{name} is {given}; it must be {allowed}.")
        return int(value)

    return read


MAX_K = 1_000_000
"""Largest k of methods whose estimators list the chances of counts up to k."""


def rules(name: str, given: Any) -> dict[str, Any]:
    """Read rules by column. Return a copy with lists in place of tuples, as in statements."""
    if not isinstance(given, Mapping):
        raise ParameterError(f"{name} is {given!r}; it must map column names to rules.")
    return {
        column: list(rule) if isinstance(rule, tuple) else rule for column, rule in given.items()
    }


def _one_of(names: tuple[Any, ...]) -> Reader:
    def read(name: str, given: Any) -> Any:
        if given not in names:
            *others, last = map(str, names)
            listed = f"{', '.join(others)} or {last}" if others else last
            raise ParameterError(f"{name} is {given!r}; it must be {listed}.")
        return given

    return read


def _flag(name: str, given: Any) -> bool:
    if not isinstance(given, bool):
        raise ParameterError(f"{name} is {given!r}; it must be true or false.")
    return given


def _as_given(name: str, given: Any) -> Any:
    return given


def _reader_of(hint: Any) -> Reader:
    """Return the reader for an annotation."""
    hint = _without_none(hint)
    if get_origin(hint) is Literal:
        return _one_of(get_args(hint))
    return _flag if hint is bool else _as_given


def _without_none(hint: Any) -> Any:
    """Return the annotation of a value that is not None."""
    kinds = [kind for kind in get_args(hint) if kind is not NoneType]
    return kinds[0] if NoneType in get_args(hint) and len(kinds) == 1 else hint


def _kind_of(hint: Any) -> ParameterKind:
    """Return the kind of a parameter with this annotation."""
    origin, of = get_origin(hint), (hint, *get_args(hint))
    if isinstance(origin, type) and issubclass(origin, Sequence):
        several: ParameterKind = "groups" if get_origin(of[1]) is tuple else "names"
        return "integers" if int in of else several
    tests: tuple[tuple[bool, ParameterKind], ...] = (
        (origin is Literal, "choice"),
        (hint is bool, "flag"),
        (hint is int, "integer"),
        (isinstance(origin, type) and issubclass(origin, Mapping), "rules"),
        (Path in of, "path"),
        (Fraction in of, "number"),
    )
    return next((kind for holds, kind in tests if holds), "text")


# --- rules as text --------------------------------------------------------------------------------

_UNITS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year", "log")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}|\d{2}:\d{2}")


def read_rule(text: str) -> Any:
    """Parse the rule of one column, as `write_rule` writes it.

    A rule is a taxonomy level, a bin width, a calendar unit, ``log``, or cuts separated by commas.
    Cuts are numbers, dates or times. Raise `ParameterError` for any other text.

    Examples
    --------
    >>> [read_rule(text) for text in ("3", "0.5", "quarter", "18,40,65", "2024-07-01,2025-01-01")]
    [3, 0.5, 'quarter', [18, 40, 65], ['2024-07-01', '2025-01-01']]
    """
    try:
        parts = [_part_of_rule(part.strip()) for part in text.split(",")]
    except ValueError:
        raise ParameterError(
            f"{text!r} is not a rule; give a level, a width, a unit such as month, or cuts "
            "separated by commas."
        ) from None
    return parts[0] if len(parts) == 1 else parts


def _part_of_rule(text: str) -> int | float | str:
    if text in _UNITS or _TIME.match(text):
        return text
    return float(text) if "." in text else int(text)


def write_rule(rule: Any) -> str:
    """Write the rule of one column as text.

    Examples
    --------
    >>> write_rule([18, 40, 65]), write_rule("quarter")
    ('18,40,65', 'quarter')
    """
    return ",".join(map(str, rule)) if isinstance(rule, list | tuple) else str(rule)


# --- base class -----------------------------------------------------------------------------------


_LISTED = {name: name for name in ("paper", "summary", "one_machine")}
_LISTED["estimator_kind"] = "kind"
"""Attributes of a method that `methods.toml` sets, with their names there."""


@dataclass(frozen=True, kw_only=True)
class Parameters(ABC):
    """Base class of methods; subclasses are frozen keyword-only dataclasses.

    The fields are the parameters of the method and its command-line options.
    """

    name: ClassVar[str]
    paper: ClassVar[str]
    summary: ClassVar[str]
    estimator_kind: ClassVar[str] = ""
    """Kind of estimator that reads the release, as in `MethodSpec.kind`."""
    sees_exact_counts: ClassVar[str] = ""
    """Sentence for the statement on what the method sees without noise; "" if nothing. Only methods
    without differential privacy may set it."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Read what `methods.toml` says about a built-in method."""
        super().__init_subclass__(**options)
        entry = listed().get(cls.__dict__.get("name", ""), {})
        for attribute, part in _LISTED.items():
            if part in entry and attribute not in cls.__dict__:
                setattr(cls, attribute, entry[part])

    def __post_init__(self) -> None:
        problems: list[str] = []
        hints = get_type_hints(type(self))
        for declared in dataclasses.fields(self):
            given = getattr(self, declared.name)
            if given is None and declared.default is None:
                continue
            read = declared.metadata.get(_READ_BY) or _reader_of(hints[declared.name])
            try:
                object.__setattr__(self, declared.name, read(declared.name, given))  # frozen
            except ParameterError as error:
                problems += error.problems
        problems += self._problems(fields_are_right=not problems)
        ParameterError.raise_if_any(problems)

    def _problems(self, *, fields_are_right: bool) -> list[str]:
        """List problems that involve several parameters.

        `fields_are_right` says whether every parameter was read without a problem.
        """
        return []

    def parameters(self) -> dict[str, Any]:
        """Return the parameters as plain data for the statement."""
        return {
            f.name: _plain(getattr(self, f.name))
            for f in dataclasses.fields(self)
            if getattr(self, f.name) is not None
        }

    @classmethod
    def fields(cls) -> tuple[ParameterField, ...]:
        """Return the declarations of all parameters."""
        hints, said = get_type_hints(cls), cls.help()
        found = []
        for declared in dataclasses.fields(cls):
            hint = _without_none(hints[declared.name])
            kind = declared.metadata.get(_KIND) or _kind_of(hint)
            default = declared.default
            if declared.default_factory is not dataclasses.MISSING:
                default = declared.default_factory()
            required = default is dataclasses.MISSING
            found.append(
                ParameterField(
                    name=declared.name,
                    kind=kind,
                    choices=tuple(map(str, get_args(hint))) if kind == "choice" else (),
                    default=None if required else default,
                    required=required,
                    help=said.get(declared.name, ""),
                    flag=f"--{declared.metadata.get(_FLAG) or declared.name.replace('_', '-')}",
                )
            )
        return tuple(found)

    @classmethod
    def help(cls) -> dict[str, str]:
        """Return the first sentence of each parameter's entry in the docstring."""
        return {
            name: entry.first_sentence
            for kind in reversed(cls.__mro__)
            for name, entry in entries(kind.__dict__.get("__doc__")).items()
        }


def _plain(value: Any) -> Any:
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value
