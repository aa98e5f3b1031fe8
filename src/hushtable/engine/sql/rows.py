"""All rows of a table that a database holds, as codes in memory."""

from __future__ import annotations

import lazy_loader
import numpy as np

from hushtable.engine.coded_rows import CHECKED_ROWS, Encoded, spot_check
from hushtable.engine.encode import encode
from hushtable.engine.engine import not_once
from hushtable.engine.sources.source import PERSON, TableSource, wanted_columns
from hushtable.engine.sql.answers import n_rows
from hushtable.schema import Schema

ibis = lazy_loader.load("ibis")


def encoded_rows(source: TableSource, schema: Schema) -> Encoded:
    """Encode all rows where they are, and fetch their codes."""
    source = source.here(wanted_columns(schema))
    query, columns = source.code_view(schema)
    table = source.fetch(query)
    n_raw = n_rows(source, source.table)
    if len(table) != n_raw:
        raise not_once(list(schema.attributes))
    check_some_rows(source, schema, n_raw)
    columns.pop(PERSON, None)
    codes = {name: np.asarray(table[place].to_numpy(), np.int32) for name, place in columns.items()}
    if schema.unit.column is None:
        return Encoded(codes, None)
    numbers = table["person"].combine_chunks().dictionary_encode().indices
    return Encoded(codes, numbers.fill_null(-1).to_numpy().astype(np.int32))


def check_some_rows(source: TableSource, schema: Schema, n_raw: int) -> None:
    """Fetch a few random rows with their codes, and compare these with the reference encoder."""
    places = {f"c{position}": name for position, name in enumerate(schema.attributes)}
    raw = {f"r{position}": name for position, name in enumerate(schema.attributes)}
    rows = source.select(places | raw)
    chosen = rows.filter(ibis.random() < 2 * CHECKED_ROWS / max(n_raw, 1)).limit(CHECKED_ROWS)
    table = source.fetch(encode(chosen, schema, places))
    if len(table):
        codes = {name: table[place].to_numpy() for place, name in places.items()}
        spot_check({name: table[place] for place, name in raw.items()}, codes, schema)
