"""A table that is in Spark: the executors count, and only counts travel to the driver.

pyspark is imported when Spark is asked for, never before.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import uuid
import weakref
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import lazy_loader
import pyarrow as pa

from hushtable.engine.header import Data, Header, is_ibis_table, is_in_spark, read_header
from hushtable.engine.silence import quiet_spark, silence_also
from hushtable.engine.source import Source, explained, too_many_cells
from hushtable.engine.sql.encode import Expression
from hushtable.errors import DataError, HushtableError, ParameterError, TooLarge
from hushtable.files.scratch import spill_folder

ibis = lazy_loader.load("ibis")

_INSTALL = (
    "Spark needs the package pyspark (pip install 'hushtable[spark]') and Java 17 or 21 (such as "
    "apt install openjdk-17-jre-headless), found through PATH or JAVA_HOME."
)


_QUICK = {"spark.sql.execution.arrow.pyspark.enabled": "true"}  # for small tables that are sent


def session(memory_limit: str | None = None) -> Any:
    """Give the running Spark session, or start one on this machine.

    Under ``spark-submit``, it is the one that was submitted.

    Parameters
    ----------
    memory_limit : str, optional
        Memory of a session that is started here, such as ``"4GB"``.
    """
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra, and slow to import
    except ImportError:
        raise ParameterError(_INSTALL) from None
    running = SparkSession.getActiveSession()
    if running is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        if memory_limit is not None:
            raise ParameterError(
                "memory_limit is for a Spark session that hushtable starts; this one is there "
                "already: set spark.driver.memory and spark.executor.memory where it is started."
            )
        running = running or SparkSession.builder.appName("hushtable").getOrCreate()
        silence_also(quiet_spark(running.sparkContext))
        return running
    # Executors of a local session are this process's children and must be this Python.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.driver.memory": _java_size(memory_limit or "2GB"),
        "spark.local.dir": spill_folder(),  # what does not fit memory is private rows
        "spark.ui.enabled": "false",  # a port that anybody on this machine could open
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",  # messages of failed tasks may quote values
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    builder = SparkSession.builder.appName("hushtable")
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        _start_java(settings)
        return builder.getOrCreate()
    except Exception:  # without Java, or with one that is too old
        raise ParameterError(f"Spark cannot be started. {_INSTALL}") from None


def _start_java(settings: Mapping[str, str]) -> None:
    """Start Spark's Java without a way to print: Java and its workers write past all loggers."""
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - an extra
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    if SparkContext._gateway is not None:
        return  # of a session that was stopped
    conf = SparkConf().setAppName("hushtable").setAll(list(settings.items()))
    nowhere = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    SparkContext(conf=conf, gateway=launch_gateway(conf, nowhere))


def _java_size(memory_limit: str) -> str:
    """Write a size as Java does.

    Examples
    --------
    >>> _java_size("4GB"), _java_size("500 MB")
    ('4g', '500m')
    """
    found = re.fullmatch(r"\s*(\d+)\s*([kmgt])i?b?\s*", memory_limit, re.IGNORECASE)
    if not found:
        raise ParameterError(
            f"memory_limit {memory_limit!r} is not understood; write it as '500MB' or '4GB'."
        )
    return f"{found[1]}{found[2].lower()}"


def read_in_spark(data: Data, *, memory_limit: str | None = None) -> Data:
    """Turn a path into a Spark frame that Spark itself reads; leave frames of Spark alone."""
    if is_in_spark(data):
        _require_fit_session(data)
        return data
    if is_ibis_table(data):
        return data  # refused later, by the name of where it is
    if not isinstance(data, str | Path):
        raise ParameterError(
            "engine 'spark' counts tables that are in Spark: give the path of Parquet files, a "
            "Spark data frame, or an ibis table of a Spark session."
        )
    path = os.fspath(data)
    if re.search(r"\.csv(\.\w+)?$", path, re.IGNORECASE):
        raise ParameterError(
            f"engine 'spark' reads Parquet files, and {path!r} is CSV. Use engine 'duckdb', "
            "convert it, or give a Spark data frame that you have read yourself."
        )
    found = session(memory_limit)
    files = [path]
    # Files that differ in their columns are found out here and not in the middle, and what stands
    # in the names of folders is no column.
    options = {"mergeSchema": "true", "recursiveFileLookup": "true"}
    if _is_local(path, found):
        files = [_literal_path(file) for file in read_header(path).files]
    else:
        options["pathGlobFilter"] = "*.parquet"  # as the other engines list them
    try:
        frame = found.read.options(**options).parquet(*files)
    except Exception as error:
        what = "does not exist" if "PATH_NOT_FOUND" in str(error) else "cannot be read as Parquet"
        raise DataError(f"{path!r} {what}, says Spark; executors must see it, too.") from None
    _require_fit_session(frame)
    return frame


