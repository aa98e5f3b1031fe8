"""Spark sessions: find or start one, and refuse one that cannot keep the promise.

pyspark is imported only if Spark is requested.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa

from hushtable.engine.output_guard import quiet_spark, silence_also
from hushtable.engine.sources.header import Data, is_ibis_table, is_in_spark, read_header
from hushtable.engine.spark.spark_source import session_of, unfit_executors
from hushtable.errors import DataError, ParameterError
from hushtable.files.memory import parse_memory_limit
from hushtable.files.writing import spill_folder

_INSTALL = (
    "Spark needs the package pyspark (pip install 'hushtable[spark]') and Java 17 or 21 (such as "
    "apt install openjdk-17-jre-headless), found through PATH or JAVA_HOME."
)


def session(memory_limit: str | None = None) -> Any:
    """Return the running Spark session, or start one on this machine.

    Under ``spark-submit``, return the session of the submitted application.

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
                "memory_limit applies to a Spark session that hushtable starts, but a session is "
                "running; set spark.driver.memory and spark.executor.memory where it is started."
            )
        running = running or SparkSession.builder.appName("hushtable").getOrCreate()
        silence_also(quiet_spark(running.sparkContext))
        return running
    # Executors of a local session are this process's children and must be this Python.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.driver.memory": _java_size(memory_limit or "2GB"),
        "spark.local.dir": spill_folder(),  # private rows that do not fit in memory
        "spark.ui.enabled": "false",  # its port is open to all users of this machine
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
    """Start Spark's JVM without output, since it and its workers also print without loggers."""
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - an extra
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    if SparkContext._gateway is not None:
        return  # the gateway of a stopped session is reused
    conf = SparkConf().setAppName("hushtable").setAll(list(settings.items()))
    nowhere = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    SparkContext(conf=conf, gateway=launch_gateway(conf, nowhere))


def _java_size(memory_limit: str) -> str:
    """Format a size as Java does.

    Examples
    --------
    >>> _java_size("4GB"), _java_size("500 MB")
    ('4g', '500m')
    """
    number, letter = parse_memory_limit(memory_limit)
    if not number.isdigit():
        raise ParameterError(
            f"memory_limit is {memory_limit!r}; Spark takes whole numbers, such as '500MB'."
        )
    return f"{number}{letter}"


def read_in_spark(data: Data, *, memory_limit: str | None = None) -> Data:
    """Return a path as a frame that Spark reads; return Spark frames unchanged."""
    if is_in_spark(data):
        _require_fit_session(data)
        return data
    if is_ibis_table(data):
        return data  # `open` refuses it and names its backend
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
    # Files with different columns are detected here, not during the run. Names of folders do not
    # define columns.
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
    """Return whether Spark treats a path as a local file."""
    if re.match(r"[A-Za-z][\w+.-]+:/", path):  # an address
        return False
    where = spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS") or "file:///"
    return str(where).startswith("file:")


def _literal_path(file: Path) -> str:
    # Spark treats every path as a pattern: data[1].parquet would match data1.parquet.
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", str(file.resolve()))


def _require_fit_session(data: Data) -> None:
    """Raise an error, before the charge, if a session cannot keep the promise or do the work."""
    require_one_run(data)
    require_silent_executors(data)
    require_hushtable(data)


def require_one_run(data: Data) -> None:
    """Raise an error for Spark Connect or speculation; see `hushtable.engine.spark.writing`."""
    if "connect" in type(data).__module__.split("."):
        raise ParameterError(
            "this is a frame of Spark Connect, where rows cannot be kept for later questions; use "
            "a session inside the cluster (spark-submit)."
        )
    conf = session_of(data).sparkContext.getConf()
    if conf.get("spark.speculation", "false").lower() == "true":
        raise ParameterError(
            "spark.speculation is on: of two copies of a task, each with its own noise, the "
            "quicker one would be published. Start the session with spark.speculation=false."
        )


SILENT_LOGGING = Path(__file__).with_name("log4j2-silent.properties")
_LOGGERS = ("", "org.apache.spark.executor.Executor")  # the root, and that of failed tasks


def require_silent_executors(data: Data) -> None:
    """Raise an error if executors log: the messages of failed tasks may quote values.

    Executors are asked for the levels of their loggers, since `spark.log.level` does not change
    them. Those of a local session use the loggers of the driver, which every run silences.
    """
    spark = session_of(data)
    context = spark.sparkContext
    if context._jsc.sc().isLocal():
        return
    n_tasks = context.defaultParallelism
    asked = spark.range(0, n_tasks, 1, n_tasks).selectExpr(
        *(f"java_method('org.apache.logging.log4j.LogManager', 'getLogger', '{name}')"
          for name in _LOGGERS)
    )  # fmt: skip
    if not all(":OFF " in logger for row in asked.collect() for logger in row):
        raise ParameterError(
            "executors log the messages of failed tasks, which may quote values. Copy "
            f"{str(SILENT_LOGGING)!r} to the machines of the cluster, and start the session with "
            "spark.executor.extraJavaOptions=-Dlog4j2.configurationFile=PATH, where PATH is the "
            "copy."
        )


def require_hushtable(data: Data) -> None:
    """Raise an error if executors lack this version of hushtable, since they may draw noise.

    One task per core returns the version there; Spark distributes the tasks over its executors. No
    row of the table is read.
    """
    spark = session_of(data)
    n_tasks = spark.sparkContext.defaultParallelism
    asked = spark.range(0, n_tasks, 1, n_tasks).mapInArrow(_versions_there, "version string")
    try:
        others = {row.version for row in asked.collect()} - {version("hushtable")}
    except Exception as error:  # Spark raises any type
        found = re.search(r"^[\w.]+Error: .*$", str(error), re.MULTILINE)
        raise unfit_executors(found[0].rstrip(".") if found else type(error).__name__) from None
    if others:
        raise unfit_executors(f"they have version {', '.join(sorted(others))}")


def _versions_there(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the version of hushtable on an executor; fail if a needed package is missing."""
    import hushtable.engine.spark.writing  # noqa: F401, PLC0415 - imported by tasks

    for batch in batches:
        yield pa.record_batch({"version": [version("hushtable")] * batch.num_rows})
