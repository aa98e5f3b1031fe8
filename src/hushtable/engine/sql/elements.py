"""The elements of records, made where the rows are; see `hushtable.engine.baskets`.

An element is a row of `owner`, `item` and `value`. Rows that break a rule are refused on the way.
"""

from __future__ import annotations

from collections.abc import Mapping

import lazy_loader

from hushtable.engine.baskets import ItemColumns, ItemGroups, missing_codes
from hushtable.engine.encode import recoded
from hushtable.engine.sources.source import PERSON, TableSource
from hushtable.engine.sql.answers import RuleBreakCounts, integers, union
from hushtable.engine.sql.baskets import at_most, each_item_once
from hushtable.engine.sql.one_way import broken_rules
from hushtable.schema import Schema
from hushtable.schema.recoding import Recoding

ibis = lazy_loader.load("ibis")


def listed_elements(
    rows: TableSource,
    schema: Schema,
    item_columns: ItemColumns,
    max_values: int | None,
    recode: Mapping[str, Recoding],
) -> TableSource:
    """Return at most `max_values` elements of each person, chosen once."""
    places = {"item": item_columns.item, "value": item_columns.value}
    broken_rules(rows, schema, list(places.values())).refuse()
    elements = recoded(rows.select({"owner": PERSON, **places}), places, recode)
    for place, name in places.items():
        elements = elements.mutate(**{place: elements[place].cast("int64")})
        missing = (recode.get(name) or schema.attributes[name]).missing_code
        if missing is not None:
            elements = elements.filter(elements[place] != missing)
    elements = each_item_once(elements.select("owner", *places))
    return rows.keep(at_most(elements, max_values), {}, drawn=max_values is not None)


def wide_elements(
    rows: TableSource, schema: Schema, groups: ItemGroups, recode: Mapping[str, Recoding]
) -> TableSource:
    """Return the elements of rows; rows are numbered once."""
    names = list(schema.attributes)
    missing, _ = missing_codes(schema, recode)
    items = sorted({item for group in groups for item in group})
    places = {f"c{item}": names[item] for item in items}
    coded = recoded(rows.select(places), places, recode)
    numbered = rows.keep_numbered(coded, "owner")
    table, parts = numbered.table, []
    for item in items:
        part = table.select(
            "owner", item=ibis.literal(item, "int64"), value=table[f"c{item}"].cast("int64")
        )
        parts.append(part.filter(part.value != int(missing[item])))
    elements = union(parts)
    wrong = elements.filter(elements.value < 0).group_by(["item", "value"])
    found = numbered.fetch(wrong.agg(n=ibis._.count()))
    broken = RuleBreakCounts(schema)
    for item in items:
        here = integers(found["item"]) == item
        codes = integers(found["value"])[here, None]
        broken.set_aside([names[item]], codes, integers(found["n"])[here])
    broken.refuse()
    return numbered.keep(elements, {})