def _is_local(path: str, spark: Any) -> bool:
    """Say whether Spark takes a path for one of this machine's."""
    if re.match(r"[A-Za-z][\w+.-]+:/", path):  # an address
        return False
    where = spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS") or "file:///"
    return str(where).startswith("file:")


def _literal_path(file: Path) -> str:
    # Spark takes every path for a pattern: data[1].parquet would be data1.parquet.
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", str(file.resolve()))


def _require_fit_session(data: Data) -> None:
    """Refuse a session that cannot keep the promise or finish the work, before it is charged."""
    require_one_run(data)
    require_hushtable(data)


def require_one_run(data: Data) -> None:
    """Refuse a session that may run a task twice at once; see `spark_writing` for the reason."""
    if "connect" in type(data).__module__.split("."):
        raise ParameterError(
            "this is a frame of Spark Connect, where rows cannot be kept for later questions; use "
            "a session inside the cluster (spark-submit)."
        )
    conf = _session_of(data).sparkContext.getConf()
    if conf.get("spark.speculation", "false").lower() == "true":
        raise ParameterError(
            "spark.speculation is on: of two copies of a task, each with its own noise, the "
            "quicker one would be published. Start the session with spark.speculation=false."
        )


def require_hushtable(data: Data) -> None:
    """Refuse executors without this version of hushtable: they may have to draw the noise.

    They are asked for their version, as any task is sent to them: one task for each core, which
    Spark deals out to its executors in turn. No row of the table is touched.
    """
    spark = _session_of(data)
    n_tasks = spark.sparkContext.defaultParallelism
    asked = spark.range(0, n_tasks, 1, n_tasks).mapInArrow(_versions_there, "version string")
    try:
        others = {row.version for row in asked.collect()} - {version("hushtable")}
    except Exception as error:  # Spark raises what it likes
        found = re.search(r"^[\w.]+Error: .*$", str(error), re.MULTILINE)
        raise _unfit_executors(found[0].rstrip(".") if found else type(error).__name__) from None
    if others:
        raise _unfit_executors(f"they have version {', '.join(sorted(others))}")


