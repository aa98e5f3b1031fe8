"""One small Spark session for all tests of a process."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    # Tables are tiny: compiling queries in Spark and Java would take most of the time.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def start(folder: Path) -> Any:
    """Return the session, or skip the test and name what is missing."""
    sql = pytest.importorskip("pyspark.sql", reason="no Spark: pip install 'hushtable[spark]'")
    if shutil.which("java") is None:
        pytest.skip("no Java: apt install openjdk-17-jre-headless (or set JAVA_HOME and PATH)")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Two cores, and a failed task is tried a second time, as it would be on a cluster.
    builder = sql.SparkSession.builder.master("local[2,2]").appName("hushtable tests")
    for name, value in {**SETTINGS, "spark.local.dir": str(folder)}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def stop_after(item: pytest.Item, following: pytest.Item | None) -> None:
    """Stop the session after the last test that uses it.

    While a session exists, every run silences it, with about a hundred calls of Java for each of
    the thousands of runs in other tests.
    """
    if not _is_on_spark(item) or (following is not None and _is_on_spark(following)):
        return
    sql = sys.modules.get("pyspark.sql")
    session = sql.SparkSession.getActiveSession() if sql else None
    if session is not None:
        session.stop()


def _is_on_spark(item: pytest.Item) -> bool:
    return any("spark" in mark.args for mark in item.iter_markers("xdist_group"))
