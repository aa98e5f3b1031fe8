"""Constants of a method's code: candidates for sizes, counts, names and values that change a run.

Constants are read from the fields of the plan, from the code of its classes and of everything that
this code reaches, and from all of hushtable. Of the latter, only constants that are compared with
something count (there are about 200), because only these can select a branch.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import re
import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator
from fractions import Fraction
from types import CodeType, FunctionType
from typing import Any

from hushtable.schema import Schema

_ABOVE = ("audit", "cli", "web", "dossier", "evaluation", "selftest", "testing", "learn", "graph")
"""Parts of hushtable that no run of a method executes."""

_LOOKUPS = {"startswith", "endswith", "find", "index", "count", "get", "match", "search",
            "fullmatch", "findall", "isdisjoint", "issubset", "intersection"}  # fmt: skip
"""Methods whose arguments are compared with something."""

_BEFORE = 4
"""Instructions before a comparison whose operands count as compared."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9 ._-]{0,39}")

MOST_LETTERS = 60
"""Longer texts, such as docstrings, are not names."""

COMMON_NAMES = ("age", "sex", "income", "diagnosis", "name", "zip", "date", "id", "weight", "hiv",
                "salary", "race", "region", "status")  # fmt: skip
"""Names of columns that are tried for every method."""


@dataclasses.dataclass
class CodeConstants:
    """Constants of a plan and its code (`own`), and those that hushtable compares."""

    own: dict[Any, None] = dataclasses.field(default_factory=dict)
    compared: dict[Any, None] = dataclasses.field(default_factory=dict)
    packages: Collection[str] = ()
    """Packages whose code is the method's or hushtable's; other installed code is a library."""

    def whole(self, least: int, most: int, *, all_compared: bool = True) -> list[int]:
        """Return the whole numbers in a range, in order."""
        every = {**self.own, **(self.compared if all_compared else {})}
        found = {abs(int(v)) for v in every if isinstance(v, int | float) and v == v // 1}
        return sorted(v for v in found if least <= v <= most)

    def unlikely(self) -> list[int]:
        """Return whole numbers that a random number may be compared with, the rarest kind first."""
        numbers = [int(v) for v in self.own if isinstance(v, int) and v >= 0]
        return sorted(dict.fromkeys(numbers), key=lambda v: v <= 40) or [0]

    def names(self, taken: Collection[str]) -> list[str]:
        """Return texts that may be names of columns, own ones first, without those `taken`."""
        texts = (v for v in (*self.own, *COMMON_NAMES, *self.compared) if isinstance(v, str))
        found = dict.fromkeys(part for text in texts for part in _NAME.findall(text))
        lower = {name.lower() for name in taken}
        unique = {name.lower(): name for name in reversed(found) if name.lower() not in lower}
        return [name for name in found if unique.get(name.lower()) == name]


def constants_of(plan: Any) -> CodeConstants:
    """Return the constants of a plan, of its code and of hushtable.

    Examples
    --------
    >>> @dataclasses.dataclass
    ... class Plan:
    ...     threshold: int = 40
    ...     share: Fraction = Fraction(1, 7)
    >>> {7, 40} <= set(constants_of(Plan()).own)
    True
    """
    kinds = (*type(plan).__mro__, *type(getattr(plan, "method", None)).__mro__)
    packages = {"hushtable", *(kind.__module__.partition(".")[0] for kind in kinds)}
    found = CodeConstants(packages=packages - {"builtins", "abc", "typing"})
    seen: set[int] = set()
    _collect(plan, found, seen)
    _collect(getattr(plan, "method", None), found, seen)
    for kind in kinds:
        if kind.__module__ not in {"builtins", "abc", "typing"}:
            _collect_all(vars(sys.modules[kind.__module__]).values(), found, seen)
            _collect_all(vars(kind).values(), found, seen)
    for module in [m for name, m in sys.modules.items() if _is_reached(name)]:
        for value in list(vars(module).values()):
            inside = list(vars(value).values()) if isinstance(value, type) else [value]
            for function in filter(None, map(_function, inside)):
                if _is_reached(function.__module__):
                    found.compared |= dict.fromkeys(_compared(function))
                else:  # a replaced function
                    _collect(function, found, seen)
    return found


_LIBRARIES = tuple(
    {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)


def _is_library(function: FunctionType, packages: Collection[str]) -> bool:
    package = (function.__module__ or "").partition(".")[0]
    return package not in packages and function.__code__.co_filename.startswith(
        (*_LIBRARIES, "<frozen")
    )


def _is_reached(module: str | None) -> bool:
    name, _, rest = (module or "").partition(".")
    return name == "hushtable" and rest.split(".")[0] not in _ABOVE


def _function(value: Any) -> FunctionType | None:
    for part in ("fget", "func", "__func__", "__wrapped__"):
        value = getattr(value, part, value) if not isinstance(value, type) else value
    return value if isinstance(value, FunctionType) else None


def _collect_all(values: Iterable[Any], found: CodeConstants, seen: set[int]) -> None:
    for value in list(values):
        _collect(_function(value) or value, found, seen)


def _collect(value: Any, found: CodeConstants, seen: set[int]) -> None:
    """Add the constants of a value: of its fields, elements, or code and what the code names."""
    if id(value) in seen or len(seen) > 20_000 or isinstance(value, bool):
        return
    seen.add(id(value))
    if isinstance(value, int | float):
        found.own[value] = None
    elif isinstance(value, FunctionType):
        if _is_library(value, found.packages):
            return
        is_ours = _is_reached(value.__module__)
        found.own |= dict.fromkeys(_compared(value))
        every = _constants(value.__code__)
        found.own |= {c: None for c in every if not is_ours or not isinstance(c, str)}
        names = [] if is_ours else [value.__globals__.get(n) for n in value.__code__.co_names]
        for part in (*_closure(value), *names):
            if isinstance(part, FunctionType | int | float | Fraction | tuple | list | dict):
                _collect(part, found, seen)
            elif isinstance(part, str) and not is_ours:
                found.own[part] = None
    else:
        for part in _parts(value):
            _collect(part, found, seen)


def _parts(value: Any) -> Iterable[Any]:
    """Return the fields or elements of an object."""
    if isinstance(value, Fraction):
        return value.numerator, value.denominator
    if dataclasses.is_dataclass(value) and not isinstance(value, type | Schema):
        return [getattr(value, part.name, None) for part in dataclasses.fields(value)]
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list | tuple) else ()


def _closure(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # the cell is empty
            continue


def _constants(code: CodeType) -> Iterator[int | float | str]:
    """Yield the numbers and the short texts of a function."""
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _constants(value)
        elif (isinstance(value, int | float) and not isinstance(value, bool)) or (
            isinstance(value, str) and len(value) <= MOST_LETTERS
        ):
            yield value


def _compared(function: FunctionType) -> Iterator[Any]:
    """Yield the numbers and texts that a function compares with something."""
    outer = dict(zip(function.__code__.co_freevars, _closure(function), strict=False))
    for operand in _operands(function.__code__):
        value = operand
        if isinstance(operand, _Name):
            value = outer.get(operand, function.__globals__.get(operand))
        for part in value if isinstance(value, tuple | list | set | frozenset | dict) else [value]:
            if isinstance(part, int | float | str) and not isinstance(part, bool):
                yield part


class _Name(str):
    """Name of a variable."""

    __slots__ = ()


@functools.cache
def _operands(code: CodeType) -> tuple[Any, ...]:
    """Return the constants, and names of variables, that are compared or looked up."""
    found: list[Any] = []
    steps = list(dis.get_instructions(code))
    for place, step in enumerate(steps):
        is_lookup = step.opname in {"LOAD_METHOD", "LOAD_ATTR"} and step.argval in _LOOKUPS
        near = steps[place + 1 : place + 1 + _BEFORE] if is_lookup else ()
        if step.opname in {"COMPARE_OP", "CONTAINS_OP"}:
            near = steps[max(0, place - _BEFORE) : place]
        for operand in near:
            if operand.opname == "LOAD_CONST":
                found.append(operand.argval)
            elif operand.opname in {"LOAD_GLOBAL", "LOAD_DEREF"}:
                found.append(_Name(operand.argval))
    for value in code.co_consts:
        found += _operands(value) if isinstance(value, CodeType) else ()
    return tuple(found)
