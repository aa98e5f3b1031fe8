"""Translation of WHERE clauses to formulas over the columns of a schema."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from fractions import Fraction
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from sqlglot import exp

from hushtable.errors import PredicateError
from hushtable.query.where.formula import (
    OUTCOMES,
    TRUE,
    Atom,
    AtomTest,
    Constant,
    ConstantTruth,
    Formula,
    Grid,
    IsNull,
    Member,
    Operator,
    Outcomes,
    Ranks,
    Term,
    ValueTest,
    columns,
    combine,
    join,
    opposite,
)
from hushtable.query.where.syntax import (
    COMPARISONS,
    FUNCTIONS,
    SqlNode,
    argument_of,
    function_of,
    quote,
    syntax_tree,
    text_of,
    unquoted,
)
from hushtable.schema import Boolean, CalendarColumn, Categorical, Column, Identifier, Schema, Time
from hushtable.schema.calendar import DAY, SHORT, read_clock, read_time
from hushtable.schema.column import with_label
from hushtable.schema.recoding import bins_of

# Operands of comparisons, and their translation from columns.

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class CategoryOperand(NamedTuple):
    """A column of texts as an operand, or texts derived from a column.

    With `ranks`, code c of the column has the value with index ``ranks[c]``.
    """

    name: str
    column: Categorical
    ranks: tuple[int, ...] | None = None

    @property
    def codes(self) -> Grid | Ranks:
        """The texts as indices in the list of values."""
        if self.ranks is not None:
            return Ranks(self.name, self.ranks)
        return Grid(self.name, Fraction(0), Fraction(1), len(self.column.values))

    def ranked(self, rank: dict[str, int]) -> Ranks:
        """Return the texts as numbers in another ranking."""
        values = self.column.values
        places = range(len(values)) if self.ranks is None else self.ranks
        return Ranks(self.name, tuple(rank[values[place]] for place in places))


class TextOperand(NamedTuple):
    """A text as an operand."""

    text: str


Operand = Term | CategoryOperand | TextOperand | None  # None is NULL


def operand_of(name: str, column: Column) -> Grid | Ranks | CategoryOperand:
    """Return a column as an operand; dates and times count in days and fractions of days."""
    if isinstance(column, Categorical):
        return CategoryOperand(name, column)
    if not isinstance(column, CalendarColumn):
        return Grid(name, column.exact_low, column.exact_step, column.n_values)
    if column.step in SHORT:
        step = Fraction(SHORT[column.step], DAY)
        low = Fraction(int(column.second_of(np.zeros(1, np.int64))[0]), DAY)
        return Grid(name, low, step, column.n_values)
    seconds = column.second_of(np.arange(column.n_values))
    return Ranks(name, tuple((seconds // DAY).tolist()))


def time_of(text: str, columns: list[Column]) -> Fraction | None:
    """Parse a text compared with dates or times, in days; None if no column is one."""
    calendars = [column for column in columns if isinstance(column, CalendarColumn)]
    if not calendars:
        return None
    try:
        clock = all(isinstance(column, Time) for column in calendars)
        return Fraction(read_clock(text) if clock else read_time(text), DAY)
    except ValueError as error:
        raise PredicateError(f"{error}.") from None


def called(function: str, name: str, column: Column) -> CategoryOperand | Ranks:
    """Return the operand for a function of a column."""
    if function == "band":
        bins = bins_of(column)
        if bins is None:
            raise PredicateError(
                f"band({name}) needs public bins; declare bins for {name!r} in the schema."
            )
        bands = bins.apply(np.arange(column.n_values)).tolist()
        labels = tuple(str(label) for label in bins.labels)
        return CategoryOperand(name, _listed(labels), tuple(bands))
    if not isinstance(column, CalendarColumn) or (isinstance(column, Time) != (function == "hour")):
        is_stamp = column.type == "timestamp"
        if not (function == "hour" and is_stamp):
            of = "times and timestamps" if function == "hour" else "dates and timestamps"
            raise PredicateError(f"{function}({name}): {function} needs a column of {of}.")
    assert isinstance(column, CalendarColumn)  # noqa: S101 - checked above
    seconds = column.second_of(np.arange(column.n_values))
    moments = seconds.astype("M8[s]")
    months = moments.astype("M8[M]").astype(np.int64)
    if function == "weekday":
        days = (seconds // DAY + 3) % len(WEEKDAYS)
        return CategoryOperand(name, _listed(WEEKDAYS), tuple(days.tolist()))
    numbers = {
        "year": months // 12 + 1970,
        "quarter": months % 12 // 3 + 1,
        "month": months % 12 + 1,
        "hour": seconds % DAY // 3600,
    }[function]
    return Ranks(name, tuple(numbers.tolist()))


def _listed(values: tuple[str, ...]) -> Categorical:
    return Categorical(type="categorical", values=values, ordered=True)


_MAX_OPERATORS = 200  # arithmetic operators in one comparison
_MAX_EXPONENT = 100
_EXPONENTS = ("2", "3", "4")  # of POWER
_MAX_LISTED = 20  # values listed in a message
_PLAIN = re.compile(r"[A-Za-z_]\w*")  # a name that needs no double quotes

TRUTHS = ("false", "true")

_ARITHMETIC: dict[type[SqlNode], Operator] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
}


def read(where: str, schema: Schema) -> tuple[Formula, str]:
    """Return the formula of a clause and its normalized text; raise one error for all problems.

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


