"""What every method is: a frozen set of parameters, and the plan it makes for a schema."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import pyarrow as pa

from hushtable.errors import Refused
from hushtable.files.notebook import html_list, html_table
from hushtable.methods.parameters import Parameters
from hushtable.privacy.guarantee import Guarantee
from hushtable.schema import Schema

if TYPE_CHECKING:
    from hushtable.engine.base import Engine
    from hushtable.engine.graph import Graph
    from hushtable.engine.sealed import Counting, SealedTable
    from hushtable.engine.sealed_graph import SealedGraph
    from hushtable.methods.prior import Prior
    from hushtable.privacy.noise import Noise
    from hushtable.privacy.spending import Account, Promise

Source = TypeVar("Source")
"""What a run is given: a table or a graph, sealed."""

SUPPOSED_ROWS = 100_000
"""How many rows a forecast is judged by where nobody says how many there are."""

VACUOUS = 0.85
"""An interval that is so large a share of the rows tells nothing."""


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
    typical : float, optional
        The same as `half_width` for a typical column, where that is about the worst of several.
    worst : str
        Which column is the worst.
    """

    half_width: float
    std: float
    assumes: str
    typical: float | None = None
    worst: str = ""


@dataclass(frozen=True)
class Released:
    """Hold what a method hands out: tables, and what the estimator needs beside them.

    Where cells stayed on executors, a table is the `Parts` that they are still to write.

    Attachments are texts for people that lie beside the tables, such as drawings (``.svg``).
    Warnings say why the release is worth less than was to be expected: they stand before the other
    notes of the statement, and the custodian is warned once it is published. They tell nothing that
    the tables and settings do not.
    """

    tables: Mapping[str, pa.Table]
    settings: Mapping[str, Any] = field(default_factory=dict)
    attachments: Mapping[str, str] = field(default_factory=dict)
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class Run:
    """Hold what a run made, and the account of what it spent, which was found to be in order."""

    released: Released
    account: Account


def misfits(schema: Schema, method: str, beside: Collection[str] = ()) -> list[str]:
    """List what keeps a method of that name from publishing a table by this schema.

    `beside` are the columns that it publishes beside the schema's own.
    """
    problems = [
        f"column {name!r}: the published table has a column of that name; rename the column, in "
        "the schema and by reading: {rename: {PLACE: NEW NAME}} for the data."
        for name in beside
        if name in schema.attributes
    ]
    if schema.unit.kind == "node":
        problems.append(
            f"unit is node: {method} publishes tables of rows. Use unit row or person, or a method "
            "for graphs."
        )
    return problems


