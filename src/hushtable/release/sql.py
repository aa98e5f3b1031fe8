"""SQL queries on a release: SELECT with aggregates and GROUP BY, answered with intervals."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from hushtable.errors import PredicateError
from hushtable.query.answers import Estimate
from hushtable.query.answers.questions import quoted
from hushtable.query.answers.table import EstimateTable
from hushtable.query.where.syntax import DIALECT, SqlNode, check_tokens, quote

if TYPE_CHECKING:
    from hushtable.release.release import Release

_Ask = Callable[["Release", str | None, tuple[str, ...]], Estimate | EstimateTable]

AGGREGATES = (
    "count(*), count(column), avg(column), sum(column), median(column), var_pop(column), "
    "corr(column, column) or quantile_disc(column, probability)"
)
_NO_OTHER = {  # further clauses of SELECT, with the reason why they are refused
    "having": "HAVING would select groups by noisy values, so that their intervals would not hold; "
    "filter the answer instead.",
    "limit": "LIMIT would select groups by noisy values, so that their intervals would not hold; "
    "select from the answer instead.",
    "order": "ORDER BY is not supported; sort the answer: to_pandas().sort_values('value').",
    "distinct": "DISTINCT is not supported: a release does not say which values occur.",
    "joins": "joins are not supported; a query reads one table.",
    "with_": "WITH is not supported; write one SELECT.",
}


def answer_query(release: Release, query: str) -> Estimate | EstimateTable:
    """Answer a SELECT over the table ``release``; raise one error that lists all problems.

    Several aggregates become rows of one table, distinguished by the column ``statistic``.
    """
    select = _parse(query)
    problems = _problems_of(select)
    grouping = select.args.get("group")
    by = [node.name for node in grouping.expressions] if grouping and not problems else []
    asked: dict[str, _Ask] = {}
    unknown = []
    for item in select.expressions:
        node = item.this if isinstance(item, exp.Alias) else item
        if _is_column(node):
            if node.name not in by and not problems:
                problems.append(f"{quote(node)} must be in GROUP BY, or inside an aggregate.")
            continue
        if ask := _aggregate(node):
            asked[item.alias or node.sql(dialect=DIALECT).lower()] = ask
        else:
            unknown.append(quote(node))
    if unknown or not (asked or problems):
        wrong = f"{' and '.join(unknown)} cannot be answered" if unknown else "nothing is computed"
        problems.append(f"{wrong}; write {AGGREGATES}. For rows, use to_pandas().")
    if problems:
        raise PredicateError(problems)
    condition = select.args.get("where")
    where = condition.this.sql(dialect=DIALECT, comments=False) if condition else None
    answers = {name: ask(release, where, tuple(by)) for name, ask in asked.items()}
    if len(answers) == 1:
        return next(iter(answers.values()))
    rows = [
        ((*key, name), estimate)
        for name, answer in answers.items()
        for key, estimate in (answer if isinstance(answer, EstimateTable) else [((), answer)])
    ]
    places = {key: place for place, key in enumerate(dict.fromkeys(key[:-1] for key, _ in rows))}
    rows.sort(key=lambda row: places[row[0][:-1]])
    keys, estimates = zip(*rows, strict=True)
    tables = [answer for answer in answers.values() if isinstance(answer, EstimateTable)]
    labels = tables[0].labels if tables else {}
    return EstimateTable((*by, "statistic"), keys, estimates, labels)


def _parse(query: str) -> SqlNode:
    if not isinstance(query, str):
        raise PredicateError(f"the query is {type(query).__name__}; it must be text.")
    check_tokens(query)
    try:
        tree = sqlglot.parse_one(query, dialect=DIALECT)
    except (SqlglotError, RecursionError):
        raise PredicateError(
            "the query cannot be parsed; write SELECT column, avg(column) FROM release WHERE "
            "condition GROUP BY column."
        ) from None
    if type(tree) is not exp.Select:
        raise PredicateError(f"only SELECT is supported, not {type(tree).__name__.upper()}.")
    return tree


def _problems_of(select: SqlNode) -> list[str]:
    """List the clauses that are not supported."""
    problems = []
    for name in _present(select) - {"expressions", "from_", "where", "group"}:
        problems.append(_NO_OTHER.get(name, f"{name.strip('_').upper()} is not supported."))
    source = select.args["from_"].this if select.args.get("from_") else None
    if type(source) is not exp.Table or _present(source) != {"this"} or source.name != "release":
        problems.append("the query must read FROM release, without an alias.")
    group = select.args.get("group")
    if group and (
        _present(group) != {"expressions"} or not all(map(_is_column, group.expressions))
    ):
        problems.append("GROUP BY takes names of columns only.")
    return sorted(problems)


def _aggregate(node: SqlNode) -> _Ask | None:
    """Return the question that an aggregate asks; None if it is not supported."""
    column, kind = node.args.get("this"), type(node)
    if kind is exp.Count and _present(node) <= {"this", "big_int"}:
        if type(column) is exp.Star and not _present(column):
            return lambda release, where, by: release.count(where, by=by)
        if _is_column(column):
            known = f"{quoted(column.name)} IS NOT NULL"
            return lambda release, where, by: release.count(
                f"{known} AND ({where})" if where else known, by=by
            )
    names = {exp.Avg: "mean", exp.Sum: "total", exp.Median: "median", exp.VariancePop: "variance"}
    if kind in names and _present(node) == {"this"} and _is_column(column):
        return lambda release, where, by: getattr(release, names[kind])(column.name, where, by=by)
    other = node.args.get("expression")
    if _present(node) == {"this", "expression"} and _is_column(column):
        if kind is exp.Corr and _is_column(other):
            return lambda release, where, by: release.correlation(
                column.name, other.name, where, by=by
            )
        if kind is exp.PercentileDisc and isinstance(other, exp.Literal) and not other.is_string:
            share = float(other.this)
            return lambda release, where, by: release.quantile(column.name, share, where, by=by)
    return None


def _present(node: SqlNode) -> set[str]:
    return {name for name, value in node.args.items() if value not in (None, False, [])}


def _is_column(node: Any) -> bool:
    return type(node) is exp.Column and _present(node) == {"this"}
