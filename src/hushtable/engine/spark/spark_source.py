"""Tables in Spark: executors count; the driver gets counts, and a few rows to verify codes."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import lazy_loader
import numpy as np
import pyarrow as pa

from hushtable.arrays import Integers
from hushtable.domain import Domain
from hushtable.engine.encode import Expression
from hushtable.engine.output_guard import silenced
from hushtable.engine.rule_breaks import N_RULES
from hushtable.engine.sources.header import Data, Header, is_ibis_table
from hushtable.engine.sources.source import (
    Lease,
    TableSource,
    by_number,
    explained,
    too_many_cells,
    wanted_columns,
)
from hushtable.errors import DataError, HushtableError, ParameterError, TooLarge
from hushtable.schema import Schema

ibis = lazy_loader.load("ibis")

MAX_DENSE = 1 << 18  # cells of a block that an executor counts in an array

# Faster transfer of the small tables in memory that ibis sends to Spark.
_QUICK = {"spark.sql.execution.arrow.pyspark.enabled": "true"}


def open_in_spark(data: Data, header: Header) -> TableSource:
    """Open a frame of Spark, or an ibis table of a Spark session; reads no row."""
    if is_ibis_table(data):
        data = SparkSource(data, {}).frame(data)
    # Plain names: in Spark, a dot selects a field, and names are case-insensitive.
    places = {name: f"raw{position}" for position, name in enumerate(header.names)}
    name = _fresh_name()
    plain = _in_utc(_by_bytes(data.toDF(*places.values())))
    plain.createOrReplaceTempView(name)
    return SparkSource(
        _backend(data.sparkSession).table(name),
        places,
        # Other plans may give different rows if Spark recomputes a lost part. A row could then be
        # counted in two cells, which the noise does not cover.
        copied=not _is_plain_scan(data._jdf.queryExecution().analyzed()),
        lease=Lease(_forget, data.sparkSession, name),
    )


def _by_bytes(frame: Any) -> Any:
    """Remove collations, under which one row could be counted in two cells."""
    from pyspark.sql import functions  # noqa: PLC0415 - an extra

    plain = {
        field.name: functions.collate(field.name, "UTF8_BINARY")
        for field in frame.schema.fields
        if getattr(field.dataType, "collation", "UTF8_BINARY") != "UTF8_BINARY"
    }
    return frame.withColumns(plain) if plain else frame


def _in_utc(frame: Any) -> Any:
    """Convert timestamps with time zone to UTC, independently of the session's time zone."""
    from pyspark.sql import functions  # noqa: PLC0415 - an extra

    micros = "unix_micros(`{0}`)"
    plain = {
        field.name: functions.expr(
            f"timestampadd(MICROSECOND, {micros.format(field.name)}, "
            "TIMESTAMP_NTZ '1970-01-01 00:00:00')"
        )
        for field in frame.schema.fields
        if field.dataType.typeName() == "timestamp"
    }
    return frame.withColumns(plain) if plain else frame


