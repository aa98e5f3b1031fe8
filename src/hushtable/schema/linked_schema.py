"""Schema of linked tables, such as persons, their visits, and the treatments of each visit.

The table without a parent contains the persons; one promise protects each person with all their
rows in all tables. Every other table declares its parent, its foreign key, and the maximum number
of its rows per parent. Each table has a *wide* schema, which defines how its rows are counted: with
the numbers of child rows, the facts about them, and the columns of all its ancestors.
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
from hushtable.privacy.unit import Unit
from hushtable.schema.categorical import Boolean
from hushtable.schema.column import FrozenModel, Identifier, Text
from hushtable.schema.file_format import FileFormat
from hushtable.schema.numeric import Integer
from hushtable.schema.table import (
    Column,
    ColumnField,
    Schema,
    schema_content,
    schema_text,
    sentences,
    with_missing_stated,
    with_taxonomy_files,
)

PREVIOUS = "previous"
"""Prefix for the columns of the previous row, in WHERE clauses and wide schemas."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_TABLES = "tables: list at least two, a parent and a child."


class LinkedTable(FrozenModel):
    """One of several linked tables.

    Parameters
    ----------
    parent
        The parent table.
    key
        The column that identifies its rows.
    foreign_key
        The column that holds the parent's key.
    max_children
        Maximum number of rows per parent; further rows are not used.
    order
        The column that orders the rows of a parent.
    facts
        Conditions on one column, by name: each becomes a column of the parent that says whether
        any of its rows satisfies the condition.
    reading
        Format of its file.
    confirm
        Parts that were derived from the data; delete this line to confirm them.
    """

    parent: str | None = None
    key: str | None = None
    foreign_key: str | None = None
    max_children: StrictInt | None = Field(None, ge=1)
    order: str | None = None
    facts: dict[str, Text] = Field(default_factory=dict)
    reading: FileFormat = FileFormat()
    confirm: tuple[str, ...] = ()
    columns: dict[str, ColumnField] = Field(min_length=1)

    @property
    def attributes(self) -> dict[str, Column]:
        """Published columns, in order."""
        columns = self.columns.items()
        return {name: column for name, column in columns if not isinstance(column, Identifier)}

    def problems(self) -> Iterator[str]:
        """Yield the problems of this table alone."""
        if not self.attributes:
            yield "all columns are identifiers; nothing is left to publish."
        for what, name in (("key", self.key), ("foreign_key", self.foreign_key)):
            if name in self.attributes:
                yield f"{what} {name!r} is a published column; keys are never published."
        if self.parent is None:
            beside = ("foreign_key", "max_children", "order", "facts")
            yield from (
                f"{name} is only for a table with a parent; set parent or remove it."
                for name in beside
                if getattr(self, name)
            )
            return
        if self.foreign_key is None:
            yield "foreign_key is missing; set it to the column that holds the parent's key."
        if self.max_children is None:
            yield "max_children is missing; set it to the maximum number of rows per parent."
        if self.order is not None and self.order not in self.attributes:
            yield f"order is {self.order!r}, which is not one of its columns."
        elif self.order is not None and not self.attributes[self.order].is_line:
            yield f"order is {self.order!r}, whose values have no order; set ordered: true there."


