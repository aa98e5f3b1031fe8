"""Opened tables as ibis tables, and the queries on them."""

from __future__ import annotations

import contextlib
import re
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import lazy_loader
import numpy as np
import pyarrow as pa

from hushtable.arrays import Integers
from hushtable.domain import Domain
from hushtable.engine.encode import Expression, code_type, encode, known_person
from hushtable.engine.rule_breaks import N_RULES
from hushtable.errors import DataError, HushtableError, TooLarge
from hushtable.schema import Schema
from hushtable.schema.codes import as_numpy
from hushtable.schema.file_format import ANOTHER_ENCODING

duckdb = lazy_loader.load("duckdb")  # not needed for small tables
ibis = lazy_loader.load("ibis")

BATCH_ROWS = 1 << 17
BLOCKS_PER_QUERY = 16  # a query that counts more blocks is slow to plan
PERSON = ""  # name of the person column among codes; no schema column has this name


class Lease:
    """Handle that removes a table from an engine when the handle is no longer referenced."""

    def __init__(self, end: Callable[..., Any], *given: Any) -> None:
        weakref.finalize(self, end, *given)


@dataclass(frozen=True, eq=False)
class TableSource:
    """Opened table."""

    table: Expression  # raw rows
    columns: Mapping[str, str]  # column name in the data to name in `table`
    copied: bool = False
    """Whether rows must be copied before counting.

    Otherwise a text file would be parsed for each query, and Spark might compute different rows
    each time, while the promise is about one table.
    """
    lease: object = None  # removes the rows from the engine at its end; shared by derived sources
    origin: TableSource | None = (
        None  # of coded rows: the raw rows, which must have the same number
    )
    identified: bool = False  # whether the person column has no missing-value words any more

    def select(self, places: Mapping[str, str]) -> Expression:
        """Return columns under new names; `places` maps new names to names in the data."""
        taken = {place: self.table[self.columns[name]] for place, name in places.items()}
        return self.table.select(**taken)

    def here(self, names: Sequence[str]) -> TableSource:
        """Return some columns in an engine that compares texts by bytes; may read rows."""
        return self

    def fetch(self, expression: Expression, *, most: int | None = None) -> pa.Table:
        """Run a query; errors quote neither the engine's message nor a value.

        A result of more than `most` rows is refused; at most one more row is fetched.
        """
        try:
            if most is None:
                return self._answer(expression)
            answer = self._answer(expression.limit(most + 1))
        except HushtableError:
            raise
        except Exception as error:  # engines raise any type
            raise explained(error) from None
        if len(answer) > most:
            raise too_many_cells(most)
        return answer

    def _answer(self, expression: Expression) -> pa.Table:
        backend = self.table.get_backend()
        if backend.name != "duckdb":
            return expression.to_pyarrow()
        # Without ibis's conversion, which imports pandas and takes 30 MB.
        backend._run_pre_execute_hooks(expression)
        answer = backend.con.sql(backend.compile(expression)).to_arrow_table()
        return answer.cast(expression.schema().to_pyarrow())

    def scalar(self, expression: Expression) -> int:
        """Fetch a single number; 0 for NULL."""
        return int(self.fetch(expression.as_table())[0][0].as_py() or 0)

    def tallies(
        self, rows: Expression, blocks: Sequence[Domain]
    ) -> list[tuple[Integers, Integers]]:
        """Count `rows` by several blocks of code columns; return keys and counts of each block.

        A block gives its columns with their numbers of codes, negative codes included
        (`packed_domain`).
        """
        found = []
        for start in range(0, len(blocks), BLOCKS_PER_QUERY):
            parts = []
            for number, block in enumerate(blocks[start : start + BLOCKS_PER_QUERY], start):
                keys = rows.select(key=packed(rows, block.names, block.shape))
                tally = keys.group_by("key").agg(n=ibis._.count())
                parts.append(tally.select("key", "n", number=ibis.literal(number, "int32")))
            found.append(self.fetch(union(parts)))
        return by_number(pa.concat_tables(found), len(blocks))

    def batches(self, expression: Expression, names: Sequence[str]) -> Iterator[pa.Table]:
        """Run a query and return its rows batch by batch, under new names; at least one batch."""
        empty = True
        try:
            backend = self.table.get_backend()
            backend._run_pre_execute_hooks(expression)
            # Not named: a traceback that shows variables would show the rows of a relation.
            for batch in backend.con.sql(backend.compile(expression)).to_arrow_reader(BATCH_ROWS):
                yield pa.Table.from_batches([batch]).rename_columns(list(names))
                empty = False
        except HushtableError:
            raise
        except Exception as error:  # engines raise any type
            raise explained(error) from None
        if empty:
            yield expression.schema().to_pyarrow().empty_table().rename_columns(list(names))

    def coded(self, schema: Schema) -> TableSource:
        """Return the rows as codes, computed once, and the persons' identities."""
        source = self.here(wanted_columns(schema))
        return replace(source.keep(*source.code_view(schema), drawn=True), origin=source)

    def code_view(self, schema: Schema) -> tuple[Expression, dict[str, str]]:
        """Return a query for the rows as codes, and the place of each column in it."""
        person = schema.unit.column
        places = {f"c{position}": name for position, name in enumerate(schema.attributes)}
        rows = self.select(places if person is None else {**places, "person": person})
        if person is not None and not self.identified:
            rows = rows.mutate(person=known_person(rows.person, schema.missing_values))
        coded = encode(rows, schema, places)
        narrow = {
            place: coded[place].cast(code_type(schema.attributes[name].size))
            for place, name in places.items()
        }
        columns = {name: place for place, name in places.items()}
        if person is None:
            return coded.select(**narrow), columns
        return coded.select("person", **narrow), {**columns, PERSON: "person"}

    def keep(
        self, rows: Expression, columns: Mapping[str, str], *, drawn: bool = False
    ) -> TableSource:
        """Run a query once and keep its rows in the engine as long as the new source is in use.

        `drawn` means that the rows must never be recomputed, for example because they depend on
        random numbers.
        """
        backend = self.table.get_backend()
        name = f"hushtable_{uuid.uuid4().hex}"
        try:
            table = backend.create_table(name, rows, temp=True)
        except Exception as error:  # engines raise any type
            raise explained(error) from None
        return TableSource(table, columns, lease=Lease(drop_table, backend, name))

    def draw(self, rows: Expression) -> TableSource:
        """Return rows that depend on random numbers, for a single query.

        A query runs once here, so all parts of its result use the same random numbers.
        """
        return TableSource(rows, {})

    def keep_numbered(self, rows: Expression, number: str) -> TableSource:
        """Keep rows with a unique number in the column `number`."""
        return self.keep(rows.mutate(**{number: ibis.row_number()}), {}, drawn=True)


