"""Executors killed while they write: the release contains the draws of one attempt only."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

# Executors of `local-cluster` are separate processes, so that one of them can be killed. Its
# counts are lost with it, so that Spark also runs the previous stage again.
KILLED = """
import json, os, sys, time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import SparkSession

import hushtable
from hushtable.engine.spark import writing as spark_writing
from hushtable.engine.spark.session import SILENT_LOGGING
from hushtable.engine import sql_engine as sql

root = Path(sys.argv[1])
seen, out = root / "seen", root / "published" / "out"
settings = {
    "spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "parquet.block.size": "999",  # rows reach the disk while others are drawn
    "spark.local.dir": str(root / "spill"),
    "spark.executor.extraJavaOptions": f"-Dlog4j2.configurationFile={SILENT_LOGGING}",
}
builder = SparkSession.builder.master("local-cluster[2,1,1024]")
for name, value in settings.items():
    builder = builder.config(name, value)
session = builder.getOrCreate()
sql.MAX_CELLS = 10  # executors publish what a driver could hold
task = spark_writing._Task


def parent(process):
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def publish():
    class Unlucky(task):
        def __call__(self, batches):
            context = TaskContext.get()
            partition, attempt = context.partitionId(), context.taskAttemptId()
            for number, batch in enumerate(task.__call__(self, batches)):
                pq.write_table(pa.table(batch), seen / f"{partition}-{attempt}-{number}.parquet")
                yield batch
                if number == 7 and partition == 0 and not (seen / "killed").exists():
                    patience = time.monotonic() + 300
                    file = f"attempt_*/part-{partition:05}-*.parquet"
                    while time.monotonic() < patience:
                        if any(path.stat().st_size > 4096 for path in out.parent.rglob(file)):
                            (seen / "killed").touch()
                            break
                        time.sleep(0.01)
                    os.kill(parent(os.getppid()), 9)
                    time.sleep(60)

    spark_writing._Task = Unlucky
    column = {"type": "integer", "low": 0, "high": 19_999}
    hushtable.publish(
        session.read.parquet(str(root / "private.parquet")),
        hushtable.Schema.from_dict({"name": "t", "columns": {"cell": column}}),
        hushtable.NoisyCounts(epsilon="1/50", mechanism="pure"),
        out=out,
    )


seen.mkdir()
out.parent.mkdir()
pq.write_table(pa.table({"cell": [1]}), root / "private.parquet")
publish()
table = hushtable.Release.load(out).table()
published = {row["cell"]: row["noisy_count"] for row in table.to_pylist()}
attempts = {}
for file in seen.glob("*.parquet"):
    drawn = pq.read_table(file).to_pylist()
    attempts.setdefault(file.stem.rpartition("-")[0], []).extend(drawn)
print(json.dumps({
    "cells": len(published),
    "rows": table.num_rows,
    "killed": (seen / "killed").exists(),
    "attempts": {
        name: [len(rows), sum(published[row["cell"]] == row["noisy_count"] for row in rows)]
        for name, rows in attempts.items()
    },
    "left": sorted(str(path.relative_to(out.parent)) for path in out.parent.rglob("*")),
}))
session.stop()
"""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the executor in /proc")
def test_an_executor_that_is_killed_while_it_writes(tmp_path: Path) -> None:
    pyspark = pytest.importorskip("pyspark", reason="no Spark: pip install 'hushtable[spark]'")
    if shutil.which("java") is None:
        pytest.skip("no Java: apt install openjdk-17-jre-headless (or set JAVA_HOME and PATH)")
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable,
             "SPARK_HOME": str(Path(pyspark.__file__).parent)},
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["killed"]
    assert found["cells"] == found["rows"] == 20_000
    whole = [drawn for drawn, equal in found["attempts"].values() if drawn == equal]
    assert len(whole) == 2
    assert sum(whole) == 20_000
    # The lost attempt drew others: P[Z = Z'] < 0.01, so at most 80 of 8,000 are expected equal.
    lost = [pair for pair in found["attempts"].values() if pair[0] != pair[1]]
    assert lost
    assert all(drawn >= 8000 and equal < drawn / 10 for drawn, equal in lost)
    assert found["left"] == [
        "out", "out/STATEMENT.md", "out/data.parquet", "out/data.parquet/part-00000.parquet",
        "out/data.parquet/part-00001.parquet", "out/statement.json",
    ]  # fmt: skip


# --- logs of executors ----------------------------------------------------------------------------

FAILING = """
import json, sys
from pathlib import Path

