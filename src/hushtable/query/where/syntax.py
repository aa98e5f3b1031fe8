"""Parser of WHERE clauses with an allow-list of syntax."""

from __future__ import annotations

from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError

from hushtable.errors import PredicateError
from hushtable.query.where.formula import shorten

SqlNode = Any  # the base class of sqlglot's nodes has changed its name between versions

DIALECT = sqlglot.Dialect.get_or_raise("duckdb")  # loaded here, not with the first question
# Limit of nested parentheses, NOT and signs. The parser uses about 20 stack frames per level, so
# this leaves half of Python's stack to the caller.
_MAX_NESTING = 24
MAX_CLAUSE = 2_000_000  # characters
MAX_OPERATORS = 10_000  # AND, OR and NOT
_TOO_DEEP = f"the clause is nested too deeply; at most {_MAX_NESTING} levels are allowed."
_ALLOWED = (
    "columns, numbers, texts in single quotes, TRUE, FALSE, NULL, + - * / %, comparisons, "
    "IN (list), BETWEEN, LIKE, IS NULL, IS TRUE, IS FALSE, AND, OR, NOT and parentheses, "
    "POWER of numbers, and band, weekday, year, quarter, month and hour of a column"
)
FUNCTIONS = ("band", "weekday", "year", "quarter", "month", "hour")

COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)

# Node type -> required and optional arguments. Arguments that are not listed are refused, so that a
# newer parser cannot add a meaning unnoticed.
_NODES: dict[type[SqlNode], tuple[set[str], set[str]]] = {
    **dict.fromkeys(
        (*COMPARISONS, exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.Pow, exp.And, exp.Or, exp.Is),
        ({"this", "expression"}, set()),
    ),
    exp.Div: ({"this", "expression"}, {"typed", "safe"}),  # set by the parser, not by the user
    exp.Like: ({"this", "expression"}, {"negate"}),
    exp.In: ({"this", "expressions"}, set()),
    exp.Between: ({"this", "low", "high"}, set()),
    exp.Neg: ({"this"}, set()),
    exp.Not: ({"this"}, set()),
    exp.Paren: ({"this"}, set()),
    exp.Column: ({"this"}, set()),
    exp.Identifier: ({"this"}, {"quoted"}),
    exp.Literal: (set(), {"this", "is_string"}),
    exp.Boolean: (set(), {"this"}),
    exp.Null: (set(), set()),
    exp.Anonymous: ({"this", "expressions"}, set()),
    **dict.fromkeys((exp.Year, exp.Quarter, exp.Month, exp.Hour), ({"this"}, set())),
}


def function_of(node: SqlNode) -> str | None:
    """Return the name of the allowed function that a node calls, or None."""
    name = node.this if isinstance(node, exp.Anonymous) else type(node).__name__
    return name.lower() if isinstance(name, str) and name.lower() in FUNCTIONS else None


def argument_of(node: SqlNode) -> SqlNode:
    """Return the argument of a function."""
    return node.expressions[0] if isinstance(node, exp.Anonymous) else node.this


# Operator precedence. Many versions of the parser read a + b % c as (a + b) % c.
_BINDING: dict[type[SqlNode], int] = {exp.Add: 1, exp.Sub: 1, exp.Mul: 2, exp.Div: 2, exp.Mod: 2}
_TIGHTEST = 3


def syntax_tree(where: str) -> SqlNode:
    """Parse one condition of allowed syntax; raise one error that lists all problems.

    Examples
    --------
    >>> type(syntax_tree("age > 3")).__name__
    'GT'
    >>> syntax_tree("age > 3; DROP TABLE people")
    Traceback (most recent call last):
        ...
    hushtable.errors.PredicateError: ';' is not allowed; write one condition.
    """
    if not isinstance(where, str):
        raise PredicateError(f"the clause is {type(where).__name__}; it must be text.")
    if not where.strip():
        raise PredicateError("the clause is empty; write a condition such as age >= 40.")
    try:
        check_tokens(where)
        tree = sqlglot.parse_one(where, into=exp.Condition, dialect=DIALECT)
    except RecursionError:
        raise PredicateError(_TOO_DEEP) from None
    except ParseError as error:
        raise PredicateError(_unreadable(error)) from None
    except SqlglotError:
        raise PredicateError(
            f"{shorten(where)!r} cannot be parsed; check for an unclosed quote or bracket."
        ) from None
    refused = _refused(tree)
    PredicateError.raise_if_any(refused)
    return tree


