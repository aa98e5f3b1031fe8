"""How a table fits its schema, for the custodian's eyes."""

from __future__ import annotations

from hushtable.engine.base import RuleBreak
from hushtable.engine.door import connect
from hushtable.engine.header import Data
from hushtable.engine.rules import CODES, rule_break
from hushtable.schema import Identifier, Schema


def misfits(data: Data, schema: Schema) -> list[RuleBreak]:
    """Count the cells of each column that do not fit, and say what becomes of them.

    The counts are exact and not part of any promise. They are for finding mistakes in the table
    and in the schema; the domain itself must come from public knowledge.

    Parameters
    ----------
    data : path, frame or ibis table
        See `hushtable.engine.connect`.
    schema : Schema
        What is public about it.

    Examples
    --------
    >>> import pyarrow as pa
    >>> schema = Schema.parse("{name: t, columns: {age: {type: integer, low: 0, high: 99}}}")
    >>> for misfit in misfits(pa.table({"age": ["41", "200", "old", None]}), schema):
    ...     print(misfit)
    column 'age': 1 rows have no value, and count as 0 (missing: other).
    column 'age': 1 rows cannot be read as a whole number, and count as 0 (missing: other).
    column 'age': 1 rows lie outside 0 to 99, and count as the nearest bound (outside: clip).
    """
    return [
        found if found.kind == "nobody"
        else rule_break(schema, found.column, CODES[found.kind], found.n_rows)
        for found in connect(data, _strict(schema)).rule_breaks()
    ]  # fmt: skip


def _strict(schema: Schema) -> Schema:
    """Give the same domains under rules that let nothing pass."""
    rules = {"missing": "forbid", "outside": "refuse", "other": None}
    columns = {
        name: column if isinstance(column, Identifier) else column.model_copy(update=rules)
        for name, column in schema.columns.items()
    }
    return Schema(
        name=schema.name,
        unit=schema.unit,
        missing_values=schema.missing_values,
        reading=schema.reading,
        columns=columns,
    )