class Plan(ABC, Generic[Source]):
    """Hold all that is fixed before the private data is read: what follows from public things.

    A plan is made once for a method and a schema, and never changes: the promise, the forecast and
    every run hang on the same one. What a run uses up, such as a budget, belongs to the run.
    """

    method: Parameters
    schema: Schema

    @property
    @abstractmethod
    def guarantees(self) -> tuple[Guarantee, ...]:
        """What is promised."""

    @abstractmethod
    def forecast(self, rows: int | None = None) -> Forecast:
        """Say what to expect of a table of so many rows, or a graph of so many nodes."""

    @abstractmethod
    def release(self, source: Source, noise: Noise) -> Released:
        """Ask for counts, which are sealed, open them through noise, hand out the result."""

    def _repr_html_(self) -> str:
        promises = html_list(promise.explain() for promise in self.guarantees)
        expected = html_table(["expected", ""], self.forecast(self.schema.rows).lines.items())
        return f"<h4>Plan of {escape(self.method.name)}</h4>{promises}{expected}"

    @property
    def conditions(self) -> tuple[str, ...]:
        """What the promise takes for granted about the private data, in sentences."""
        return self.schema.conditions

    @property
    def starts_from(self) -> Prior | None:
        """The prior that the release also follows, if there is one."""
        return None

    @property
    def why_public(self) -> str | None:
        """The reason, in words, why the prior is public, if one was given."""
        return None

    @cached_property
    def promise(self) -> Promise | None:
        """The differential privacy that a run may spend: what was promised of it, if any was."""
        from hushtable.privacy.spending import Promise  # noqa: PLC0415 - see `accounted`

        return Promise.among(self.guarantees)

    @property
    def spends_all(self) -> bool:
        """Whether a run spends all that is promised; otherwise it may spend less, never more."""
        return True

    def accounted(
        self,
        source: Counting,
        noise: Noise,
        *,
        heard: Callable[[int, float], None] | None = None,
    ) -> Run:
        """Seal the source, make the release, and check that it cost what was promised.

        `heard` is told after each look how many there were and what share of the promise is spent.

        Raises `SealedError` where it did not, or where it looked at a count without paying; there
        is no release then.
        """
        # So that planning and reading a release load no engine.
        from hushtable.engine.sealed import accounted  # noqa: PLC0415
        from hushtable.privacy.spending import Account  # noqa: PLC0415

        account = Account(
            self.promise, bare=self.method.opens_bare, spends_all=self.spends_all, heard=heard
        )
        released = accounted(source, account, lambda sealed: self.release(sealed, noise))
        return Run(released, account)

    def run(self, source: Counting, noise: Noise) -> Released:
        """Make the release, and check that it cost what was promised; see `accounted`."""
        return self.accounted(source, noise).released

    def count_error(self, *, rows: int | None, share: float) -> CountError:
        """Say how far the count of a share of the rows will be off.

        The question is made of whole published cells and takes the same share of them as of the
        rows. Raises `Refused` with the reason where noise alone does not tell.

        Parameters
        ----------
        rows : int or None
            Rows to expect, where known.
        share : float
            Share of the rows that satisfy the question, above 0 and at most 1.
        """
        raise Refused(
            f"{self.method.name} has no formula for the error of a count: what it changes depends "
            "on the private rows, not on noise of a known size. Publish a sample of a similar "
            "public table and use hushtable evaluate."
        )

    def typical_width(self, rows: int) -> float | None:
        """Expect so wide an interval of a count by one column, as a share of the rows.

        For releases whose cells are cut by few columns each; None where noise alone tells.
        """
        return None

    @property
    def judged_share(self) -> float:
        """Share of the rows whose count must not be mostly noise; see `hollow`."""
        return 0.5

    def hollow(self, rows: int) -> str:
        """Say why a release of so many rows would tell nothing, in a sentence; "" where it would.

        Most methods are judged by their noise, with a count of `judged_share` of the rows: an
        answer that may be off by as much as it counts is none. Others are judged by the intervals
        to expect. Nothing but public numbers decides.
        """
        share = self.judged_share
        try:
            expected = self.count_error(rows=rows, share=share)
            error = expected.half_width if expected.typical is None else expected.typical
        except Refused:
            error = 0.0
        if error >= share * rows:
            return (
                f"a count of {share:.0%} of {rows:,} rows may be off by {error:,.0f}, so no answer "
                "would tell anything."
            )
        width = self.typical_width(rows)
        if width is None or width < VACUOUS:
            return ""
        return (
            f"{len(self.schema.attributes)} columns are too many for its cells: the interval of a "
            f"count by one of them is expected to be {min(width, 1):.0%} of the rows wide. Publish "
            "fewer columns, or spend more."
        )


@dataclass(frozen=True, kw_only=True)
class Method(Parameters):
    """Publish a table in one way."""

    one_machine: ClassVar[str] = ""
    """Why a table that is in Spark is refused, and how many rows the method is for; "" if not."""

    @abstractmethod
    def plan(self, schema: Schema) -> Plan[SealedTable]:
        """Work out everything that follows from parameters and schema, or refuse; sees no data."""

    def refuse_data(self, data: Any) -> None:
        """Refuse a private table that the parameters rule out, by what it is; no row is read."""

    def rehearsed(self, folder: Path) -> Self:
        """Give the same method, with a folder for what it keeps: a rehearsal touches nothing else.

        Files that the parameters name are about the private table.
        """
        return self

    def guarantee(self, schema: Schema) -> tuple[Guarantee, ...]:
        """Say what is promised; sees no data."""
        return self.plan(schema).guarantees

    def forecast(self, schema: Schema, rows: int | None = None) -> Forecast:
        """Say what to expect; sees no data."""
        return self.plan(schema).forecast(rows)

    def count_error(self, schema: Schema, *, rows: int | None, share: float) -> CountError:
        """Say how far the count of a share of the rows will be off, see `Plan.count_error`."""
        return self.plan(schema).count_error(rows=rows, share=share)

    def run(self, engine: Engine, noise: Noise) -> Released:
        """Ask the engine for counts, add noise, hand out the result."""
        return self.plan(engine.schema).run(engine, noise)

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


@dataclass(frozen=True, kw_only=True)
class GraphMethod(Parameters):
    """Publish something about a graph."""

    @abstractmethod
    def plan(self, name: str = "graph") -> Plan[SealedGraph]:
        """Work out everything that follows from the parameters; sees no data.

        The plan's schema describes what is published as a table with one row per node.
        """

    @abstractmethod
    def check_input(self, *, listed: bool) -> None:
        """Refuse an input of the wrong kind: with a list of nodes, or without."""

    def guarantee(self) -> tuple[Guarantee, ...]:
        """Say what is promised; sees no data."""
        return self.plan().guarantees

    def forecast(self, n_nodes: int | None = None) -> Forecast:
        """Say what to expect; sees no data."""
        return self.plan().forecast(n_nodes)

    def schema(self, name: str) -> Schema:
        """Describe what is published as a table with one row per node."""
        return self.plan(name).schema

    def run(self, graph: Graph, noise: Noise) -> Released:
        """Count, add noise, hand out the result."""
        return self.plan().run(graph, noise)
