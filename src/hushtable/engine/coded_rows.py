"""Rows of files and frames as codes: read once, encoded batch by batch, and spot-checked.

The code of a row, and whose row it is, must depend on that row alone. So no database evaluates an
expression over a file, where statistics and optimizers could decide. Arrow reads the rows, NumPy
encodes columns of plain types, and DuckDB the others, in batches that have no statistics. Which of
them encodes a column depends on its type and, for text files, on the size of the file (texts of
small files are parsed in Python), never on another column; tests require the same codes from all.
`reference_encoder` also encodes up to 128 random rows of the first batch, and of each further batch
fewer, but at least one; a difference ends the run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.arrays import Codes32
from hushtable.engine.encode import code_type, encode
from hushtable.engine.encode_arrow import encode_here, looked_up
from hushtable.engine.engine import not_once
from hushtable.engine.reference_encoder import ReferenceColumn, reference_identity
from hushtable.engine.sources.arrow_rows import (
    decoded,
    identities,
    is_text,
    plain_column,
    read_batches,
)
from hushtable.engine.sources.duckdb_files import connect_duckdb, open_in_duckdb
from hushtable.engine.sources.header import AS_FOUND, Data, Header
from hushtable.engine.sources.source import (
    BATCH_ROWS,
    PERSON,
    Lease,
    TableSource,
    drop_table,
    explained,
    wanted_columns,
)
from hushtable.engine.sources.spelling import is_rewritten, rewritten
from hushtable.errors import HushtableError, InternalError
from hushtable.schema import Schema
from hushtable.schema.codes import as_numpy
from hushtable.schema.file_format import FileFormat

_CODES = "codes"
_POSITION = "position"
_BATCH = "batch"

CHECKED_ROWS = 128  # at most, of the first batch of a file or frame, or per table of a database
KEPT_BYTES = 1 << 28  # of codes that are not copied into DuckDB
_COPIED_ROWS = 1 << 19  # that are copied together


class Encoded(NamedTuple):
    """Codes of all rows by column, and the number of each row's person (-1: no person)."""

    codes: dict[str, NDArray[Any]]
    persons: Codes32 | None


