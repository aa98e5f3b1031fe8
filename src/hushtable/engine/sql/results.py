"""Combinations of codes as packed keys: a database groups by one number fastest.

The codes of broken rules are negative, and an answer must tell how many rows have them. So keys are
packed with a domain that has room for them below zero (`packed_domain`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import lazy_loader
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushtable.domain import Domain
from hushtable.engine.cells import Counts
from hushtable.engine.coded_rows import CHECKED_ROWS, Encoded, spot_check
from hushtable.engine.encode import Expression, encode, recoded
from hushtable.engine.engine import N_RULES, not_once, refuse_broken, rule_breaks
from hushtable.engine.rule_breaks import RuleBreak
from hushtable.engine.sources.source import PERSON, TableSource, wanted_columns
from hushtable.schema import Schema
from hushtable.schema.codes import as_numpy
from hushtable.schema.recoding import Recoding

# Query results of a database: codes and counts, without rows that break rules.

ibis = lazy_loader.load("ibis")


class RuleBreakCounts:
    """Counts of rows that break rules, collected over the parts of a result."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._n_rows: dict[tuple[str, int], int] = {}

    def set_aside(
        self, names: Sequence[str], codes: NDArray[np.int64], counts: Counts
    ) -> NDArray[np.bool_]:
        """Record the cells that break rules; return a mask of the others."""
        fine: NDArray[np.bool_] = np.all(codes >= 0, axis=1)
        codes, counts = codes[~fine], counts[~fine]
        for position, name in enumerate(names):
            for rule in range(-N_RULES, 0):
                # A column in several results (`by`) has the same rows in each.
                self._n_rows[name, rule] = int(counts[codes[:, position] == rule].sum())
        return fine

    def breaks(self) -> list[RuleBreak]:
        """Return the broken rules."""
        return rule_breaks(self._schema, [(*key, n_rows) for key, n_rows in self._n_rows.items()])

    def refuse(self) -> None:
        """Raise one error that lists all broken rules, if there are any."""
        refuse_broken(self.breaks())


def integers(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return the columns of a result as integers."""
    return as_numpy(column).astype(np.int64, copy=False)


def union(tables: Sequence[Expression]) -> Expression:
    """Concatenate tables."""
    return tables[0] if len(tables) == 1 else ibis.union(*tables)


def n_rows(source: TableSource, rows: Expression) -> int:
    """Count rows."""
    return int(source.fetch(rows.agg(n=ibis._.count()))["n"][0].as_py())


def packed_domain(sizes: Mapping[str, int]) -> Domain:
    """Return the domain that packs the keys of columns of the given sizes."""
    return Domain({name: size + N_RULES for name, size in sizes.items()})


def packed(rows: Expression, places: Sequence[str], sizes: Sequence[int]) -> Expression:
    """Pack the codes of some columns into one 63-bit key."""
    key = rows[places[0]].cast("int64") + N_RULES
    for place, size in zip(places[1:], sizes[1:], strict=True):
        key = key * size + (rows[place].cast("int64") + N_RULES)
    return key.cast("int64")


def unpacked(wide: Domain, keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Unpack keys to codes, including negative codes of broken rules."""
    return wide.unpack(keys) - N_RULES


def tally(
    rows: TableSource, domain: Domain, recode: Mapping[str, Recoding]
) -> tuple[Expression, Domain]:
    """Return a query for the keys and counts of the cells of a domain, and what packs the keys."""
    places = {f"c{position}": name for position, name in enumerate(domain.names)}
    coded = recoded(rows.select(places), places, recode)
    wide = packed_domain(domain.sizes)
    keys = {
        f"key{limb}": packed(coded, list(places)[run], wide.shape[run])
        for limb, run in enumerate(wide.limbs)
    }
    return coded.select(**keys).group_by(list(keys)).agg(n=ibis._.count()), wide


def count_cells(
    rows: TableSource, domain: Domain, recode: Mapping[str, Recoding], *, most: int
) -> tuple[NDArray[np.int64], Counts]:
    """Count combinations of codes, those of broken rules included, in order; `most` may travel."""
    query, wide = tally(rows, domain, recode)
    table = rows.fetch(query, most=most if wide.size > most else None)
    keys = np.stack([integers(table[f"key{at}"]) for at in range(len(wide.limbs))], axis=1)
    order = np.lexsort(keys.T[::-1]) if keys.shape[1] > 1 else np.argsort(keys[:, 0])
    return unpacked(wide, keys[order]), integers(table["n"])[order]


# All rows of a table that a database holds, as codes in memory.


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
