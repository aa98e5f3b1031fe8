"""Lookups in the analyst's public tables: ``country IN (SELECT name FROM regions ...)``.

A lookup is answered from the analyst's own table and replaced by a list of values before the clause
is parsed. The private table is never involved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from hushtable.errors import PredicateError
from hushtable.extras import needing
from hushtable.query.where.syntax import SqlNode, quote, syntax_tree, text_of
from hushtable.schema import Categorical, Schema

_DIALECT = "duckdb"
_SELECT_PARTS = {"expressions", "from", "from_", "where"}
_FORM = "a lookup has the form column IN (SELECT column FROM table WHERE condition)"


def look_up(where: str, schema: Schema, tables: Mapping[str, pa.Table]) -> str:
    """Replace each lookup of a clause by the values it finds.

    Parameters
    ----------
    where : str
        The clause.
    schema : Schema
        The public schema; values outside the domain of a categorical column are dropped.
    tables : mapping of str to Arrow table
        Public tables of the analyst, by name.

    Returns
    -------
    str
        The clause without lookups.

    Examples
    --------
    >>> schema = Schema.from_dict({"name": "t", "columns": {
    ...     "country": {"type": "categorical", "values": ["Chad", "Mali", "Peru"]}}})
    >>> regions = pa.table({"name": ["Chad", "Mali", "Niger", "Peru"],
    ...                     "continent": ["Africa", "Africa", "Africa", "America"]})
    >>> look_up("country IN (SELECT name FROM regions WHERE continent = 'Africa')", schema,
    ...         {"regions": regions})
    "country IN ('Chad', 'Mali')"
    """
    try:
        tree = sqlglot.parse_one(where, into=exp.Condition, dialect=_DIALECT)
    except (SqlglotError, RecursionError):
        return where  # the parser of clauses reports the error
    lookups = [node for node in tree.find_all(exp.In) if node.args.get("query") is not None]
    # The wrapper gives a clause that is a single lookup a parent to be replaced in.
    whole = exp.Paren(this=tree)
    for node in lookups:
        node.replace(_answered(node, schema, tables))
    return str(whole.this.sql(dialect=_DIALECT)) if lookups else where


def _answered(node: SqlNode, schema: Schema, tables: Mapping[str, pa.Table]) -> SqlNode:
    select = node.args["query"].unnest()
    found = _values(select, tables)
    column = node.this
    if not isinstance(column, exp.Column):
        raise PredicateError(f"{quote(column)} is not a column; {_FORM}.")
    if not found:
        return exp.false()
    names = {name.lower(): kind for name, kind in schema.attributes.items()}
    kind = names.get(column.name.lower())
    kept = [v for v in found if v is not None]
    if isinstance(kind, Categorical):
        kept = [value for value in kept if value in kind.values]
    listed = [exp.convert(value) for value in kept] + [exp.null()] * (None in found)
    if not listed:
        # No value found is in the domain: FALSE, but NULL if the column has no value.
        missing = exp.Is(this=column.copy(), expression=exp.null())
        return exp.Paren(this=exp.And(this=missing, expression=exp.null()))
    return exp.In(this=column.copy(), expressions=listed)


def _values(select: SqlNode, tables: Mapping[str, pa.Table]) -> list[Any]:
    """Run a lookup and return the distinct values it finds."""
    present = {key for key, value in select.args.items() if value not in (None, False, [])}
    source = select.find(exp.Table) if isinstance(select, exp.Select) else None
    wanted = select.expressions if isinstance(select, exp.Select) else []
    if (
        source is None
        or not present <= _SELECT_PARTS
        or [type(part) for part in wanted] != [exp.Column]
        or len(list(select.find_all(exp.Select, exp.Table))) != 2
    ):
        raise PredicateError(f"{quote(select)} cannot be looked up; {_FORM}.")
    names = {name.lower(): name for name in tables}
    if source.name.lower() not in names or {k for k, v in source.args.items() if v} != {"this"}:
        given = ", ".join(tables) or "none"
        raise PredicateError(f"there is no lookup table {source.name!r}; given tables: {given}.")
    condition = select.args.get("where")
    if condition is not None:
        syntax_tree(text_of(condition.this))  # raises unless the condition is an allowed clause
    with needing("publish", "a lookup"):
        import duckdb  # noqa: PLC0415 - most questions have no lookup
    connection = duckdb.connect(config={"enable_external_access": "false"})
    try:
        connection.register(source.name, tables[names[source.name.lower()]])
        rows = connection.execute(f"SELECT DISTINCT * FROM ({text_of(select)})").fetchall()  # noqa: S608
    except duckdb.Error as error:
        first = str(error).splitlines()[0]
        raise PredicateError(f"{quote(select)} cannot be looked up: {first}") from None
    finally:
        connection.close()
    return sorted((value for (value,) in rows), key=lambda value: (value is None, str(value)))
