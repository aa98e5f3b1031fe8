"""Executors killed while they write: the release contains the draws of one attempt only."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
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