def derived_operand(name: str, schema: Schema) -> CategoryOperand | Ranks:
    """Return the operand that defines a derived column."""
    return _Reader(schema).derived(name)


class _Reader:
    """Translator of allowed nodes to formulas; collects all problems."""

    def __init__(self, schema: Schema) -> None:
        self.problems: list[str] = []
        self._schema = schema
        self._names = {name.lower(): name for name in (*schema.columns, *schema.derived)}

    def formula(self, node: SqlNode, accept: Outcomes) -> Formula:
        """Translate a condition with the given accepted outcomes."""
        node = unquoted(node)
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
            return AtomTest(ConstantTruth(None), accept, "")

    def _leaf(self, node: SqlNode, accept: Outcomes) -> Formula:
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
        return AtomTest(self._atom(node), accept, text_of(node))

    def _atom(self, node: SqlNode) -> Atom:
        if isinstance(node, exp.Boolean):
            return ConstantTruth(bool(node.this))
        if isinstance(node, exp.Null):
            return ConstantTruth(None)
        if isinstance(node, exp.Is):
            return self._is_null(node)
        if isinstance(node, exp.In):
            return self._member(node)
        if isinstance(node, exp.Like):
            return self._like(node)
        if isinstance(node, exp.Column):
            operand = self._column(node)
            if isinstance(operand, CategoryOperand) and set(operand.column.values) == set(TRUTHS):
                true = operand.column.values.index(TRUTHS[1])
                return Member(operand.codes, frozenset({Fraction(true)}))
        raise PredicateError(
            f"{quote(node)} is a value, not a condition; compare it with another value."
        )

    def _comparison(
        self,
        node: SqlNode,
        kind: type[SqlNode],
        left: SqlNode,
        right: SqlNode,
        accept: Outcomes,
    ) -> AtomTest:
        """Translate a comparison to = or <, swapped or negated."""
        if kind in (exp.GT, exp.LTE):
            left, right = right, left
        if kind in (exp.NEQ, exp.LTE, exp.GTE):
            accept = opposite(accept)
        equal = kind in (exp.EQ, exp.NEQ)
        return AtomTest(self._compared(left, right, equal, node), accept, text_of(node))

    def _compared(self, left: SqlNode, right: SqlNode, equal: bool, node: SqlNode) -> Atom:
        one, other = self._operand(left), self._operand(right)
        if isinstance(one, CategoryOperand) and isinstance(other, CategoryOperand):
            return _two_categories(one, other, equal, node)
        turned = isinstance(other, CategoryOperand) or isinstance(one, TextOperand)
        subject, given, value = (other, one, left) if turned else (one, other, right)
        limit: Term | None
        if isinstance(subject, CategoryOperand):
            limit, subject = _category_limit(subject, given, value, equal), subject.codes
        elif isinstance(given, TextOperand):
            if subject is None or isinstance(subject, TextOperand):
                raise PredicateError(_text_with_number(node, left, right))
            special = self._special_code(subject, value)
            if special is not None:
                if not equal:
                    raise PredicateError(
                        f"{quote(node)}: {given.text!r} is a special value and has no order; "
                        "compare it with = or <>."
                    )
                return Member(self._coded(subject), frozenset({special}))
            days = time_of(given.text, [self._schema.attributes[name] for name in columns(subject)])
            if days is None and isinstance(unquoted(value), exp.Boolean):
                raise PredicateError(f"{quote(value)} is a condition; a value is needed here.")
            if days is None:
                raise PredicateError(_text_with_number(node, left, right))
            limit = Constant(days)
        else:
            assert not isinstance(given, CategoryOperand)  # noqa: S101 - it would be the subject
            assert not isinstance(subject, TextOperand)  # noqa: S101 - it would be given
            limit = given
        if subject is None or limit is None:
            return ConstantTruth(None)
        if equal and isinstance(limit, Constant):
            return Member(subject, frozenset({limit.value}))
        return ValueTest("=" if equal else "<", *((limit, subject) if turned else (subject, limit)))

    def _is_null(self, node: exp.Is) -> Atom:
        if not isinstance(unquoted(node.expression), exp.Null):
            raise PredicateError(
                f"{quote(node)} is not allowed; only NULL, TRUE or FALSE may follow IS."
            )
        operand = self._operand(node.this)
        if isinstance(operand, TextOperand):
            return ConstantTruth(False)
        if operand is None:
            return ConstantTruth(True)
        if isinstance(operand, Grid | Ranks) and isinstance(unquoted(node.this), exp.Column):
            return IsNull(self._coded(operand))  # a special value is not NULL
        return IsNull(operand.codes if isinstance(operand, CategoryOperand) else operand)

    def _member(self, node: exp.In) -> Atom:
        operand, listed = self._operand(node.this), node.expressions
        if operand is None:
            return ConstantTruth(None)
        if isinstance(operand, TextOperand):
            raise PredicateError(f"{quote(node)} has no column before IN; write column IN (...).")
        problems: list[str] = []
        values, special = set[Fraction](), set[Fraction]()
        has_null = False
        for item in map(unquoted, listed):
            try:
                if isinstance(item, exp.Null):
                    has_null = True
                elif (code := self._special_code(operand, item)) is not None:
                    special.add(code)
                else:
                    values.add(self._listed(operand, item))
            except PredicateError as error:
                problems += error.problems
        if problems:
            raise PredicateError(dict.fromkeys(problems))
        if special:
            codes = special | _codes_of(operand, values)
            return Member(self._coded(operand), frozenset(codes), has_null)
        term = operand.codes if isinstance(operand, CategoryOperand) else operand
        return Member(term, frozenset(values), has_null)

    def _special_code(self, operand: Operand, node: SqlNode) -> Fraction | None:
        """Return the code of a special value of a column of numbers, dates or times, or None."""
        text = unquoted(node)
        if not isinstance(operand, Grid | Ranks) or not isinstance(text, exp.Literal):
            return None
        column = self._schema.attributes[operand.column]
        if not text.is_string or text.this not in column.special_names:
            return None
        return Fraction(column.n_values + column.special_names.index(text.this))

    def _coded(self, operand: Operand) -> Grid:
        """Return the code of a column of numbers, dates or times, special values included."""
        assert isinstance(operand, Grid | Ranks)  # noqa: S101 - the others have no special values
        column = self._schema.attributes[operand.column]
        n_codes = column.n_values + len(column.special_names)
        return Grid(operand.column, Fraction(0), Fraction(1), n_codes)

    def _listed(self, operand: Term | CategoryOperand, item: SqlNode) -> Fraction:
        if isinstance(operand, CategoryOperand):
            return Fraction(_code(operand, item))
        value = self._operand(item)
        if isinstance(value, TextOperand):
            days = time_of(value.text, [self._schema.attributes[n] for n in columns(operand)])
            if days is not None:
                return days
            raise PredicateError(f"{quote(item)} is text in a list of numbers; remove the quotes.")
        if not isinstance(value, Constant):
            raise PredicateError(f"{quote(item)} is not a constant; IN takes constants only.")
        return value.value

    def _like(self, node: exp.Like) -> Atom:
        category, pattern = self._operand(node.this), self._operand(node.expression)
        if not isinstance(category, CategoryOperand) or not isinstance(pattern, TextOperand):
            raise PredicateError(f"{quote(node)}: LIKE needs a categorical column and a text.")
        matcher = _like_matcher(pattern.text)
        codes = [code for code, v in enumerate(category.column.values) if matcher.fullmatch(v)]
        if not codes:
            raise PredicateError(
                f"column {category.name!r} has no value like {pattern.text!r}; its values are "
                f"{_enumerate(category.column.values)}."
            )
        return Member(category.codes, frozenset(map(Fraction, codes)))

    def _operand(self, node: SqlNode) -> Operand:
        """Translate one side of a comparison."""
        node = unquoted(node)
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Literal) and node.is_string:
            return TextOperand(node.this)
        if isinstance(node, exp.Boolean):
            return TextOperand(TRUTHS[bool(node.this)])
        if function_of(node):
            return self._called(node)
        return self._term(node, 0)

    def _called(self, node: SqlNode) -> CategoryOperand | Ranks:
        """Translate a function of a column."""
        argument, function = argument_of(node), function_of(node)
        if not isinstance(argument, exp.Column) or function is None:
            raise PredicateError(f"{quote(node)}: the argument of a function must be a column.")
        operand = self._column(argument)
        if isinstance(operand, CategoryOperand) or operand.column not in self._schema.attributes:
            raise PredicateError(f"{quote(node)}: {function} cannot be applied to texts.")
        return called(function, operand.column, self._schema.attributes[operand.column])

    def _term(self, node: SqlNode, n_operators: int) -> Term | None:
        """Translate arithmetic; None is NULL."""
        node = unquoted(node)
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
        if isinstance(node, exp.Pow):
            return self._power(node, n_operators)
        if isinstance(node, exp.Literal) and not node.is_string:
            return Constant(_number(node))
        if isinstance(node, exp.Literal):
            raise PredicateError(f"{quote(node)} is text; arithmetic needs numbers.")
        if isinstance(node, exp.Column) or function_of(node):
            column = self._called(node) if function_of(node) else self._column(node)
            if isinstance(column, CategoryOperand):
                raise PredicateError(
                    f"column {column.name!r} is categorical; arithmetic needs integer or number "
                    "columns."
                )
            return column
        raise PredicateError(f"{quote(node)} is a condition; a value is needed here.")

    def _power(self, node: exp.Pow, n_operators: int) -> Term | None:
        """Translate a power to a product, which is exact."""
        exponent = unquoted(node.expression)
        if not isinstance(exponent, exp.Literal) or exponent.this not in _EXPONENTS:
            raise PredicateError(f"{quote(node)}: the exponent must be {' or '.join(_EXPONENTS)}.")
        base = self._term(node.this, n_operators + int(exponent.this))
        product = base
        for _ in range(int(exponent.this) - 1):
            product = combine("*", product, base)
        return product

    def _column(self, node: exp.Column) -> Grid | Ranks | CategoryOperand:
        written = node.this
        name = self._names.get(written.name.lower())
        if name is None:
            names = list(self._schema.attributes)
            listed = ", ".join(n if _PLAIN.fullmatch(n) else f'"{n}"' for n in names)
            text = "; put text in single quotes" if written.args.get("quoted") else ""
            raise PredicateError(
                f"there is no column {written.name!r}{_nearest(written.name, names)}; the columns "
                f"are {listed}{text}."
            )
        if name in self._schema.derived:
            node.set("this", exp.to_identifier(name, quoted=not _PLAIN.fullmatch(name)))
            return self.derived(name)
        column = self._schema.columns[name]
        if isinstance(column, Identifier):
            raise PredicateError(
                f"column {name!r} is not published in this release; use a published column."
            )
        quoted = bool(written.args.get("quoted")) or not _PLAIN.fullmatch(name)
        node.set("this", exp.to_identifier(name, quoted=quoted))
        return operand_of(name, column)

    def derived(self, name: str) -> CategoryOperand | Ranks:
        """Return the operand that defines a derived column."""
        tree = unquoted(syntax_tree(f"{self._schema.derived[name]} IS NULL").this)
        is_call = function_of(tree) is not None
        if not is_call or argument_of(tree).name not in self._schema.attributes:
            raise PredicateError(
                f"derived column {name!r}: {self._schema.derived[name]!r} is not a function of a "
                f"column; write, for example, band(age). Functions are {', '.join(FUNCTIONS)}."
            )
        return self._called(tree)


