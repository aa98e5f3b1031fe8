"""Registry entry of a method: where its parts are, without importing them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any, Literal

PACKAGE = "hushtable.methods"

Input = Literal["table", "tables", "graph"]


@dataclass(frozen=True, kw_only=True)
class MethodSpec:
    """Registry entry of a method; its parts are given as ``module:name``.

    Parameters
    ----------
    name : str
        Name of the method on the command line.
    method : str
        Class of the method, which carries its parameters.
    kind : str
        Kind of estimator that its statements name; "" if it publishes no release.
    estimator : str
        Class that reads this kind of release.
    takes : {"table", "tables", "graph"}
        Input: one table, linked tables, or a graph.
    baseline : bool
        Whether the method is a baseline for comparison.
    audit : str
        The `hushtable.audit.cases.Case` that tests the promise of a method of another package;
        `hushtable.audit.cases.CASES` lists those of built-in methods.
    attack : str
        Attack specific to the releases of a method of another package, which `hushtable evaluate`
        runs in addition to the general ones; see `hushtable.evaluation.risk.attacks.OwnAttack`.

    Examples
    --------
    >>> spec = MethodSpec(name="even", method="fractions:Fraction")
    >>> spec.load(spec.method)(1, 2)
    Fraction(1, 2)
    """

    name: str
    method: str
    kind: str = ""
    estimator: str = ""
    takes: Input = "table"
    baseline: bool = False
    audit: str = ""
    attack: str = ""

    @property
    def class_name(self) -> str:
        """Name of the method's class."""
        return self.method.partition(":")[2]

    @property
    def publishes(self) -> bool:
        """True if the method makes releases; otherwise it is available in Python only."""
        return bool(self.kind)

    @staticmethod
    def load(part: str) -> Any:
        """Import and return a part."""
        module, _, name = part.partition(":")
        return getattr(import_module(module), name)


@cache
def listed() -> dict[str, dict[str, Any]]:
    """Return the entries of the built-in methods in `methods.toml`, by name."""
    return tomllib.loads((files(PACKAGE) / "methods.toml").read_text(encoding="utf-8"))
