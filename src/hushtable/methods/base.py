"""Base classes of methods: parameters, the plan made for a schema, and the forecast."""

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

from hushtable.errors import Refused, unpublished
from hushtable.files.html import html_list, html_table
from hushtable.methods.parameters import Parameters, said
from hushtable.privacy.guarantee import Guarantee, PureDP
from hushtable.schema import Schema

if TYPE_CHECKING:
    from hushtable.engine.engine import Engine
    from hushtable.engine.graph import Graph, SealedGraph
    from hushtable.engine.sealed_table import Counting, SealedTable
    from hushtable.methods.prior import Prior
    from hushtable.privacy.accounting.run_account import DrawObserver, RunAccount, SpendingLimit
    from hushtable.privacy.noise.noise import Noise

SourceT = TypeVar("SourceT")
"""Input of a run: a sealed table or a sealed graph."""

MadeT = TypeVar("MadeT")

SUPPOSED_ROWS = 100_000
"""Number of rows that forecasts assume if none is given."""

TYPICAL_ROWS = 1_000_000
"""Number of rows that forecasts of memory assume if none is given."""

PROCESS_MB = 350.0
"""Memory of a process that publishes 10,000 rows, most of it libraries; see
`benchmarks/forecasts.py`."""

VACUOUS = 0.85
"""An interval at least this wide, as a share of all rows, is uninformative."""


@dataclass(frozen=True)
class Forecast:
    """Expected properties of a release, computed before any data is read.

    Parameters
    ----------
    lines : mapping of str to str or number
        Expected figures by name, in words for custodians.
    split : mapping of str to Fraction
        Epsilon of each step of the method.
    n_cells : int
        Number of cells in the domain that is counted.
    memory_mb : float
        Approximate memory of the method itself, in megabytes.
    """

    lines: Mapping[str, str | float | int]
    split: Mapping[str, Fraction]
    n_cells: int
    memory_mb: float

    @property
    def peak_mb(self) -> float:
        """Approximate peak memory of a process that publishes, in megabytes."""
        return PROCESS_MB + self.memory_mb


@dataclass(frozen=True)
class CountError:
    """Expected error of a count from a release; it includes error due to noise only.

    Parameters
    ----------
    half_width : float
        Half-width of the 95% interval, in rows.
    std : float
        Standard deviation of the error, in rows.
    assumes : str
        Assumptions behind these figures, in sentences.
    typical : float, optional
        Half-width for a typical column, if `half_width` is that of the worst of several columns.
    worst : str
        Name of the worst column; "" if the question does not depend on one.
    """

    half_width: float
    std: float
    assumes: str
    typical: float | None = None
    worst: str = ""


@dataclass(frozen=True)
class Released:
    """Output of a method: tables, and the settings that its estimator needs.

    If cells stay on Spark executors, a table may be `WrittenParts`, which the executors write
    later.

    Attachments are files for people beside the tables, such as drawings (``.svg``). Warnings say
    why the release is worth less than expected: they come first among the notes of the statement,
    and the custodian sees them after publication. They contain nothing that the tables and settings
    do not.
    """

    tables: Mapping[str, pa.Table]
    settings: Mapping[str, Any] = field(default_factory=dict)
    attachments: Mapping[str, str] = field(default_factory=dict)
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class RunResult:
    """Result of a run, and the checked account of what the run spent."""

    released: Released
    account: RunAccount


def reader_of(estimator: Callable[..., MadeT], plan: Plan[Any], released: Released) -> MadeT:
    """Return the estimator of a release that has not been written to disk yet."""
    return estimator(plan.schema, plan.method.parameters(), released.settings, released.tables)


def schema_problems(
    schema: Schema, method: str, beside: Collection[str] = (), target: str | None = None
) -> list[str]:
    """List the reasons why a method cannot publish a table with this schema.

    `beside` lists the columns that the method publishes in addition to the schema's own; `target`
    is the column that it predicts, if any.
    """
    problems = [
        said("taken name of a table", name=name) for name in beside if name in schema.attributes
    ]
    if schema.unit.kind == "node":
        problems.append(said("unit of nodes", method=method))
    if target is not None:
        problems += unpublished([target], schema.attributes, "target")
    return problems