def integers(column: pa.ChunkedArray) -> Integers:
    """Return a column of a result as 64-bit integers."""
    return as_numpy(column).astype(np.int64, copy=False)


def union(tables: Sequence[Expression]) -> Expression:
    """Concatenate tables."""
    return tables[0] if len(tables) == 1 else ibis.union(*tables)


def packed(rows: Expression, places: Sequence[str], sizes: Sequence[int]) -> Expression:
    """Pack the codes of some columns into one 63-bit key; `sizes` are those of `packed_domain`."""
    key = rows[places[0]].cast("int64") + N_RULES
    for place, size in zip(places[1:], sizes[1:], strict=True):
        key = key * size + (rows[place].cast("int64") + N_RULES)
    return key.cast("int64")


def by_number(tallied: pa.Table, n_blocks: int) -> list[tuple[Integers, Integers]]:
    """Split the keys and counts of several blocks."""
    number, key, n = (integers(tallied[name]) for name in ("number", "key", "n"))
    return [(key[mine], n[mine]) for mine in (number == block for block in range(n_blocks))]


def wanted_columns(schema: Schema) -> list[str]:
    """Return the columns that codes and persons are read from."""
    person = schema.unit.column
    return list(dict.fromkeys([*schema.attributes, *([] if person is None else [person])]))


def drop_table(backend: Any, name: str) -> None:
    """Remove a table and its rows."""
    # The connection may belong to the user, and private rows must not stay in it.
    with contextlib.suppress(Exception):
        backend.raw_sql(f'DROP TABLE IF EXISTS "{name}"')


def too_many_cells(most: int) -> TooLarge:
    """Return the error for a result above its limit; it does not reveal by how much."""
    return TooLarge(
        f"more than {most:,} cells are occupied, which is the limit for one query; generalize, "
        "publish fewer columns, or use a method that needs fewer of them together."
    )


def explained(error: Exception) -> HushtableError:
    """Return an error with our own message, since an engine's message may quote the data."""
    message = str(error).lower()
    if "no space left" in message or "disk quota" in message:
        return TooLarge(
            "the disk for temporary files is full; free space, or set TMPDIR to a folder on a "
            "larger disk."
        )
    if isinstance(error, duckdb.OutOfMemoryException):
        return TooLarge("the memory limit and temporary disk space are too small; raise them.")
    if "unicode" in message or "utf-8" in message or "utf8" in message:
        return DataError(f"the data contains text that is not UTF-8; {ANOTHER_ENCODING}")
    if isinstance(error, duckdb.InvalidInputException) and "csv" in message:
        found = re.search(r"line: (\d+)", message)
        where = f"line {found[1]}" if found else "a line"
        return DataError(
            f"{where} of the CSV file does not match the header's columns; check its quotes and "
            "its number of fields."
        )
    if isinstance(error, duckdb.IOException | OSError):
        return DataError("the data cannot be read to the end: it is truncated, removed or in use.")
    return DataError(f"the engine could not read the data ({type(error).__name__}).")
