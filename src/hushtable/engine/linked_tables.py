"""Linked tables, opened in one engine and joined there.

Each table is joined into *wide* rows: its own columns, the number of child rows and their facts,
and the same columns of its ancestors. In an ordered table, rows can also be counted with their
previous row. A wide row is made from the rows of one person and contains that person's key, so a
promise only needs a bound on the rows per person (``methods/linked/linked.md``). Rows without a
parent are in no wide table. DuckDB and Spark join by the same expressions; if all tables are small,
the wide rows are counted in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial

import lazy_loader

from hushtable.engine.encode import Expression, as_text, encode, is_missing
from hushtable.engine.engine import Engine, LinkedEngines
from hushtable.engine.open_table import EngineName, PrivateTable, counting_engine
from hushtable.engine.open_table import open as open_one
from hushtable.engine.sources.duckdb_files import import_together
from hushtable.engine.sources.header import Data, is_ibis_table, is_in_spark, read_header
from hushtable.engine.sources.source import TableSource
from hushtable.engine.sql_engine import SqlEngine
from hushtable.errors import DataError, ParameterError
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.sources import SecureNoise
from hushtable.query.where.rules import LinkedFact, facts_of
from hushtable.schema import Schema
from hushtable.schema.linked_schema import PREVIOUS, LinkedSchema

ibis = lazy_loader.load("ibis")


@dataclass(frozen=True)
class LinkedFinding:
    """Problem of linked tables with its number of rows; with `refused`, the tables are refused."""

    said: str
    refused: bool = False

    def __str__(self) -> str:
        return self.said


@dataclass(frozen=True, eq=False)
class LinkedData:
    """Private tables that were opened, by their names in the schema; no row was read."""

    tables: Mapping[str, PrivateTable]

    def check(self, schema: LinkedSchema) -> None:
        """Raise one error that lists all columns that do not fit the schema."""
        check_each(
            {f"table {name!r}: ": (table, schema.own(name)) for name, table in self.tables.items()}
        )

    def connect(self, schema: LinkedSchema, *, noise: Noise | None = None) -> LinkedEngine:
        """Return an engine that counts by the schema's rules; it reads rows at the first query."""
        read = {name: self.tables[name].loaded_as(schema.own(name)) for name in schema.tables}
        return LinkedEngine(read, schema, noise or SecureNoise())


def check_each(tables: Mapping[str, tuple[PrivateTable, Schema]]) -> None:
    """Check tables by their schemas; raise one error, with the label before each problem."""
    problems = []
    for label, (table, schema) in tables.items():
        try:
            table.check(schema)
        except DataError as error:
            problems += [f"{label}{problem}" for problem in error.problems]
    DataError.raise_if_any(problems)


def open_linked(
    data: Mapping[str, Data],
    schema: LinkedSchema,
    *,
    engine: EngineName = "auto",
    memory_limit: str | None = None,
) -> LinkedData:
    """Open several private tables and read their headers, but no row."""
    problems = [
        f"data for table {name!r} is missing; give a file or frame for each table of the schema."
        for name in schema.tables
        if name not in data
    ]
    problems += [
        f"data is given for {name!r}, but the schema's tables are {', '.join(schema.tables)}."
        for name in data
        if name not in schema.tables
    ]
    ParameterError.raise_if_any(problems)
    opened: dict[str, PrivateTable] = {}
    for name, described in schema.tables.items():
        # Spark accepts a memory limit only at its start, when the first table is opened.
        limit = None if opened and engine == "spark" else memory_limit
        opened[name] = open_one(
            data[name], reading=described.reading, engine=engine, memory_limit=limit
        )
    if len({is_in_spark(table.data) for table in opened.values()}) > 1:
        raise ParameterError(
            "only some of the tables are in Spark, so they cannot be joined; load all of them in "
            "Spark, or none."
        )
    return LinkedData(opened)


def in_one_place(
    tables: Mapping[str, PrivateTable], own: Mapping[str, Schema]
) -> dict[str, TableSource]:
    """Return the raw rows of several tables in one engine, where they can be joined."""
    tables = {name: _at_hand(table, [*own[name].columns]) for name, table in tables.items()}
    if any(is_in_spark(table.data) for table in tables.values()):
        opened = [table.source() for table in tables.values()]
        backend = opened[0].table.get_backend()
        same = [replace(one, table=backend.table(one.table.get_name())) for one in opened]
    else:
        limits = [table.memory_limit for table in tables.values()]
        given = [(table.data, table.header, own[name]) for name, table in tables.items()]
        same = import_together(given, memory_limit=limits[0])
    return {
        name: table.numbers_read(own[name], source)
        for (name, table), source in zip(tables.items(), same, strict=True)
    }


