"""Questions about linked tables: the table that is counted, and the clause in its wide columns.

``persons.age >= 65 AND EXISTS visits.ward = 'icu'`` counts persons: EXISTS refers to a fact that
the schema declares, which is a column of the parent. ``visits.ward = 'icu' AND persons.age > 9``
counts visits, the lowest table named outside of EXISTS. ``previous.ward`` is the ward of the
previous visit.
"""

from __future__ import annotations

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from hushtable.errors import HushtableError, PredicateError, Refused
from hushtable.query.where.formula import shorten
from hushtable.query.where.linked_facts import LinkedFact, fact_of
from hushtable.query.where.syntax import SqlNode, quote
from hushtable.schema.linked_schema import PREVIOUS, LinkedSchema

_DIALECT = "duckdb"
_ENDS = ("AND", "OR")

COLUMN_BY_COLUMN = (
    "transitions between successive rows were measured for each column separately, so use one "
    "column of both rows, such as visits.ward = 'icu' AND previous.ward = 'er'. For other "
    "combinations, use the synthetic rows (without a valid interval)."
)
"""Reason for refusing a question about previous rows."""


def with_parentheses(where: str) -> str:
    """Put the condition of each EXISTS in parentheses, if it has none.

    Examples
    --------
    >>> with_parentheses("EXISTS visits.day BETWEEN 1 AND 9 AND age > 3")
    'EXISTS (visits.day BETWEEN 1 AND 9) AND age > 3'
    """
    tokens = sqlglot.tokenize(where, dialect=_DIALECT)
    added: list[tuple[int, str]] = []
    for place, token in enumerate(tokens[:-1]):
        if token.text.upper() != "EXISTS" or tokens[place + 1].text == "(":
            continue
        added.append((tokens[place + 1].start, "("))
        depth, between, end = 0, False, len(where)
        for one in tokens[place + 1 :]:
            word = one.text.upper() if one.token_type.name != "STRING" else ""
            depth += (word == "(") - (word == ")")
            if depth < 0 or (depth == 0 and word in _ENDS and not (word == "AND" and between)):
                end = one.start
                break
            between = word == "BETWEEN" or (between and word != "AND")
        end = len(where[:end].rstrip())
        added.append((end, ")"))
    for start, sign in sorted(added, reverse=True):
        where = where[:start] + sign + where[start:]
    return where


def read(
    where: str, schema: LinkedSchema, facts: dict[str, dict[str, LinkedFact]]
) -> tuple[str, str, bool]:
    """Return the counted table, the clause in wide columns, and if it uses previous rows.

    With previous rows, the columns are those of `LinkedSchema.steps`.
    """
    try:
        tree = sqlglot.parse_one(with_parentheses(where), into=exp.Condition, dialect=_DIALECT)
    except (SqlglotError, RecursionError):
        # The clause parser will report the error.
        return schema.root, where, False
    whole = exp.Paren(this=tree)
    names = {name.lower(): name for name in schema.tables}
    told = [(node, *_fact(node, schema, facts, names)) for node in [*whole.find_all(exp.Exists)]]
    for node, above, fact in told:
        node.replace(exp.column(fact, table=above, quoted=True))
    columns = list(whole.find_all(exp.Column))
    named = {_table_of(column, names) for column in columns}
    base, follows = _lowest(named, schema), PREVIOUS in named
    if follows and named - {base, PREVIOUS}:
        raise Refused(f"{shorten(where)!r} also uses other tables: {COLUMN_BY_COLUMN}")
    for column in columns:
        table = _table_of(column, names)
        if table == base or (not table and base == schema.root):
            column.set("table", None)
            continue
        if not table:
            raise PredicateError(
                f"{quote(column)}: the clause counts rows of {base}, so the column needs a table "
                f"name, such as {base}.{column.name}."
            )
        column.replace(exp.column(f"{table}.{column.name}", quoted=True))
    return base, str(whole.this.sql(dialect=_DIALECT)), follows


def _table_of(column: SqlNode, names: dict[str, str]) -> str:
    table = column.table.lower()
    if table in ("", PREVIOUS):
        return str(table)
    if table not in names:
        raise PredicateError(f"there is no table {column.table!r}; there are {', '.join(names)}.")
    return names[table]


def _lowest(named: set[str], schema: LinkedSchema) -> str:
    """Return the lowest of some tables; all others must be its ancestors."""
    tables = [name for name in schema.tables if name in named]  # parents come first
    base = tables[-1] if tables else schema.root
    above, lineage = schema.tables[base].parent, [base]
    while above is not None:
        lineage.append(above)
        above = schema.tables[above].parent
    beside = [name for name in tables if name not in lineage]
    if beside:
        raise PredicateError(
            f"{base} is not a child table of {', '.join(beside)}; a clause may use one table and "
            "its ancestors. Use EXISTS for other tables."
        )
    if PREVIOUS in named and schema.tables[base].order is None:
        raise PredicateError(f"{PREVIOUS}: rows of {base} have no order in the schema.")
    return base


def _fact(
    node: SqlNode,
    schema: LinkedSchema,
    facts: dict[str, dict[str, LinkedFact]],
    names: dict[str, str],
) -> tuple[str, str]:
    """Return the parent table and name of the declared fact that an EXISTS refers to."""
    condition = node.this
    if isinstance(condition, exp.Select):
        source, clause = condition.args.get("from_") or condition.args.get("from"), None
        clause = condition.args.get("where")
        tables = {source.this.name.lower()} if source is not None else set()
        condition = clause.this if clause is not None else exp.true()
    else:
        tables = set()
    columns = list(condition.find_all(exp.Column))
    tables |= {column.table.lower() for column in columns if column.table}
    if len(tables) != 1 or not tables <= set(names):
        raise PredicateError(
            f"{quote(node)} must use columns of one table, such as EXISTS visits.ward = 'icu'; "
            f"the tables are {', '.join(schema.tables)}."
        )
    table = names[tables.pop()]
    above = schema.tables[table].parent
    if above is None:
        raise PredicateError(f"{quote(node)}: {table} has no parent table; leave out EXISTS.")
    for column in columns:
        column.set("table", None)
    text = str(condition.sql(dialect=_DIALECT))
    try:
        asked = fact_of(text, schema.own(table))
    except HushtableError as error:
        raise type(error)(error.problems) from None
    for name, fact in facts[table].items():
        if fact.is_same(asked):
            return above, name
    known = [f"{name}: {where}" for name, where in schema.tables[table].facts.items()]
    raise Refused(
        f"this release has no answer for EXISTS {table} with {text}: for rows of {above}, it was "
        f"measured only for the facts declared in the schema ({'; '.join(known) or 'none'}), and "
        "the synthetic rows give no valid interval. Declare it under facts before publishing, or "
        "use one of these."
    )
