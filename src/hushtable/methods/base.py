"""What every method is: a frozen set of parameters with a promise, a forecast and a run."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import pyarrow as pa

from hushtable.engine.base import Engine
from hushtable.privacy.guarantee import Guarantee
from hushtable.privacy.noise import Noise
from hushtable.schema import Schema


@dataclass(frozen=True)
class Forecast:
    """Say what to expect of a release before any data is read.

    Parameters
    ----------
    lines : mapping of str to str or number
        What is expected, in words a custodian reads: name to figure.
    split : mapping of str to Fraction
        How the budget is divided over the steps, in epsilon.
    n_cells : int
        Size of the domain that is counted.
    memory_mb : float
        Peak memory expected, roughly.
    """

    lines: Mapping[str, str | float | int]
    split: Mapping[str, Fraction]
    n_cells: int
    memory_mb: float


@dataclass(frozen=True)
class Released:
    """Hold what a method hands out: tables, and what the estimator needs beside them.

    Attachments are texts for people that lie beside the tables, such as drawings (``.svg``).
    """

    tables: Mapping[str, pa.Table]
    estimator: Mapping[str, Any] = field(default_factory=dict)
    attachments: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Parameters(ABC):
    """Carry the parameters of a method; subclasses are frozen keyword-only dataclasses.

    The fields are the parameters, and the command line's options. Each field carries
    ``metadata={"help": ...}``.
    """

    name: ClassVar[str]
    paper: ClassVar[str]
    summary: ClassVar[str]
    estimator: ClassVar[str]  # the kind of estimator that reads the release, see hushtable.estimate

    def parameters(self) -> dict[str, Any]:
        """Give the parameters as plain data for the statement."""
        return {
            f.name: _plain(getattr(self, f.name))
            for f in dataclasses.fields(self)
            if getattr(self, f.name) is not None
        }


@dataclass(frozen=True, kw_only=True)
class Method(Parameters):
    """Publish a table in one way."""

    @abstractmethod
    def guarantee(self, schema: Schema) -> tuple[Guarantee, ...]:
        """Say what is promised; sees no data."""

    @abstractmethod
    def forecast(self, schema: Schema, rows: int | None = None) -> Forecast:
        """Say what to expect; sees no data."""

    @abstractmethod
    def run(self, engine: Engine, noise: Noise) -> Released:
        """Ask the engine for counts, add noise, hand out the result."""


def _plain(value: Any) -> Any:
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value
