"""Method columns: noisy counts of groups of attributes, for sparse records.

Nearly every record with many attributes is unique, so counts of whole records would all be
suppressed. This method puts the attributes into groups, the columns, and publishes each column
separately: the tuples of values that records have in it, with noisy counts and without rare tuples,
as in `NoisyCounts`.

A plan (`columns_plan`) depends on parameters and schema only. A run has three steps. It chooses the
columns, if they are not public, from noisy counts of pairs of attributes (`column_choice`). The
engine counts the tuples of all columns at once. The run adds noise and writes the table
(`column_table`).

The influence of one record must not grow with the number of columns:

- A record without a value in a column is not counted there. Otherwise one record would change a
  count in every column (erratum 000-2).
- A record with values in more than `max_columns` columns is counted in a random subset of them. The
  limit is public, not the maximum in the data, and copies of a column count as columns too (000-3).
- Choosing columns from the data costs budget, or the columns are public (000-1).

The budget is divided top down. Each record of a unit gets an equal part of its epsilon and delta.
From that, the number of records and the choice of columns are paid; the rest is for the columns of
one record, divided by the composition theorem that publishes most.

Guarantee, algorithm and proofs: ``columns.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import Any, ClassVar, Literal

from hushtable.engine.baskets import ItemColumns, most_listed
from hushtable.errors import ParameterError, TooLarge
from hushtable.methods import parameters
from hushtable.methods.base import Method, schema_problems
from hushtable.methods.counts.column_choice import PairMechanism
from hushtable.methods.counts.column_table import COLUMN, COUNT, TUPLE
from hushtable.methods.counts.columns_plan import ColumnsPlan
from hushtable.methods.parameters import parameter, whole
from hushtable.privacy.composition import delta_per_row, shares_of
from hushtable.privacy.mechanisms.single_counts import CountMechanism, make_count_mechanism
from hushtable.schema import Categorical, Schema
from hushtable.schema.recoding import Recoding, Rule, recodings

ColumnsMechanism = Literal["tight", "paper"]
Similarity = Literal["union", "cosine", "phi2"]

MAX_PAIR_COUNTS = 20_000_000
"""Maximum number of noisy pair counts in a private choice of columns."""


def _names(name: str, given: Any) -> tuple[tuple[str, ...], ...]:
    """Read the attributes of each column: lists of names, or comma-separated names."""
    try:
        columns = tuple(
            tuple(part.strip() for part in column.split(","))
            if isinstance(column, str)
            else tuple(str(attribute) for attribute in column)
            for column in given
        )
    except TypeError:
        raise ParameterError(f"{name} must be a list of lists of names.") from None
    problems = []
    for number, column in enumerate(columns):
        twice = sorted({attribute for attribute in column if column.count(attribute) > 1})
        if twice:
            problems.append(
                f"column {number} names {', '.join(twice)} more than once; name each once."
            )
        if not any(column):
            problems.append(f"column {number} is empty; name at least one attribute.")
    if problems:
        raise ParameterError(problems)
    return columns


def _numbers(name: str, given: Any) -> tuple[int, ...]:
    """Read numbers of clusters, or comma-separated texts of them."""
    try:
        numbers = tuple(
            int(number)
            for entry in given
            for number in (entry.split(",") if isinstance(entry, str) else [entry])
        )
    except (TypeError, ValueError):
        raise ParameterError(f"{name} must be a list of whole numbers.") from None
    if any(number < 1 for number in numbers):
        raise ParameterError(f"{name} is {list(numbers)}; each number must be at least 1.")
    return numbers


@dataclass(frozen=True, kw_only=True)
class Columns(Method):
    """Publish groups of attributes, each with the noisy counts of its tuples.

    A wide table has one record per row, and its columns are the attributes. A long table has one
    record per person, and each of the person's rows names an `item` and its `value`; the items are
    the attributes.

    Parameters
    ----------
    epsilon : number or str
        Epsilon of the whole release, such as 1 or ln(5).
    delta : number or str
        Delta of the whole release, such as 1e-6.
    k : int
        Minimum number of records of a published tuple.
    max_columns : int
        Maximum number of columns in which one record is counted. A record with values in more
        columns is counted in a random subset of them.
    columns : sequence of sequences of str
        Attributes of each column, if they are public (on the command line NAME,NAME for one column;
        repeatable). They must be chosen without the private table. A column may be listed more than
        once, and attributes may be in several columns or in none.
    clusters : sequence of int
        Number of columns to choose privately, by clustering the attributes (repeatable). An
        alternative to `columns`; with several numbers, one clustering for each.
    schema_share : number or str
        Share of epsilon and delta for choosing columns; only with `clusters`.
    similarity : {"union", "cosine", "phi2"}, optional
        Similarity for clustering: ``union`` (default) or ``cosine`` for a long table, ``phi2`` for
        a wide one.
    item : str, optional
        Column of a long table that contains the item.
    value : str, optional
        Column of a long table that contains the item's value.
    max_values : int, optional
        Maximum number of values per person of a long table. If a person has more, a random subset
        is used. By default, all that the schema's ``max_rows`` allows.
    mechanism : {"tight", "paper"}
        Noise mechanism for the counts of a column: ``tight`` publishes most, ``paper`` is the
        matrix of Li and Li. See `NoisyCounts`.
    generalize : mapping of str to rule
        Rules that generalize columns of the table before counting: a level, a width or cuts by
        column (on the command line COLUMN=LEVEL, COLUMN=WIDTH or COLUMN=CUT,CUT). Rules are public.
    count_share : number or str
        Share of epsilon for a noisy number of records, from 0 to below 1. It is not spent on a wide
        table whose number of rows is public.
    size_share : number or str
        Share of epsilon for the distribution of the number of values per person, from 0 to below 1.
        Answers then allow for values beyond `max_values`. It is spent only if people may have more
        than that; with 0, answers refer to the values that are used.

    Examples
    --------
    >>> from hushtable import sample_schema
    >>> method = Columns(epsilon=1, delta="1e-6", k=10, max_columns=2,
    ...                  columns=[["age", "sex"], ["smoker", "diagnosis"]])
    >>> method.guarantee(sample_schema())[0].explain()[:26]
    'Adding or removing one row'
    >>> Columns(epsilon=1, delta="1e-6", k=10, max_columns=2)
    Traceback (most recent call last):
    ...
    hushtable.errors.ParameterError: neither columns nor clusters is given; name the attributes of \
