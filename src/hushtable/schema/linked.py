"""What is public about tables that belong together: persons, their visits, and what hangs on those.

One table has no parent: its rows are the persons, who are protected with everything that hangs on
them. Every other table names its parent, the column that points at it, and how many rows of it one
parent may have at most. From these follow the *wide* schemas, one for each table, by which rows are
counted: a row of a table beside the columns of all it hangs on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Field, StrictInt, ValidationError

from hushtable.errors import SchemaError, Unconfirmed
from hushtable.file_format import FileFormat
from hushtable.privacy.unit import Unit
from hushtable.schema.columns import CONFIRM, Identifier, Model, Text
from hushtable.schema.listed import Boolean
from hushtable.schema.numbers import Integer
from hushtable.schema.reading import (
    schema_content,
    schema_text,
    sentences,
    with_missing_said,
    with_taxonomy_files,
)
from hushtable.schema.table import Column, ColumnField, Schema

PREVIOUS = "previous"
"""Whose columns are those of the row before, in clauses and in wide schemas."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_TABLES = "tables: name at least two, a parent and what hangs on it."


class LinkedTable(Model):
    """One of several tables that belong together."""

    parent: str | None = Field(None, description="The table that its rows hang on.")
    key: str | None = Field(None, description="The column that tells its rows apart.")
    foreign_key: str | None = Field(None, description="The column that holds the parent's key.")
    max_children: StrictInt | None = Field(
        None, ge=1, description="How many of its rows one parent has, at most; others do not count."
    )
    order: str | None = Field(None, description="The column that orders the rows of a parent.")
    facts: dict[str, Text] = Field(
        default_factory=dict,
        description="Conditions on one column by name: whether a parent has a row that satisfies "
        "it becomes a column of the parent.",
    )
    reading: FileFormat = Field(FileFormat(), description="How its file is to be read.")
    confirm: tuple[str, ...] = Field((), description=CONFIRM)
    columns: dict[str, ColumnField] = Field(min_length=1)

    @property
    def attributes(self) -> dict[str, Column]:
        """The columns that are published, in order."""
        columns = self.columns.items()
        return {name: column for name, column in columns if not isinstance(column, Identifier)}

    def problems(self) -> Iterator[str]:
        """List what is wrong with it alone."""
        if not self.attributes:
            yield "all columns are identifiers; nothing is left to publish."
        for what, name in (("key", self.key), ("foreign_key", self.foreign_key)):
            if name in self.attributes:
                yield f"{what} {name!r} is a published column; keys are never published."
        if self.parent is None:
            beside = ("foreign_key", "max_children", "order", "facts")
            yield from (
                f"{name} is for a table with a parent; name the parent or take it out."
                for name in beside
                if getattr(self, name)
            )
            return
        if self.foreign_key is None:
            yield "foreign_key is missing; name the column that holds the parent's key."
        if self.max_children is None:
            yield "max_children is missing; say how many rows of it one parent has at most."
        if self.order is not None and self.order not in self.attributes:
            yield f"order is {self.order!r}, which is not one of its columns."
        elif self.order is not None and not self.attributes[self.order].is_line:
            yield f"order is {self.order!r}, whose values have no order; say ordered: true there."


