"""A table that was opened, whatever it is: one ibis table, and what may be asked of it."""

from __future__ import annotations

import contextlib
import re
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import lazy_loader
import pyarrow as pa

from hushtable.engine.encode import Expression, code_type, encode, known_person
from hushtable.errors import DataError, HushtableError, TooLarge
from hushtable.file_format import ANOTHER_ENCODING
from hushtable.schema import Schema

duckdb = lazy_loader.load("duckdb")  # a small table is counted without them
ibis = lazy_loader.load("ibis")

BATCH_ROWS = 1 << 17
PERSON = ""  # stands for the persons among columns of codes; no column of a schema is called so


class Lease:
    """Live as long as anybody uses what was put into an engine, and then take it away."""

    def __init__(self, end: Callable[..., Any], *given: Any) -> None:
        weakref.finalize(self, end, *given)


@dataclass(frozen=True, eq=False)
class Source:
    """Hold an opened table.

    Parameters
    ----------
    table : ibis table
        The rows, raw.
    columns : mapping of str to str
        Name of each column of the data to its name in `table`.
    copied : bool
        Whether the rows have to be copied before anything is counted: a text file would be read and
        parsed for each question, and what Spark computes may come out differently the next time,
        while the promise is for one table.
    lease : Lease, optional
        Whose end takes the rows out of the engine; a source that is made of this one has it, too.
    origin : Source, optional
        For rows of codes: the raw rows, which must be as many.
    identified : bool
        Whether persons are identities already, so that none of them is a missing value.
    """

    table: Expression
    columns: Mapping[str, str]
    copied: bool = False
    lease: object = None
    origin: Source | None = None
    identified: bool = False

    def select(self, places: Mapping[str, str]) -> Expression:
        """Take columns under plain new names: new name to name in the data."""
        taken = {place: self.table[self.columns[name]] for place, name in places.items()}
        return self.table.select(**taken)

    def here(self, names: Sequence[str]) -> Source:
        """Give some columns where texts are equal if their bytes are; reads rows if it has to."""
        return self

    def fetch(self, expression: Expression, *, most: int | None = None) -> pa.Table:
        """Run a query; whatever goes wrong is said without quoting the engine, or a value.

        An answer of more than `most` rows is refused and does not travel.
        """
        try:
            if most is None:
                return expression.to_pyarrow()
            answer = expression.limit(most + 1).to_pyarrow()
        except HushtableError:
            raise
        except Exception as error:  # engines raise what they like
            raise explained(error) from None
        if len(answer) > most:
            raise too_many_cells(most)
        return answer

    def batches(self, expression: Expression, names: Sequence[str]) -> Iterator[pa.Table]:
        """Run a query and return its rows batch by batch, under new names; at least one batch."""
        empty = True
        try:
            backend = self.table.get_backend()
            backend._run_pre_execute_hooks(expression)
            found = backend.con.sql(backend.compile(expression))
            for batch in found.to_arrow_reader(BATCH_ROWS):
                yield pa.Table.from_batches([batch]).rename_columns(list(names))
                empty = False
        except HushtableError:
            raise
        except Exception as error:  # engines raise what they like
            raise explained(error) from None
        if empty:
            yield expression.schema().to_pyarrow().empty_table().rename_columns(list(names))

    def coded(self, schema: Schema) -> Source:
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

    def keep(self, rows: Expression, columns: Mapping[str, str], *, drawn: bool = False) -> Source:
        """Run a query once and keep its rows in the engine, as long as the new source is in use.

        Parameters
        ----------
        rows : ibis table
            The rows to keep.
        columns : mapping of str to str
            Name of each column of the data to its name in `rows`.
        drawn : bool
            Whether coins were tossed for the rows, so that they must never be computed again.
        """
        backend = self.table.get_backend()
        name = f"hushtable_{uuid.uuid4().hex}"
        try:
            table = backend.create_table(name, rows, temp=True)
        except Exception as error:  # engines raise what they like
            raise explained(error) from None
        return Source(table, columns, lease=Lease(_drop, backend, name))

    def draw(self, rows: Expression) -> Source:
        """Give rows for which coins are tossed, to be asked about once.

        A query is one run here, so that all of an answer sees the same coins.
        """
        return Source(rows, {})

    def keep_numbered(self, rows: Expression, number: str) -> Source:
        """Keep rows with a number each, in a column of that name; all numbers differ."""
        return self.keep(rows.mutate(**{number: ibis.row_number()}), {}, drawn=True)


def wanted_columns(schema: Schema) -> list[str]:
    """Return the columns that codes and persons are read from."""
    person = schema.unit.column
    return list(dict.fromkeys([*schema.attributes, *([] if person is None else [person])]))


def _drop(backend: Any, name: str) -> None:
    # The connection may be the user's own, and rows of people must not stay in it.
    with contextlib.suppress(Exception):
        backend.raw_sql(f'DROP TABLE IF EXISTS "{name}"')


def too_many_cells(most: int) -> TooLarge:
    """Say that an answer is over its limit, and not by how much."""
    return TooLarge(
        f"more than {most:,} cells are occupied, which is the most that travels in one answer; "
        "generalize, publish fewer columns, or take a method that needs fewer of them together."
    )


def explained(error: Exception) -> HushtableError:
    """Say what went wrong in words of our own: an engine's message may quote the data."""
    message = str(error).lower()
    if "no space left" in message or "disk quota" in message:
        return TooLarge(
            "the disk for overflow is full; make room, or set TMPDIR to a folder on a larger disk."
        )
    if isinstance(error, duckdb.OutOfMemoryException):
        return TooLarge("the memory limit and the disk for overflow do not suffice; raise them.")
    if "unicode" in message or "utf-8" in message or "utf8" in message:
        return DataError(f"the data holds text that is not UTF-8; {ANOTHER_ENCODING}")
    if isinstance(error, duckdb.InvalidInputException) and "csv" in message:
        found = re.search(r"line: (\d+)", message)
        where = f"line {found[1]}" if found else "a line"
        return DataError(
            f"{where} of the CSV file cannot be split into the header's columns: check its "
            "quotes and its number of fields."
        )
    if isinstance(error, duckdb.IOException | OSError):
        return DataError("the data cannot be read to the end: it is cut short, gone or in use.")
    return DataError(f"the engine could not read the data ({type(error).__name__}).")
