"""Functions that publish a private table, linked tables or a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from hushtable import engine as engines
from hushtable.engine import EngineName
from hushtable.engine.graph import EDGE_COLUMNS
from hushtable.engine.output_guard import logged, silenced
from hushtable.engine.sources.header import is_in_spark
from hushtable.errors import ParameterError
from hushtable.extras import require
from hushtable.files.progress import Progress, silent
from hushtable.methods.base import Forecast, GraphMethod, Method
from hushtable.privacy.ledger.payment import PaymentOptions
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.sources import make_noise
from hushtable.publishing.run import PublishRun
from hushtable.release.release import Release
from hushtable.schema import Schema

if TYPE_CHECKING:
    from hushtable.methods.linked.linked import Linked
    from hushtable.schema.linked_schema import LinkedSchema


@silenced
@logged("publish")
def publish(
    data: Any,
    schema: Schema | str | Path,
    method: Method,
    *,
    out: str | Path,
    engine: EngineName = "auto",
    noise: Literal["secure", "opendp"] | Noise = "secure",
    memory_limit: str | None = None,
    columns: Sequence[str] | None = None,
    rows: int | None = None,
    anyway: bool = False,
    on_forecast: Callable[[Forecast], None] | None = None,
    progress: Progress = silent,
    **paying: Unpack[PaymentOptions],
) -> Release:
    """Publish a private table with a privacy guarantee.

    Everything that can be refused without reading a row is refused first. Then the ledger records
    the cost, and only then is the table read. If something fails later, the charge remains.

    Parameters
    ----------
    data : path, Arrow table, data frame of pandas, polars or Spark, or ibis table
        The private table.
    schema : Schema or path
        Public description of the table.
    method : Method
        The method, with its parameters.
    out : path
        Folder to create; it must not exist.
    engine : {"auto", "memory", "duckdb", "spark"}
        Engine that counts. With ``spark``, Spark also reads a path.
    noise : {"secure", "opendp"} or Noise
        Source of randomness.
    memory_limit : str, optional
        Memory limit of DuckDB, or memory of a Spark session that is started here, such as
        ``"1GB"``.
    columns : sequence of str, optional
        Publish only these columns of the schema. The ledger counts this as a release of the same
        table.
    rows : int, optional
        Approximate number of rows, from public knowledge, for the forecast. By default the schema's
        number, or 100,000. The table itself is not used: whether something was published would then
        reveal its number of rows.
    anyway : bool
        Publish even if the forecast is that the release will be uninformative.
    on_forecast : callable, optional
        Called with the forecast after all checks and before the charge.
    progress : Progress
        Called with the current phase and the approximate share of work done.
    **paying
        Payment and responsibility: ``ledger``, ``reservation``, ``purpose``, ``same_people``,
        ``receipt``, ``decision`` and ``state_decision``, see
        `hushtable.privacy.ledger.payment.Payment`. Without a ledger, nothing is recorded.

    Returns
    -------
    Release
        The release, complete on disk.

    Raises
    ------
    HushtableError
        If anything is refused. If the charge was already made, the message says so.
    """
    progress("planning", 0.0)
    source = make_noise(noise)
    schema = Schema.load(schema) if isinstance(schema, str | Path) else schema
    _require_nouns(schema, method)
    schema.require_confirmed()
    if schema.rules:
        from hushtable.query.where.rules import rules_of  # noqa: PLC0415 - slow to import

        rules_of(schema)  # refuses rules that cannot be parsed
    whole = schema
    if columns is not None:
        from hushtable.query.where.rules import only  # noqa: PLC0415 - slow to import

        schema = only(schema, columns)
    method.refuse_data(data)
    run = PublishRun(
        method.plan(schema), noise=source, out=out, paying=paying, progress=progress, whole=whole
    )
    run.refuse(rows=rows, anyway=anyway)
    if method.one_machine and (engine == "spark" or is_in_spark(data)):
        raise ParameterError(method.one_machine)
    table = engines.open(data, reading=schema.reading, engine=engine, memory_limit=memory_limit)
    table.check(schema)
    return run.publish(
        lambda: table.connect(schema, noise=source), rows=rows, on_forecast=on_forecast
    )


@silenced
@logged("publish")
def publish_graph(
    edges: Any,
    method: GraphMethod,
    *,
    out: str | Path,
    nodes: Any = None,
    columns: tuple[str, str] = EDGE_COLUMNS,
    name: str = "graph",
    noise: Literal["secure", "opendp"] | Noise = "secure",
    progress: Progress = silent,
    **paying: Unpack[PaymentOptions],
) -> Release:
    """Publish a private graph with a privacy guarantee, in the same order as a table.

    Parameters
    ----------
    edges, nodes, columns
        The private graph, see `hushtable.engine.edges.read_graph`.
    method : GraphMethod
        The method, with its parameters.
    out : path
        Folder to create; it must not exist.
    name : str
        Name of the release. A ledger identifies graphs by it.
    noise, progress, **paying
        As for `publish`.

    Returns
    -------
    Release
        The release, complete on disk.

    Examples
    --------
    >>> import tempfile
    >>> from hushtable.methods.degrees.degrees import Degrees
    >>> ring = [(i, (i + 1) % 1000) for i in range(1000)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     release = publish_graph(
    ...         ring, Degrees(epsilon=1, max_degree=4), nodes=range(1000), out=f"{folder}/ring"
    ...     )
    ...     release.table().column_names[:2], 900 < release.count("degree >= 1").value < 1100
    (['degree', 'nodes'], True)
    """
    require("publish", "publishing")
    from hushtable.engine.edges import inspect_graph, read_graph  # noqa: PLC0415 - for graphs only

    progress("planning", 0.0)
    source = make_noise(noise)
    method.check_input(listed=nodes is not None)
    run = PublishRun(method.plan(name), noise=source, out=out, paying=paying, progress=progress)
    run.refuse(anyway=True)
    inspect_graph(edges, nodes=nodes, columns=columns)
    return run.publish(lambda: read_graph(edges, nodes=nodes, columns=columns))


def _require_nouns(schema: object, method: object) -> None:
    problems = []
    if not isinstance(schema, Schema):
        problems.append(
            f"schema is a {type(schema).__name__}; give a Schema or the path of a schema file."
        )
    if not isinstance(method, Method):
        problems.append(
            f"method is {method!r}; give a method with its parameters, such as "
            "NoisyCounts(epsilon=1, delta=1e-6, k=10)."
        )
    ParameterError.raise_if_any(problems)


@silenced
@logged("publish")
def publish_linked(
    data: Mapping[str, Any],
    schema: LinkedSchema | str | Path,
    method: Linked,
    *,
    out: str | Path,
    engine: EngineName = "auto",
    noise: Literal["secure", "opendp"] | Noise = "secure",
    memory_limit: str | None = None,
    rows: int | None = None,
    anyway: bool = False,
    on_forecast: Callable[[Forecast], None] | None = None,
    progress: Progress = silent,
    **paying: Unpack[PaymentOptions],
) -> Release:
    """Publish private linked tables, with one guarantee per person.

    Parameters
    ----------
    data : mapping of str to path or frame
        The private tables, by their names in the schema.
    schema : LinkedSchema or path
        Public description of the tables.
    method : Linked
        The method, with its parameters.
    out : path
        Folder to create; it must not exist.
    rows : int, optional
        Approximate number of persons, from public knowledge, for the forecast.
    engine, noise, memory_limit, anyway, on_forecast, progress, **paying
        As for `hushtable.publish`.

    Returns
    -------
    Release
        The release: one table for each of the schema, with matching keys.

    Raises
    ------
    HushtableError
        If anything is refused. If the charge was already made, the message says so.
    """
    from hushtable.engine.linked_tables import open_linked  # noqa: PLC0415 - for linked tables only
    from hushtable.schema.linked_schema import LinkedSchema  # noqa: PLC0415 - for linked tables only

    progress("planning", 0.0)
    source = make_noise(noise)
    schema = LinkedSchema.load(schema) if isinstance(schema, str | Path) else schema
    schema.require_confirmed()
    run = PublishRun(method.plan(schema), noise=source, out=out, paying=paying, progress=progress)
    run.refuse(rows=rows, anyway=anyway)
    tables = open_linked(data, schema, engine=engine, memory_limit=memory_limit)
    tables.check(schema)
    return run.publish(
        lambda: tables.connect(schema, noise=source), rows=rows, on_forecast=on_forecast
    )