def _versions_there(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Tell the version of hushtable, on an executor that has all it needs to draw and write."""
    import hushtable.engine.spark.writing  # noqa: F401, PLC0415 - what a task there needs

    for batch in batches:
        yield pa.record_batch({"version": [version("hushtable")] * batch.num_rows})


def _unfit_executors(why: str) -> ParameterError:
    return ParameterError(
        f"executors cannot run hushtable {version('hushtable')} ({why}); install it in the Python "
        "that they run (spark.pyspark.python), or send it to them in a packed environment: see "
        "'Install' in docs/how-to/run-on-a-cluster.md."
    )


def open_in_spark(data: Data, header: Header) -> Source:
    """Open a frame of Spark, or an ibis table of a Spark session; reads no row."""
    if is_ibis_table(data):
        data = SparkSource(data, {}).frame(data)
    # Plain names: Spark takes a dot for a field, and case for nothing.
    places = {name: f"raw{position}" for position, name in enumerate(header.names)}
    name = _fresh_name()
    _by_bytes(data.toDF(*places.values())).createOrReplaceTempView(name)
    source = SparkSource(
        _backend(data.sparkSession).table(name),
        places,
        # Computed once: a row that comes out differently when a lost part is computed again would
        # be counted twice, in two cells, and the noise is for once.
        copied=not _is_plain_scan(data._jdf.queryExecution().analyzed()),
    )
    weakref.finalize(source, _forget, data.sparkSession, name)
    return source


def _by_bytes(frame: Any) -> Any:
    """Take collations off texts: two that are equal under one would put a row into two cells."""
    from pyspark.sql import functions  # noqa: PLC0415 - an extra

    plain = {
        field.name: functions.collate(field.name, "UTF8_BINARY")
        for field in frame.schema.fields
        if getattr(field.dataType, "collation", "UTF8_BINARY") != "UTF8_BINARY"
    }
    return frame.withColumns(plain) if plain else frame


class SparkSource(Source):
    """Hold a table that is in Spark."""

    def frame(self, expression: Expression) -> Any:
        """Give a query as a Spark frame."""
        backend, name = self.table.get_backend(), _fresh_name()
        backend.create_view(name, expression)
        try:
            return backend.raw_sql(f"TABLE {name}")
        finally:
            backend.raw_sql(f"DROP VIEW IF EXISTS {name}")  # the frame knows its plan by now

    def fetch(self, expression: Expression, *, most: int | None = None) -> pa.Table:
        """Run a query and bring its rows to the driver, unless they are more than `most`."""
        with self.running():
            frame = self.frame(expression)
            if most is None:
                return frame.toArrow()
            # Counted by the executors first: a limit would send everything through one of them.
            frame.persist()
            try:
                if frame.count() > most:
                    raise too_many_cells(most)
                return frame.toArrow()
            finally:
                frame.unpersist()

    def keep(
        self, rows: Expression, columns: Mapping[str, str], *, drawn: bool = False
    ) -> SparkSource:
        """Run a query once and keep its rows on the executors.

        Where coins were tossed, or may have been (`drawn`), rows that an executor loses are not
        computed again: the coins would fall differently. The next question fails instead.
        """
        with self.running():
            return self._kept(self.frame(rows), columns, drawn=drawn)

    def draw(self, rows: Expression) -> SparkSource:
        """Toss the coins now: a part of a query that is run again would see others."""
        return self.keep(rows, {}, drawn=True)

    def keep_numbered(self, rows: Expression, number: str) -> SparkSource:
        """Keep rows with a number each; numbers differ, and have gaps."""
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
        kept = SparkSource(self.table.get_backend().table(name), columns)
        weakref.finalize(kept, _forget, frame.sparkSession, name, frame)
        return kept

    @contextlib.contextmanager
    def running(self, settings: Mapping[str, str] = _QUICK) -> Iterator[None]:
        """Change settings for a while, and say what goes wrong in words of our own."""
        try:
            with _settings(_session_of(self.table).conf, settings):
                yield
        except HushtableError:
            raise
        except Exception as error:  # Spark raises what it likes
            raise _explained(error) from None


@contextlib.contextmanager
def _settings(conf: Any, settings: Mapping[str, str]) -> Iterator[None]:
    """Change settings of a session for a while."""
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
    if "no module named" in message:  # an executor that came after they were asked
        return _unfit_executors("one of them lacks a package")
    if "outofmemory" in message or "java heap space" in message:
        return TooLarge(
            "Spark ran out of memory; raise spark.executor.memory and spark.driver.memory."
        )
    return explained(error)


def _session_of(data: Data) -> Any:
    frame = data.get_backend().raw_sql("SELECT 1") if is_ibis_table(data) else data
    return frame.sparkSession


def _fresh_name() -> str:
    return f"hushtable_{uuid.uuid4().hex}"


def _backend(spark: Any) -> Any:
    """Connect ibis to a session and leave the session's settings as they are."""
    names = ("spark.sql.session.timeZone", "spark.sql.mapKeyDedupPolicy")
    before = {name: spark.conf.get(name) for name in names}
    backend = ibis.pyspark.connect(spark)
    for name, value in before.items():
        spark.conf.set(name, value)
    return backend


def _is_plain_scan(plan: Any) -> bool:
    """Say whether a plan reads files and does nothing that could give another row next time."""
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
    """Say whether an expression calls a function of the user's, or asks another table."""
    kind = _kind(expression)
    return any(word in kind for word in ("UDF", "Subquery", "Exists", "ListQuery")) or any(
        map(_is_opaque, _each(expression.children()))
    )


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _each(nodes: Any) -> list[Any]:
    return [nodes.apply(at) for at in range(nodes.size())]


def _forget(spark: Any, name: str, frame: Any = None) -> None:
    # The session may be the user's own, and rows of people must not stay in it.
    with contextlib.suppress(Exception):
        spark.catalog.dropTempView(name)
        if frame is not None:
            frame.unpersist()
            plan = frame._jdf.queryExecution().analyzed()
            if _kind(plan) == "LogicalRDD":  # rows kept by a checkpoint
                plan.rdd().unpersist(False)