@dataclass(frozen=True)
class LinkedSchema:
    """Say what is public about several tables that belong together.

    Parameters
    ----------
    name : str
        What they are called together.
    tables : mapping of str to LinkedTable
        The tables; parents before those that hang on them.
    missing_values : tuple of str
        Texts that mean a value is missing, in all tables.

    Examples
    --------
    >>> schema = LinkedSchema.parse('''
    ... name: clinic
    ... tables:
    ...   persons: {key: id, columns: {sex: {type: categorical, values: [F, M]}}}
    ...   visits:
    ...     {parent: persons, foreign_key: person, max_children: 5, facts: {any_icu: ward = 'icu'},
    ...      columns: {ward: {type: categorical, values: [icu, er]}}}
    ... ''')
    >>> list(schema.wide("persons").attributes), schema.reach("visits")
    (['sex', 'n_visits', 'any_icu'], 5)
    >>> list(schema.wide("visits").attributes)
    ['ward', 'persons.sex', 'persons.n_visits', 'persons.any_icu']
    """

    name: str
    tables: Mapping[str, LinkedTable]
    missing_values: tuple[str, ...] = ("",)

    # --- how they hang together -------------------------------------------------------------------

    @cached_property
    def root(self) -> str:
        """The table of the persons."""
        return next(name for name, table in self.tables.items() if table.parent is None)

    @property
    def person(self) -> str:
        """The column that tells persons apart."""
        return self.tables[self.root].key or ""

    def children(self, name: str) -> list[str]:
        """List the tables that hang on a table."""
        return [child for child, table in self.tables.items() if table.parent == name]

    def tells_apart(self, name: str) -> bool:
        """Say whether two rows of a table must not have one key: what hangs on it is one person's.

        Rows of persons with one key are one person's, whatever hangs on them.
        """
        return self.tables[name].parent is not None and bool(self.children(name))

    def reach(self, name: str) -> int:
        """Say how many rows of a table one person has at most."""
        table = self.tables[name]
        return 1 if table.parent is None else self.reach(table.parent) * (table.max_children or 1)

    @cached_property
    def unit(self) -> Unit:
        """One person, with the rows that count in all tables."""
        return Unit(kind="person", column=self.person, max_rows=sum(map(self.reach, self.tables)))

    # --- wide schemas -----------------------------------------------------------------------------

    def own(self, name: str) -> Schema:
        """Describe the rows of one table alone: columns to be read, and how."""
        table = self.tables[name]
        keys = [key for key in (table.key, table.foreign_key) if key is not None]
        return Schema(
            name=f"{self.name}: {name}",
            missing_values=self.missing_values,
            reading=table.reading,
            columns=dict.fromkeys(keys, _KEY) | dict(table.columns),
        )

    def wide(self, name: str) -> Schema:
        """Describe how the rows of a table are counted: beside all columns that they hang on.

        First come its own columns, then how many rows of each table hang on it and what is a fact
        of them, then the columns of its parent.
        """
        return Schema(
            name=self.name,
            unit=Unit(kind="person", column=self.person, max_rows=self.reach(name)),
            missing_values=self.missing_values,
            columns={self.person: _KEY} | self.columns(name),
        )

    @cached_property
    def persons(self) -> Schema:
        """Describe the published persons, who are the unit with the rows of all tables."""
        return self.wide(self.root).model_copy(update={"unit": self.unit})

    def columns(self, name: str) -> dict[str, Column]:
        """Give the columns of a wide schema."""
        table = self.tables[name]
        columns = dict(table.attributes) | self.told(name)
        if table.parent is not None:
            columns |= self.above(table.parent)
        return columns

    def steps(self, name: str) -> Schema:
        """Describe how rows of a table with an order are counted beside the row before them."""
        own = self.tables[name].attributes
        before = {f"{PREVIOUS}.{column}": kind for column, kind in own.items()}
        return Schema(
            name=self.name,
            unit=Unit(kind="person", column=self.person, max_rows=self.reach(name)),
            missing_values=self.missing_values,
            columns={self.person: _KEY} | own | before,
        )

    def told(self, name: str) -> dict[str, Column]:
        """Give the columns that say what hangs on a table: numbers of rows, and facts."""
        columns: dict[str, Column] = {}
        for child in self.children(name):
            table = self.tables[child]
            most = (table.max_children or 1) + 1  # stands for all that are more than the bound
            columns[f"n_{child}"] = Integer(type="integer", low=0, high=most)
            columns |= {fact: Boolean(type="boolean") for fact in table.facts}
        return columns

    def above(self, name: str) -> dict[str, Column]:
        """Give the columns of a table and of all it hangs on, as those below see them."""
        table = self.tables[name]
        mine = {**table.attributes, **self.told(name)}
        columns = {f"{name}.{column}": kind for column, kind in mine.items()}
        return columns | ({} if table.parent is None else self.above(table.parent))

    # --- reading and writing ----------------------------------------------------------------------

    @property
    def conditions(self) -> tuple[str, ...]:
        """What the promise takes for granted about the tables, see `Schema.conditions`."""
        cells = [f"{name}: {said}" for name in self.tables for said in self.own(name).conditions]
        keys = [
            f"Keys of {name}. Tables are refused if two rows of {name} have the same "
            f"{self.tables[name].key!r}; whoever learns that a release failed may learn that."
            for name in self.tables
            if self.tells_apart(name)
        ]
        return (*cells, *keys)

    def require_confirmed(self) -> None:
        """Refuse a schema with parts that were taken from the data and not confirmed."""
        problems = []
        for name, table in self.tables.items():
            try:
                self.own(name).model_copy(update={"confirm": table.confirm}).require_confirmed()
            except Unconfirmed as error:
                problems += [f"table {name!r}: {problem}" for problem in error.problems]
        if problems:
            raise Unconfirmed(problems)

    @classmethod
    def load(cls, path: str | Path) -> LinkedSchema:
        """Read a schema of several tables from a YAML file; taxonomies may be files beside it."""
        path = Path(path)
        return cls.parse(schema_text(path), folder=path.parent)

    @classmethod
    def parse(cls, text: str, *, folder: Path | None = None) -> LinkedSchema:
        """Read a schema from YAML text; `folder` is where taxonomy files are looked for."""
        content = schema_content(text)
        tables = content.get("tables") if isinstance(content, dict) else None
        if not isinstance(content, dict) or not isinstance(tables, dict):
            raise SchemaError(f"the schema must be a mapping with name and tables. {_TABLES}")
        filled, problems = {}, []
        for name, table in tables.items():
            filled[name] = table
            if isinstance(table, dict):
                try:
                    filled[name] = with_missing_said(with_taxonomy_files(table, folder))
                except SchemaError as error:
                    problems += [f"table {name!r}: {problem}" for problem in error.problems]
        return cls.from_dict({**content, "tables": filled}, problems)

    @classmethod
    def from_dict(
        cls, content: Mapping[str, Any], problems: list[str] | None = None
    ) -> LinkedSchema:
        """Check a schema given as plain data, reporting every problem at once."""
        problems = list(problems or [])
        known = {"name", "missing_values", "tables"}
        problems += [
            f"schema: {part!r} is not known here; remove it or correct the spelling."
            for part in content
            if part not in known
        ]
        name, missing = content.get("name"), content.get("missing_values", [""])
        if not isinstance(name, str) or not name or not name.isprintable():
            problems.append("schema: name is missing; say what the tables are called together.")
        if not isinstance(missing, list | tuple) or not all(isinstance(m, str) for m in missing):
            problems.append("schema: missing_values must be a list of texts.")
        tables: dict[str, LinkedTable] = {}
        given = content.get("tables")
        if not isinstance(given, Mapping) or len(given) < 2:
            problems.append(f"schema: {_TABLES}")
        for table, plain in (given if isinstance(given, Mapping) else {}).items():
            try:
                tables[table] = LinkedTable.model_validate(plain)
                said = [*tables[table].problems()]
            except ValidationError as error:
                said = [s.removeprefix("schema: ") for s in sentences(error)]
            problems += [f"table {table!r}: {problem}" for problem in said]
        if not problems:
            problems += _misfits(tables)
        if problems:
            raise SchemaError(problems)
        made = cls(str(name), _sorted(tables), tuple(missing))
        problems = [p for table in tables for p in made._wide_problems(table)]
        if problems:
            raise SchemaError(problems)
        return made

    def _wide_problems(self, name: str) -> Iterator[str]:
        """List columns that would have the same name in one table."""
        told = [*self.tables[name].attributes, *self.told(name)]
        facts = [f for child in self.children(name) for f in self.tables[child].facts]
        names = [column.lower() for column in (*self.tables[name].attributes, *facts)]
        names += [f"n_{child}".lower() for child in self.children(name)]
        for twice in sorted({column for column in names if names.count(column) > 1}):
            yield (
                f"table {name!r}: {twice!r} is the name of a column, of a fact or of the number of "
                "rows of another table; two of them are the same. Rename one."
            )
        taken = {self.person, self.tables[name].key, self.tables[name].foreign_key}
        for column in told:
            if column in taken or not column.isprintable() or "." in column:
                yield (
                    f"table {name!r}: a column or fact cannot be called {column!r}: it is a key, "
                    "or has a dot or signs in it that cannot be printed."
                )

    def to_dict(self) -> dict[str, Any]:
        """Write as plain data."""
        plain: dict[str, Any] = {"name": self.name}
        if self.missing_values != ("",):
            plain["missing_values"] = list(self.missing_values)
        tables = {}
        for name, table in self.tables.items():
            columns = self.own(name).to_dict()["columns"]
            said = table.model_dump(mode="json", exclude_defaults=True, exclude={"columns"})
            tables[name] = said | {"columns": {c: columns[c] for c in table.columns}}
        return plain | {"tables": tables}


