"""What every method is: a frozen set of parameters with a promise, a forecast and a run."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Self

import pyarrow as pa

from hushtable.engine.base import Engine
from hushtable.errors import Refused
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
class CountError:
    """Say how far a count from a release will be off, as far as noise is to blame.

    Parameters
    ----------
    half_width : float
        With 95 % confidence the answer is off by at most this many rows.
    std : float
        Standard deviation of the error.
    assumes : str
        What the figure takes for granted, in sentences.
    """

    half_width: float
    std: float
    assumes: str


@dataclass(frozen=True)
class Released:
    """Hold what a method hands out: tables, and what the estimator needs beside them.

    Where cells stayed on executors, a table is the `Parts` that they are still to write.

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

    one_machine: ClassVar[str] = ""
    """Why a table that is in Spark is refused, and how many rows the method is for; "" if not."""

    @abstractmethod
    def guarantee(self, schema: Schema) -> tuple[Guarantee, ...]:
        """Say what is promised; sees no data."""

    @abstractmethod
    def forecast(self, schema: Schema, rows: int | None = None) -> Forecast:
        """Say what to expect; sees no data."""

    @abstractmethod
    def run(self, engine: Engine, noise: Noise) -> Released:
        """Ask the engine for counts, add noise, hand out the result."""

    def count_error(self, schema: Schema, *, rows: int | None, share: float) -> CountError:
        """Say how far the count of a share of the rows will be off; sees no data.

        The question is made of whole published cells and takes the same share of them as of the
        rows. Raises `Refused` with the reason where noise alone does not tell.

        Parameters
        ----------
        schema : Schema
            The public schema.
        rows : int or None
            Rows to expect, where known.
        share : float
            Share of the rows that satisfy the question, above 0 and at most 1.
        """
        raise Refused(
            f"{self.name} has no formula for the error of a count: what it changes depends on the "
            "private rows, not on noise of a known size. Publish a sample of a similar public "
            "table and use hushtable evaluate."
        )

    def at_epsilon(self, schema: Schema, epsilon: Fraction) -> Self:
        """Give the same method with another epsilon.

        Raises `Refused` where epsilon does not describe it.
        """
        if "epsilon" not in {field.name for field in dataclasses.fields(self)}:
            raise Refused(
                f"{self.name} promises no epsilon, so there is none to choose; see `hushtable "
                "methods` for those that do."
            )
        return dataclasses.replace(self, **{"epsilon": epsilon})


def _plain(value: Any) -> Any:
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value