from pyspark.sql import SparkSession

import hushtable
from hushtable.engine.spark.session import SILENT_LOGGING
from hushtable.errors import HushtableError, ParameterError

root, master = Path(sys.argv[1]), sys.argv[2]
SECRETS = [f"SECRET-{number}" for number in range(40)]
settings = {
    "spark.ui.enabled": "false", "spark.driver.memory": "512m", "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "1", "spark.default.parallelism": "1",
    "spark.local.dir": str(root / "spill"), "spark.log.level": "OFF",
}
schema = hushtable.Schema.from_dict(
    {"name": "t", "columns": {"cell": {"type": "integer", "low": 0, "high": 9}}}
)
book = hushtable.Ledger.create(root / "book.ledger", epsilon=1)


def start(**more):
    builder = SparkSession.builder.master(master)
    for name, value in {**settings, **more}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def publish(session):
    # The cast fails in the tasks that count.
    rows = session.read.parquet(str(root / "private")).selectExpr("cast(text AS int) AS cell")
    try:
        hushtable.publish(
            rows, schema, hushtable.NoisyCounts(epsilon="1/50", mechanism="pure"),
            out=root / "out", ledger=book,
        )
    except HushtableError as error:
        return [type(error).__name__, str(error), len(book.entries())]


def seen():
    logs = [path for path in (root / "work").rglob("std*")]
    text = "".join(path.read_text(errors="replace") for path in logs)
    return [len(logs), text.count("SECRET-")]


session = start()
session.createDataFrame([(text,) for text in SECRETS], "text string").coalesce(1).write.parquet(
    str(root / "private")
)
refused = publish(session)
try:
    session.read.parquet(str(root / "private")).selectExpr("cast(text AS int)").collect()
except Exception:
    pass
session.stop()
leaked = seen()
option = f"-Dlog4j2.configurationFile={SILENT_LOGGING}"
session = start(**{"spark.executor.extraJavaOptions": option})
failed = publish(session)
session.stop()
print(json.dumps({"refused": refused, "leaked": leaked, "failed": failed, "after": seen()}))
"""


@pytest.mark.long
def test_executors_of_a_cluster_log_no_values(tmp_path: Path) -> None:
    """A cast that fails on a standalone cluster, which keeps the output of its executors."""
    pyspark = pytest.importorskip("pyspark", reason="no Spark: pip install 'hushtable[spark]'")
    if shutil.which("java") is None:
        pytest.skip("no Java: apt install openjdk-17-jre-headless (or set JAVA_HOME and PATH)")
    home = Path(pyspark.__file__).parent
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(home),
           "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_WORKER_DIR": str(tmp_path / "work")}  # fmt: skip
    with ExitStack() as stack, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        free.close()
        master = f"spark://127.0.0.1:{port}"
        for arguments in (
            ["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"],
            ["worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g",
             "--webui-port", "0", master],
        ):  # fmt: skip
            daemon = subprocess.Popen(
                [str(home / "bin/spark-class"), f"org.apache.spark.deploy.{arguments[0]}",
                 *arguments[1:]],
                env=env, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            stack.callback(daemon.wait)
            stack.callback(daemon.terminate)
        done = subprocess.run(
            [sys.executable, "-c", FAILING, str(tmp_path), master],
            env=env, capture_output=True, text=True, check=False, cwd=tmp_path,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    kind, message, n_charges = found["refused"]
    assert kind == "ParameterError"
    assert "spark.executor.extraJavaOptions" in message
    assert n_charges == 0
    n_logs, n_quoted = found["leaked"]
    assert n_quoted > 0, "without the setting, the failure is logged with its values"
    assert found["failed"][0] != "ParameterError"
    assert found["failed"][2] == 1
    n_logs_after, n_quoted_after = found["after"]
    assert n_logs_after > n_logs
    assert n_quoted_after == n_quoted
