"""Schema of a subset of columns, with the rules and derived columns that use only these."""

from __future__ import annotations

from collections.abc import Sequence

from hushtable.errors import ParameterError, PredicateError, SchemaError
from hushtable.query.where.predicate import parse
from hushtable.query.where.translate import derived_operand
from hushtable.schema import Identifier, Schema

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
    problems = [
        f"{name!r} is not a published column; published columns are {', '.join(schema.attributes)}."
        for name in columns
        if name not in schema.attributes
    ]
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