class CodedBatch(NamedTuple):
    """Codes of some rows by column, and the identity of each row's person (null: no person)."""

    codes: dict[str, Codes32]
    persons: pa.ChunkedArray | None


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Rows of a file or frame, to be read and encoded once.

    Parameters
    ----------
    data : path or Arrow table
        Files or table with the rows.
    header : Header
        Names and types of the data's columns.
    schema : Schema
        Schema whose rules define the codes.
    layout : FileFormat
        Spelling of numbers and dates in texts.
    memory_limit : str, optional
        Memory of DuckDB, such as ``"1GB"``; beyond it, DuckDB works on disk.
    """

    data: Data
    header: Header
    schema: Schema
    layout: FileFormat = AS_FOUND
    memory_limit: str | None = None
    _queries: dict[tuple[str, ...], str] = field(default_factory=dict)

    def in_memory(self) -> Encoded:
        """Read all rows into memory."""
        number_of: dict[Any, int] = {None: -1}
        kept, persons = self._arrays(), list[Codes32]()
        for batch in self._batches():
            kept.add(batch.codes)
            if batch.persons is not None:
                persons.append(
                    looked_up(batch.persons, lambda one: number_of.setdefault(one, len(number_of)))
                )
        pa.default_memory_pool().release_unused()
        return Encoded(kept.taken(), np.concatenate(persons) if persons else None)

    def in_duckdb(self) -> TableSource:
        """Read all rows as codes, and the persons' identities, for queries of DuckDB."""
        person = self.schema.unit.column
        most_rows = KEPT_BYTES // bytes_per_row(self.schema)
        if person is not None or self.memory_limit is not None:
            most_rows = min(most_rows, _COPIED_ROWS)
        connection = connect_duckdb(Header((), ()), self.memory_limit)
        kept, persons = self._arrays(most_rows), list[pa.ChunkedArray]()
        made = f"CREATE TABLE {_CODES} AS"
        for batch in self._batches():
            n_rows = kept.add(batch.codes)
            if batch.persons is not None:
                persons.append(batch.persons)
            if n_rows > most_rows:
                _insert(connection, made, _placed(kept.taken()), persons)
                made = f"INSERT INTO {_CODES}"
        pa.default_memory_pool().release_unused()
        is_copied = made.startswith("INSERT")
        if person is None and not is_copied:
            return scanned(connection, kept.taken())
        if kept.n_rows or not is_copied:
            _insert(connection, made, _placed(kept.taken()), persons)
        connection.raw_sql("SET lock_configuration = true")
        columns_of = {name: f"c{place}" for place, name in enumerate(self.schema.attributes)}
        if person is not None:
            columns_of[PERSON] = "person"
        # The lease drops the rows early: reference cycles keep the connection alive for longer.
        lease = Lease(drop_table, connection, _CODES)
        return TableSource(connection.table(_CODES), columns_of, lease=lease)

    def _arrays(self, most_rows: int | None = None) -> _GrowingArrays:
        n_expected = self.header.n_rows or BATCH_ROWS
        n_expected = n_expected if most_rows is None else min(n_expected, most_rows)
        return _GrowingArrays(code_types(self.schema), n_expected)

    def _batches(self) -> Iterator[CodedBatch]:
        person = self.schema.unit.column
        try:
            for number, raw in enumerate(self._raw_batches(wanted_columns(self.schema)), 1):
                values = self._values(raw)
                codes = self._encoded(values)
                chosen = _chosen(raw.num_rows, -(-CHECKED_ROWS // number))
                spot_check(values, codes, self.schema, chosen)
                persons = None
                if person is not None:
                    persons = identities(raw[person], self.schema.missing_values)
                    check_identities(raw[person], persons, self.schema.missing_values, chosen)
                del raw, values
                yield CodedBatch(codes, persons)
        except HushtableError:
            raise
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            raise explained(error) from None

    def _raw_batches(self, names: Sequence[str]) -> Iterator[pa.Table]:
        if self.header.delimiter is None:
            return read_batches(self.data, self.header, names)
        # DuckDB splits a text file into fields, all of them texts.
        source = open_in_duckdb(self.data, self.header, memory_limit=self.memory_limit)
        places = {f"c{place}": name for place, name in enumerate(names)}
        return source.batches(source.select(places), names)

    def _values(self, raw: pa.Table) -> dict[str, pa.ChunkedArray]:
        """Return the raw columns, with numbers and dates as the engines read them."""
        values = {}
        for name, column in self.schema.attributes.items():
            kind = raw[name].type
            values[name] = raw[name]
            if pa.types.is_dictionary(kind) and not (
                is_text(kind.value_type) or pa.types.is_integer(kind.value_type)
            ):
                values[name] = decoded(raw[name])
            if is_rewritten(column, self.layout):
                values[name] = rewritten(values[name], column, self.layout)
        return values

    def _encoded(self, values: Mapping[str, pa.ChunkedArray]) -> dict[str, Codes32]:
        codes: dict[str, Codes32] = {}
        others: dict[str, pa.ChunkedArray] = {}
        for name, column in self.schema.attributes.items():
            found = encode_here(
                values[name], column, self.schema.missing_values, texts=self.header.is_small_text
            )
            if found is None:
                others[name] = plain_column(values[name])
            else:
                codes[name] = found
        if others:
            codes |= self._encoded_in_duckdb(others)
        return {name: codes[name] for name in self.schema.attributes}

    def _encoded_in_duckdb(self, columns: Mapping[str, pa.ChunkedArray]) -> dict[str, Codes32]:
        places = {f"c{place}": name for place, name in enumerate(columns)}
        n_rows = len(next(iter(columns.values())))
        batch = pa.table({**dict(zip(places, columns.values(), strict=True)),
                          _POSITION: pa.array(np.arange(n_rows))})  # fmt: skip
        connection = self._scratch
        try:
            connection.con.register(_BATCH, batch)
            rows = connection.table(_BATCH)
            key = (*columns, str(batch.schema))
            if key not in self._queries:
                coded = encode(rows, self.schema, places)
                coded = coded.select(
                    _POSITION, **{place: coded[place].cast("int32") for place in places}
                )
                connection._run_pre_execute_hooks(coded)  # lists of values become tables
                self._queries[key] = connection.compile(coded)
            answer = connection.con.sql(self._queries[key]).to_arrow_table()
            connection.con.unregister(_BATCH)
        except HushtableError:
            raise
        except Exception as error:  # engines raise any type
            raise explained(error) from None
        found = as_numpy(answer[_POSITION])
        order = np.argsort(found, kind="stable")
        if not np.array_equal(found[order], np.arange(n_rows)):
            raise not_once(list(columns))
        return {name: as_numpy(answer[place])[order] for place, name in places.items()}

    @cached_property
    def _scratch(self) -> Any:
        return connect_duckdb(Header((), ()), self.memory_limit)


class _GrowingArrays:
    """Arrays of codes that grow in place, since joining the codes of batches takes twice as much.

    `n_expected` is the number of rows, if it is known; only the memory of rows in use is touched.
    """

    def __init__(self, types: Mapping[str, np.dtype[Any]], n_expected: int) -> None:
        self._types, self._size, self.n_rows = types, n_expected, 0
        self._columns: dict[str, NDArray[Any]] = {}

    def add(self, codes: Mapping[str, Codes32]) -> int:
        """Append rows; return the number of rows since the last call of `taken`."""
        before, n_added = self.n_rows, len(next(iter(codes.values())))
        self.n_rows += n_added
        if self.n_rows > self._size:
            self._size = max(self.n_rows, self._size + self._size // 2)
        for name, of in self._types.items():
            column = self._columns.setdefault(name, np.empty(0, of))
            if len(column) < self._size:
                column.resize(self._size, refcheck=False)
            column[before : self.n_rows] = codes[name]
        return self.n_rows

    def taken(self) -> dict[str, NDArray[Any]]:
        """Return the rows, and start again without rows."""
        columns = {name: self._columns[name][: self.n_rows] for name in self._types}
        self._columns, self.n_rows = {}, 0
        return columns


def code_types(schema: Schema) -> dict[str, np.dtype[Any]]:
    """Return the smallest type for the codes of each column."""
    return {name: np.dtype(code_type(size)) for name, size in schema.domain.sizes.items()}


def bytes_per_row(schema: Schema) -> int:
    """Return the memory of the codes of a row."""
    return sum(kind.itemsize for kind in code_types(schema).values())


def _placed(codes: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    return {f"c{place}": column for place, column in enumerate(codes.values())}


def scanned(connection: Any, codes: Mapping[str, NDArray[Any]]) -> TableSource:
    """Have DuckDB scan arrays of codes, which takes less time and memory than a copy."""
    connection.con.register(_CODES, _placed(codes))
    connection.raw_sql("SET lock_configuration = true")
    lease = Lease(_forget, connection, _CODES)
    places = {name: f"c{place}" for place, name in enumerate(codes)}
    return TableSource(connection.table(_CODES), places, lease=lease)


def _forget(connection: Any, name: str) -> None:
    with contextlib.suppress(Exception):  # it may be closed
        connection.con.unregister(name)


def _insert(
    connection: Any, made: str, columns: dict[str, Any], persons: list[pa.ChunkedArray]
) -> None:
    """Copy rows into a table of DuckDB; empty `persons`."""
    if persons:
        columns["person"] = pa.chunked_array([part for one in persons for part in one.chunks])
        persons.clear()
    try:
        # For an Arrow table DuckDB imports pandas, which takes 40 MB.
        connection.con.register(_BATCH, pa.table(columns) if "person" in columns else columns)
        connection.con.execute(f"{made} SELECT * FROM {_BATCH}").fetchall()  # noqa: S608 - our names
        connection.con.unregister(_BATCH)
    except Exception as error:  # engines raise any type
        raise explained(error) from None


def spot_check(
    values: Mapping[str, pa.ChunkedArray],
    codes: Mapping[str, Codes32],
    schema: Schema,
    chosen: NDArray[np.int64],
) -> None:
    """Encode some rows by the reference as well; raise an error if codes differ."""
    for name, column in schema.attributes.items():
        reference = ReferenceColumn(column, schema.missing_values)
        expected = [reference.code(values[name][at]) for at in chosen.tolist()]
        if expected != codes[name][chosen].tolist():
            raise _different(name, "encoded")


def check_identities(
    raw: pa.ChunkedArray,
    persons: pa.ChunkedArray,
    missing_values: Sequence[str],
    chosen: NDArray[np.int64],
) -> None:
    """Compare the persons of some rows with the reference; raise an error if they differ.

    Identities may have another type than the reference's texts, so the check is that equal
    identities correspond to equal texts.
    """
    found = [persons[at].as_py() for at in chosen.tolist()]
    expected = [reference_identity(raw[at], missing_values) for at in chosen.tolist()]
    pairs = set(zip(found, expected, strict=True))
    nobody = all((one is None) == (other is None) for one, other in pairs)
    if not (nobody and len(pairs) == len(set(found)) == len(set(expected))):
        raise _different("person", "identified")


def _chosen(n_rows: int, n_chosen: int) -> NDArray[np.int64]:
    """Return the indices of a few random rows; without a seed, so nobody can predict them."""
    return np.random.default_rng().integers(n_rows, size=min(n_rows, n_chosen))


def _different(name: str, what: str) -> InternalError:
    return InternalError(
        f"column {name!r}: a row was {what} otherwise than the reference encoder does, and nothing "
        "was published. Report this with the type of the column and the versions of hushtable, "
        "pyarrow and DuckDB; as a remedy, convert the column to text."
    )
