"""How a check says that something does not hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hushtable.errors import HushtableError


class ContractError(AssertionError):
    """A method, or a part of it, does not keep what every one must."""


def expect(holds: object, otherwise: str) -> None:
    """Go on if something holds; raise `ContractError` with what does not.

    Unlike an ``assert`` it is not left out by ``python -O``.
    """
    if not holds:
        raise ContractError(otherwise)


@contextmanager
def expect_raised(kind: type[HushtableError], otherwise: str) -> Iterator[list[str]]:
    """Go on if an error of a kind is raised inside; what it says is then in the list."""
    said: list[str] = []
    try:
        yield said
    except kind as error:
        said.append(str(error))
        return
    raise ContractError(otherwise)