def _operands(node: SqlNode) -> list[SqlNode]:
    """Return the operands of a chain of ANDs or ORs; not recursive, since chains may be long."""
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
            f"{quote(node)} is not a valid number; write at most "
            f"{_MAX_EXPONENT} digits, a decimal point, and an exponent up to {_MAX_EXPONENT}."
        )
    return Fraction(match[1]) * Fraction(10) ** int(match[2] or 0)


def _code(category: CategoryOperand, node: SqlNode) -> int:
    """Return the code of a value; raise if it is unknown, so that a typo does not count 0 rows."""
    node = unquoted(node)
    sign = ""
    if isinstance(node, exp.Neg):
        sign, node = "-", unquoted(node.this)
    if isinstance(node, exp.Boolean):
        node = exp.Literal.string(TRUTHS[bool(node.this)])
    if not isinstance(node, exp.Literal):
        raise PredicateError(
            f"column {category.name!r} is categorical and cannot be compared with {quote(node)}; "
            "compare it with one of its values in single quotes."
        )
    value = sign + node.this
    if isinstance(category.column, Boolean) and value in category.column.spellings:
        return category.column.spellings[value]
    if value not in category.column.values:
        covered = _covered(value, category.column)
        if covered:
            raise PredicateError(
                f"{value!r} is a group of several values of column {category.name!r}; write "
                f"{category.name} IN ({_enumerate(covered)})."
            )
        raise PredicateError(
            f"column {category.name!r} has no value {value!r}"
            f"{_nearest(value, category.column.values)}; its values are "
            f"{_enumerate(category.column.values, category.column.labels)}."
        )
    return category.column.values.index(value)


