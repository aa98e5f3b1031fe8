"""All rows of a table as codes, fetched to this machine."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hushtable.engine.arrow_codes import Encoded
from hushtable.engine.encode import encode, is_missing
from hushtable.engine.source import POSITION, Source
from hushtable.schema import Schema


def encoded_rows(source: Source, schema: Schema) -> Encoded:
    """Have all rows encoded where they are, and fetch their codes."""
    places = {f"c{position}": name for position, name in enumerate(schema.attributes)}
    person = schema.unit.column
    wanted = places if person is None else {**places, "person": person}
    source = source.here(list(dict.fromkeys(wanted.values())))
    raw = source.select(wanted, in_order=True)
    if person is not None:
        raw = raw.mutate(nobody=is_missing(raw.person, schema.missing_values))
    coded = encode(raw, schema, places)
    table = source.fetch(coded.mutate(**{place: coded[place].cast("int32") for place in places}))
    if POSITION in table.column_names:
        table = table.take(np.argsort(table[POSITION].to_numpy(), kind="stable"))
    codes = {name: np.asarray(table[place].to_numpy(), np.int32) for place, name in places.items()}
    if person is None:
        return Encoded(codes, None)
    names = table["person"].combine_chunks()
    if pa.types.is_floating(names.type):
        names = pa.array(names.to_numpy(zero_copy_only=False) + 0.0)  # -0.0 and 0.0 are one person
    numbers = names.dictionary_encode().indices
    persons = np.where(table["nobody"].to_numpy(), -1, numbers.fill_null(-1).to_numpy())
    return Encoded(codes, persons.astype(np.int32))
