"""Published rows that executors make and write, each with its own randomness.

Noise must be drawn once for each cell, and what was drawn must be written once: who sees two draws
for the same cell learns more than was promised. Spark runs tasks again when they fail, computes
lost results again, and may run two copies of a slow task. What keeps the promise, and is checked or
follows from how the query is built:

- *The noise is drawn in the last stage.* The stages before it count, and counting again gives the
  same counts: rows come from files, or were kept once and for all (`SparkSource.keep`). After it
  comes no exchange of rows between executors, so nothing that was drawn is ever read by a later
  stage, and nothing drawn has to be computed again.
- *One action.* The frame with the noise is private to `_write`, which writes it and nothing else.
  How many rows there are is counted while they are written, not by asking the frame once more.
- *One attempt of each task is published.* An attempt writes into a folder of its own. The driver
  allows one attempt per task to commit, a commit is one renaming of that folder, and only committed
  folders are moved into the release when all tasks are done (Hadoop's committer in version 1, which
  is set here whatever the session says). An attempt that failed is deleted unread, inside a hidden
  folder that only its owner can open. That folder is not the release: committed files are moved
  from it by name, so that an executor that was given up and still writes can add nothing.
- *Which attempt it is does not depend on what was drawn.* A second attempt is made only after the
  first one failed, and no draw makes a task fail. Two copies of a task that race would be decided
  by their running times, which depend on the draws a little; so a session with speculative
  execution is refused (`require_one_run`).
- *Where a row lies says nothing more than the row.* The file is chosen by a hash of the cell, the
  number of files is a setting, and rows lie in the order of their cells.
- *Nothing is lost or doubled on the way.* The counts must add up to the rows of the table, and the
  rows in the files must be as many as were made; otherwise the files do not become a release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hushtable.domain import Domain
from hushtable.engine.cells import AllCells, Keys, OccupiedCells, RowsOf, WrittenParts
from hushtable.engine.encode import Expression
from hushtable.engine.engine import N_RULES, not_once
from hushtable.engine.output_guard import silenced
from hushtable.engine.spark.spark_source import SparkSource
from hushtable.errors import DataError, ReleaseError
from hushtable.files.rows import without_metadata
from hushtable.privacy.noise.noise import Noise

COUNT = "n"

_SETTINGS = {
    # Files must not be fewer where there are fewer private cells.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.sources.commitProtocolClass": (
        "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
    ),
    "spark.sql.parquet.output.committer.class": "org.apache.parquet.hadoop.ParquetOutputCommitter",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


@dataclass(frozen=True)
class _Task:
    """Picklable task that creates the published rows of one executor's cells.

    `SecureNoise` has no state: wherever it is, each draw reads the randomness of the operating
    system there.
    """

    domain: Domain
    wide: Domain  # includes the negative codes of broken rules
    rows_of: RowsOf
    noise: Noise
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # What fails here is logged there, and the logs of executors are the cluster's.
        published = silenced(self._published)
        for batch in batches:
            yield from published(batch).to_batches()

    def _published(self, batch: pa.RecordBatch) -> pa.Table:
        keys = np.stack([batch[at].to_numpy() for at in range(len(self.wide.limbs))], axis=1)
        codes = self.wide.unpack(keys) - N_RULES
        if codes.min(initial=0) < 0:
            raise DataError("rows that break a rule came in after the rules were checked.")
        counts = np.asarray(batch[len(self.wide.limbs)].to_numpy(), np.int64)
        return self._rows(OccupiedCells(self.domain, codes, counts))

    def _rows(self, cells: OccupiedCells) -> pa.Table:
        return without_metadata(self.rows_of(cells, self.noise)).cast(self.schema)


def publish_on_executors(
    source: SparkSource,
    tally: Expression,
    rows_of: RowsOf,
    noise: Noise,
    *,
    domain: Domain,
    wide: Domain,
    also: Keys | AllCells | None,
    n_rows: Callable[[], int],
) -> WrittenParts:
    """Prepare the rows of a tally of cells, whose keys are packed with `wide`.

    Nothing is counted or drawn before they are written. The tally must add up to `n_rows`.
    """
    empty = OccupiedCells(domain, np.empty((0, len(domain.shape)), np.int64), np.empty(0, np.int64))
    schema = without_metadata(rows_of(empty, noise)).schema
    task = _Task(domain, wide, rows_of, noise, schema)

    def write(folder: Path) -> Sequence[str]:
        with source.running(_SETTINGS):
            cells = source.frame(tally)
            if isinstance(also, AllCells):
                cells = _with_others(cells, _all_of(domain, wide, cells.sparkSession))
            elif also is not None:
                cells = _with_others(cells, _sent(also, domain, wide, cells.sparkSession))
            return _write(cells, task, folder, n_rows)

    return WrittenParts(write)


def _write(cells: Any, task: _Task, folder: Path, n_rows: Callable[[], int]) -> Sequence[str]:
    from pyspark.sql import Observation, functions  # noqa: PLC0415 - an extra
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - an extra

    keys = [f"key{limb}" for limb in range(len(task.wide.limbs))]
    n_parts = int(cells.sparkSession.conf.get("spark.sql.shuffle.partitions"))
    placed = cells.select(*keys, COUNT).repartition(n_parts, *keys).sortWithinPartitions(*keys)
    counted, made = Observation(), Observation()
    placed = placed.observe(counted, functions.sum(COUNT).alias(COUNT))
    drawn = placed.mapInArrow(task, from_arrow_schema(task.schema))
    (
        drawn.observe(made, functions.count(functions.lit(1)).alias(COUNT))
        .write.option("compression", "zstd")
        .option("mapreduce.fileoutputcommitter.algorithm.version", "1")
        .parquet(folder.resolve().as_uri())
    )
    if int(counted.get[COUNT] or 0) != n_rows():
        raise not_once(task.domain.names)
    return _tidied(folder, int(made.get[COUNT]))


def _tidied(folder: Path, n_rows: int) -> Sequence[str]:
    """Rename the files, drop empty ones, and check that no rows are missing."""
    files = sorted(folder.glob("part-*.parquet")) if folder.is_dir() else []
    sizes = [pq.read_metadata(file).num_rows for file in files]
    if sum(sizes) != n_rows or not (folder / "_SUCCESS").exists():
        raise ReleaseError(
            f"executors wrote rows that did not arrive in {str(folder.parent)!r}: the release must "
            "be on a disk that the driver and all executors share."
        )
    kept = [file for file, size in zip(files, sizes, strict=True) if size] or files[:1]
    names = []
    for number, file in enumerate(kept):
        names.append(f"part-{number:05}.parquet")
        file.rename(folder / names[-1])
    return names


def _with_others(cells: Any, others: Any) -> Any:
    """Add cells with count 0 if they are not occupied."""
    from pyspark.sql import functions  # noqa: PLC0415 - an extra

    keys = [name for name in cells.columns if name != COUNT]
    together = cells.select(*keys, COUNT).unionByName(others)
    return together.groupBy(*keys).agg(functions.sum(COUNT).alias(COUNT))


def _sent(also: Keys, domain: Domain, wide: Domain, spark: Any) -> Any:
    """Send cells drawn by the driver to the executors."""
    packed = wide.pack(domain.unpack(also) + N_RULES)
    columns = {f"key{limb}": packed[:, limb] for limb in range(packed.shape[1])}
    columns[COUNT] = np.zeros(len(also), np.int64)
    return spark.createDataFrame(pa.table(columns))


def _all_of(domain: Domain, wide: Domain, spark: Any) -> Any:
    """Return a frame with all cells of a domain, generated by the executors."""
    stride, codes = 1, {}
    for position in reversed(range(len(domain.shape))):
        codes[position] = f"((id DIV {stride}) % {domain.shape[position]} + {N_RULES})"
        stride *= domain.shape[position]
    keys = {}
    for limb, run in enumerate(wide.limbs):
        key = "0L"
        for position in range(run.start, run.stop):
            key = f"({key} * {wide.shape[position]} + {codes[position]})"
        keys[f"key{limb}"] = key
    named = [f"{key} AS {name}" for name, key in keys.items()]
    return spark.range(domain.size).selectExpr(*named, f"0L AS {COUNT}")
