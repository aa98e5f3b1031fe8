"""Checks common to all engines: validity of a query, and rows that break rules of the schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hushtable.engine.base import MAX_GROUP, MAX_HISTOGRAM
from hushtable.engine.baskets import ItemColumns, ItemGroups
from hushtable.engine.rule_breaks import MISSING, OUTSIDE, UNREADABLE, MisfitKind, RuleBreak
from hushtable.errors import DataError, ParameterError, TooLarge, shown
from hushtable.schema import Categorical, Column, Schema
from hushtable.schema.recoding import Recoding, recoded_domain

N_RULES = 3  # negative codes: MISSING, UNREADABLE, OUTSIDE


def require_columns(schema: Schema, columns: Sequence[str], *, by: str | None = None) -> None:
    """Raise an error if columns are not published, repeated or missing."""
    named = [*columns] if by is None else [*columns, by]
    problems = [
        f"column {name!r} is not a published column; the schema has {', '.join(schema.attributes)}."
        for name in dict.fromkeys(named)
        if name not in schema.attributes
    ]
    problems += [
        f"column {name!r} is given more than once; give each column once."
        for name in dict.fromkeys(columns)
        if list(columns).count(name) > 1
    ]
    if not columns:
        problems.append("no column is given; give at least one.")
    if problems:
        raise ParameterError(problems)


def require_dense(schema: Schema, columns: Sequence[str], *, by: str | None = None) -> None:
    """Raise an error if a histogram has too many cells for a dense array."""
    n_by = 1 if by is None else schema.attributes[by].size
    problems = []
    for name in columns:
        n_cells = schema.attributes[name].size * n_by
        if n_cells > MAX_HISTOGRAM:
            problems.append(
                f"column {name!r}: a histogram of {n_cells} cells is over the limit of "
                f"{MAX_HISTOGRAM}; use a coarser step or tighter bounds."
            )
    if problems:
        raise TooLarge(problems)


def require_marginals(
    schema: Schema, groups: Sequence[Sequence[str]], recode: Mapping[str, Recoding] | None
) -> list[tuple[int, ...]]:
    """Return the shapes of marginal tables; raise an error if one is too large for an array."""
    if not groups:
        raise ParameterError("no group of columns is given; give at least one.")
    shapes, problems = [], []
    for group in groups:
        require_columns(schema, group)
        domain = recoded_domain(schema, group, recode)
        shapes.append(domain.shape)
        if domain.size > MAX_HISTOGRAM or len(group) > MAX_GROUP:
            problems.append(
                f"columns {', '.join(map(repr, group))}: a table of {domain.size} cells of "
                f"{len(group)} columns is over the limit of {MAX_HISTOGRAM} cells and {MAX_GROUP} "
                "columns; use coarser or fewer columns."
            )
    if problems:
        raise TooLarge(problems)
    return shapes


def require_groups(schema: Schema, groups: ItemGroups, item_columns: ItemColumns | None) -> None:
    """Raise an error if the groups or item columns of a tuple query are invalid."""
    n_items = len(schema.attributes)
    if item_columns is not None:
        require_columns(schema, [item_columns.item, item_columns.value])
        item = schema.attributes[item_columns.item]
        n_items = item.n_values
        problems = []
        if not isinstance(item, Categorical):
            problems.append(f"column {item_columns.item!r}: items must be a categorical column.")
        if schema.unit.kind != "person":
            problems.append(
                f"the unit is {schema.unit.kind}; a long table needs the unit person, whose values "
                "are combined."
            )
        if problems:
            raise ParameterError(problems)
    if not groups or any(
        not group or len(set(group)) < len(group) or not all(0 <= i < n_items for i in group)
        for group in groups
    ):
        raise ParameterError(f"each group must consist of distinct items from 0 to {n_items - 1}.")


_KINDS: dict[int, MisfitKind] = {
    MISSING: "missing",
    UNREADABLE: "unreadable",
    OUTSIDE: "outside",
}
CODES = {kind: code for code, kind in _KINDS.items()}

_ADVICE = (
    "the default rules accept every table; choose the domain from public knowledge, never from "
    "the values of these rows"
)


def rule_break(schema: Schema, name: str, code: int, n_rows: int) -> RuleBreak:
    """Return the description of a negative code's rows, and of how they are handled."""
    column = schema.attributes[name]
    from hushtable.engine.encode import RuleCodes  # noqa: PLC0415 - loads ibis

    rules = RuleCodes.of(column)
    taken = {MISSING: rules.no_value, UNREADABLE: rules.unreadable, OUTSIDE: rules.above}[code]
    by_outside = code == OUTSIDE or (code == UNREADABLE and column.outside != "clip")
    said = f"outside: {column.outside}" if by_outside else f"missing: {column.missing}"
    if taken < 0:
        what = f"and the schema says {said}; {_ADVICE}"
    elif code == OUTSIDE and column.outside == "clip":
        what = f"and count as the nearest bound ({said})"
    else:
        apart = taken >= column.n_values
        value = column.name(taken) if apart else shown(column.value(taken))
        what = f"and count as {value} ({said})"
    return RuleBreak(
        name, f"{_out_of_domain(column, code)}, {what}", n_rows, _KINDS[code], taken < 0
    )


def _out_of_domain(column: Column, code: int) -> str:
    if code == MISSING:
        return "have no value"
    if code == UNREADABLE:
        words = {"integer": "whole number", "decimal": "number"}
        return f"cannot be read as a {words.get(column.type, column.type)}"
    if isinstance(column, Categorical):
        return "lie outside the listed values"
    return f"lie outside {column.bounds}"


def rule_breaks(schema: Schema, found: Iterable[tuple[str, int, int]]) -> list[RuleBreak]:
    """Return broken rules in the order of the schema, from (column, negative code, rows)."""
    order = {name: position for position, name in enumerate(schema.attributes)}
    rank = {MISSING: 0, UNREADABLE: 1, OUTSIDE: 2}
    ordered = sorted(found, key=lambda item: (order[item[0]], rank[item[1]]))
    return [rule_break(schema, *item) for item in ordered if item[2] > 0]


def person_break(schema: Schema, n_rows: int) -> RuleBreak:
    """Return the finding that rows have no person."""
    return RuleBreak(
        schema.unit.column or "",
        "have no person and do not count, since a person's contribution could not be bounded",
        n_rows,
        "nobody",
        refused=False,
    )


def refuse_broken(breaks: Sequence[RuleBreak]) -> None:
    """Raise one error that names every broken rule."""
    if breaks:
        raise DataError([str(broken) for broken in breaks])
