"""Where counts come from."""

from __future__ import annotations

from functools import partial
from typing import Literal

from hushtable.engine.arrow_codes import encoded_texts, plain_reader
from hushtable.engine.base import Cells, Counts, Engine, RuleBreak
from hushtable.engine.header import (
    Data,
    Header,
    check_header,
    is_ibis_table,
    is_in_spark,
    read_header,
)
from hushtable.engine.memory import MemoryEngine
from hushtable.engine.source import as_arrow, inspect_source, open_source
from hushtable.engine.sql.engine import SqlEngine, encoded_rows
from hushtable.errors import ParameterError
from hushtable.privacy.noise import Noise, SecureNoise
from hushtable.schema import Schema

__all__ = [
    "Cells",
    "Counts",
    "Data",
    "Engine",
    "EngineName",
    "MemoryEngine",
    "RuleBreak",
    "SqlEngine",
    "connect",
    "inspect_source",
    "is_in_spark",
    "locate",
]

EngineName = Literal["auto", "memory", "duckdb", "spark"]

SMALL = 1_000_000  # rows; a smaller frame or Parquet file is counted in memory


def connect(
    data: Data,
    schema: Schema,
    *,
    engine: EngineName = "auto",
    noise: Noise | None = None,
    memory_limit: str | None = None,
) -> Engine:
    r"""Open the private table and check its columns; no row is read before the first question.

    Parameters
    ----------
    data : path, frame or ibis table
        The path of a ``.csv``, ``.csv.gz`` or ``.parquet`` file, or of several Parquet files (a
        folder or a pattern with ``*``); an Arrow, pandas, polars or Spark table; an ibis table.
    schema : Schema
        What is public about the table.
    engine : {"auto", "memory", "duckdb", "spark"}
        Who counts. ``auto``: memory for frames and Parquet files of less than a million rows and
        for text files of less than 64 MB, DuckDB for larger and for compressed ones, and for ibis
        tables, whose columns are fetched from their database; a Spark table is counted in Spark.
        With ``spark``, Spark itself reads a path.
    noise : Noise, optional
        With unit ``person``, the coins that choose the rows of a person in memory.
    memory_limit : str, optional
        How much memory DuckDB may take, such as ``"1GB"``; beyond it, it works on disk. For
        ``spark``, the memory of a session that is started here.

    Examples
    --------
    >>> import pyarrow as pa
    >>> schema = Schema.parse("name: t\ncolumns:\n  age: {type: integer, low: 40, high: 43}\n")
    >>> private = connect(pa.table({"age": [41, 43, 41]}), schema)
    >>> private.histograms(["age"])["age"].tolist()
    [0, 2, 0, 1]
    """
    data = locate(data, engine=engine, memory_limit=memory_limit)
    header = read_header(data)
    in_memory = _is_for_memory(data, header, engine, memory_limit=memory_limit)
    check_header(header, schema)
    # With a limit, DuckDB reads the rows: it keeps to one.
    plain = plain_reader(data, header, schema) if in_memory and memory_limit is None else None
    if plain is not None:
        return MemoryEngine(plain, schema, noise or SecureNoise())
    source, _ = open_source(data, memory_limit=memory_limit)
    if in_memory:
        read = encoded_texts if header.is_small_text else encoded_rows
        return MemoryEngine(partial(read, source, schema), schema, noise or SecureNoise())
    return SqlEngine(source, schema)


def locate(data: Data, *, engine: EngineName = "auto", memory_limit: str | None = None) -> Data:
    """Give what is opened: frames as Arrow tables and, for Spark, a path as a frame of Spark.

    Doing it twice changes nothing. Reads no row.
    """
    if engine == "spark" or is_in_spark(data):
        from hushtable.engine.spark.session import read_in_spark  # noqa: PLC0415 - pyspark is an extra

        return read_in_spark(data, memory_limit=memory_limit)
    return as_arrow(data)


def _is_for_memory(
    data: Data, header: Header, engine: EngineName, *, memory_limit: str | None
) -> bool:
    if engine not in ("auto", "memory", "duckdb", "spark"):
        raise ParameterError(
            f"engine {engine!r} is not known; choose auto, memory, duckdb or spark."
        )
    if is_in_spark(data) or is_ibis_table(data):
        in_spark = is_in_spark(data)
        if engine == ("duckdb" if in_spark else "spark"):
            backend = "pyspark" if in_spark else data.get_backend().name
            raise ParameterError(
                f"engine {engine!r} cannot count a table that is in {backend}; leave it at auto."
            )
        return engine == "memory"
    if engine == "auto":
        # Who limits the memory has a file in mind that is not to be read as a whole.
        limited = bool(header.files) and memory_limit is not None
        few = header.n_rows is not None and header.n_rows < SMALL
        return (few or header.is_small_text) and not limited
    return engine == "memory"