class SparkSource(TableSource):
    """Table in Spark."""

    def coded(self, schema: Schema) -> TableSource:
        """Return the rows as codes, computed by each query; first copy raw rows if necessary."""
        source: SparkSource = self
        if self.copied:
            places = {f"c{place}": name for place, name in enumerate(wanted_columns(schema))}
            kept = {name: place for place, name in places.items()}
            source = self.keep(self.select(places), kept, drawn=True)
        query, columns = source.code_view(schema)
        with self.running():
            frame, name = source.frame(query), _fresh_name()
            frame.createOrReplaceTempView(name)
        session = frame.sparkSession
        lease = Lease(_forget, session, name), source.lease  # the raw rows stay as long
        return SparkSource(_backend(session).table(name), columns, lease=lease, origin=source)

    def frame(self, expression: Expression) -> Any:
        """Return a query as a Spark frame."""
        backend, name = self.table.get_backend(), _fresh_name()
        backend.create_view(name, expression)
        try:
            return backend.raw_sql(f"TABLE {name}")
        finally:
            backend.raw_sql(f"DROP VIEW IF EXISTS {name}")  # the frame has its plan

    def fetch(self, expression: Expression, *, most: int | None = None) -> pa.Table:
        """Run a query and fetch its rows; raise an error if there are more than `most`."""
        with self.running():
            frame = self.frame(expression)
            if most is None:
                return frame.toArrow()
            # Executors count first, since a limit would send all rows through one of them.
            frame.persist()
            try:
                if frame.count() > most:
                    raise too_many_cells(most)
                return frame.toArrow()
            finally:
                frame.unpersist()

    def tallies(
        self, rows: Expression, blocks: Sequence[Domain]
    ) -> list[tuple[Integers, Integers]]:
        """Count rows by several blocks of columns in one pass, with NumPy on the executors."""
        with self.running():
            counted = self.frame(rows).mapInArrow(_Tally(blocks), "number int, key long, n long")
            summed = counted.groupBy("number", "key").sum("n").toDF("number", "key", "n")
            return by_number(summed.toArrow(), len(blocks))

    def keep(
        self, rows: Expression, columns: Mapping[str, str], *, drawn: bool = False
    ) -> SparkSource:
        """Run a query once and keep its rows on the executors.

        If rows depend on random numbers (`drawn`), rows that an executor loses are not recomputed,
        since the random numbers would differ. The next query fails instead.
        """
        with self.running():
            return self._kept(self.frame(rows), columns, drawn=drawn)

    def draw(self, rows: Expression) -> SparkSource:
        """Draw the random numbers now, since a repeated part of a query would draw others."""
        return self.keep(rows, {}, drawn=True)

    def keep_numbered(self, rows: Expression, number: str) -> SparkSource:
        """Keep rows with unique numbers, which may have gaps."""
        from pyspark.sql import functions  # noqa: PLC0415 - an extra

        with self.running():
            numbered = self.frame(rows).withColumn(number, functions.monotonically_increasing_id())
            return self._kept(numbered, {}, drawn=True)

    def _kept(self, frame: Any, columns: Mapping[str, str], *, drawn: bool) -> SparkSource:
        if drawn:
            frame = frame.localCheckpoint(eager=True)
        else:
            frame = frame.persist()
            frame.count()
        name = _fresh_name()
        frame.createOrReplaceTempView(name)
        lease = Lease(_forget, frame.sparkSession, name, frame)
        return SparkSource(self.table.get_backend().table(name), columns, lease=lease)

    @contextlib.contextmanager
    def running(self, settings: Mapping[str, str] = _QUICK) -> Iterator[None]:
        """Change session settings temporarily, and replace Spark's errors by our own messages."""
        try:
            with _settings(session_of(self.table).conf, settings):
                yield
        except HushtableError:
            raise
        except Exception as error:  # Spark raises any type
            raise _explained(error) from None


@dataclass(frozen=True)
class _Tally:
    """Picklable task that counts the rows of one executor by blocks of code columns."""

    blocks: Sequence[Domain]  # negative codes included

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Executors log errors of tasks, and their logs belong to the cluster.
        added = silenced(self._added)
        dense = [np.zeros(block.size if block.size <= MAX_DENSE else 0, np.int64)
                 for block in self.blocks]  # fmt: skip
        for batch in batches:
            yield from added(batch, dense)
        for number, counts in enumerate(dense):
            keys = np.flatnonzero(counts)
            yield _tallied(number, keys, counts[keys])

    def _added(self, batch: pa.RecordBatch, dense: list[Integers]) -> list[pa.RecordBatch]:
        """Add a batch to the dense counts; return the counts of larger blocks."""
        found = []
        for number, block in enumerate(self.blocks):
            codes = [np.asarray(batch[name], np.int64) for name in block.names]
            keys = block.pack(np.stack(codes, axis=1) + N_RULES)[:, 0]
            if block.size <= batch.num_rows:
                dense[number] += np.bincount(keys, minlength=len(dense[number]))
                continue
            keys, counts = np.unique(keys, return_counts=True)
            if block.size <= MAX_DENSE:
                dense[number][keys] += counts
            else:
                found.append(_tallied(number, keys, counts))
        return found


