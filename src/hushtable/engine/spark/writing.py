"""Published rows that executors create and write, each with its own randomness.

The noise of each cell must be drawn once and published once: two draws for one cell reveal more
than promised. But Spark repeats failed tasks, recomputes lost results, and may run two copies of a
slow task. The promise holds for these reasons, which are checked or follow from the query:

- *Noise is drawn in the last stage.* Earlier stages count, and repeated counting gives the same
  counts: rows come from files or were kept once (`SparkSource.keep`). There is no shuffle after
  the draw, so no later stage reads a draw, and no draw is recomputed.
- *There is one action.* The frame with noise is local to `_write`, which only writes it. Rows are
  counted while they are written, not by a second query.
- *One attempt of each task is published.* Each attempt writes into its own folder. The driver
  allows one attempt per task to commit. A commit renames the folder, and only committed folders are
  moved when all tasks are done (Hadoop's committer, version 1, set here for every session). Failed
  attempts are deleted unread, in a hidden folder that only its owner can open. Committed files are
  moved from there into the release by name, so an abandoned executor cannot add files.
- *The published attempt does not depend on the draws.* A second attempt starts only after the first
  failed, and no draw makes a task fail. Of two copies of a task, the faster would be published, and
  running times depend on the draws; so sessions with speculative execution are refused
  (`require_one_run`).
- *The position of a row reveals no more than the row.* A hash of the cell selects the file, the
  number of files is a setting, and rows are sorted by cell.
- *No row is lost or duplicated.* The counts must sum to the rows of the table, and the files must
  have as many rows as were created; otherwise they do not become a release.
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
from hushtable.engine.engine import not_once
from hushtable.engine.output_guard import silenced
from hushtable.engine.rule_breaks import N_RULES
from hushtable.engine.spark.spark_source import SparkSource
from hushtable.errors import DataError, ReleaseError
from hushtable.files.rows import without_metadata
from hushtable.privacy.noise.noise import Noise

COUNT = "n"

_SETTINGS = {
    # The number of files must not depend on the number of occupied cells, which is private.
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

    `SecureNoise` has no state: each draw uses the randomness of the executor's operating system.
    """

    domain: Domain
    wide: Domain  # includes the negative codes of broken rules
    rows_of: RowsOf
    noise: Noise
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Executors log errors of tasks, and their logs belong to the cluster.
        published = silenced(self._published)
        for batch in batches:
            yield from published(batch).to_batches()

    def _published(self, batch: pa.RecordBatch) -> pa.Table:
        keys = np.stack([batch[at].to_numpy() for at in range(len(self.wide.limbs))], axis=1)
        codes = self.wide.unpack(keys) - N_RULES
        if codes.min(initial=0) < 0:
            raise DataError("rows that break a rule came in after the rules were checked.")
        counts = np.asarray(batch[len(self.wide.limbs)].to_numpy(), np.int64)
        return self._rows(OccupiedCells(self.domain, self.domain.pack(codes), counts))

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
    """Return the rows of the cells that `tally` counts, for executors to write.

    The keys of the tally are packed with `wide`. Nothing is counted or drawn before the rows are
    written. The counts of the tally must sum to `n_rows`.
    """
    empty = OccupiedCells(domain, np.empty((0, len(domain.limbs)), np.int64), np.empty(0, np.int64))
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
    """Check that no rows are missing, rename the files with rows, and return their names.

    If no file has rows, keep the first one.
    """
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
