"""Jinja templates with escaping; an undefined variable is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment


def templates(package: str) -> Environment:
    """Return the environment of a package's templates."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - optional

    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
