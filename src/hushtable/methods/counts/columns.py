"""Columns: cut sparse records into groups of attributes and publish each with noisy counts.

*What.* Nearly every record with many attributes is the only one of its kind, so counts of whole
records are all suppressed. Here the attributes are put into groups, the columns, and each column is
published by itself: the tuples of values that records have in it, with noisy counts, the rare ones
left out as in `NoisyCounts`.

*How.* A plan (`columns_plan`) follows from parameters and schema alone. A run has three steps: the
columns, if they are not public, are chosen from noisy counts of pairs of attributes
(`column_choice`); the engine counts the tuples of all columns at once; noise is added and the table
written (`column_table`).

*Why so.* What one record can change must not grow with the number of columns:

- A record without any value in a column is not counted there, or one record would change a count in
  every column (erratum 000-2).
- A record with values in more than `max_columns` columns stays in a random part of them. The bound
  is public, not the largest number in the data, and copies of a column are columns too (000-3).
- Choosing columns by looking at the data is paid for, or the columns are public (000-1).

The budget is divided from the whole to the part: of a unit's epsilon and delta each of its records
gets an even part; of that the number of records, then the choice of columns, and what is left is
for the columns that one record is in, shared by whichever composition lets most be published.

The promise, the algorithm and the proofs are in ``columns.md`` beside this file.
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
from hushtable.methods.base import Method, misfits
from hushtable.methods.counts.column_choice import PairMechanism
from hushtable.methods.counts.column_table import COLUMN, COUNT, TUPLE
from hushtable.methods.counts.columns_plan import ColumnsPlan
from hushtable.methods.parameters import parameter, whole
from hushtable.privacy.composition import delta_per_row, shares_of
from hushtable.privacy.count_mechanisms import CountMechanism, make_count_mechanism
from hushtable.recoding import Recoding, Rule, recodings
from hushtable.schema import Categorical, Schema

Mechanism = Literal["tight", "paper"]
Similarity = Literal["union", "cosine", "phi2"]

MAX_PAIR_COUNTS = 20_000_000
"""Noisy counts of pairs that a private choice of columns may take."""


def _names(name: str, given: Any) -> tuple[tuple[str, ...], ...]:
    """Read the attributes of each column: lists of names, or names with commas between them."""
    try:
        columns = tuple(
            tuple(part.strip() for part in column.split(","))
            if isinstance(column, str)
            else tuple(str(attribute) for attribute in column)
            for column in given
        )
    except TypeError:
        raise ParameterError(f"{name} must be lists of names.") from None
    problems = []
    for number, column in enumerate(columns):
        twice = sorted({attribute for attribute in column if column.count(attribute) > 1})
        if twice:
            problems.append(f"column {number} has {', '.join(twice)} more than once.")
        if not any(column):
            problems.append(f"column {number} is empty; name at least one attribute.")
    if problems:
        raise ParameterError(problems)
    return columns


def _numbers(name: str, given: Any) -> tuple[int, ...]:
    """Read numbers of clusters, or texts of them with commas between."""
    try:
        numbers = tuple(
            int(number)
            for entry in given
            for number in (entry.split(",") if isinstance(entry, str) else [entry])
        )
    except (TypeError, ValueError):
        raise ParameterError(f"{name} must be whole numbers.") from None
    if any(number < 1 for number in numbers):
        raise ParameterError(f"{name} is {list(numbers)}; each number must be at least 1.")
    return numbers


@dataclass(frozen=True, kw_only=True)
class Columns(Method):
    """Publish groups of attributes, each group with the noisy counts of its tuples.

    A wide table has one record per row, and its columns are the attributes. A long table has one
    record per person, and each of the person's rows names an `item` and its `value`; the items are
    the attributes.

    Parameters
    ----------
    epsilon : number or str
        Bound on the privacy loss of the whole release, such as 1 or ln(5).
    delta : number or str
        Chance of exceeding epsilon, such as 1e-6.
    k : int
        Tuples of fewer records than this are never published.
    max_columns : int
        Most columns that one record's values are published in. A record with values in more keeps
        those in a random part of them.
    columns : sequence of sequences of str
        Attributes of each column, where they are public (on the command line NAME,NAME for one
        column, which may be repeated). They must be chosen without the private table. A column may
        stand there more than once, and attributes may be in several or in none.
    clusters : sequence of int
        Choose so many columns privately, by clustering the attributes (may be repeated). Instead of
        `columns`; with several numbers, once for each of them.
    schema_share : number or str
        Share of epsilon and delta spent on choosing columns; only with `clusters`.
    similarity : {"union", "cosine", "phi2"}, optional
        What attributes are clustered by: ``union`` (the default) or ``cosine`` for a long table,
        ``phi2`` for a wide one.
    item : str, optional
        Column of a long table that holds the item.
    value : str, optional
        Column of a long table that holds the item's value.
    max_values : int, optional
        Most values of one person of a long table that count. Who has more keeps a random part of
        them. The default is all that the schema's ``max_rows`` allows.
    mechanism : {"tight", "paper"}
        How the counts of one column are noised: ``tight`` publishes most, ``paper`` is the matrix
        of Li and Li; see `NoisyCounts`.
    generalize : mapping of str to rule
        Rules that make columns of the table coarser before counting: a level, a width or cuts by
        column (on the command line COLUMN=LEVEL, COLUMN=WIDTH or COLUMN=CUT,CUT). They are public.
    count_share : number or str
        Share of epsilon spent on a noisy number of records, 0 to below 1. It is not spent on a wide
        table whose number of rows is public.
    size_share : number or str
        Share of epsilon spent on how many values people have, 0 to below 1, so that answers allow
        for values beyond `max_values`. It is spent only where people may have more than that; with
        0, answers are about the values that count.

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
each column if that is public knowledge, or say how many clusters are to be chosen privately.
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
    mechanism: Mechanism = parameter(default="tight")
    generalize: Mapping[str, Rule] = parameter(
        read=parameters.rules, default_factory=dict, hash=False
    )
    count_share: Fraction = parameter(read=parameters.share, default=Fraction(0))
    size_share: Fraction = parameter(read=parameters.share, default=Fraction(1, 20))

    def _problems(self, *, fields_are_right: bool) -> list[str]:
        """Say where the columns do not come from one place, and what a long table lacks."""
        problems = []
        if self.columns and self.clusters:
            problems.append("columns and clusters are both given; give one of them.")
        if not self.columns and not self.clusters:
            problems.append(
                "neither columns nor clusters is given; name the attributes of each column if "
                "that is public knowledge, or say how many clusters are to be chosen privately."
            )
        if self.clusters and self.schema_share == 0:
            problems.append(
                "schema_share is 0, but choosing columns from the data costs budget; give it a "
                "share, or give public columns."
            )
        if (self.item is None) != (self.value is None):
            problems.append("item and value belong together: give both, or neither.")
        if self.max_values is not None and self.item is None:
            problems.append("max_values is for long tables; give item and value too.")
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
        """Work out everything that is fixed before the data is read, or refuse."""
        recode = self._recode_or_refuse(schema)
        listing, names = self._listing, self._attribute_names(schema)
        position = {name: number for number, name in enumerate(names)}
        max_values = self._most_values(schema, len(names))
        n_columns = len(self.columns) or sum(self.clusters)
        copies = len(self.clusters) or max(Counter(chain(*self.columns)).values())
        # Nobody is in more columns than there are, or than the values one may have can reach.
        n_reached = min(n_columns, max_values * copies)
        n_touched = min(self.max_columns, n_reached)
        # A row of a wide table is a record, and a person may have several.
        n_units = 1 if listing is not None else schema.unit.max_rows or 1
        epsilon = self.epsilon / n_units
        delta = delta_per_row(self.epsilon, self.delta, n_units)
        is_public = listing is None and schema.counted_rows is not None
        count_epsilon = Fraction(0) if is_public else epsilon * self.count_share
        may_lose = listing is not None and max_values < most_listed(schema, listing)
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
            listing=listing,
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
                f"choosing columns takes {plan.n_pair_counts:,} noisy counts of pairs, over the "
                f"limit of {MAX_PAIR_COUNTS:,}; list fewer items, generalize more, or give columns."
            )
        return plan

    @property
    def _listing(self) -> ItemColumns | None:
        """Where a long table has its items; None for a wide one."""
        return ItemColumns(self.item, self.value) if self.item and self.value else None

    def _attribute_names(self, schema: Schema) -> tuple[str, ...]:
        """Give the attributes: the columns of a wide table, the items of a long one."""
        if self._listing is None:
            return tuple(schema.attributes)
        column = schema.attributes[self._listing.item]
        return column.values if isinstance(column, Categorical) else ()

    def _most_values(self, schema: Schema, n_attributes: int) -> int:
        """Say how many values of one record count at most."""
        bounds = [n_attributes]
        if self._listing is not None:
            bounds += [most for most in (self.max_values, schema.unit.max_rows) if most is not None]
        return min(bounds)

    def _pair_noise(
        self, epsilon: Fraction, delta: Fraction, n_attributes: int, max_values: int
    ) -> PairMechanism | None:
        """Take the share of a record's budget that a private choice of columns costs."""
        if not self.clusters:
            return None
        # A record of a wide table is in a cell of each pair of attributes; a person of a long one
        # is in the support of each item they have and in the count of each pair of them.
        n_pairs = n_attributes * (n_attributes - 1) // 2
        if self._listing is not None:
            n_pairs = max_values * (max_values + 1) // 2
        return PairMechanism(
            n_touched=max(1, n_pairs),
            epsilon=epsilon * self.schema_share,
            delta=delta * self.schema_share,
        )

    # --- does the schema fit? ---------------------------------------------------------------------

    def _recode_or_refuse(self, schema: Schema) -> dict[str, Recoding]:
        """Say how columns are made coarser, or all that is wrong with the schema."""
        unfit = (
            self._wrong_columns(schema)
            or self._no_long_table(schema)
            or self._unknown_names(schema)
        )
        return recodings(schema, self.generalize, unfit)

    def _wrong_columns(self, schema: Schema) -> list[str]:
        problems = [
            f"column {name!r}: the published table has a column of that name; rename the column in "
            "schema and data."
            for name in (COLUMN, TUPLE, COUNT)
            if name in schema.columns
        ]
        return [*problems, *misfits(schema, self.name)] + [
            f"{what} is {name!r}, which is not a published column; the schema has "
            f"{', '.join(schema.attributes)}."
            for what, name in (("item", self.item), ("value", self.value))
            if name is not None and name not in schema.attributes
        ]

    def _no_long_table(self, schema: Schema) -> list[str]:
        if self.item is None:
            return []
        problems = []
        if self.item == self.value:
            problems.append(f"item and value are both {self.item!r}; they must differ.")
        if schema.unit.kind != "person":
            problems.append(
                f"the unit is {schema.unit.kind}, but item and value are for a long table of "
                "persons; say unit: {kind: person, column: ..., max_rows: ...}."
            )
        if not isinstance(schema.attributes[self.item], Categorical):
            problems.append(f"column {self.item!r}: items must be a categorical column.")
        if self.item in self.generalize:
            problems.append(f"column {self.item!r} holds the items and cannot be generalized.")
        return problems

    def _unknown_names(self, schema: Schema) -> list[str]:
        problems = []
        names = self._attribute_names(schema)
        unknown = sorted({name for column in self.columns for name in column} - set(names))
        if unknown:
            shown = ", ".join(map(repr, unknown[:10])) + (" and more" if len(unknown) > 10 else "")
            where = f"values of {self.item!r}" if self.item else "published columns"
            problems.append(f"columns: {shown} are not among the {where}.")
        if any(number > len(names) for number in self.clusters):
            problems.append(
                f"clusters is {list(self.clusters)}; there are only {len(names)} attributes."
            )
        return problems


def _best_mechanism(
    kind: str, epsilon: Fraction, delta: Fraction, k: int, n_touched: int
) -> CountMechanism:
    """Share the budget among the columns of a record so that most is published."""
    candidates = [
        make_count_mechanism(kind, epsilon=each, delta=chance, k=k)
        for each, chance in shares_of(epsilon, delta, n_touched)
    ]
    return min(candidates, key=lambda mechanism: (mechanism.release_count(0.5), mechanism.std))
