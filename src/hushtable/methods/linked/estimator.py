"""Estimator of linked releases: the quilt of a table answers questions about its wide rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import sqlglot
from numpy.typing import NDArray
from sqlglot import exp
from sqlglot.errors import SqlglotError

from hushtable.errors import HushtableError, ParameterError, PredicateError, Refused, ReleaseError
from hushtable.methods.quilt.estimator import QuiltEstimator
from hushtable.numeric import NORMAL
from hushtable.query.answers.estimator import Estimate, Estimator
from hushtable.query.answers.published import Generator
from hushtable.query.answers.row_sums import RowFunction, SumEstimates
from hushtable.query.where import Predicate, parse
from hushtable.query.where.formula import shorten
from hushtable.query.where.rules import LinkedFact, fact_of, facts_of
from hushtable.query.where.syntax import SqlNode, quote
from hushtable.schema.codes import as_numpy
from hushtable.schema.linked_schema import PREVIOUS, LinkedSchema

# Questions about linked tables: the table that is counted, and the clause in its wide columns.
#
# ``persons.age >= 65 AND EXISTS visits.ward = 'icu'`` counts persons: EXISTS refers to a fact that
# the schema declares, which is a column of the parent. ``visits.ward = 'icu' AND persons.age > 9``
# counts visits, the lowest table named outside of EXISTS. ``previous.ward`` is the ward of the
# previous visit.

TRANSITIONS = "transitions"
"""Name of the noisy tables of a column by the same column of the previous row."""

KINDS = ("measured", "buckets", "factors", "candidates")
"""The tables of a quilt other than the rows."""

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
    """Return the counted table, the clause in wide columns, and whether it uses previous rows.

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
    for node, _, _ in told:
        node.replace(exp.true())
    named = {_table_of(column, names) for column in whole.find_all(exp.Column)}
    base, follows = _lowest(named, schema), PREVIOUS in named
    whole = exp.Paren(
        this=sqlglot.parse_one(with_parentheses(where), into=exp.Condition, dialect=_DIALECT)
    )
    lineage = schema.lineage(base)
    for node, (_, above, fact) in zip([*whole.find_all(exp.Exists)], told, strict=True):
        # The fact of the counted row, if it is above the fact's parent; else of its ancestor.
        if above not in lineage and base not in schema.lineage(above):
            raise PredicateError(
                f"{quote(node)}: rows of {base} are counted, and {above} is neither above nor "
                f"below {base}."
            )
        holder = above if above in lineage else base
        node.replace(exp.column(fact, table=holder, quoted=True))
    columns = list(whole.find_all(exp.Column))
    named = {_table_of(column, names) for column in columns}
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
    """Return the lowest of some tables, by default the root; all others must be its ancestors."""
    tables = [name for name in schema.tables if name in named]  # parents come first
    base = tables[-1] if tables else schema.root
    beside = [name for name in tables if name not in schema.lineage(base)]
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


