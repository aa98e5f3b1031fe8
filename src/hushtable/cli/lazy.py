"""Command groups whose commands are created on first use, so that other commands start quickly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from hushtable.cli.ending import Stopped
from hushtable.cli.options import CommandGroup

if TYPE_CHECKING:
    from hushtable.methods.spec import MethodSpec


def lazy_group(
    name: str, names: Callable[[], Iterable[str]], make: Callable[[str], Any], *, help_text: str
) -> typer.Typer:
    """Return a group that creates its commands on first use.

    `names` returns the command names; `make` creates a command, for example with `as_command`.
    """

    class Group(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            self.commands = _Commands(names, make)  # type: ignore[assignment]  # only read

        def invoke(self, ctx: Any) -> Any:
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt as error:
                raise Stopped(error) from None

    return typer.Typer(
        name=name,
        cls=Group,
        no_args_is_help=True,
        help=help_text,
        pretty_exceptions_enable=False,
    )


def method_group(
    name: str,
    make: Callable[[Any], Callable[..., None]],
    *,
    among: Callable[[MethodSpec], bool],
    help_text: str,
) -> typer.Typer:
    """Return a group with one command for each registered method that `among` accepts.

    `make` creates the command from the method's class.
    """

    def known() -> dict[str, MethodSpec]:
        from hushtable.methods.registry import specs  # noqa: PLC0415 - slow to import

        return {name: spec for name, spec in specs().items() if among(spec)}

    def command(method: str) -> Any:
        spec = known()[method]
        return as_command(method, make(spec.load(spec.method)))

    return lazy_group(name, known, command, help_text=help_text)


class _Commands(Mapping[str, Any]):
    """Mapping that creates each command on first access."""

    def __init__(self, names: Callable[[], Iterable[str]], make: Callable[[str], Any]) -> None:
        self._names = names
        self._make = make
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._names():
            raise KeyError(name)
        if name not in self._made:  # help accesses each command twice
            self._made[name] = self._make(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(list(self._names()))


def as_command(name: str, function: Callable[..., None]) -> Any:
    """Return a command whose options are the function's parameters."""
    alone = CommandGroup(add_completion=False)
    alone.command(name)(function)
    return get_command(alone)