class Plan(ABC, Generic[SourceT]):
    """Everything that is fixed before the private data is read; it depends on public inputs only.

    A plan is made once for a method and a schema and never changes. The promise, the forecast and
    every run use the same plan. State that a run uses up, such as a budget, belongs to the run.
    """

    method: Parameters
    schema: Schema

    @property
    @abstractmethod
    def guarantees(self) -> tuple[Guarantee, ...]:
        """The privacy guarantees of a release."""

    @abstractmethod
    def forecast(self, rows: int | None = None) -> Forecast:
        """Forecast a release of a table with this many rows, or of a graph with this many nodes."""

    def step_epsilons(self, rows: int | None) -> Mapping[str, Fraction]:
        """Return the epsilon of each step, for a table with this many rows."""
        return self.forecast(rows).split

    @abstractmethod
    def release(self, source: SourceT, noise: Noise) -> Released:
        """Query sealed counts, open them with noise, and return the release."""

    def _repr_html_(self) -> str:
        promises = html_list(promise.explain() for promise in self.guarantees)
        expected = html_table(["expected", ""], self.forecast(self.schema.rows).lines.items())
        return f"<h4>Plan of {escape(self.method.name)}</h4>{promises}{expected}"

    @property
    def conditions(self) -> tuple[str, ...]:
        """Conditions on the private data that the promise assumes, in sentences."""
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
    def promise(self) -> SpendingLimit | None:
        """Budget of a run: the differential privacy among the guarantees, or None."""
        from hushtable.privacy.accounting.run_account import SpendingLimit  # noqa: PLC0415 - see `accounted`

        return SpendingLimit.among(self.guarantees)

    @property
    def spends_all(self) -> bool:
        """True if a run spends all of its promise; otherwise it may spend less, never more."""
        return True

    def accounted(
        self,
        source: Counting,
        noise: Noise,
        *,
        on_query: Callable[[int, float], None] | None = None,
        observer: DrawObserver | None = None,
    ) -> RunResult:
        """Seal the source, make the release, and check its cost against the promise.

        `on_query` is called after each query, with the number of queries and the share of the
        promise spent. `observer` is for audits: it sees the exact counts of each query.

        Raise `SealedError`, and return no release, if the run spends more than the promise, if it
        spends less although `spends_all` is True, or if it opens a count without paying.
        """
        # Imported here so that planning and reading releases do not load an engine.
        from hushtable.engine.sealed_table import accounted  # noqa: PLC0415
        from hushtable.privacy.accounting.run_account import RunAccount  # noqa: PLC0415

        account = RunAccount(
            self.promise,
            sees_exact_counts=self.method.sees_exact_counts,
            spends_all=self.spends_all,
            on_query=on_query,
            observer=observer,
        )
        released = accounted(source, account, lambda sealed: self.release(sealed, noise))
        return RunResult(released, account)

    def run(self, source: Counting, noise: Noise) -> Released:
        """Make the release and check its cost against the promise; see `accounted`."""
        return self.accounted(source, noise).released

    def association_kept(self, released: Released) -> dict[tuple[str, str], float]:
        """Return the share of association that the rows keep, for pairs of columns where known.

        It follows from noise, shrinkage and the release itself, so it is public. The statement
        contains it. By default nothing is known.
        """
        return {}

    def count_error(self, *, rows: int | None, share: float) -> CountError:
        """Return the expected error of a count of a share of the rows.

        The question selects whole published cells, and the same share of cells as of rows. Raise
        `Refused`, with the reason, if noise alone does not determine the error.

        Parameters
        ----------
        rows : int or None
            Expected number of rows, if known.
        share : float
            Share of the rows that satisfy the question, above 0 and at most 1.
        """
        raise Refused(said("no formula", method=self.method.name))

    def typical_width(self, rows: int) -> float | None:
        """Return the expected width of an interval of a count by one column, as a share of rows.

        Methods whose cells a question may split override this. The default, None, means that the
        width is due to noise alone.
        """
        return None

    @property
    def follows_paper(self) -> bool:
        """Whether the parameters are a paper's calibration, published as in the paper's tests."""
        return False

    @property
    def judged_share(self) -> float:
        """Share of the rows whose count must not be mostly noise; see `uninformative`."""
        return 0.5

    def uninformative(self, rows: int) -> str:
        """Return the reason why a release of `rows` rows would be uninformative, or "".

        By default, the noise decides: a release is uninformative if the error of a count of
        `judged_share` of the rows may be as large as the count. For methods with wide cells, the
        expected width of intervals decides, too. Both follow from public numbers alone.
        """
        share = self.judged_share
        try:
            expected = self.count_error(rows=rows, share=share)
            error = expected.half_width if expected.typical is None else expected.typical
        except Refused:
            error = 0.0
        if error >= share * rows:
            return said("uninformative count", share=share, rows=rows, error=error)
        width = self.typical_width(rows)
        if width is None or width < VACUOUS:
            return ""
        return said("many columns", n=len(self.schema.attributes), width=min(width, 1))