class LinkedEstimator(Estimator):
    """Estimates of counts of persons and of rows of their child tables.

    The quilt of the counted table answers a count. All other statistics are about persons.
    """

    counts_are_sums = True

    @cached_property
    def linked(self) -> LinkedSchema:
        """The public schema of all tables."""
        return LinkedSchema.from_dict(self.settings["linked"])

    @cached_property
    def _facts(self) -> dict[str, dict[str, LinkedFact]]:
        return facts_of(self.linked)

    @property
    def table(self) -> pa.Table:
        """The published persons."""
        return self.tables[self.linked.root]

    def frame(self) -> pa.Table:
        """Return the persons; use `Release.table` for the other tables."""
        return self.table

    # --- quilts -----------------------------------------------------------------------------------

    @cached_property
    def _quilts(self) -> dict[str, QuiltEstimator]:
        return {}

    def quilt(self, name: str) -> QuiltEstimator:
        """Return the estimator for the wide rows of a table."""
        if name not in self._quilts:
            beside = {kind: self.tables[f"{name}.{kind}"] for kind in KINDS}
            self._quilts[name] = QuiltEstimator(
                self.linked.wide(name),
                self.parameters,
                self.settings["quilts"][name],
                {"data": self._wide(name), **beside},
            )
        return self._quilts[name]

    def of(self, name: str) -> QuiltEstimator:
        """Return the estimator for the rows of one table, joined with those of their ancestors."""
        if name not in self.linked.tables:
            raise ParameterError(
                f"the release has no table {name!r}; choose one of {', '.join(self.linked.tables)}."
            )
        return self.quilt(name)

    @property
    def persons(self) -> QuiltEstimator:
        """The estimator for persons."""
        return self.quilt(self.linked.root)

    def _wide(self, name: str) -> pa.Table:
        """Join published rows with their ancestors."""
        table, rows = self.linked.tables[name], self.tables[name]
        columns = {column: rows[column] for column in table.attributes}
        columns |= {column: rows[column] for column in self.linked.child_columns(name)}
        if table.parent is None:
            return pa.table(columns)
        held, parent = as_numpy(rows[table.foreign_key]), table.parent
        places = pa.array(self._places(parent, held))
        above = self._wide(parent)
        for column in self.linked.above(parent):
            seen = above[column.removeprefix(f"{parent}.")]
            columns[column] = seen.take(places)
        return pa.table(columns)

    def _places(self, parent: str, held: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the indices of rows of a table with the given keys."""
        keys = as_numpy(self.tables[parent][self.linked.tables[parent].key])
        order = np.argsort(keys, kind="stable")
        found = np.minimum(np.searchsorted(keys[order], held), max(len(keys) - 1, 0))
        if len(held) and (not len(keys) or not np.array_equal(keys[order][found], held)):
            raise ReleaseError(f"a row has no parent in {parent!r}; get a fresh copy.")
        return order[found]

    @property
    def bounded(self) -> str:
        """Empty: `count` adds this note for the counted table."""
        return ""

    # --- answers ----------------------------------------------------------------------------------

    def count(self, where: str) -> Estimate:
        """Estimate how many persons, or rows of another table, satisfy a condition."""
        base, clause, follows = read(where, self.linked, self._facts)
        answer = self._step(base, clause) if follows else self.quilt(base).count(clause)
        table = self.linked.tables[base]
        if table.parent is None:
            return replace(answer, notes=(*answer.notes, f"This counts rows of {base}."))
        said = (
            f"This counts rows of {base}, at most {self.linked.max_rows_per_person(base)} per "
            "person (a random "
            "subset if there are more)."
        )
        return replace(answer, notes=(*answer.notes, said))

    def _step(self, base: str, clause: str) -> Estimate:
        """Answer from the noisy table of a column by the same column of the previous row."""
        asked = parse(clause, self.linked.steps(base))
        names = {column.removeprefix(f"{PREVIOUS}.") for column in asked.columns}
        if len(names) != 1:
            raise Refused(f"{clause} uses several columns: {COLUMN_BY_COLUMN}")
        (name,) = names
        quilt = self.quilt(base)
        bucket_of = quilt.basis.buckets[name][quilt.bins[name]]
        truth = self._truth(asked, name, bucket_of)
        told = self.settings[TRANSITIONS][base]
        place = [step["column"] for step in told].index(name)
        start = sum(step["size"] ** 2 for step in told[:place])
        counts = as_numpy(self.tables[f"{base}.{TRANSITIONS}"]["count"])
        counts = counts[start : start + truth.size].astype(np.float64)
        value, std = float(counts[truth].sum()), told[place]["std"] * float(truth.sum()) ** 0.5
        reach = NORMAL * std
        return Estimate(
            value=max(0.0, value),
            low=max(0.0, value - reach),
            high=max(0.0, value) + reach,
            privacy_std=std,
            model_std=0.0,
            notes=("Rows were counted jointly with the previous row; noise is the only error.",),
        )

    def _truth(
        self, asked: Predicate, name: str, bucket_of: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return the cells that satisfy a condition; refuse one that splits a bucket."""
        first = np.unique(bucket_of, return_index=True)[1]
        before, every = f"{PREVIOUS}.{name}", np.arange(len(bucket_of))
        for column, other in ((name, before), (before, name)):
            for code in first:
                line = asked.mask({column: every, other: np.full(len(every), code)})
                if not np.array_equal(line, line[first][bucket_of]):
                    raise Refused(
                        f"the condition separates values of {name!r} that were counted together; "
                        "use whole ranges (see the buckets of this release)."
                    )
        grid = np.meshgrid(first, first, indexing="ij")
        return asked.mask({name: grid[0].ravel(), before: grid[1].ravel()})

    def sums(self, functions: Sequence[RowFunction], *, together: bool = True) -> SumEstimates:
        """Estimate sums over persons."""
        return self.persons.sums(functions, together=together)

    def by_bin(self, name: str) -> tuple[Estimator, NDArray[np.int64]]:
        """Return the bin of each code of a column, and an estimator whose codes are the bins."""
        return self.persons.by_bin(name)

    def is_measured(self, columns: Sequence[str]) -> bool:
        """Return whether a measured table of persons contains these columns together."""
        return self.persons.is_measured(columns)

    def redrawn(self, rng: Generator) -> tuple[dict[str, NDArray[np.int64]], NDArray[np.float64]]:
        """Return the persons as codes, and weights drawn from the uncertainty of the tables."""
        return self.persons.redrawn(rng)
