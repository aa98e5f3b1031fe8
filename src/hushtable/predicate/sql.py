"""Turn a WHERE clause into a formula over the columns of a schema."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from fractions import Fraction
from typing import NamedTuple

from sqlglot import exp

from hushtable.errors import PredicateError
from hushtable.predicate.formula import (
    OUTCOMES,
    TRUE,
    Atom,
    Formula,
    IsNull,
    Literal,
    Member,
    Outcomes,
    Truth,
    ValueTest,
    join,
    opposite,
)
from hushtable.predicate.syntax import COMPARISONS, Node, bare, quote, syntax_tree, text_of
from hushtable.predicate.terms import Constant, Grid, Operator, Ranks, Term, combine
from hushtable.schema import Categorical, Identifier, Schema

_MAX_OPERATORS = 200  # + - * / % within one comparison
_MAX_EXPONENT = 100
_MAX_LISTED = 20  # values named in a message
_PLAIN = re.compile(r"[A-Za-z_]\w*")  # a name that needs no double quotes

_ARITHMETIC: dict[type[Node], Operator] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
}


class _Category(NamedTuple):
    """A categorical column as one side of a comparison."""

    name: str
    column: Categorical

    @property
    def codes(self) -> Grid:
        """The column as the number of its code."""
        column = self.column
        return Grid(self.name, Fraction(0), Fraction(1), len(column.values), column.missing_code)


class _Text(NamedTuple):
    """A text as one side of a comparison."""

    text: str


_Operand = Term | _Category | _Text | None  # None is NULL


def read(where: str, schema: Schema) -> tuple[Formula, str]:
    """Turn a clause into a formula and its normalized text, or say everything that is wrong.

    Examples
    --------
    >>> schema = Schema.from_dict({"name": "t", "columns": {
    ...     "age": {"type": "integer", "low": 0, "high": 99}}})
    >>> read("Age!=3", schema)[1]
    'age <> 3'
    >>> read("abs(age) = 3", schema)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    hushtable.errors.PredicateError: 'ABS(age)' is not allowed in a clause; allowed are columns...
    """
    tree = syntax_tree(where)
    reader = _Reader(schema)
    formula = reader.formula(tree, TRUE)
    if reader.problems:
        raise PredicateError(dict.fromkeys(reader.problems))
    return formula, text_of(tree)


class _Reader:
    """Turn allowed nodes into formulas, collecting every problem."""

    def __init__(self, schema: Schema) -> None:
        self.problems: list[str] = []
        self._schema = schema
        self._names = {name.lower(): name for name in schema.columns}

    def formula(self, node: Node, accept: Outcomes) -> Formula:
        """Read a condition of which some outcomes are accepted."""
        node = bare(node)
        if isinstance(node, exp.Not):
            return self.formula(node.this, opposite(accept))
        if isinstance(node, exp.And | exp.Or):
            parts = [self.formula(part, accept) for part in _operands(node)]
            return join(isinstance(node, exp.And) == (True in accept), parts)
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Boolean):
            outcome = bool(node.expression.this)
            # IS is never NULL itself.
            wanted = frozenset({outcome}) if True in accept else OUTCOMES - {outcome}
            return self.formula(node.this, wanted)
        try:
            return self._leaf(node, accept)
        except PredicateError as error:
            self.problems += error.problems
            return Literal(Truth(None), accept, "")

    def _leaf(self, node: Node, accept: Outcomes) -> Formula:
        if isinstance(node, COMPARISONS):
            return self._comparison(node, type(node), node.left, node.right, accept)
        if isinstance(node, exp.Between):
            parts = [
                self._comparison(node, exp.GTE, node.this, node.args["low"], accept),
                self._comparison(node, exp.LTE, node.this, node.args["high"], accept),
            ]
            return join(True in accept, parts)
        if isinstance(node, exp.Like) and node.args.get("negate"):
            accept = opposite(accept)
        return Literal(self._atom(node), accept, text_of(node))

    def _atom(self, node: Node) -> Atom:
        if isinstance(node, exp.Boolean):
            return Truth(bool(node.this))
        if isinstance(node, exp.Null):
            return Truth(None)
        if isinstance(node, exp.Is):
            return self._is_null(node)
        if isinstance(node, exp.In):
            return self._member(node)
        if isinstance(node, exp.Like):
            return self._like(node)
        raise PredicateError(
            f"{quote(node)} is a value, not a condition; compare it with something."
        )

    def _comparison(
        self,
        node: Node,
        kind: type[Node],
        left: Node,
        right: Node,
        accept: Outcomes,
    ) -> Literal:
        """Read a comparison as one by = or <, turned round or negated."""
        if kind in (exp.GT, exp.LTE):
            left, right = right, left
        if kind in (exp.NEQ, exp.LTE, exp.GTE):
            accept = opposite(accept)
        equal = kind in (exp.EQ, exp.NEQ)
        return Literal(self._compared(left, right, equal, node), accept, text_of(node))

    def _compared(self, left: Node, right: Node, equal: bool, node: Node) -> Atom:
        one, other = self._operand(left), self._operand(right)
        if isinstance(one, _Category) and isinstance(other, _Category):
            return _two_categories(one, other, equal, node)
        if isinstance(one, _Category) or isinstance(other, _Category):
            return self._with_category(one, other, left, right, equal)
        if isinstance(one, _Text) or isinstance(other, _Text):
            raise PredicateError(_text_with_number(node, left, right))
        if one is None or other is None:
            return Truth(None)
        return ValueTest("=" if equal else "<", one, other)

    def _with_category(
        self,
        one: _Operand,
        other: _Operand,
        left: Node,
        right: Node,
        equal: bool,
    ) -> Atom:
        turned = not isinstance(one, _Category)
        category, value = (other, left) if turned else (one, right)
        assert isinstance(category, _Category)  # noqa: S101 - told apart by the caller
        if not equal and not category.column.ordered:
            raise PredicateError(
                f"column {category.name!r} has no order, so < and > say nothing about it; list "
                "the values with IN, or declare ordered: true in the schema."
            )
        if (one if turned else other) is None:
            return Truth(None)
        code = _code(category, value)
        if equal:
            return Member(category.codes, frozenset({Fraction(code)}))
        limit = Constant(Fraction(code))
        return (
            ValueTest("<", limit, category.codes)
            if turned
            else ValueTest("<", category.codes, limit)
        )

    def _is_null(self, node: exp.Is) -> Atom:
        if not isinstance(bare(node.expression), exp.Null):
            raise PredicateError(
                f"{quote(node)} is not allowed; after IS stands NULL, TRUE or FALSE."
            )
        operand = self._operand(node.this)
        if isinstance(operand, _Text):
            return Truth(False)
        if operand is None:
            return Truth(True)
        return IsNull(operand.codes if isinstance(operand, _Category) else operand)

    def _member(self, node: exp.In) -> Atom:
        operand, listed = self._operand(node.this), node.expressions
        if operand is None:
            return Truth(None)
        if isinstance(operand, _Text):
            raise PredicateError(f"{quote(node)} has no column before IN.")
        has_null = any(isinstance(bare(item), exp.Null) for item in listed)
        items = [item for item in listed if not isinstance(bare(item), exp.Null)]
        problems: list[str] = []
        values: set[Fraction] = set()
        for item in items:
            try:
                values.add(self._listed(operand, item))
            except PredicateError as error:
                problems += error.problems
        if problems:
            raise PredicateError(dict.fromkeys(problems))
        term = operand.codes if isinstance(operand, _Category) else operand
        return Member(term, frozenset(values), has_null)

    def _listed(self, operand: Term | _Category, item: Node) -> Fraction:
        if isinstance(operand, _Category):
            return Fraction(_code(operand, item))
        value = self._operand(item)
        if isinstance(value, _Text):
            raise PredicateError(f"{quote(item)} in a list of numbers is text; drop the quotes.")
        if not isinstance(value, Constant):
            raise PredicateError(f"{quote(item)} in a list after IN is not a constant.")
        return value.value

    def _like(self, node: exp.Like) -> Atom:
        category, pattern = self._operand(node.this), self._operand(node.expression)
        if not isinstance(category, _Category) or not isinstance(pattern, _Text):
            raise PredicateError(f"{quote(node)}: LIKE takes a categorical column and a text.")
        matcher = _like_matcher(pattern.text)
        codes = [code for code, v in enumerate(category.column.values) if matcher.fullmatch(v)]
        if not codes:
            raise PredicateError(
                f"column {category.name!r} has no value like {pattern.text!r}; its values are "
                f"{_enumerate(category.column.values)}."
            )
        return Member(category.codes, frozenset(map(Fraction, codes)))

    def _operand(self, node: Node) -> _Operand:
        """Read one side of a comparison."""
        node = bare(node)
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Literal) and node.is_string:
            return _Text(node.this)
        return self._term(node, 0)

    def _term(self, node: Node, n_operators: int) -> Term | None:
        """Read arithmetic."""
        node = bare(node)
        if n_operators > _MAX_OPERATORS:
            raise PredicateError(f"one comparison has more than {_MAX_OPERATORS} operators.")
        if isinstance(node, exp.Null):
            return None
        if isinstance(node, exp.Neg):
            return combine("-", Constant(Fraction(0)), self._term(node.this, n_operators + 1))
        if type(node) in _ARITHMETIC:
            left = self._term(node.left, n_operators + 1)
            right = self._term(node.right, n_operators + 1)
            return combine(_ARITHMETIC[type(node)], left, right)
        if isinstance(node, exp.Literal) and not node.is_string:
            return Constant(_number(node))
        if isinstance(node, exp.Literal):
            raise PredicateError(f"{quote(node)} is text; arithmetic needs numbers.")
        if isinstance(node, exp.Column):
            column = self._column(node)
            if isinstance(column, _Category):
                raise PredicateError(
                    f"column {column.name!r} is categorical; arithmetic needs integer or number "
                    "columns."
                )
            return column
        raise PredicateError(f"{quote(node)} is a condition where a value is needed.")

    def _column(self, node: exp.Column) -> Grid | _Category:
        written = node.this
        name = self._names.get(written.name.lower())
        if name is None:
            names = list(self._schema.attributes)
            listed = ", ".join(n if _PLAIN.fullmatch(n) else f'"{n}"' for n in names)
            text = "; text goes in single quotes" if written.args.get("quoted") else ""
            raise PredicateError(
                f"there is no column {written.name!r}{_nearest(written.name, names)}; the columns "
                f"are {listed}{text}."
            )
        column = self._schema.columns[name]
        if isinstance(column, Identifier):
            raise PredicateError(
                f"column {name!r} identifies people and is never released, so nothing can be asked "
                "about it."
            )
        quoted = bool(written.args.get("quoted")) or not _PLAIN.fullmatch(name)
        node.set("this", exp.to_identifier(name, quoted=quoted))
        if isinstance(column, Categorical):
            return _Category(name, column)
        return Grid(name, column.exact_low, column.exact_step, column.n_values, column.missing_code)


def _operands(node: Node) -> list[Node]:
    """List what a chain of ANDs, or of ORs, joins; chains may be long, so without recursion."""
    kind, found, waiting = type(node), [], [node]
    while waiting:
        item = waiting.pop()
        if type(item) is kind:
            waiting += [item.right, item.left]
        else:
            found.append(item)
    return found


def _number(node: exp.Literal) -> Fraction:
    match = re.fullmatch(r"(\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d{1,9}))?", node.this)
    if match is None or abs(int(match[2] or 0)) > _MAX_EXPONENT or len(match[1]) > _MAX_EXPONENT:
        raise PredicateError(
            f"{quote(node)} is not a number that can be read; write digits, at most "
            f"{_MAX_EXPONENT}, a decimal point, and an exponent up to {_MAX_EXPONENT}."
        )
    return Fraction(match[1]) * Fraction(10) ** int(match[2] or 0)


def _code(category: _Category, node: Node) -> int:
    """Find the code of a value that the clause names; a typo must not silently count nothing."""
    node = bare(node)
    sign = ""
    if isinstance(node, exp.Neg):
        sign, node = "-", bare(node.this)
    if not isinstance(node, exp.Literal):
        raise PredicateError(
            f"column {category.name!r} is categorical and cannot be compared with {quote(node)}; "
            "compare it with one of its values in single quotes."
        )
    value = sign + node.this
    if value not in category.column.values:
        covered = _covered(value, category.column)
        if covered:
            raise PredicateError(
                f"{value!r} is no value of column {category.name!r} but a group of several: write "
                f"{category.name} IN ({_enumerate(covered)})."
            )
        raise PredicateError(
            f"column {category.name!r} has no value {value!r}"
            f"{_nearest(value, category.column.values)}; its values are "
            f"{_enumerate(category.column.values)}."
        )
    return category.column.values.index(value)


def _two_categories(one: _Category, other: _Category, equal: bool, node: Node) -> Atom:
    """Compare two categorical columns by their texts, or by the order they have in common."""
    values, others = one.column.values, other.column.values
    if equal:
        if not set(values) & set(others):
            raise PredicateError(
                f"{quote(node)}: the columns {one.name!r} and {other.name!r} have no value in "
                "common."
            )
    elif values != others or not (one.column.ordered and other.column.ordered):
        raise PredicateError(
            f"{quote(node)}: < and > need two columns with the same values and ordered: true."
        )
    rank = {value: place for place, value in enumerate(dict.fromkeys((*values, *others)))}
    return ValueTest(
        "=" if equal else "<",
        *(
            Ranks(side.name, tuple(rank[v] for v in side.column.values), side.column.missing_code)
            for side in (one, other)
        ),
    )


def _text_with_number(node: Node, left: Node, right: Node) -> str:
    for text, value in ((left, right), (right, left)):
        inner = bare(value)
        if isinstance(inner, exp.Column):
            return (
                f"column {inner.name!r} is numeric, and {quote(text)} is text; write the number "
                "without quotes."
            )
    return f"{quote(node)} compares a text with something that is not a categorical column."


def _like_matcher(pattern: str) -> re.Pattern[str]:
    """Translate % and _ of LIKE; what follows a % is matched as early as possible, for good."""
    first, *others = [
        "".join("." if sign == "_" else re.escape(sign) for sign in piece)
        for piece in pattern.split("%")
    ]
    if not others:
        return re.compile(first, re.DOTALL)
    *middle, last = others
    return re.compile(
        first + "".join(f"(?>.*?{piece})" for piece in middle) + f".*{last}", re.DOTALL
    )


def _covered(label: str, column: Categorical) -> list[str]:
    """List the values that a label of the column's taxonomy stands for."""
    open_nodes = [] if column.taxonomy is None else [column.taxonomy.root]
    while open_nodes:
        node = open_nodes.pop()
        if node.label == label:
            return list(node.leaves())
        open_nodes += node.children
    return []


def _enumerate(values: Iterable[str]) -> str:
    listed = [repr(value) for value in values]
    more = len(listed) - _MAX_LISTED
    return ", ".join(listed[:_MAX_LISTED]) + (f" and {more} more" if more > 0 else "")


def _nearest(word: str, words: Iterable[str]) -> str:
    near = {known.lower(): known for known in words}
    close = get_close_matches(word.lower(), near, n=1)
    return f" (did you mean {near[close[0]]!r}?)" if close else ""
