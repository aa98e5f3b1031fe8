"""Assertions of the contract checks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hushtable.errors import HushtableError


class ContractError(AssertionError):
    """A method, or a part of it, violates the contract that every method must keep."""


def expect(holds: object, otherwise: str) -> None:
    """Raise `ContractError` with a message unless a condition holds.

    Unlike ``assert``, this check is not removed by ``python -O``.
    """
    if not holds:
        raise ContractError(otherwise)


@contextmanager
def expect_raised(kind: type[HushtableError], otherwise: str) -> Iterator[list[str]]:
    """Require that the block raises an error of this class; its message is added to the list."""
    said: list[str] = []
    try:
        yield said
    except kind as error:
        said.append(str(error))
        return
    raise ContractError(otherwise)