def _category_limit(
    category: CategoryOperand, limit: Operand, node: SqlNode, equal: bool
) -> Constant | None:
    """Return the code that a categorical column is compared with; None is NULL."""
    if not equal and not category.column.ordered:
        raise PredicateError(
            f"column {category.name!r} has no order and cannot be compared by < or >; list "
            "the values with IN, or declare ordered: true in the schema."
        )
    return None if limit is None else Constant(Fraction(_code(category, node)))


def _codes_of(operand: Operand, values: set[Fraction]) -> set[Fraction]:
    """Return the codes of a column of numbers, dates or times that have one of some values."""
    assert isinstance(operand, Grid | Ranks)  # noqa: S101 - the others have no special values
    if isinstance(operand, Ranks):
        return {Fraction(code) for code, rank in enumerate(operand.ranks) if rank in values}
    codes = {(value - operand.low) / operand.step for value in values}
    return {code for code in codes if code.denominator == 1 and 0 <= code < operand.n_values}


def _two_categories(
    one: CategoryOperand, other: CategoryOperand, equal: bool, node: SqlNode
) -> Atom:
    """Compare two categorical columns by their texts, or by their common order."""
    values, others = one.column.values, other.column.values
    if equal:
        if not set(values) & set(others):
            raise PredicateError(
                f"{quote(node)}: the columns {one.name!r} and {other.name!r} have no value in "
                "common, so they are never equal."
            )
    elif values != others or not (one.column.ordered and other.column.ordered):
        raise PredicateError(
            f"{quote(node)}: < and > need two columns with the same values and ordered: true."
        )
    rank = {value: place for place, value in enumerate(dict.fromkeys((*values, *others)))}
    return ValueTest("=" if equal else "<", one.ranked(rank), other.ranked(rank))


