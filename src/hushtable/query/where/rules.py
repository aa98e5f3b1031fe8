"""Public rules between columns, derived columns, and facts of linked tables.

A rule is a condition that holds for every published row; a rule that is NULL for a row, because a
value is missing, counts as satisfied. ``rules.md`` proves that enforcing rules costs no privacy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hushtable.arrays import Bools
from hushtable.errors import (
    HushtableError,
    ParameterError,
    PredicateError,
    SchemaError,
    TooLarge,
    unpublished,
)
from hushtable.privacy.noise.noise import Noise
from hushtable.query.where.predicate import Predicate, parse
from hushtable.query.where.translate import CategoryOperand, derived_operand
from hushtable.schema import Identifier, Schema
from hushtable.schema.codes import to_codes
from hushtable.schema.linked_schema import LinkedSchema
from hushtable.schema.recoding import Recoding

Recode = Mapping[str, Recoding]


@dataclass(frozen=True)
class RowRule:
    """A rule, and the condition of rows that keep it, which also holds if the rule is NULL."""

    text: str
    kept: Predicate


def rules_of(schema: Schema) -> list[RowRule]:
    """Parse the rules and derived columns of a schema; raise one error that lists all problems.

    Examples
    --------
    >>> schema = Schema.from_dict({"name": "t", "rules": ["a <= b"], "columns": {
    ...     name: {"type": "integer", "low": 0, "high": 9} for name in "ab"}})
    >>> rules_of(schema)[0].kept.count()
    55
    """
    problems, found = [], []
    for text in schema.rules:
        try:
            parse(text, schema)
            found.append(RowRule(text, parse(f"NOT (({text}) IS FALSE)", schema)))
        except PredicateError as error:
            problems += [f"rule {text!r}: {problem}" for problem in error.problems]
    for name in schema.derived:
        try:
            derived_operand(name, schema)
        except PredicateError as error:
            problems += error.problems
    SchemaError.raise_if_any(problems)
    return found


def is_impossible(where: str, schema: Schema) -> bool:
    """Return True if the rules exclude every row that satisfies a condition; False if undecided.

    The result is also False if no rule uses a column of the condition.
    """
    asked = parse(where, schema)
    columns, clauses, left = set(asked.columns), [f"({where})"], rules_of(schema)
    while near := [rule for rule in left if columns & set(rule.kept.columns)]:
        left = [rule for rule in left if rule not in near]
        clauses += [f"({rule.kept.where})" for rule in near]
        columns.update(*(rule.kept.columns for rule in near))
    if len(clauses) == 1:
        return False
    both = parse(" AND ".join(clauses), schema)
    try:
        return both.count(both.columns) == 0
    except TooLarge:
        return False


def kept_rows(table: pa.Table, schema: Schema, recode: Recode | None = None) -> Bools | None:
    """Return which published rows keep all rules, or may; None if there is nothing to check.

    A generalized row may keep a rule if any of the rows that it represents does. Rules that use a
    column that the table lacks are not checked.
    """
    recode = recode or {}
    rules = [r for r in rules_of(schema) if set(r.kept.columns) <= set(table.column_names)]
    if not rules:
        return None
    kept = np.ones(table.num_rows, np.bool_)
    for rule in rules:
        codes = {
            name: to_codes(schema.attributes[name], table.column(name), recode.get(name))
            for name in rule.kept.columns
        }
        cut = {name: recode[name] for name in codes if name in recode}
        kept &= rule.kept.shares(cut, codes) > 0 if cut else rule.kept.mask(codes)
    return kept


def keep_rules(
    rows: pa.Table, schema: Schema, recode: Recode | None = None, *, noise: Noise | None = None
) -> pa.Table:
    """Drop the published rows that break a rule.

    With `noise`, replace each by a copy of a published row that keeps all rules, chosen uniformly
    at random (`rules.md`). If no row keeps all rules, the result is empty.
    """
    kept = kept_rows(rows, schema, recode)
    if kept is None or kept.all():
        return rows
    fine = np.flatnonzero(kept)
    taken = fine
    if noise is not None and len(fine):
        taken = np.arange(len(kept))
        taken[~kept] = fine[noise.uniform_below(len(fine), size=int((~kept).sum()))]
    return rows.take(pa.array(taken))


def with_derived(table: pa.Table, schema: Schema, recode: Recode | None = None) -> pa.Table:
    """Add derived columns of published columns; null if a generalized value leaves them open."""
    for name in schema.derived:
        operand = derived_operand(name, schema)
        source = operand.name if isinstance(operand, CategoryOperand) else operand.column
        if source not in table.column_names or name in table.column_names:
            continue
        column, cut = schema.attributes[source], (recode or {}).get(source)
        ranks = operand.ranks
        assert ranks is not None  # noqa: S101 - derived from a column
        names = operand.column.values if isinstance(operand, CategoryOperand) else None
        values: list[Any] = [rank if names is None else names[rank] for rank in ranks]
        values += [None] * (column.size - len(values))
        if cut is not None:
            behind: list[set[Any]] = [set() for _ in range(cut.size)]
            for code, new in enumerate(cut.apply(np.arange(column.size)).tolist()):
                behind[new].add(values[code])
            values = [found.pop() if len(found) == 1 else None for found in behind]
        codes = to_codes(column, table.column(source), cut)
        kind = pa.int64() if names is None else pa.string()
        table = table.append_column(name, pa.array(values, kind).take(pa.array(codes)))
    return table


# Schema of a subset of columns, with the rules and derived columns that use only these.

_LEFT_OUT = Identifier(role="identifier")


def only(schema: Schema, columns: Sequence[str]) -> Schema:
    """Return the schema with all other published columns left out, as if they were identifiers.

    Examples
    --------
    >>> text = (
    ...     "{name: t, columns: {age: {type: integer, low: 0, high: 9}, sex: {type: categorical,"
    ...     " values: [F, M]}}, rules: ['age < 9', 'sex IS NOT NULL OR age > 0']}"
    ... )
    >>> ages = only(Schema.parse(text), ["age"])
    >>> list(ages.attributes), ages.rules
    (['age'], ('age < 9',))
    """
    problems = unpublished(columns, schema.attributes)
    if problems or not columns:
        raise ParameterError(problems or "columns is empty; name at least one column to publish.")
    kept = {
        name: column if name in columns or isinstance(column, Identifier) else _LEFT_OUT
        for name, column in schema.columns.items()
    }
    # Rules and derived columns stay only if all their columns do.
    plain = {**schema.to_dict(), "columns": kept, "rules": [], "derived": {}}
    some = Schema.from_dict(plain)
    derived = {
        name: text for name, text in schema.derived.items() if _can_be_derived(name, text, some)
    }
    some = Schema.from_dict(plain | {"derived": derived})
    rules = [text for text in schema.rules if _can_be_read(text, some)]
    return Schema.from_dict(plain | {"derived": derived, "rules": rules})


def _can_be_read(text: str, schema: Schema) -> bool:
    """Return whether a rule uses only columns of a schema."""
    try:
        parse(text, schema)
    except PredicateError:
        return False
    return True


def _can_be_derived(name: str, text: str, schema: Schema) -> bool:
    """Return whether a derived column uses only columns of a schema."""
    try:
        derived_operand(name, Schema.from_dict(schema.to_dict() | {"derived": {name: text}}))
    except (PredicateError, SchemaError):
        return False
    return True


# --- facts of linked tables: conditions on one column ---------------------------------------------

MAX_CODES = 1 << 24
"""Maximum number of codes of a column in a fact; the condition is evaluated on each code."""


@dataclass(frozen=True, eq=False)
class LinkedFact:
    """A condition on one column."""

    column: str  # name of the column
    truth: Bools  # whether the condition holds, for each code

    def is_same(self, other: LinkedFact) -> bool:
        """Return whether two conditions are equivalent."""
        return self.column == other.column and np.array_equal(self.truth, other.truth)

    @property
    def runs(self) -> list[tuple[int, int]]:
        """First and last code of each run of codes that satisfy the condition."""
        edges = np.flatnonzero(np.diff(self.truth.astype(np.int8), prepend=0, append=0))
        return [(int(start), int(stop) - 1) for start, stop in edges.reshape(-1, 2)]


def facts_through(schema: LinkedSchema, name: str) -> dict[str, LinkedFact]:
    """Return the facts of tables below a table, as conditions on its own columns of that name."""
    columns = schema.child_columns(name)
    return {
        fact: LinkedFact(fact, np.arange(columns[fact].size) == 1)
        for fact in schema.facts_below(name)
    }


def fact_of(where: str, schema: Schema) -> LinkedFact:
    """Parse a condition on one column of a table.

    Examples
    --------
    >>> schema = Schema.parse("{name: t, columns: {age: {type: integer, low: 0, high: 9}}}")
    >>> fact_of("age < 3 or age = 8", schema).runs
    [(0, 2), (8, 8)]
    """
    predicate = parse(where, schema)
    if len(predicate.columns) != 1:
        raise SchemaError(f"{where!r} must use exactly one column of the table.")
    (name,) = predicate.columns
    size = schema.attributes[name].size
    if size > MAX_CODES:
        raise SchemaError(f"{where!r}: column {name!r} has more than {MAX_CODES:,} values.")
    return LinkedFact(name, predicate.mask({name: np.arange(size)}))


def facts_of(schema: LinkedSchema) -> dict[str, dict[str, LinkedFact]]:
    """Parse all facts, by table and name; raise one error that lists all problems."""
    problems: list[str] = []
    found: dict[str, dict[str, LinkedFact]] = {}
    for name, table in schema.tables.items():
        found[name] = {}
        for fact, where in table.facts.items():
            try:
                found[name][fact] = fact_of(where, schema.own(name))
            except HushtableError as error:
                problems += [f"table {name!r}: fact {fact!r}: {why}" for why in error.problems]
    SchemaError.raise_if_any(problems)
    return found