def _tallied(number: int, keys: Integers, counts: Integers) -> pa.RecordBatch:
    return pa.record_batch(
        {"number": np.full(len(keys), number, np.int32), "key": keys, "n": counts}
    )


@contextlib.contextmanager
def _settings(conf: Any, settings: Mapping[str, str]) -> Iterator[None]:
    """Change settings of a session temporarily."""
    before = {name: conf.get(name, None) for name in settings}
    for name, value in settings.items():
        conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            conf.unset(name) if value is None else conf.set(name, value)


def _explained(error: Exception) -> HushtableError:
    message = str(error).lower()
    if "maxresultsize" in message:
        return TooLarge("the answer is larger than spark.driver.maxResultSize; raise it.")
    if "checkpoint_rdd_block_id_not_found" in message or "checkpoint block" in message:
        return DataError(
            "an executor was lost with rows that are chosen or computed once, and not a second "
            "time; run again, with executors that stay (spark.dynamicAllocation.enabled=false)."
        )
    if "no module named" in message:  # an executor that was added after the check
        return unfit_executors("one of them lacks a package")
    if "outofmemory" in message or "java heap space" in message:
        return TooLarge(
            "Spark ran out of memory; raise spark.executor.memory and spark.driver.memory."
        )
    return explained(error)


def session_of(data: Data) -> Any:
    """Return the Spark session of a table."""
    frame = data.get_backend().raw_sql("SELECT 1") if is_ibis_table(data) else data
    return frame.sparkSession


def _fresh_name() -> str:
    return f"hushtable_{uuid.uuid4().hex}"


def _backend(spark: Any) -> Any:
    """Connect ibis to a session without changing its settings."""
    names = ("spark.sql.session.timeZone", "spark.sql.mapKeyDedupPolicy")
    with _settings(spark.conf, {name: spark.conf.get(name) for name in names}):
        return ibis.pyspark.connect(spark)


def _is_plain_scan(plan: Any) -> bool:
    """Return whether a plan only reads files and is deterministic."""
    kind = _kind(plan)
    if kind == "LogicalRelation":
        return _kind(plan.relation()) == "HadoopFsRelation"
    return (
        kind in {"SubqueryAlias", "View", "Project", "Filter"}
        and plan.deterministic()
        and not any(map(_is_opaque, _each(plan.expressions())))
        and all(map(_is_plain_scan, _each(plan.children())))
    )


def _is_opaque(expression: Any) -> bool:
    """Return whether an expression calls a user function or queries another table."""
    kind = _kind(expression)
    return any(word in kind for word in ("UDF", "Subquery", "Exists", "ListQuery")) or any(
        map(_is_opaque, _each(expression.children()))
    )


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _each(nodes: Any) -> list[Any]:
    return [nodes.apply(at) for at in range(nodes.size())]


def _forget(spark: Any, name: str, frame: Any = None) -> None:
    # The session may belong to the user, and private rows must not stay in it.
    with contextlib.suppress(Exception):
        spark.catalog.dropTempView(name)
        if frame is not None:
            frame.unpersist()
            plan = frame._jdf.queryExecution().analyzed()
            if _kind(plan) == "LogicalRDD":  # rows kept by a checkpoint
                plan.rdd().unpersist(False)


def unfit_executors(why: str) -> ParameterError:
    """Return the error for executors that cannot run hushtable."""
    return ParameterError(
        f"executors cannot run hushtable {version('hushtable')} ({why}); install it in the Python "
        "that they run (spark.pyspark.python), or send it to them in a packed environment: see "
        "'Install' in docs/how-to/run-on-a-cluster.md."
    )