def load_persons(path: str | Path) -> Schema:
    """Read the schema of a table, or of the persons where it has several tables."""
    from hushtable.files.yaml_text import read_yaml  # noqa: PLC0415 - slow to import

    try:
        content = read_yaml(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        content = None  # whoever reads it next says what is wrong
    several = isinstance(content, dict) and "tables" in content
    return LinkedSchema.load(path).persons if several else Schema.load(path)


_KEY = Identifier(role="identifier")


def _misfits(tables: Mapping[str, LinkedTable]) -> list[str]:
    """List what is wrong with how tables hang together."""
    problems = [
        f"table {name!r}: names of tables are letters, digits and _, and not {PREVIOUS!r}."
        for name in tables
        if not _NAME.fullmatch(name) or name.lower() == PREVIOUS
    ]
    lowered = [name.lower() for name in tables]
    twice = sorted({name for name in lowered if lowered.count(name) > 1})
    problems += [f"tables that are called {name!r} differ only in case." for name in twice]
    roots = [name for name, table in tables.items() if table.parent is None]
    if len(roots) != 1:
        found = f"{', '.join(roots)} have none" if roots else "all have one"
        problems.append(
            f"one table has no parent, the persons who are protected; here {found}. Say which "
            "table each of the others hangs on."
        )
    for name, table in tables.items():
        above, seen = table.parent, [name]
        while above is not None and above in tables and above not in seen:
            seen.append(above)
            above = tables[above].parent
        if table.parent is not None and table.parent not in tables:
            problems.append(
                f"table {name!r}: parent {table.parent!r} is not among the tables: "
                f"{', '.join(tables)}."
            )
        elif above == name:
            problems.append(f"table {name!r} hangs on itself: {' on '.join([*seen, name])}.")
    parents = {table.parent for table in tables.values()} | set(roots)
    problems += [
        f"table {name!r}: key is missing; name the column that tells its rows apart."
        for name, table in tables.items()
        if name in parents and table.key is None
    ]
    return problems


def _sorted(tables: Mapping[str, LinkedTable]) -> dict[str, LinkedTable]:
    """Put parents before those that hang on them."""
    found: dict[str, LinkedTable] = {}
    while len(found) < len(tables):
        found |= {
            name: table
            for name, table in tables.items()
            if table.parent is None or table.parent in found
        }
    return found