class LinkedEngine(LinkedEngines):
    """Engines for the wide rows of linked tables.

    In memory, `noise` chooses the rows that count if a person has too many.
    """

    def __init__(
        self, tables: Mapping[str, PrivateTable], schema: LinkedSchema, noise: Noise
    ) -> None:
        self._tables, self.schema, self._noise = tables, schema, noise
        self._engines: dict[str, Engine] = {}
        self._wide: dict[str, TableSource] = {}

    def engine(self, name: str) -> Engine:
        """Return the engine that counts the wide rows of one table."""
        if name not in self._engines:
            self._engines[name] = self._counting(self._wide_rows(name), self.schema.wide(name))
        return self._engines[name]

    def steps(self, name: str) -> Engine:
        """Return the engine that counts rows of one table together with their previous row."""
        wide = self._wide_rows(name)
        after = wide.keep(wide.table.filter(wide.table.follows), wide.columns, drawn=True)
        after = replace(after, identified=True)
        return self._counting(after, self.schema.steps(name))

    def _counting(self, rows: TableSource, schema: Schema) -> Engine:
        in_memory = all(table.is_for_memory() for table in self._tables.values())
        return counting_engine(rows, schema, self._noise, in_memory=in_memory)

    # --- what was opened --------------------------------------------------------------------------

    @cached_property
    def _sources(self) -> dict[str, TableSource]:
        """Raw rows of all tables, in one engine."""
        return in_one_place(self._tables, {name: self.schema.own(name) for name in self._tables})

    @cached_property
    def _facts(self) -> dict[str, dict[str, LinkedFact]]:
        return facts_of(self.schema)

    @cached_property
    def _rows(self) -> dict[str, TableSource]:
        """Snapshot of each table's rows that have a foreign key (in the root table, a key).

        It has raw columns, keys, codes of facts and of the order column, and a random number.
        """
        return {name: self._keyed(name) for name in self._tables}

    def _keyed(self, name: str) -> TableSource:
        table, own, source = self.schema.tables[name], self.schema.own(name), self._sources[name]
        places = {f"c{place}": column for place, column in enumerate(table.attributes)}
        keys = {"key": table.key, "above": table.foreign_key}
        wanted = places | {place: key for place, key in keys.items() if key is not None}
        coded = {f"f{place}": fact.column for place, fact in enumerate(self._facts[name].values())}
        if table.order is not None:
            coded["turn"] = table.order
        rows = source.select(wanted | coded)
        for place in keys.keys() & wanted.keys():
            rows = rows.mutate(**{place: known_key(rows[place], self.schema.missing_values)})
        linked = rows[next(place for place in ("above", "key") if place in wanted)]
        rows = encode(rows.filter(linked.notnull()), own, coded)
        # Rows with the same order value are ordered at random.
        return source.keep(rows.mutate(coin=ibis.random()), {}, drawn=True)

    # --- wide rows --------------------------------------------------------------------------------

    def _wide_rows(self, name: str) -> TableSource:
        if name not in self._wide:
            self._wide[name] = self._joined(name)
        return self._wide[name]

    def _joined(self, name: str) -> TableSource:
        table, source = self.schema.tables[name], self._rows[name]
        if self.schema.keys_are_unique(name):
            self._require_different_keys(name)
        rows = source.table
        own = {column: rows[f"c{place}"] for place, column in enumerate(table.attributes)}
        if table.order is not None:
            turns = ibis.window(group_by=rows.above, order_by=[rows.turn, rows.coin])
            own |= {f"{PREVIOUS}.{c}": raw.lag().over(turns) for c, raw in own.items()}
            follows = rows.coin.lag().over(turns).notnull()
        taken = {f"w{place}": raw for place, raw in enumerate(own.values())}
        columns = dict(zip(own, taken, strict=True))
        ends = {place: rows[place] for place in ("key", "above") if place in rows.columns}
        if table.order is not None:
            ends["follows"] = follows
        wide = rows.select(**taken, **ends)
        for child in self.schema.children(name):
            below = self._below(child)
            told = [column for column in below.columns if column != "above"]
            names = {f"w{len(columns) + at}": column for at, column in enumerate(told)}
            counted = below.select(held=below.above, **{p: below[c] for p, c in names.items()})
            wide = wide.left_join(counted, wide.key == counted.held).drop("held")
            # A parent without child rows is in no group: its count and facts are 0.
            wide = wide.mutate(**{p: wide[p].fill_null(0) for p in names})
            columns |= dict(zip(self._child_columns(child), names, strict=True))
        if table.parent is None:
            wide = wide.mutate(person=wide.key)
        else:
            above, seen = self._wide_rows(table.parent), self.schema.above(table.parent)
            parent = above.table
            of_parent = {
                f"w{len(columns) + at}": above.columns[column.removeprefix(f"{table.parent}.")]
                for at, column in enumerate(seen)
            }
            parents = parent.select(
                held=parent.key,
                person=parent.person,
                **{p: parent[c] for p, c in of_parent.items()},
            )
            wide = wide.inner_join(parents, wide.above == parents.held).drop("held")
            columns |= dict(zip(seen, of_parent, strict=True))
        kept = source.keep(wide, {**columns, self.schema.person: "person"}, drawn=True)
        return replace(kept, identified=True)

    def _require_different_keys(self, name: str) -> None:
        """Raise an error if a key is not unique: child rows would belong to two persons."""
        if self._n_same(name):
            key = self.schema.tables[name].key
            raise DataError(
                f"table {name!r}: {key!r} is not unique, so child rows cannot be assigned to one "
                "person; give each row its own key."
            )

    def _n_same(self, name: str) -> int:
        """Count the rows that repeat a key."""
        rows, source = self._rows[name].table, self._sources[name]
        n_keys = source.scalar(rows.key.nunique())
        return source.scalar(rows.filter(rows.key.notnull()).count()) - n_keys

    def _child_columns(self, child: str) -> list[str]:
        return [f"n_{child}", *self._facts[child], *self.schema.facts_below(child)]

    def _below(self, name: str) -> Expression:
        """Return the number of child rows and the facts of each parent, also of tables below."""
        rows = self._rows[name].table
        told = {"told0": ibis._.count()}
        at = 1 + len(self._facts[name])
        for child in self.schema.children(name):
            below = self._below(child)
            # Besides the number of rows, every column of a child is a fact.
            facts = [column for column in below.columns if column not in ("above", "told0")]
            names = {f"d{at + place}": column for place, column in enumerate(facts)}
            if not facts:
                continue
            seen = below.select(held=below.above, **{to: below[c] for to, c in names.items()})
            rows = rows.left_join(seen, rows.key == seen.held).drop("held")
            told |= {f"told{to[1:]}": rows[to].fill_null(0).max() for to in names}
            at += len(facts)
        for place, fact in enumerate(self._facts[name].values()):
            code = rows[f"f{place}"]
            holds = ibis.literal(False)
            for first, last in fact.runs:
                holds |= code.between(first, last)
            told[f"told{place + 1}"] = holds.cast("int8").max()
        ordered = {f"told{place}": told[f"told{place}"] for place in range(at)}
        return rows.group_by("above").agg(**ordered)

    # --- for the custodian ------------------------------------------------------------------------

    def findings(self) -> list[LinkedFinding]:
        """Return all problems with their numbers of rows, without values, for the custodian."""
        found: list[LinkedFinding] = []
        for name, table in self.schema.tables.items():
            source, own = self._sources[name], self.schema.own(name)
            found += [
                LinkedFinding(f"table {name!r}: {one}", refused=one.refused)
                for one in SqlEngine(partial(source.coded, own), own).rule_breaks()
            ]
            rows = self._rows[name].table
            keyed = source.scalar(rows.count())
            linked = table.foreign_key or table.key
            found += _findings(
                source.scalar(source.table.count()) - keyed,
                f"table {name!r}: {{}} rows have no {linked!r}; they do not count.",
            )
            if table.key is not None:
                found += _findings(
                    self._n_same(name),
                    f"table {name!r}: {{}} rows repeat a {table.key!r} of another row.",
                    refused=self.schema.keys_are_unique(name),
                )
            if table.parent is not None:
                above = self._rows[table.parent].table
                orphans = rows.anti_join(above, rows.above == above.key)
                found += _findings(
                    source.scalar(orphans.count()),
                    f"table {name!r}: {{}} rows have no parent in {table.parent!r}; they do not "
                    "count.",
                )
                sizes = rows.group_by("above").agg(n=ibis._.count())
                most = table.max_children or 1
                found += _findings(
                    source.scalar(sizes.filter(sizes.n > most).count()),
                    f"table {name!r}: {{}} rows of {table.parent!r} have more than {most} child "
                    "rows; a uniformly random subset of these counts.",
                )
        return found


def _findings(n: int, said: str, *, refused: bool = False) -> list[LinkedFinding]:
    return [LinkedFinding(said.format(f"{n:,}"), refused)] if n else []


def known_key(raw: Expression, missing_values: tuple[str, ...]) -> Expression:
    """Return a key as text, or NULL if it is missing."""
    return ibis.cases((is_missing(raw, missing_values), ibis.null("string")), else_=as_text(raw))


def _at_hand(table: PrivateTable, names: list[str]) -> PrivateTable:
    """Fetch a database table, so that it can be joined with others; return others unchanged."""
    if not is_ibis_table(table.data) or is_in_spark(table.data):
        return table
    here = table.source().here(names)
    rows = here.fetch(here.select({f"c{place}": name for place, name in enumerate(names)}))
    rows = rows.rename_columns(names)
    return replace(table, data=rows, header=read_header(rows))