@dataclass(frozen=True)
class LinkedSchema:
    """Public description of several linked tables.

    Parameters
    ----------
    name : str
        Name of the whole data set.
    tables : mapping of str to LinkedTable
        The tables; parents come before their children.
    missing_values : tuple of str
        Texts that mark a missing value, in all tables.

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
    >>> list(schema.wide("persons").attributes), schema.max_rows_per_person("visits")
    (['sex', 'n_visits', 'any_icu'], 5)
    >>> list(schema.wide("visits").attributes)
    ['ward', 'persons.sex', 'persons.n_visits', 'persons.any_icu']
    """

    name: str
    tables: Mapping[str, LinkedTable]
    missing_values: tuple[str, ...] = ("",)

    # --- relations between tables -----------------------------------------------------------------

    @cached_property
    def root(self) -> str:
        """Name of the table of persons."""
        return next(name for name, table in self.tables.items() if table.parent is None)

    @property
    def person(self) -> str:
        """Column that identifies persons."""
        return self.tables[self.root].key or ""

    def children(self, name: str) -> list[str]:
        """Return the names of a table's child tables."""
        return [child for child, table in self.tables.items() if table.parent == name]

    def lineage(self, name: str) -> list[str]:
        """Return a table and its ancestors, from the table to the root."""
        above = self.tables[name].parent
        return [name] if above is None else [name, *self.lineage(above)]

    def keys_are_unique(self, name: str) -> bool:
        """Return whether the keys of a table must be unique, so that each child row has one person.

        Rows of the root table may repeat a key: they then belong to the same person.
        """
        return self.tables[name].parent is not None and bool(self.children(name))

    def max_rows_per_person(self, name: str) -> int:
        """Return the maximum number of rows of a table per person."""
        table = self.tables[name]
        if table.parent is None:
            return 1
        return self.max_rows_per_person(table.parent) * (table.max_children or 1)

    @cached_property
    def unit(self) -> Unit:
        """One person, with their rows in all tables."""
        return Unit(
            kind="person",
            column=self.person,
            max_rows=sum(map(self.max_rows_per_person, self.tables)),
        )

    # --- wide schemas -----------------------------------------------------------------------------

    def own(self, name: str) -> Schema:
        """Return the schema used to read one table: its own columns and keys."""
        table = self.tables[name]
        keys = [key for key in (table.key, table.foreign_key) if key is not None]
        return Schema(
            name=f"{self.name}: {name}",
            missing_values=self.missing_values,
            reading=table.reading,
            columns=dict.fromkeys(keys, _KEY) | dict(table.columns),
        )

    def wide(self, name: str) -> Schema:
        """Return the schema by which rows of a table are counted, joined to those of its ancestors.

        The columns are the table's own, then the number of rows and the facts of each child table,
        then those of each ancestor.
        """
        return self._counted(name, self.columns(name))

    def _counted(self, name: str, columns: Mapping[str, Column]) -> Schema:
        """Return a schema that counts rows of a table by some columns."""
        return Schema(
            name=self.name,
            unit=Unit(kind="person", column=self.person, max_rows=self.max_rows_per_person(name)),
            missing_values=self.missing_values,
            columns={self.person: _KEY, **columns},
        )

    @cached_property
    def persons(self) -> Schema:
        """Schema of the published persons; the unit includes their rows in all tables."""
        return self.wide(self.root).model_copy(update={"unit": self.unit})

    def columns(self, name: str) -> dict[str, Column]:
        """Return the columns of a wide schema."""
        table = self.tables[name]
        own = table.attributes | self.child_columns(name)
        return own if table.parent is None else own | self.above(table.parent)

    def steps(self, name: str) -> Schema:
        """Return the schema that counts rows of an ordered table with their previous row."""
        own = self.tables[name].attributes
        before = {f"{PREVIOUS}.{column}": kind for column, kind in own.items()}
        return self._counted(name, own | before)

    def facts_below(self, name: str) -> list[str]:
        """Return the facts of all tables below a table: whether any descendant satisfies them."""
        children = self.children(name)
        return [
            fact
            for child in children
            for fact in (*self.tables[child].facts, *self.facts_below(child))
        ]

    def child_columns(self, name: str) -> dict[str, Column]:
        """Return the columns that summarize tables below: numbers of child rows, and facts."""
        columns: dict[str, Column] = {}
        for child in self.children(name):
            table = self.tables[child]
            most = (table.max_children or 1) + 1  # this code means "more than max_children"
            columns[f"n_{child}"] = Integer(type="integer", low=0, high=most)
            facts = (*table.facts, *self.facts_below(child))
            columns |= {fact: Boolean(type="boolean") for fact in facts}
        return columns

    def above(self, name: str) -> dict[str, Column]:
        """Return the columns of a table and its ancestors, with the table's name as prefix."""
        table = self.tables[name]
        own = table.attributes | self.child_columns(name)
        columns = {f"{name}.{column}": kind for column, kind in own.items()}
        return columns if table.parent is None else columns | self.above(table.parent)

    # --- reading and writing ----------------------------------------------------------------------

    @property
    def conditions(self) -> tuple[str, ...]:
        """Conditions on the tables that the promise assumes; see `Schema.conditions`."""
        cells = [f"{name}: {said}" for name in self.tables for said in self.own(name).conditions]
        keys = [
            f"Keys of {name}. Tables are refused if two rows of {name} have the same "
            f"{self.tables[name].key!r}; anyone who learns that a release failed may learn this."
            for name in self.tables
            if self.keys_are_unique(name)
        ]
        return (*cells, *keys)

    def require_confirmed(self) -> None:
        """Raise `Unconfirmed` if parts were derived from the data and not confirmed."""
        problems = []
        for name, table in self.tables.items():
            try:
                self.own(name).model_copy(update={"confirm": table.confirm}).require_confirmed()
            except Unconfirmed as error:
                problems += [f"table {name!r}: {problem}" for problem in error.problems]
        Unconfirmed.raise_if_any(problems)

    @classmethod
    def load(cls, path: str | Path) -> LinkedSchema:
        """Read a schema of linked tables from YAML; taxonomies may be files in its folder."""
        path = Path(path)
        return cls.parse(schema_text(path), folder=path.parent)

    @classmethod
    def parse(cls, text: str, *, folder: Path | None = None) -> LinkedSchema:
        """Read a schema from YAML text; taxonomy files are relative to `folder`."""
        content = schema_content(text)
        tables = content.get("tables") if isinstance(content, dict) else None
        if not isinstance(content, dict) or not isinstance(tables, dict):
            raise SchemaError(f"the schema must be a mapping with name and tables. {_TABLES}")
        filled, problems = {}, []
        for name, table in tables.items():
            filled[name] = table
            if isinstance(table, dict):
                try:
                    filled[name] = with_missing_stated(with_taxonomy_files(table, folder))
                except SchemaError as error:
                    problems += [f"table {name!r}: {problem}" for problem in error.problems]
        return cls.from_dict({**content, "tables": filled}, problems)

    @classmethod
    def from_dict(
        cls, content: Mapping[str, Any], problems: list[str] | None = None
    ) -> LinkedSchema:
        """Validate a schema given as plain data; the error lists all problems."""
        problems = list(problems or [])
        known = {"name", "missing_values", "tables"}
        problems += [
            f"schema: {part!r} is not a known key; remove it or correct the spelling."
            for part in content
            if part not in known
        ]
        name, missing = content.get("name"), content.get("missing_values", [""])
        if not isinstance(name, str) or not name or not name.isprintable():
            problems.append("schema: name is missing; set a name for the whole data set.")
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
            problems += _relation_problems(tables)
        SchemaError.raise_if_any(problems)
        made = cls(str(name), _sorted(tables), tuple(missing))
        problems = [p for table in tables for p in made._wide_problems(table)]
        SchemaError.raise_if_any(problems)
        return made

    def _wide_problems(self, name: str) -> Iterator[str]:
        """Yield a problem for each column of a wide table whose name clashes or is invalid."""
        told = [*self.tables[name].attributes, *self.child_columns(name)]
        facts = self.facts_below(name)
        names = [column.lower() for column in (*self.tables[name].attributes, *facts)]
        names += [f"n_{child}".lower() for child in self.children(name)]
        for twice in sorted({column for column in names if names.count(column) > 1}):
            yield (
                f"table {name!r}: {twice!r} occurs twice among the names of columns, facts and "
                "row counts of child tables; rename one."
            )
        taken = {self.person, self.tables[name].key, self.tables[name].foreign_key}
        for column in told:
            if column in taken or not column.isprintable() or "." in column:
                yield (
                    f"table {name!r}: {column!r} is not a valid name for a column or fact: it is a "
                    "key, or contains a dot or characters that cannot be printed."
                )

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as plain data."""
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
    """Read the schema of a table; for linked tables, that of the persons."""
    from hushtable.files.yaml_text import read_yaml  # noqa: PLC0415 - slow to import

    try:
        content = read_yaml(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        content = None  # Schema.load reports the problem
    several = isinstance(content, dict) and "tables" in content
    return LinkedSchema.load(path).persons if several else Schema.load(path)


_KEY = Identifier(role="identifier")


def _relation_problems(tables: Mapping[str, LinkedTable]) -> list[str]:
    """Return the problems in the relations between tables."""
    problems = [
        f"table {name!r}: use letters, digits and _ for names of tables, and not {PREVIOUS!r}."
        for name in tables
        if not _NAME.fullmatch(name) or name.lower() == PREVIOUS
    ]
    lowered = [name.lower() for name in tables]
    twice = sorted({name for name in lowered if lowered.count(name) > 1})
    problems += [f"two tables called {name!r} differ only in case." for name in twice]
    roots = [name for name, table in tables.items() if table.parent is None]
    if len(roots) != 1:
        found = f"{', '.join(roots)} have none" if roots else "all have one"
        problems.append(
            f"exactly one table must have no parent, the table of persons; here {found}. Set the "
            "parent of each other table."
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
            problems.append(f"table {name!r} is its own ancestor: {' -> '.join([*seen, name])}.")
    parents = {table.parent for table in tables.values()} | set(roots)
    problems += [
        f"table {name!r}: key is missing; set it to the column that identifies its rows."
        for name, table in tables.items()
        if name in parents and table.key is None
    ]
    return problems


def _sorted(tables: Mapping[str, LinkedTable]) -> dict[str, LinkedTable]:
    """Order tables so that parents come before their children."""
    found: dict[str, LinkedTable] = {}
    while len(found) < len(tables):
        found |= {
            name: table
            for name, table in tables.items()
            if table.parent is None or table.parent in found
        }
    return found
