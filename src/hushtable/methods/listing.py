"""Where the parts of a method are: what a family says of itself before any of it is imported."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

Input = Literal["table", "tables", "graph"]


@dataclass(frozen=True, kw_only=True)
class Listing:
    """Say where the parts of a method are, each as ``module:name``.

    Parameters
    ----------
    name : str
        What the method is called on the command line.
    method : str
        The class that carries its parameters.
    audit : str
        The `hushtable.audit.cases.Case` on which its promise is tried; "" where it has none.
    kind : str
        The kind of estimator that its statements ask for; "" where it publishes no release.
    estimator : str
        The class that reads this kind of release.
    attack : str
        An attack on its releases alone, which `hushtable evaluate` runs beside those on any rows;
        "" where there is none. See `hushtable.evaluation.risk.attacks.OwnAttack`.
    takes : {"table", "tables", "graph"}
        What it publishes something about: a table, tables that belong together, or a graph.
    baseline : bool
        Whether it is here to be compared with.

    Examples
    --------
    >>> listing = Listing(name="even", method="fractions:Fraction", audit="")
    >>> listing.load(listing.method)(1, 2)
    Fraction(1, 2)
    """

    name: str
    method: str
    audit: str
    kind: str = ""
    estimator: str = ""
    attack: str = ""
    takes: Input = "table"
    baseline: bool = False

    @property
    def class_name(self) -> str:
        """The name of the method's class."""
        return self.method.partition(":")[2]

    @property
    def publishes(self) -> bool:
        """Whether it makes releases; otherwise it is for Python alone."""
        return bool(self.kind)

    @staticmethod
    def load(part: str) -> Any:
        """Import a part and give it."""
        module, _, name = part.partition(":")
        return getattr(import_module(module), name)