def text_of(node: SqlNode) -> str:
    """Return the SQL text of an allowed node."""
    # copy=False, because copying long lists is slow; allowed nodes are written unchanged.
    return str(node.sql(dialect=DIALECT, comments=False, copy=False))


def quote(node: SqlNode) -> str:
    """Quote any node for a message."""
    try:
        text = node.sql(dialect=DIALECT, comments=False, unsupported_level=ErrorLevel.IGNORE)
    except (SqlglotError, ValueError, TypeError, AttributeError):  # misread nodes have no text
        text = type(node).__name__.upper()
    return repr(shorten(text))


def unquoted(node: SqlNode) -> SqlNode:
    """Strip parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _unreadable(error: ParseError) -> str:
    found = error.errors[0] if error.errors else {}
    near = f" near {shorten(str(found['highlight']))!r}" if found.get("highlight") else ""
    return (
        f"the clause cannot be parsed{near}; write one condition without the word WHERE, and put "
        "column names that are SQL keywords or have special characters in double quotes."
    )


_OPENING = ("L_PAREN", "L_BRACKET", "L_BRACE")
_CLOSING = ("R_PAREN", "R_BRACKET", "R_BRACE")
_PREFIXES = ("NOT", "DASH", "PLUS", "TILDE", "TILDA")


def check_tokens(where: str) -> None:
    """Refuse comments, several statements and deep nesting before parsing."""
    if len(where) > MAX_CLAUSE:
        raise PredicateError(f"the clause has more than {MAX_CLAUSE:,} characters; shorten it.")
    n_operators = 0
    levels, prefixes, end = [0], 0, 0  # levels: nesting depth of each open bracket
    for token in sqlglot.tokenize(where, dialect=DIALECT):
        _check_gap(where[end : token.start])
        end = token.end + 1
        kind = token.token_type.name
        if kind == "SEMICOLON":
            raise PredicateError("';' is not allowed; write one condition.")
        if kind == "DSTAR":  # databases read -a ** 2 in two ways
            raise PredicateError("'**' is not allowed; write POWER(a, 2).")
        n_operators += kind in ("AND", "OR", "NOT")
        if n_operators > MAX_OPERATORS:
            raise PredicateError(
                f"the clause has more than {MAX_OPERATORS:,} AND, OR and NOT; use IN (list) or "
                "BETWEEN."
            )
        if kind in _OPENING:
            levels.append(levels[-1] + prefixes + 1)
        elif kind in _CLOSING and len(levels) > 1:
            levels.pop()
        prefixes = prefixes + 1 if kind in _PREFIXES else 0
        if levels[-1] + prefixes > _MAX_NESTING:
            raise PredicateError(_TOO_DEEP)
    _check_gap(where[end:])


def _check_gap(gap: str) -> None:
    if gap.strip():
        raise PredicateError(f"comments are not allowed in a clause: {shorten(gap.strip())!r}.")


def _refused(tree: SqlNode) -> list[str]:
    """List the outermost parts that are not allowed."""
    problems, waiting = [], [tree]
    while waiting:
        node = waiting.pop()
        present = {key for key, value in node.args.items() if value not in (None, False, [])}
        if type(node) not in _NODES or _is_strange(node):
            problems.append(f"{quote(node)} is not allowed in a clause; allowed are {_ALLOWED}.")
            continue
        must, may = _NODES[type(node)]
        if isinstance(node, exp.Column) and node.args.get("table"):
            name = ".".join(part.name for part in node.parts)
            problems.append(f'put a column name that contains a dot in double quotes: "{name}".')
        elif present - must - may:
            problems.append(f"{quote(node)} is not allowed in this form; allowed are {_ALLOWED}.")
        elif must - present:
            problems.append(f"{quote(node)} is incomplete.")
        elif _is_misread(node):
            problems.append(f"{quote(node)}: put parentheses around the part to compute first.")
        else:
            waiting.extend(reversed(list(node.iter_expressions())))
    return problems


def _is_strange(node: SqlNode) -> bool:
    """Return whether a node calls an unknown function, or one not on a single column."""
    return isinstance(node, exp.Anonymous) and (
        function_of(node) is None or [type(part) for part in node.expressions] != [exp.Column]
    )


def _is_misread(node: SqlNode) -> bool:
    """Return whether an operator took an operand against the usual precedence."""
    if type(node) is exp.Neg:
        return type(node.this) in _BINDING
    if type(node) not in _BINDING:
        return False
    left, right = (_BINDING.get(type(side), _TIGHTEST) for side in (node.left, node.right))
    return left < _BINDING[type(node)] or right <= _BINDING[type(node)]
