"""Jinja templates with escaping; an undefined variable is an error."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined


def templates(package: str) -> Environment:
    """Return the environment of a package's templates."""
    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
