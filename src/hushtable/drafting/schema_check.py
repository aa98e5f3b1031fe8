"""Out-of-domain values of a table and broken rules, for the custodian only."""

from __future__ import annotations

from hushtable.drafting.names import say
from hushtable.engine.engine import CODES, Engine, rule_break
from hushtable.engine.open_table import connect
from hushtable.engine.rule_breaks import RuleBreak
from hushtable.engine.sources.header import Data
from hushtable.privacy.unit import Unit
from hushtable.query.where import parse
from hushtable.query.where.rules import rules_of
from hushtable.schema import Identifier, Schema


def out_of_domain(data: Data, schema: Schema) -> list[RuleBreak]:
    """Count the out-of-domain values of each column, and describe how they are handled.

    Also count the rows without a person, the rows beyond the maximum per person, and the rows that
    break a rule between columns. The counts are exact and not covered by any promise. Use them to
    find mistakes in the table and in the schema; the domain itself must come from public knowledge.

    Parameters
    ----------
    data : path, frame or ibis table
        See `hushtable.engine.connect`.
    schema : Schema
        Public schema of the table.

    Examples
    --------
    >>> import pyarrow as pa
    >>> schema = Schema.parse("{name: t, columns: {age: {type: integer, low: 0, high: 99}}}")
    >>> for misfit in out_of_domain(pa.table({"age": ["41", "200", "old", None]}), schema):
    ...     print(misfit)
    column 'age': 1 rows have no value, and count as missing (missing: category).
    column 'age': 1 rows cannot be read as a whole number, and count as missing (missing: category).
    column 'age': 1 rows lie outside 0 to 99, and count as the nearest bound (outside: clip).
    """
    strict = connect(data, _with_rules(schema, missing="forbid", outside="refuse"))
    fitting = [
        found if found.kind == "nobody"
        else rule_break(schema, found.column, CODES[found.kind], found.n_rows)
        for found in strict.rule_breaks()
    ]  # fmt: skip
    n_nobody = sum(found.n_rows for found in fitting if found.kind == "nobody")
    return [*fitting, *_left_out(data, strict, n_nobody), *_broken_rules(data, schema)]


def _left_out(data: Data, strict: Engine, n_nobody: int) -> list[RuleBreak]:
    """Count the rows beyond the unit's maximum per person."""
    unit = strict.schema.unit
    if unit.column is None:
        return []
    by_row = connect(data, strict.schema.model_copy(update={"unit": Unit(kind="row")}))
    n_rows = by_row.n_rows() - n_nobody - strict.n_rows()
    said = say("surplus rows", max_rows=unit.max_rows)
    return [RuleBreak(unit.column, said, n_rows, "surplus", refused=False)] if n_rows else []


def _broken_rules(data: Data, schema: Schema) -> list[RuleBreak]:
    """Count the rows that break a rule between columns."""
    rules = rules_of(schema)
    if not rules:
        return []
    engine = connect(data, _with_rules(schema, missing="category", outside="missing"))
    found = []
    for rule in rules:
        columns = list(rule.kept.columns)
        cells = engine.counts(columns)
        shown = parse(rule.kept.where, engine.schema)
        kept = shown.mask({name: cells.codes[:, at] for at, name in enumerate(columns)})
        n_rows = int(cells.counts[~kept].sum())
        said = f"break the rule {rule.text!r} and count unchanged; no published row breaks it"
        if n_rows:
            found.append(RuleBreak(", ".join(columns), said, n_rows, "rule", refused=False))
    return found


def _with_rules(schema: Schema, *, missing: str, outside: str) -> Schema:
    """Return the schema with other rules for missing and out-of-domain values."""
    rules = {"missing": missing, "outside": outside, "other": None}
    columns = {
        name: column if isinstance(column, Identifier) else column.model_copy(update=rules)
        for name, column in schema.columns.items()
    }
    return schema.model_copy(update={"columns": columns})