each column if they are public, or pass the number of clusters to choose privately.
    """

    name: ClassVar[str] = "columns"
    paper: ClassVar[str] = (
        "Li and Li, semantic k-anonymity and noisy count publishing (section 6), repaired."
    )
    summary: ClassVar[str] = "Publish groups of attributes of sparse records, each with counts."
    estimator_kind: ClassVar[str] = "columns"

    epsilon: Fraction = parameter(read=parameters.epsilon)
    delta: Fraction = parameter(read=parameters.delta)
    k: int = parameter(read=whole())
    max_columns: int = parameter(read=whole())
    columns: tuple[tuple[str, ...], ...] = parameter(read=_names, default=())
    clusters: tuple[int, ...] = parameter(read=_numbers, default=())
    schema_share: Fraction = parameter(read=parameters.share, default=Fraction(1, 5))
    similarity: Similarity | None = parameter(default=None)
    item: str | None = parameter(default=None)
    value: str | None = parameter(default=None)
    max_values: int | None = parameter(read=whole(), default=None)
    mechanism: ColumnsMechanism = parameter(default="tight")
    generalize: Mapping[str, Rule] = parameter(
        read=parameters.rules, default_factory=dict, hash=False
    )
    count_share: Fraction = parameter(read=parameters.share, default=Fraction(0))
    size_share: Fraction = parameter(read=parameters.share, default=Fraction(1, 20))

    def _problems(self, *, fields_are_right: bool) -> list[str]:
        """Check that columns have one source, and that a long table is described completely."""
        problems = []
        if self.columns and self.clusters:
            problems.append("columns and clusters are both given; pass only one of them.")
        if not self.columns and not self.clusters:
            problems.append(
                "neither columns nor clusters is given; name the attributes of each column if they "
                "are public, or pass the number of clusters to choose privately."
            )
        if self.clusters and self.schema_share == 0:
            problems.append(
                "schema_share is 0, but choosing columns from the data costs budget; set a "
                "share, or name public columns."
            )
        if (self.item is None) != (self.value is None):
            problems.append("item and value must be given together; pass both or neither.")
        if self.max_values is not None and self.item is None:
            problems.append("max_values applies to long tables; pass item and value too.")
        of_wide, of_long = ("phi2",), ("union", "cosine")
        shape, fitting, others = (
            ("wide", of_wide, of_long) if self.item is None else ("long", of_long, of_wide)
        )
        if self.similarity in others:
            problems.append(
                f"similarity is {self.similarity!r}; for a {shape} table it must be "
                f"{' or '.join(fitting)}."
            )
        return problems

    def plan(self, schema: Schema) -> ColumnsPlan:
        """Compute everything that is fixed before the data is read, or refuse."""
        recode = self._recode_or_refuse(schema)
        item_columns, names = self._item_columns, self._attribute_names(schema)
        position = {name: number for number, name in enumerate(names)}
        max_values = self._most_values(schema, len(names))
        n_columns = len(self.columns) or sum(self.clusters)
        copies = len(self.clusters) or max(Counter(chain(*self.columns)).values())
        # A record is in at most as many columns as exist or as its values can occupy.
        n_reached = min(n_columns, max_values * copies)
        n_touched = min(self.max_columns, n_reached)
        # A row of a wide table is a record, and a person may have several.
        n_units = 1 if item_columns is not None else schema.unit.max_rows or 1
        epsilon = self.epsilon / n_units
        delta = delta_per_row(self.epsilon, self.delta, n_units)
        is_public = item_columns is None and schema.counted_rows is not None
        count_epsilon = Fraction(0) if is_public else epsilon * self.count_share
        may_lose = item_columns is not None and max_values < most_listed(schema, item_columns)
        size_epsilon = epsilon * self.size_share if may_lose else Fraction(0)
        left = epsilon - count_epsilon - size_epsilon
        pair_noise = self._pair_noise(left, delta, len(names), max_values)
        if pair_noise is not None:
            left -= pair_noise.epsilon
            if pair_noise.is_gaussian:
                delta -= pair_noise.delta
        plan = ColumnsPlan(
            method=self,
            schema=schema,
            recode=recode,
            item_columns=item_columns,
            attribute_names=names,
            groups=[sorted(position[name] for name in column) for column in self.columns] or None,
            n_columns=n_columns,
            max_values=max_values,
            n_reached=n_reached,
            n_touched=n_touched,
            n_units=n_units,
            columns_epsilon=left,
            count_epsilon=count_epsilon,
            size_epsilon=size_epsilon,
            pair_noise=pair_noise,
            mechanism=_best_mechanism(self.mechanism, left, delta, self.k, n_touched),
        )
        if plan.n_pair_counts > MAX_PAIR_COUNTS:
            raise TooLarge(
                f"choosing columns needs {plan.n_pair_counts:,} noisy pair counts; the "
                f"limit is {MAX_PAIR_COUNTS:,}. List fewer items, generalize more, or name columns."
            )
        return plan

    @property
    def _item_columns(self) -> ItemColumns | None:
        """Item and value columns of a long table; None for a wide one."""
        return ItemColumns(self.item, self.value) if self.item and self.value else None

    def _attribute_names(self, schema: Schema) -> tuple[str, ...]:
        """Return the attributes: the columns of a wide table, or the items of a long one."""
        if self._item_columns is None:
            return tuple(schema.attributes)
        column = schema.attributes[self._item_columns.item]
        return column.values if isinstance(column, Categorical) else ()

    def _most_values(self, schema: Schema, n_attributes: int) -> int:
        """Return the maximum number of values of one record that are used."""
        bounds = [n_attributes]
        if self._item_columns is not None:
            bounds += [most for most in (self.max_values, schema.unit.max_rows) if most is not None]
        return min(bounds)

    def _pair_noise(
        self, epsilon: Fraction, delta: Fraction, n_attributes: int, max_values: int
    ) -> PairMechanism | None:
        """Return the noise of a private choice of columns, from its share of a record's budget."""
        if not self.clusters:
            return None
        # A record of a wide table is in one cell of each pair of attributes. A person of a long
        # table is in the support of each of their items and in the count of each pair of them.
        n_pairs = n_attributes * (n_attributes - 1) // 2
        if self._item_columns is not None:
            n_pairs = max_values * (max_values + 1) // 2
        return PairMechanism(
            n_touched=max(1, n_pairs),
            epsilon=epsilon * self.schema_share,
            delta=delta * self.schema_share,
        )

    # --- schema checks ----------------------------------------------------------------------------

    def _recode_or_refuse(self, schema: Schema) -> dict[str, Recoding]:
        """Return the recodings of columns; raise one error that lists all problems."""
        unfit = (
            self._wrong_columns(schema)
            or self._no_long_table(schema)
            or self._unknown_names(schema)
        )
        return recodings(schema, self.generalize, unfit)

    def _wrong_columns(self, schema: Schema) -> list[str]:
        problems = [
            f"column {name!r}: the published table has a column of this name; rename yours in "
            "schema and data."
            for name in (COLUMN, TUPLE, COUNT)
            if name in schema.columns
        ]
        return [*problems, *schema_problems(schema, self.name)] + [
            f"{what} is {name!r}, which is not published; published columns are "
            f"{', '.join(schema.attributes)}."
            for what, name in (("item", self.item), ("value", self.value))
            if name is not None and name not in schema.attributes
        ]

    def _no_long_table(self, schema: Schema) -> list[str]:
        if self.item is None:
            return []
        problems = []
        if self.item == self.value:
            problems.append(f"item and value are both {self.item!r}; name two different columns.")
        if schema.unit.kind != "person":
            problems.append(
                f"the unit is {schema.unit.kind}, but item and value need a long table of "
                "persons; set unit: {kind: person, column: ..., max_rows: ...}."
            )
        if not isinstance(schema.attributes[self.item], Categorical):
            problems.append(f"column {self.item!r}: the item column must be categorical.")
        if self.item in self.generalize:
            problems.append(f"column {self.item!r} contains the items and cannot be generalized.")
        return problems

    def _unknown_names(self, schema: Schema) -> list[str]:
        problems = []
        names = self._attribute_names(schema)
        unknown = sorted({name for column in self.columns for name in column} - set(names))
        if unknown:
            shown = ", ".join(map(repr, unknown[:10])) + (" and more" if len(unknown) > 10 else "")
            where = f"values of {self.item!r}" if self.item else "published columns"
            problems.append(f"columns: {shown} are not {where}.")
        if any(number > len(names) for number in self.clusters):
            problems.append(
                f"clusters is {list(self.clusters)}; there are only {len(names)} attributes."
            )
        return problems


def _best_mechanism(
    kind: str, epsilon: Fraction, delta: Fraction, k: int, n_touched: int
) -> CountMechanism:
    """Divide the budget among the columns of a record so that most tuples are published."""
    candidates = [
        make_count_mechanism(kind, epsilon=each, delta=chance, k=k)
        for each, chance in shares_of(epsilon, delta, n_touched)
    ]
    return min(candidates, key=lambda mechanism: (mechanism.release_count(0.5), mechanism.std))
