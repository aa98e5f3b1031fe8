"""A wave joined with the previous wave by person.

The join uses one row of each person in each wave, chosen at random if there are more, so a person
has at most one joined row. It is made from that person's rows only and contains their key, which is
all that the promise of a panel needs (``series/series.md``). Persons are compared as exact texts;
rows without a person are left out. DuckDB joins the waves; if both are small, the joined rows are
counted in memory. Waves in Spark cannot be joined and are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import lazy_loader

from hushtable.engine.encode import Expression
from hushtable.engine.engine import Engine, WavePair
from hushtable.engine.linked_tables import check_each, in_one_place, known_key
from hushtable.engine.open_table import EngineName, PrivateTable, counting_engine
from hushtable.engine.open_table import open as open_one
from hushtable.engine.sources.header import Data, is_in_spark
from hushtable.engine.sources.source import TableSource
from hushtable.errors import ParameterError
from hushtable.privacy.noise.noise import Noise
from hushtable.privacy.noise.sources import SecureNoise
from hushtable.privacy.unit import Unit
from hushtable.schema import Schema
from hushtable.schema.linked_schema import PREVIOUS

ibis = lazy_loader.load("ibis")

NOW, BEFORE = "now", "before"


def previous(column: str) -> str:
    """Return the name of a column of the previous wave.

    Examples
    --------
    >>> previous("job")
    'previous.job'
    """
    return f"{PREVIOUS}.{column}"


def followed_schema(schema: Schema) -> Schema:
    """Return the schema of people in two waves: the columns of both, one row per person."""
    own = schema.attributes
    person = schema.unit.column
    assert person is not None  # noqa: S101 - the unit is a person
    return Schema(
        name=schema.name,
        unit=Unit(kind="person", column=person, max_rows=1),
        missing_values=schema.missing_values,
        columns={
            person: schema.columns[person],
            **own,
            **{previous(name): column for name, column in own.items()},
        },
    )


@dataclass(frozen=True, eq=False)
class OpenedWaves:
    """Opened private wave (`NOW`) and previous wave (`BEFORE`, if any); no row was read."""

    tables: Mapping[str, PrivateTable]

    def check(self, schema: Schema) -> None:
        """Raise one error that lists all columns that do not fit the schema."""
        labels = {NOW: "", BEFORE: "the wave before: "}
        check_each({labels[name]: (table, schema) for name, table in self.tables.items()})

    def connect(self, schema: Schema, *, noise: Noise | None = None) -> WavePair:
        """Return the engines that count by the schema's rules."""
        noise = noise or SecureNoise()
        now = self.tables[NOW].connect(schema, noise=noise)
        if BEFORE not in self.tables:
            return WavePair(now, None)
        read = {name: table.loaded_as(schema) for name, table in self.tables.items()}
        return WavePair(now, _followed(read, schema, noise))


def open_waves(
    now: Data,
    before: Data | None,
    *,
    engine: EngineName = "auto",
    memory_limit: str | None = None,
) -> OpenedWaves:
    """Open a private wave and the previous one, if any; read headers, but no row."""
    given = {NOW: now} if before is None else {NOW: now, BEFORE: before}
    if before is not None and (engine == "spark" or any(map(is_in_spark, given.values()))):
        raise ParameterError(
            "people of a panel are followed by DuckDB, which cannot read tables of Spark; give "
            "both waves as files, frames or tables of a database, and leave the engine at auto."
        )
    opened = {
        name: open_one(data, engine=engine, memory_limit=memory_limit)
        for name, data in given.items()
    }
    return OpenedWaves(opened)


def _followed(tables: Mapping[str, PrivateTable], schema: Schema, noise: Noise) -> Engine:
    """Return the engine that counts people in both waves."""
    sources = in_one_place(tables, dict.fromkeys(tables, schema))
    keyed = {name: _keyed(source, schema, name) for name, source in sources.items()}
    now, before = (_one_each(keyed[name], name) for name in (NOW, BEFORE))
    both = now.inner_join(before, now[f"{NOW}_key"] == before[f"{BEFORE}_key"])
    columns = {schema.unit.column or "": f"{NOW}_key"}
    for place, name in enumerate(schema.attributes):
        columns |= {name: f"{NOW}{place}", previous(name): f"{BEFORE}{place}"}
    rows = replace(sources[NOW].keep(both, columns, drawn=True), identified=True)
    wide = followed_schema(schema)
    in_memory = all(table.is_for_memory() for table in tables.values())
    return counting_engine(rows, wide, noise, in_memory=in_memory)


def _keyed(source: TableSource, schema: Schema, side: str) -> TableSource:
    """Keep a snapshot of the rows with a person, each with a random number."""
    places = {f"{side}{place}": name for place, name in enumerate(schema.attributes)}
    rows = source.select({**places, "person": schema.unit.column or ""})
    key = {f"{side}_key": known_key(rows.person, schema.missing_values)}
    rows = rows.mutate(**key).drop("person")
    rows = rows.filter(rows[f"{side}_key"].notnull()).mutate(coin=ibis.random())
    return source.keep(rows, {}, drawn=True)


def _one_each(source: TableSource, side: str) -> Expression:
    """Return one random row of each person."""
    rows = source.table
    turns = ibis.window(group_by=rows[f"{side}_key"], order_by=rows.coin)
    rows = rows.mutate(turn=ibis.row_number().over(turns))
    return rows.filter(rows.turn == 0).drop("coin", "turn")