class PurePlan(Plan[SourceT]):
    """Base class of plans that promise pure differential privacy with the method's epsilon."""

    method: Any

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """Pure differential privacy for one added or removed unit."""
        epsilon, unit = self.method.epsilon, self.schema.unit
        return (PureDP(epsilon=epsilon, unit=unit, neighbors="add-remove"),)


@dataclass(frozen=True, kw_only=True)
class Method(Parameters):
    """Base class of methods that publish a table."""

    one_machine: ClassVar[str] = ""
    """Why the method refuses Spark tables, and how many rows it supports; "" if it accepts them."""

    @abstractmethod
    def plan(self, schema: Schema) -> Plan[SealedTable]:
        """Compute everything that follows from parameters and schema, or refuse. Reads no data."""

    def refuse_data(self, data: Any) -> None:
        """Refuse a private table that the parameters rule out by its kind. Reads no row."""

    def for_dry_run(self, folder: Path) -> Self:
        """Return the same method with `folder` as the place of its files, for a dry run.

        Files that the parameters name describe the private table, so a dry run must not touch them.
        """
        return self

    def guarantee(self, schema: Schema) -> tuple[Guarantee, ...]:
        """Return the privacy guarantees. Reads no data."""
        return self.plan(schema).guarantees

    def forecast(self, schema: Schema, rows: int | None = None) -> Forecast:
        """Forecast a release. Reads no data."""
        return self.plan(schema).forecast(rows)

    def count_error(self, schema: Schema, *, rows: int | None, share: float) -> CountError:
        """Return the expected error of a count of a share of the rows; see `Plan.count_error`."""
        return self.plan(schema).count_error(rows=rows, share=share)

    def run(self, engine: Engine, noise: Noise) -> Released:
        """Make the release of an engine's table."""
        return self.plan(engine.schema).run(engine, noise)

    def at_epsilon(self, schema: Schema, epsilon: Fraction) -> Self:
        """Return the same method with another epsilon.

        Raise `Refused` if the method has no epsilon.
        """
        if "epsilon" not in {field.name for field in dataclasses.fields(self)}:
            raise Refused(said("no epsilon", method=self.name))
        return dataclasses.replace(self, **{"epsilon": epsilon})


@dataclass(frozen=True, kw_only=True)
class GraphMethod(Parameters):
    """Base class of methods that publish statistics of a graph."""

    @abstractmethod
    def plan(self, name: str = "graph") -> Plan[SealedGraph]:
        """Compute everything that follows from the parameters. Reads no data.

        The plan's schema describes the output as a table with one row per node.
        """

    @abstractmethod
    def check_input(self, *, listed: bool) -> None:
        """Refuse an input of the wrong kind. `listed` says whether the nodes are listed."""

    def guarantee(self) -> tuple[Guarantee, ...]:
        """Return the privacy guarantees. Reads no data."""
        return self.plan().guarantees

    def forecast(self, n_nodes: int | None = None) -> Forecast:
        """Forecast a release. Reads no data."""
        return self.plan().forecast(n_nodes)

    def schema(self, name: str) -> Schema:
        """Return the schema of the output: a table with one row per node."""
        return self.plan(name).schema

    def run(self, graph: Graph, noise: Noise) -> Released:
        """Make the release of a graph."""
        return self.plan().run(graph, noise)