def _text_with_number(node: SqlNode, left: SqlNode, right: SqlNode) -> str:
    for text, value in ((left, right), (right, left)):
        inner = unquoted(value)
        if isinstance(inner, exp.Column):
            return (
                f"column {inner.name!r} is numeric, and {quote(text)} is text; write the number "
                "without quotes."
            )
    return f"{quote(node)} compares text with a value that is not a categorical column."


def _like_matcher(pattern: str) -> re.Pattern[str]:
    """Translate a LIKE pattern; text after % is matched as early as possible, no backtracking."""
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
    """List the values below a label of the column's taxonomy."""
    open_nodes = [] if column.taxonomy is None else [column.taxonomy.root]
    while open_nodes:
        node = open_nodes.pop()
        if node.label == label:
            return list(node.leaves())
        open_nodes += node.children
    return []


def _enumerate(values: Iterable[str], labels: Mapping[str, str] = MappingProxyType({})) -> str:
    listed = [with_label(repr(v), {repr(v): labels.get(v, "")}) for v in values]
    more = len(listed) - _MAX_LISTED
    return ", ".join(listed[:_MAX_LISTED]) + (f" and {more} more" if more > 0 else "")


def _nearest(word: str, words: Iterable[str]) -> str:
    near = {known.lower(): known for known in words}
    close = get_close_matches(word.lower(), near, n=1)
    return f" (did you mean {near[close[0]]!r}?)" if close else ""
